//! The sleep protocol: who wakes whom, so that no task waits while a worker sleeps.
//!
//! States, steps of both sides and the proof are in `README.md` beside this file; the names P1..P4,
//! F1, F2 and S1..S4 below are its steps.

use crate::{
    parker::Parker,
    sync::{AtomicU64, Mutex, Ordering, fence},
};

const SEARCHING_ONE: u64 = 1;
const AWAKE_ONE: u64 = 1 << 32;

#[derive(Clone, Copy)]
struct Counts(u64);

impl Counts {
    fn searching(self) -> u64 {
        self.0 & (AWAKE_ONE - 1)
    }

    fn awake(self) -> u64 {
        self.0 >> 32
    }
}

pub(crate) struct Sleep {
    counts: AtomicU64,
    sleepers: Mutex<Vec<usize>>,
    parkers: Box<[Parker]>,
}

impl Sleep {
    /// All workers begin awake and not searching.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            counts: AtomicU64::new(workers as u64 * AWAKE_ONE),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            parkers: (0..workers).map(|_| Parker::new()).collect(),
        }
    }

    fn counts(&self) -> Counts {
        // Ordering: SeqCst, P3.
        Counts(self.counts.load(Ordering::SeqCst))
    }

    fn needs_nobody(&self) -> bool {
        let counts = self.counts();
        counts.searching() > 0 || counts.awake() == self.parkers.len() as u64
    }

    /// Whether any worker is awake.
    pub(crate) fn is_anybody_awake(&self) -> bool {
        self.counts().awake() > 0
    }

    /// P2 to P4. `true` if a worker was woken.
    pub(crate) fn wake_one(&self) -> bool {
        // Ordering: SeqCst, P2.
        fence(Ordering::SeqCst);
        if self.needs_nobody() {
            return false;
        }
        let woken = {
            let mut sleepers = self
                .sleepers
                .lock()
                .expect("nothing panics under this lock");
            if self.needs_nobody() {
                return false;
            }
            let Some(woken) = sleepers.pop() else {
                return false;
            };
            // Ordering: SeqCst, P4.
            self.counts
                .fetch_add(AWAKE_ONE + SEARCHING_ONE, Ordering::SeqCst);
            woken
        };
        self.parkers[woken].unpark();
        true
    }

    /// Wakes every worker, for shutdown.
    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut sleepers = self
                .sleepers
                .lock()
                .expect("nothing panics under this lock");
            let woken = std::mem::take(&mut *sleepers);
            // Ordering: SeqCst, P4.
            self.counts.fetch_add(
                woken.len() as u64 * (AWAKE_ONE + SEARCHING_ONE),
                Ordering::SeqCst,
            );
            woken
        };
        for worker in woken {
            self.parkers[worker].unpark();
        }
    }

    /// Begins to search, unless another worker does.
    pub(crate) fn try_start_searching(&self) -> bool {
        let mut counts = self.counts();
        while counts.searching() == 0 {
            // Ordering: SeqCst, one order of all changes of `counts`.
            match self.counts.compare_exchange_weak(
                counts.0,
                counts.0 + SEARCHING_ONE,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return true,
                Err(seen) => counts = Counts(seen),
            }
        }
        false
    }

    /// F1. `true` if nobody searches any more, so that the caller must go on with F2.
    pub(crate) fn stop_searching(&self) -> bool {
        // Ordering: SeqCst, F1.
        let before = Counts(self.counts.fetch_sub(SEARCHING_ONE, Ordering::SeqCst));
        debug_assert!(before.searching() > 0, "only a searcher stops searching");
        before.searching() == 1
    }

    /// S1 to S4. Returns once the worker has been woken, or found work at its last look; it is
    /// searching then.
    pub(crate) fn sleep(
        &self,
        worker: usize,
        was_searching: bool,
        has_work: impl FnOnce() -> bool,
    ) {
        {
            let mut sleepers = self
                .sleepers
                .lock()
                .expect("nothing panics under this lock");
            sleepers.push(worker);
            let leaving = AWAKE_ONE + if was_searching { SEARCHING_ONE } else { 0 };
            // Ordering: SeqCst, S1.
            self.counts.fetch_sub(leaving, Ordering::SeqCst);
        }
        // Ordering: SeqCst, S2.
        fence(Ordering::SeqCst);
        if has_work() && self.cancel_sleep(worker) {
            return;
        }
        self.parkers[worker].park();
    }

    /// S3: takes the worker off the list; `false` if a producer was quicker.
    fn cancel_sleep(&self, worker: usize) -> bool {
        let mut sleepers = self
            .sleepers
            .lock()
            .expect("nothing panics under this lock");
        let Some(place) = sleepers.iter().position(|&sleeper| sleeper == worker) else {
            return false;
        };
        sleepers.swap_remove(place);
        // Ordering: SeqCst, as P4.
        self.counts
            .fetch_add(AWAKE_ONE + SEARCHING_ONE, Ordering::SeqCst);
        true
    }
}
