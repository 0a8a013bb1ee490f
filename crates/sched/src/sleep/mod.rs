//! The sleep protocol: who wakes whom, so that no task waits while a worker sleeps.
//!
//! `README.md` beside this file has the states, the steps of both sides (P1..P4, F1, F2, S1..S4) and the proof.

use std::sync::Arc;

use crate::{
    catch_panic,
    driver::{Driver, PollOutcome},
    settings::Fault,
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence},
    thread_slot::ThreadSlots,
};

const SEARCHING_ONE: u64 = 1;
const SLEEPING_ONE: u64 = 1 << 32;

#[derive(Clone, Copy)]
struct Counts(u64);

impl Counts {
    fn searching(self) -> u64 {
        self.0 & (SLEEPING_ONE - 1)
    }

    fn sleeping(self) -> u64 {
        self.0 >> 32
    }
}

#[derive(Default)]
struct Sleepers {
    threads: Vec<usize>,
    /// The number of changes of the list.
    generation: u64,
}

pub(crate) struct Sleep {
    counts: AtomicU64,
    sleepers: Mutex<Sleepers>,
    threads: Arc<ThreadSlots>,
    /// One idle worker waits in it.
    driver: Option<Arc<dyn Driver>>,
    drops_wakes: bool,
}

/// A reading for the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepReading {
    pub(crate) sleeping: u64,
    pub(crate) searching: u64,
    /// If two readings have the same generation, no worker was woken or went to sleep between them.
    pub(crate) generation: u64,
}

impl Sleep {
    /// For the threads of `threads`. Each enters as a searcher: see [`Sleep::join`].
    pub(crate) fn new(
        threads: Arc<ThreadSlots>,
        driver: Option<Arc<dyn Driver>>,
        fault: Option<Fault>,
    ) -> Self {
        Self {
            counts: AtomicU64::new(0),
            sleepers: Mutex::new(Sleepers::default()),
            threads,
            driver,
            drops_wakes: fault == Some(Fault::DropWakes),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers
            .lock()
            .expect("nothing panics under this lock")
    }

    /// J: a thread becomes a worker, and starts as a searcher.
    pub(crate) fn join(&self) {
        // Ordering: SeqCst, one order for all changes of `counts`.
        self.counts.fetch_add(SEARCHING_ONE, Ordering::SeqCst);
    }

    pub(crate) fn read(&self) -> SleepReading {
        let sleepers = self.lock();
        let counts = self.counts();
        SleepReading {
            sleeping: counts.sleeping(),
            searching: counts.searching(),
            generation: sleepers.generation,
        }
    }

    fn counts(&self) -> Counts {
        // Ordering: SeqCst, P3.
        Counts(self.counts.load(Ordering::SeqCst))
    }

    fn needs_nobody(&self) -> bool {
        let counts = self.counts();
        counts.searching() > 0 || counts.sleeping() == 0
    }

    /// P2 to P4. `true` if a worker was woken.
    pub(crate) fn wake_one(&self) -> bool {
        // Ordering: SeqCst, P2.
        fence(Ordering::SeqCst);
        if self.drops_wakes || self.needs_nobody() {
            return false;
        }
        self.wake_if(|| !self.needs_nobody())
    }

    /// Wakes a worker unconditionally, if one sleeps.
    pub(crate) fn force_wake(&self) -> bool {
        self.wake_if(|| true)
    }

    #[cold]
    fn wake_if(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        let woken = {
            let mut sleepers = self.lock();
            if !is_wanted() {
                return false;
            }
            let Some(woken) = sleepers.threads.pop() else {
                return false;
            };
            self.leave_list(&mut sleepers, 1);
            woken
        };
        self.unpark(woken);
        true
    }

    /// P4, after `count` threads were taken off the list.
    fn leave_list(&self, sleepers: &mut Sleepers, count: u64) {
        sleepers.generation += 1;
        // Ordering: SeqCst, P4: from sleeping to searching.
        self.counts.fetch_sub(
            count.wrapping_mul(SLEEPING_ONE - SEARCHING_ONE),
            Ordering::SeqCst,
        );
    }

    /// Wakes this thread, if it sleeps as a worker.
    pub(crate) fn wake_thread(&self, thread: usize) {
        if self.take_off(thread) {
            self.unpark(thread);
        }
    }

    /// Gives the token to a thread that waits in its parker or in the driver.
    fn unpark(&self, thread: usize) {
        self.threads.get(thread).parker.unpark_outside(|| {
            if let Some(driver) = &self.driver {
                catch_panic::call(|| driver.wake());
            }
        });
    }

    /// Wakes every worker, for shutdown.
    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut sleepers = self.lock();
            let woken = std::mem::take(&mut sleepers.threads);
            self.leave_list(&mut sleepers, woken.len() as u64);
            woken
        };
        for thread in woken {
            self.unpark(thread);
        }
    }

    /// Starts to search, unless another worker searches.
    pub(crate) fn try_start_searching(&self) -> bool {
        let mut counts = self.counts();
        while counts.searching() == 0 {
            // Ordering: SeqCst, one order for all changes of `counts`.
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

    /// F1. `true` if no worker searches any more: then the caller must do F2.
    pub(crate) fn stop_searching(&self) -> bool {
        // Ordering: SeqCst, F1.
        let before = Counts(self.counts.fetch_sub(SEARCHING_ONE, Ordering::SeqCst));
        debug_assert!(before.searching() > 0, "only a searcher stops searching");
        // Ordering: SeqCst, F1 before F2 reads the rings, and before the thread reads its own state after stealing
        // (P2').
        fence(Ordering::SeqCst);
        before.searching() == 1
    }

    /// S1 to S4. Returns when the worker was woken, found work at S3, or got tasks from the driver; it is searching then.
    /// `worker` is its index for the driver.
    pub(crate) fn sleep(
        &self,
        thread: usize,
        worker: usize,
        was_searching: bool,
        has_work: impl FnOnce() -> bool,
    ) {
        {
            let mut sleepers = self.lock();
            sleepers.threads.push(thread);
            sleepers.generation += 1;
            let change = if was_searching {
                SLEEPING_ONE - SEARCHING_ONE
            } else {
                SLEEPING_ONE
            };
            // Ordering: SeqCst, S1.
            self.counts.fetch_add(change, Ordering::SeqCst);
        }
        // Ordering: SeqCst, S2.
        fence(Ordering::SeqCst);
        if has_work() && self.take_off(thread) {
            return;
        }
        match &self.driver {
            Some(driver) if catch_panic::call(|| driver.is_watching()) == Some(true) => {
                self.wait_in(&**driver, thread, worker)
            }
            _ => self.threads.get(thread).parker.park(),
        }
    }

    /// S4 in the driver, unless another worker waits there.
    fn wait_in(&self, driver: &dyn Driver, thread: usize, worker: usize) {
        let parker = &self.threads.get(thread).parker;
        loop {
            let mut has_left = false;
            let mut outcome = PollOutcome::Nothing;
            let has_token = parker.park_outside(|| {
                let is_woken = || parker.has_token();
                let mut before_dispatch = || has_left = self.take_off(thread);
                let wait = || driver.wait(worker, &is_woken, &mut before_dispatch);
                outcome = catch_panic::call(wait).unwrap_or(PollOutcome::Taken);
            });
            if has_token || has_left {
                return;
            }
            if outcome != PollOutcome::Nothing {
                // Another worker waits in the driver; or this one was just taken off the list, and its token is on
                // the way.
                return parker.park();
            }
        }
    }

    /// S3: takes the thread off the list; `false` if a producer was faster.
    fn take_off(&self, thread: usize) -> bool {
        let mut sleepers = self.lock();
        let Some(position) = sleepers
            .threads
            .iter()
            .position(|&sleeper| sleeper == thread)
        else {
            return false;
        };
        sleepers.threads.swap_remove(position);
        self.leave_list(&mut sleepers, 1);
        true
    }
}
