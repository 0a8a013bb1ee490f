//! Long native calls in tokio tasks, with and without a yield between them.
//!
//! People write both. Without one a task keeps its worker until its last repetition: two at a time
//! from the first to the last, and so as unfair as can be.

use anyhow::{Context, Result};
use tokio::sync::watch;

use crate::countdown::Countdown;
use crate::finish;
use crate::outcome::Outcome;
use crate::race::{PROCESSES_COUNT, Race};
use crate::work::{Scale, Work};
use crate::yield_mode::YieldMode;

use super::tokio_runtime::{run_on_worker, start};

pub fn run(work: Work, scale: Scale, yield_mode: YieldMode) -> Result<Outcome> {
    let runtime = start()?;
    let (race, finishers) = Race::new(scale.units(work));
    let (gate, closed) = watch::channel(());
    let (finish, all_wait) = finish::line();
    let ready = Countdown::new(PROCESSES_COUNT, finish);
    let released = race.clone();
    let spawn_all = move || {
        for _ in 0..PROCESSES_COUNT {
            tokio::spawn(process(
                race.clone(),
                closed.clone(),
                ready.clone(),
                yield_mode,
            ));
        }
    };
    let release = move || {
        released.release();
        gate.send(()).context("the processes have exited")
    };
    // What a worker wakes goes to its own queue, what another thread wakes to that of all.
    if work == Work::BalanceSpread {
        let entered = runtime.enter();
        spawn_all();
        drop(entered);
        all_wait.wait(PROCESSES_COUNT, 0)?;
        release()?;
    } else {
        run_on_worker(&runtime, async move { spawn_all() })?;
        all_wait.wait(PROCESSES_COUNT, 0)?;
        run_on_worker(&runtime, async move { release() })??;
    }
    finishers.into_outcome()
}

async fn process(
    race: Race,
    mut gate: watch::Receiver<()>,
    ready: Countdown,
    yield_mode: YieldMode,
) {
    ready.one_is_done();
    gate.changed().await.expect("the gate stays until it opens");
    for _ in 0..race.repeats_count() {
        race.repeat_once();
        if yield_mode == YieldMode::Yields {
            tokio::task::yield_now().await;
        }
    }
    race.one_has_ended();
}
