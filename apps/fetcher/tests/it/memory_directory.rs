//! The promises of the directory in memory beyond the contract.

use std::{num::NonZeroUsize, sync::mpsc, time::Instant};

use freeboard_fetcher::store::{Directory, MemoryDirectory, MemoryDirectoryOptions, StoreError};

use crate::{
    common::{LONG, say},
    directory_contract::{ask, devices, names, rate},
};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn narrow() -> MemoryDirectory {
    let options = MemoryDirectoryOptions {
        readers: ONE,
        queries_max: ONE,
    };
    let directory = MemoryDirectory::new(options).expect("the readers start");
    directory.provision(10).expect("it is filled");
    directory
}

/// Keeps the only reader busy until the sender is dropped.
fn hold_reader(directory: &MemoryDirectory) -> mpsc::Sender<()> {
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
    // The caller's own thread is no reader.
    let device = directory.look_up_blocking("user-1");
    assert_eq!(device, Ok(Some("device-1".to_owned())));
    drop(held);
    let answers = waits.recv_timeout(LONG).expect("an outcome");
    assert_eq!(answers, Ok(devices(3..5)));
    assert_eq!(ask(&directory, names(0..1)), Ok(devices(0..1)));
}

#[test]
fn accepted_queries_are_answered_after_the_directory_is_dropped() {
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

/// Rates are not asserted, because machines differ; `--nocapture` shows them.
#[test]
fn answers_at_the_rate_of_the_machine() {
    let directory =
        MemoryDirectory::new(MemoryDirectoryOptions::default()).expect("the readers start");
    let begun = Instant::now();
    directory.provision(100_000).expect("it is filled");
    say(&format!("100,000 users put in in {:?}", begun.elapsed()));
    for size in [1, 16, 64] {
        let rate = rate(&directory, 100_000, size, 64);
        say(&format!("{rate:.0} users a second, {size} to a query"));
    }
}
