//! The contract of every directory, clause by clause, checked against both. Each clause gets one without a table.

use std::{ops::Range, sync::mpsc, thread, time::Instant};

use freeboard_fetcher::store::{Directory, MemoryDirectory, StoreError, USER_BYTES_MAX};
#[cfg(all(unix, feature = "mariadb"))]
use freeboard_fetcher::store::{MariaDbDirectory, MariaDbOptions};
#[cfg(all(unix, feature = "mariadb"))]
use freeboard_test_servers::mariadb;
#[cfg(all(unix, feature = "mariadb"))]
use mysql_async::{Conn, prelude::Queryable};

#[cfg(all(unix, feature = "mariadb"))]
use crate::common::installed;
use crate::common::{LONG, say};

/// A directory, and a function that inserts a user into its table directly.
struct Subject<'a> {
    directory: &'a dyn Directory,
    insert: &'a dyn Fn(&str, &str),
}

/// The name of a clause and its check.
type Clause = (&'static str, fn(&Subject<'_>));

/// All clauses.
const CLAUSES: &[Clause] = &[
    ("answers are in the order of the users", order),
    ("no users, no answers", nobody),
    ("a query may have any number of users", sizes),
    ("names are told apart by their bytes", odd_names),
    ("many queries at once have an outcome each", many),
    ("a user can be looked up on one's own thread", blocking),
    ("provisioning twice is provisioning once", provision),
    ("what is not as expected is refused", refused),
    ("an asker that panics harms nobody else", panics),
];

fn order(subject: &Subject<'_>) {
    subject.directory.provision(100).expect("it is filled");
    let users = [
        "user-7", "nobody", "user-99", "user-7", "user-100", "user-0",
    ];
    let answers = ask(subject.directory, users.map(str::to_owned).into());
    let device = |number: u32| Some(format!("device-{number}"));
    assert_eq!(
        answers,
        Ok(vec![
            device(7),
            None,
            device(99),
            device(7),
            None,
            device(0)
        ])
    );
}

fn nobody(subject: &Subject<'_>) {
    subject.directory.provision(0).expect("a table");
    assert_eq!(ask(subject.directory, Vec::new()), Ok(Vec::new()));
    assert_eq!(ask(subject.directory, names(0..1)), Ok(vec![None]));
}

fn sizes(subject: &Subject<'_>) {
    subject.directory.provision(2_000).expect("it is filled");
    for size in (1..=70).chain([127, 128, 129, 1_000]) {
        // From the end: not in the order of the table.
        let users: Vec<String> = names(0..2_000).into_iter().rev().take(size).collect();
        let expected: Vec<_> = devices(0..2_000).into_iter().rev().take(size).collect();
        assert_eq!(ask(subject.directory, users), Ok(expected), "{size} users");
    }
}

fn odd_names(subject: &Subject<'_>) {
    subject.directory.provision(10).expect("a table");
    let odd = [
        String::new(),
        " ".to_owned(),
        "User-1".to_owned(),
        "user-1 ".to_owned(),
        "user-1\0".to_owned(),
        "user-%".to_owned(),
        "user-_".to_owned(),
        "'; DROP TABLE devices; --".to_owned(),
        "\"double\" `back` \\slash\\".to_owned(),
        "strauß".to_owned(),
        "strauss".to_owned(),
        "\u{1f4df}\u{202e}\u{0}".to_owned(),
        "x".repeat(USER_BYTES_MAX),
        "ß".repeat(USER_BYTES_MAX / 2),
    ];
    let unknown = vec![None; odd.len()];
    assert_eq!(ask(subject.directory, odd.to_vec()), Ok(unknown));
    for (number, user) in odd.iter().enumerate() {
        (subject.insert)(user, &format!("odd {number} '\u{1f4df}"));
    }
    let expected = (0..odd.len()).map(|number| Some(format!("odd {number} '\u{1f4df}")));
    assert_eq!(ask(subject.directory, odd.to_vec()), Ok(expected.collect()));
    let too_long = ["x".repeat(USER_BYTES_MAX + 1), "x".repeat(20 << 20)];
    let expected = Ok(vec![None, None, Some("device-1".to_owned())]);
    let users = [&too_long[..], &["user-1".to_owned()]].concat();
    assert_eq!(ask(subject.directory, users), expected);
}

fn many(subject: &Subject<'_>) {
    const THREADS: u64 = 8;
    const QUESTIONS: u64 = 100;
    const USERS: u64 = 16;
    let directory = subject.directory;
    directory.provision(10_000).expect("it is filled");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for query in 0..QUESTIONS {
                    let first = (thread * QUESTIONS + query) * 12 % (10_000 - USERS);
                    let range = first..first + USERS;
                    let answers = ask_until_answered(directory, &names(range.clone()));
                    assert_eq!(answers, devices(range));
                }
            });
        }
    });
}

fn blocking(subject: &Subject<'_>) {
    let directory = subject.directory;
    directory.provision(1_000).expect("it is filled");
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in (thread..1_000).step_by(40) {
                    let device = directory.look_up_blocking(&format!("user-{number}"));
                    assert_eq!(device, Ok(Some(format!("device-{number}"))));
                }
            });
        }
    });
    assert_eq!(directory.look_up_blocking("nobody"), Ok(None));
}

fn provision(subject: &Subject<'_>) {
    subject.directory.provision(0).expect("a table");
    (subject.insert)("user-3", "a device of one's own");
    for users in [10, 10, 5, 0, 20, 20] {
        subject.directory.provision(users).expect("it is filled");
    }
    let mut expected = devices(0..20);
    expected[3] = Some("a device of one's own".to_owned());
    expected.push(None);
    assert_eq!(ask(subject.directory, names(0..21)), Ok(expected));
}

fn refused(subject: &Subject<'_>) {
    let error = ask(subject.directory, names(0..1)).expect_err("there is no table");
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    let error = subject.directory.look_up_blocking("user-0");
    assert!(matches!(error, Err(StoreError::Refused(_))), "{error:?}");
    subject.directory.provision(1).expect("it is filled");
    assert_eq!(ask(subject.directory, names(0..1)), Ok(devices(0..1)));
}

fn panics(subject: &Subject<'_>) {
    subject.directory.provision(1).expect("it is filled");
    for _ in 0..20 {
        subject
            .directory
            .look_up(names(0..1), Box::new(|_| panic!("an asker's own")));
    }
    assert_eq!(ask(subject.directory, names(0..1)), Ok(devices(0..1)));
}

/// Looks users up and waits for the outcome.
pub(crate) fn ask(
    directory: &dyn Directory,
    users: Vec<String>,
) -> Result<Vec<Option<String>>, StoreError> {
    let (sender, outcome) = mpsc::channel();
    let on_outcome = Box::new(move |answers| sender.send(answers).expect("it is waited for"));
    directory.look_up(users, on_outcome);
    let answers = outcome.recv_timeout(LONG).expect("an outcome");
    // The callback was called once and dropped.
    assert!(outcome.recv_timeout(LONG).is_err());
    answers
}

/// Looks users up until there is an answer; retryable errors are retried.
pub(crate) fn ask_until_answered(
    directory: &dyn Directory,
    users: &[String],
) -> Vec<Option<String>> {
    let begun = Instant::now();
    loop {
        match ask(directory, users.to_vec()) {
            Ok(answers) => return answers,
            Err(error) => assert!(is_retryable(&error) && begun.elapsed() < LONG, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Whether a retry may succeed.
pub(crate) fn is_retryable(error: &StoreError) -> bool {
    matches!(error, StoreError::Full | StoreError::Unavailable(_))
}

/// The names of these users.
pub(crate) fn names(numbers: Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("user-{number}")).collect()
}

/// The devices of these users.
pub(crate) fn devices(numbers: Range<u64>) -> Vec<Option<String>> {
    numbers
        .map(|number| Some(format!("device-{number}")))
        .collect()
}

#[cfg(all(unix, feature = "mariadb"))]
const INSERT: &str = "INSERT INTO devices (user, device) VALUES (?, ?)";

#[test]
fn the_memory_directory_keeps_the_contract() {
    for (name, clause) in CLAUSES {
        say(name);
        let directory = MemoryDirectory::default();
        clause(&Subject {
            directory: &directory,
            insert: &|user, device| directory.insert(user, device),
        });
    }
}

#[cfg(all(unix, feature = "mariadb"))]
#[test]
fn mariadb_keeps_the_contract() {
    let Some(server) = installed(mariadb()) else {
        return;
    };
    let root = format!("mysql://root@{}", server.address());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let execute = |database: &str, statement: &str, values: Vec<&str>| {
        runtime.block_on(async {
            let url = format!("{root}/{database}");
            let mut connection = Conn::from_url(url).await.expect("a connection");
            let done = connection.exec_drop(statement, values).await;
            done.expect("it is done");
            connection.disconnect().await.expect("it ends");
        });
    };
    for (number, (name, clause)) in CLAUSES.iter().enumerate() {
        say(name);
        let database = format!("clause{number}");
        execute("mysql", &format!("CREATE DATABASE {database}"), Vec::new());
        let options = MariaDbOptions::new(format!("{root}/{database}"));
        let directory = MariaDbDirectory::connect(options).expect("a connection");
        let insert = |user: &str, device: &str| execute(&database, INSERT, vec![user, device]);
        clause(&Subject {
            directory: &directory,
            insert: &insert,
        });
    }
}
