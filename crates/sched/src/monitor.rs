//! The monitor: a thread that looks each millisecond whether a worker is stuck in one run.
//!
//! First part: a task in the next slot of a worker that has been in the same run for a whole tick is
//! given to a sleeping worker; nobody may touch it otherwise. (Tasks in the worker's ring need no
//! monitor: who put the second one there woke a thief.)

use std::{io, sync::Arc, sync::Weak, thread, time::Duration};

use crate::{scheduler::Shared, sync::Ordering};

/// Between two looks while a worker is awake.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks while all workers sleep.
const IDLE_TICK: Duration = Duration::from_millis(10);

pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let watched = Arc::downgrade(shared);
    thread::Builder::new()
        .name(format!("{}-monitor", shared.settings.name))
        .spawn(move || watch(&watched))
        .map(drop)
}

fn watch(watched: &Weak<Shared>) {
    let mut runs_seen: Vec<u64> = Vec::new();
    while let Some(shared) = watched.upgrade() {
        if shared.is_shut_down() {
            return;
        }
        let is_awake = shared.sleep.is_anybody_awake();
        if is_awake {
            look(&shared, &mut runs_seen);
        }
        drop(shared);
        thread::sleep(if is_awake { TICK } else { IDLE_TICK });
    }
}

fn look(shared: &Shared, runs_seen: &mut Vec<u64>) {
    runs_seen.resize(shared.seats.len(), 0);
    let mut has_stranded = false;
    for (seat, seen) in shared.seats.iter().zip(runs_seen) {
        let runs = seat.runs.get();
        let is_stuck = runs == *seen && !seat.next_slot.is_empty();
        // Ordering: Relaxed, advice for searchers.
        seat.is_stuck.store(is_stuck, Ordering::Relaxed);
        has_stranded |= is_stuck;
        *seen = runs;
    }
    if has_stranded {
        shared.sleep.wake_one();
    }
}
