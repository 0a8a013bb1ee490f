//! A MariaDB that refuses, does not answer, or is killed.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use freeboard_fetcher::store::{
    Directory, MariaDbDirectory, MariaDbOptions, MariaDbStore, StoreError,
};
use freeboard_test_servers::{Server, mariadb};
use mysql_async::{Conn, prelude::Queryable};

use crate::{
    common::{LONG, check_refusals, eventually, installed, say},
    directory_contract::{ask, ask_until_answered, devices, is_retryable, names},
    held_store::{Outcomes, value_of},
};

const USERS: u64 = 1_000;
const ASKERS: u64 = 4;
/// Concurrent queries of all callers (each may be one ahead).
const UNDER_WAY_MAX: u64 = 64;
const KILLS: u64 = 2;

fn options(server: &Server) -> MariaDbOptions {
    MariaDbOptions::new(format!("mysql://root@{}", server.address()))
}

/// A direct session in the directory's database.
struct Admin {
    runtime: tokio::runtime::Runtime,
    connection: Conn,
}

impl Admin {
    fn new(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let url = format!("mysql://root@{}/fetcher", server.address());
        let connection = runtime.block_on(Conn::from_url(url)).expect("a connection");
        Self {
            runtime,
            connection,
        }
    }

    fn execute(&mut self, statement: &str) {
        let done = self.runtime.block_on(self.connection.query_drop(statement));
        done.expect("it is done");
    }
}

#[test]
fn failed_connects_explain_themselves() {
    let wrong = [
        "",
        "root@127.0.0.1",
        "amqp://127.0.0.1",
        "mysql://127.0.0.1/x?what=1",
    ];
    let server = installed(mariadb());
    check_refusals("mysql", "root", &wrong, server, |url| {
        let mut options = MariaDbOptions::new(url);
        options.connect_timeout = Duration::from_secs(10);
        MariaDbDirectory::connect(options).expect_err("it is refused")
    });
}

#[test]
fn as_the_slow_store_it_answers_from_its_table() {
    let Some(server) = installed(mariadb()) else {
        return;
    };
    let store = MariaDbStore::connect(options(&server)).expect("a connection");
    let mut admin = Admin::new(&server);
    admin.execute("INSERT INTO slow_store VALUES ('user:user-7', 'value-of-user:user-7')");
    let outcomes = Outcomes::default();
    outcomes.fetch(&store, "user:user-7");
    outcomes.fetch(&store, "user:nobody");
    assert_eq!(outcomes.of("user:user-7"), Ok(value_of("user:user-7")));
    assert_eq!(outcomes.of("user:nobody"), Ok(None));
    admin.execute("DROP TABLE slow_store");
    outcomes.fetch(&store, "gone");
    assert!(matches!(outcomes.of("gone"), Err(StoreError::Refused(_))));
}

#[test]
fn more_queries_than_allowed_are_refused_at_once() {
    let Some(server) = installed(mariadb()) else {
        return;
    };
    let mut options = options(&server);
    options.queries_max = NonZeroU16::new(2).expect("two");
    options.connections_max = NonZeroU16::MIN;
    options.query_timeout = LONG;
    let directory = MariaDbDirectory::connect(options).expect("a connection");
    directory.provision(USERS).expect("it is filled");
    let mut admin = Admin::new(&server);
    admin.execute("LOCK TABLES devices WRITE");
    let (sender, outcomes) = mpsc::channel();
    for query in 0..2 {
        let sender = sender.clone();
        let on_outcome = Box::new(move |answers| sender.send(answers).expect("it is waited for"));
        directory.look_up(names(query..query + 1), on_outcome);
    }
    assert_eq!(ask(&directory, names(0..1)), Err(StoreError::Full));
    assert_eq!(directory.look_up_blocking("user-0"), Err(StoreError::Full));
    admin.execute("UNLOCK TABLES");
    for query in 0..2 {
        // One connection, so one after another.
        let answers = outcomes.recv_timeout(LONG).expect("an outcome");
        assert_eq!(answers, Ok(devices(query..query + 1)));
    }
    assert_eq!(ask(&directory, names(0..1)), Ok(devices(0..1)));
}

#[test]
fn a_query_past_its_deadline_leaves_no_answer_for_the_next() {
    let Some(server) = installed(mariadb()) else {
        return;
    };
    let mut options = options(&server);
    options.connections_max = NonZeroU16::MIN;
    options.query_timeout = Duration::from_millis(200);
    let directory = MariaDbDirectory::connect(options).expect("a connection");
    directory.provision(USERS).expect("it is filled");
    let mut admin = Admin::new(&server);
    admin.execute("LOCK TABLES devices WRITE");
    for _ in 0..3 {
        let outcome = ask(&directory, names(0..1));
        assert!(
            matches!(outcome, Err(StoreError::Unavailable(_))),
            "{outcome:?}"
        );
    }
    admin.execute("UNLOCK TABLES");
    for number in 1..10 {
        let answers = ask_until_answered(&directory, &names(number..number + 1));
        assert_eq!(answers, devices(number..number + 1));
    }
}

#[test]
fn queries_under_way_end_with_their_directory() {
    let Some(server) = installed(mariadb()) else {
        return;
    };
    let mut options = options(&server);
    options.query_timeout = LONG;
    let directory = MariaDbDirectory::connect(options).expect("a connection");
    directory.provision(USERS).expect("it is filled");
    let mut admin = Admin::new(&server);
    admin.execute("LOCK TABLES devices WRITE");
    let (sender, outcomes) = mpsc::channel();
    for _ in 0..20 {
        let sender = sender.clone();
        let on_outcome =
            Box::new(move |answers: Result<_, _>| sender.send(answers).expect("it is waited for"));
        directory.look_up(names(0..1), on_outcome);
    }
    drop(sender);
    drop(directory);
    let ended: Vec<_> = outcomes.iter().collect();
    assert_eq!(ended.len(), 20);
    assert!(
        ended
            .iter()
            .all(|outcome| matches!(outcome, Err(error) if is_retryable(error)))
    );
}

/// Endless queries and their outcomes.
#[derive(Default)]
struct Load {
    asked: AtomicU64,
    answered: AtomicU64,
    unavailable: AtomicU64,
    /// Unexpected outcomes: a panic in a callback would go unnoticed.
    wrong: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    fn run(self: &Arc<Self>, directory: &MariaDbDirectory, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        while !self.stop.load(Ordering::Relaxed) {
            eventually(|| self.under_way() < UNDER_WAY_MAX);
            let first = random.u64(..USERS - 16);
            let load = self.clone();
            let on_outcome = Box::new(move |outcome| {
                let count = match outcome {
                    Ok(answers) if answers == devices(first..first + 16) => &load.answered,
                    Err(StoreError::Unavailable(_)) => &load.unavailable,
                    _ => &load.wrong,
                };
                count.fetch_add(1, Ordering::SeqCst);
            });
            self.asked.fetch_add(1, Ordering::SeqCst);
            directory.look_up(names(first..first + 16), on_outcome);
        }
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    fn unavailable(&self) -> u64 {
        self.unavailable.load(Ordering::SeqCst)
    }

    fn under_way(&self) -> u64 {
        // In this order, so that no outcome is counted before its query.
        let ended = self.answered() + self.unavailable() + self.wrong.load(Ordering::SeqCst);
        self.asked.load(Ordering::SeqCst) - ended
    }
}

#[test]
fn killed_under_load_each_query_has_one_outcome_and_later_ones_succeed() {
    let Some(mut server) = installed(mariadb()) else {
        return;
    };
    let directory = MariaDbDirectory::connect(options(&server)).expect("a connection");
    // Committed rows survive a kill, so every answer can be checked.
    Admin::new(&server).execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    directory.provision(USERS).expect("it is filled");
    let load = Arc::new(Load::default());
    thread::scope(|scope| {
        for seed in 0..ASKERS {
            let (load, directory) = (&load, &directory);
            scope.spawn(move || load.run(directory, seed));
        }
        for _ in 0..KILLS {
            let answered = load.answered();
            eventually(|| load.answered() > answered + 1_000);
            let unavailable = load.unavailable();
            server.kill();
            eventually(|| load.unavailable() > unavailable + 1_000);
            server.restart().expect("it comes up again");
        }
        let answered = load.answered();
        eventually(|| load.answered() > answered + 1_000);
        load.stop.store(true, Ordering::Relaxed);
    });
    eventually(|| load.under_way() == 0);
    say(&format!(
        "{} queries: {} answered, {} not",
        load.asked.load(Ordering::SeqCst),
        load.answered(),
        load.unavailable()
    ));
    assert_eq!(load.wrong.load(Ordering::SeqCst), 0);
    let all = directory.look_up_blocking("user-999");
    assert_eq!(all, Ok(Some("device-999".to_owned())));
}
