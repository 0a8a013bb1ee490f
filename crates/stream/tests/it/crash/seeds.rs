//! Many seeds, one after the other.

use std::{env, sync::mpsc, thread, time::Duration};

/// A case that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn variable(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
    )
}

/// Runs `case` for each seed; which and how many say `FREEBOARD_SEED` and `FREEBOARD_SEEDS`.
///
/// # Panics
///
/// With the seed, if a case fails or hangs.
#[track_caller]
pub(crate) fn for_seeds(count: u64, case: fn(u64) -> Result<(), String>) {
    let seeds = match variable("FREEBOARD_SEED") {
        Some(seed) => seed..seed + variable("FREEBOARD_SEEDS").unwrap_or(1),
        None => 0..variable("FREEBOARD_SEEDS").unwrap_or(count),
    };
    for seed in seeds {
        let (sender, receiver) = mpsc::channel();
        // Not joined: a thread that hangs is reported, and ends with the process.
        thread::spawn(move || sender.send(case(seed)));
        match receiver.recv_timeout(LIMIT) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => panic!("FREEBOARD_SEED={seed}: {reason}"),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("FREEBOARD_SEED={seed} hangs"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("FREEBOARD_SEED={seed} panicked"),
        }
    }
}
