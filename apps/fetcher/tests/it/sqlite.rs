//! What the directory in a file promises beyond the contract.

use std::{num::NonZeroUsize, sync::mpsc, time::Instant};

use freeboard_fetcher::store::{Directory, OpenError, SqliteDirectory, SqliteOptions, StoreError};

use crate::{
    common::{LONG, say},
    directory_contract::{ask, devices, names, rate},
};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn narrow() -> SqliteDirectory {
    let options = SqliteOptions {
        readers: ONE,
        queries_max: ONE,
        ..SqliteOptions::default()
    };
    let directory = SqliteDirectory::open(options).expect("it opens");
    directory.provision(10).expect("it is filled");
    directory
}

/// Keeps the only reader busy until the sender is dropped.
fn hold_reader(directory: &SqliteDirectory) -> mpsc::Sender<()> {
    let (begun, has_begun) = mpsc::channel();
    let (held, until_dropped) = mpsc::channel::<()>();
    let on_outcome = Box::new(move |_| {
        begun.send(()).expect("it is waited for");
        let _ = until_dropped.recv();
    });
    directory.look_up(names(0..1), on_outcome);
    has_begun.recv_timeout(LONG).expect("it begins");
    held
}

#[test]
fn more_queries_than_allowed_are_refused_at_once() {
    let directory = narrow();
    let held = hold_reader(&directory);
    let (sender, waits) = mpsc::channel();
    let on_outcome = Box::new(move |answers| sender.send(answers).expect("it is waited for"));
    directory.look_up(names(3..5), on_outcome);
    for _ in 0..3 {
        assert_eq!(ask(&directory, names(0..1)), Err(StoreError::Full));
    }
    // One's own thread is no reader.
    let device = directory.look_up_blocking("user-1");
    assert_eq!(device, Ok(Some("device-1".to_owned())));
    drop(held);
    let answers = waits.recv_timeout(LONG).expect("an outcome");
    assert_eq!(answers, Ok(devices(3..5)));
    assert_eq!(ask(&directory, names(0..1)), Ok(devices(0..1)));
}

#[test]
fn what_was_accepted_is_answered_also_when_the_directory_is_dropped() {
    let directory = narrow();
    let held = hold_reader(&directory);
    let (sender, waits) = mpsc::channel();
    let on_outcome = Box::new(move |answers| sender.send(answers).expect("it is waited for"));
    directory.look_up(names(3..5), on_outcome);
    drop(directory);
    drop(held);
    let answers = waits.recv_timeout(LONG).expect("an outcome");
    assert_eq!(answers, Ok(devices(3..5)));
}

#[test]
fn a_file_keeps_what_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions {
        path: Some(folder.path().join("file:users?mode=memory")),
        ..SqliteOptions::default()
    };
    let first = SqliteDirectory::open(options.clone()).expect("it opens");
    first.provision(10).expect("it is filled");
    drop(first);
    let second = SqliteDirectory::open(options).expect("it opens");
    assert_eq!(ask(&second, names(0..10)), Ok(devices(0..10)));
}

#[test]
fn what_is_no_database_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    std::fs::write(&text, "no database ".repeat(1_000)).expect("it is written");
    let nowhere = folder.path().join("nowhere").join("users");
    for (path, reason) in [(text, "not a database"), (nowhere, "unable to open")] {
        let options = SqliteOptions {
            path: Some(path.clone()),
            ..SqliteOptions::default()
        };
        let error = SqliteDirectory::open(options).expect_err("it is none");
        assert!(matches!(error, OpenError::Database { .. }), "{error}");
        let line = error.to_string();
        assert!(line.contains(reason), "{line}");
        assert!(line.contains(&path.display().to_string()), "{line}");
    }
}

/// Not asserted, since machines differ: `--nocapture` shows the rates.
#[test]
fn answers_at_the_rate_of_the_machine() {
    let directory = SqliteDirectory::open(SqliteOptions::default()).expect("it opens");
    let begun = Instant::now();
    directory.provision(100_000).expect("it is filled");
    say(&format!("100,000 users put in in {:?}", begun.elapsed()));
    for size in [1, 16, 64] {
        let rate = rate(&directory, 100_000, size, 64);
        say(&format!("{rate:.0} users a second, {size} to a query"));
    }
}
