//! Many seeds, one after the other.

use std::{env, rc::Rc, sync::mpsc, thread, time::Duration};

use freeboard_platform::simulation;
use freeboard_sched::manual::{Candidates, Executor};

use super::dice::Dice;

/// The most steps of a simulated case.
const STEPS_MAX: u64 = 10_000_000;

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

/// Runs `case` with all its threads on this one, in an order that the seed chooses. Returns the checksum of its steps.
pub(crate) fn simulate(
    seed: u64,
    case: impl FnOnce(u64) -> Result<(), String>,
) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let choose =
        move |candidates: &Candidates<'_>| dice.within(0..candidates.len() as u64) as usize;
    let executor = Executor::new(Box::new(choose), STEPS_MAX, || Box::new(|| ()));
    let entered = simulation::enter(Rc::new(executor.clone()));
    let _entered = entered.ok_or("the thread runs a simulation already")?;
    case(seed)?;
    if executor.has_threads() {
        return Err("a thread has outlived its stream".to_owned());
    }
    Ok(executor.trace_checksum())
}
