//! Streams on a simulated disk that loses power, is killed, and fails calls, by seeds.
//!
//! `FREEBOARD_SEEDS` says how many seeds each test runs, `FREEBOARD_SEED` which one. A seed fixes all
//! but the order in which the threads of a stream make their calls, so a failure may take some
//! attempts to be seen again. In a simulation it fixes that order, too.

use crate::crash::{
    Case, Dice, Ending, Life, Stream,
    seeds::{for_seeds, simulate},
};
use freeboard_stream::{SyncMode, storage::simulated::Fault};

/// Calls that a life makes, about: the power fails within as many.
const CALLS_MAX: u64 = 256;

const LIVES_MAX: u64 = 4;

/// Lives through lives that `plan` thinks up, then once more in order.
fn run(seed: u64, plan: fn(&mut Dice) -> Life) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let case = Case::new(&mut dice);
    let mut stream = Stream::new(&case);
    let mut lives = Vec::new();
    for _ in 0..dice.within(1..LIVES_MAX) {
        lives.push(plan(&mut dice));
    }
    lives.push(Life {
        sync: SyncMode::Batch,
        ending: Ending::Closed,
        faults: Vec::new(),
    });
    lives.push(lives[lives.len() - 1].clone());
    for (number, life) in lives.iter().enumerate() {
        match stream.live(life, &mut dice) {
            Ok(true) => {}
            Ok(false) => break,
            Err(reason) => return Err(format!("life {number}: {reason}\n{case:?}\n{lives:?}")),
        }
    }
    Ok(())
}

fn power_failure(dice: &mut Dice) -> Ending {
    Ending::PowerFails {
        call: dice.by_magnitude(CALLS_MAX),
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    for_seeds(4_000, |seed| {
        run(seed, |dice| Life {
            sync: Case::sync(dice),
            ending: match dice.one_in(4) {
                true => Ending::Closed,
                false => power_failure(dice),
            },
            faults: Vec::new(),
        })
    });
}

#[test]
fn nothing_is_lost_when_the_process_is_killed() {
    for_seeds(2_000, |seed| {
        run(seed, |dice| Life {
            sync: Case::sync(dice),
            ending: match dice.one_in(3) {
                true => power_failure(dice),
                false => Ending::Killed,
            },
            faults: Vec::new(),
        })
    });
}

fn calls_fail(dice: &mut Dice) -> Life {
    let ending = power_failure(dice);
    let faults = (0..dice.within(1..4)).map(|_| {
        let fault = dice.choose(&[Fault::Io, Fault::Full]);
        (dice.by_magnitude(CALLS_MAX), fault)
    });
    Life {
        faults: faults.collect(),
        sync: Case::sync(dice),
        ending: dice.choose(&[Ending::Closed, Ending::Killed, ending]),
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_calls_fail() {
    for_seeds(4_000, |seed| run(seed, calls_fail));
}

#[test]
fn in_a_simulation_a_seed_repeats_its_steps() {
    for_seeds(400, |seed| {
        let once = || simulate(seed, |seed| run(seed, calls_fail));
        if once()? != once()? {
            return Err("its steps depend on more than the seed".to_owned());
        }
        Ok(())
    });
}
