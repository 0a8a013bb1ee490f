//! What every directory keeps to, clause by clause. Each clause takes one that has no table yet.

#![allow(dead_code, reason = "not each test uses all of it")]

pub(crate) mod ask;

use std::thread;

use ask::{ask, ask_until_answered, devices, names};
use freeboard_fetcher::store::{Directory, StoreError, USER_BYTES_MAX};

/// A directory, and a way past it to put somebody into its table.
pub(crate) struct Subject<'a> {
    pub(crate) directory: &'a dyn Directory,
    pub(crate) insert: &'a dyn Fn(&str, &str),
}

/// A clause's name, and its check.
pub(crate) type Clause = (&'static str, fn(&Subject<'_>));

/// All of them.
pub(crate) const CLAUSES: &[Clause] = &[
    ("answers are in the order of the users", order),
    ("no users, no answers", nobody),
    ("a question may have any number of users", sizes),
    ("names are told apart by their bytes", odd_names),
    ("many questions at once have an outcome each", many),
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
                for question in 0..QUESTIONS {
                    let first = (thread * QUESTIONS + question) * 12 % (10_000 - USERS);
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
    assert!(!error.is_retryable());
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
