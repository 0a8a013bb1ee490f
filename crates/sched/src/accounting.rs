//! Where a thread's wall time goes.
//!
//! One word holds the present state and since when it lasts; the sums of the intervals that are over
//! stand beside it. The thread reads the clock only when its state changes, which it does when it
//! runs out of work, and not between two runs: a worker with a full queue pays nothing. A reader adds
//! the interval still open.
//!
//! ```text
//!   63                                   3 2     0
//!   ┌─────────────────────────────────────┬───────┐
//!   │ since, nanoseconds                  │ state │
//!   └─────────────────────────────────────┴───────┘
//! ```

use freeboard_meter::{OwnedCounter, StateTimes, WorkerState, clock};

use crate::sync::{AtomicU64, Ordering};

const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// Written by one thread, read by anybody.
pub(crate) struct Accounting {
    created_ns: u64,
    word: AtomicU64,
    sums_ns: [OwnedCounter; WorkerState::ALL.len()],
}

fn pack(state: WorkerState, since_ns: u64) -> u64 {
    since_ns << STATE_BITS | state as u64
}

fn unpack(word: u64) -> (WorkerState, u64) {
    let state = WorkerState::ALL[(word & STATE_MASK) as usize];
    (state, word >> STATE_BITS)
}

impl Accounting {
    pub(crate) fn new(state: WorkerState) -> Self {
        let created_ns = clock::now_ns();
        Self {
            created_ns,
            word: AtomicU64::new(pack(state, created_ns)),
            sums_ns: std::array::from_fn(|_| OwnedCounter::new()),
        }
    }

    /// The state, and since when it lasts.
    pub(crate) fn now(&self) -> (WorkerState, u64) {
        // Ordering: Relaxed, one word that agrees with itself.
        unpack(self.word.load(Ordering::Relaxed))
    }

    /// Owner only: from `now_ns` on the thread is in `state`.
    #[inline]
    pub(crate) fn enter(&self, state: WorkerState, now_ns: u64) {
        let (left, since_ns) = self.now();
        self.sums_ns[left as usize].bump(now_ns.saturating_sub(since_ns));
        // Ordering: Relaxed, as in `now`.
        self.word.store(pack(state, now_ns), Ordering::Relaxed);
    }

    /// Time in each state up to now. The sums say by themselves when the open interval began, so each
    /// moment is counted once, also beside [`Accounting::enter`]; in which state the last one is, may
    /// be a change late.
    pub(crate) fn times(&self) -> StateTimes {
        let (state, _) = self.now();
        let mut times = StateTimes::default();
        for state in WorkerState::ALL {
            *times.of_mut(state) = self.sums_ns[state as usize].get();
        }
        let open_since_ns = self.created_ns + times.total_ns();
        *times.of_mut(state) += clock::now_ns().saturating_sub(open_since_ns);
        times
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_open_interval_counts() {
        let accounting = Accounting::new(WorkerState::Park);
        let (_, began_ns) = accounting.now();
        accounting.enter(WorkerState::Run, began_ns + 1_000);
        let times = accounting.times();
        assert_eq!(times.park_ns, 1_000);
        let (state, since_ns) = accounting.now();
        assert_eq!((state, since_ns), (WorkerState::Run, began_ns + 1_000));
        let later = loop {
            let later = accounting.times();
            if later.run_ns > times.run_ns {
                break later;
            }
        };
        assert_eq!(later.park_ns, 1_000);
    }
}
