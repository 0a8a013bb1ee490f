//! The sleep protocol: who wakes whom, so that no task waits while a worker sleeps.
//!
//! States, steps of both sides and the proof are in `README.md` beside this file; the names P1..P4,
//! F1, F2 and S1..S4 below are its steps.

use std::sync::Arc;

use crate::{
    catch_panic,
    driver::{Driver, Look},
    fault::Fault,
    seat::Seats,
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence},
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
    seats: Vec<usize>,
    /// Changes of the list.
    generation: u64,
}

pub(crate) struct Sleep {
    counts: AtomicU64,
    sleepers: Mutex<Sleepers>,
    seats: Arc<Seats>,
    /// Where one idle worker waits, if there is something to wait for.
    driver: Option<Arc<dyn Driver>>,
    drops_wakes: bool,
}

/// What the monitor sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepReading {
    pub(crate) sleeping: u64,
    pub(crate) searching: u64,
    /// The same at two readings: nobody was woken or went to sleep between them.
    pub(crate) generation: u64,
}

impl Sleep {
    /// For the threads of `seats`; each comes in as a searcher, see [`Sleep::join`].
    pub(crate) fn new(
        seats: Arc<Seats>,
        driver: Option<Arc<dyn Driver>>,
        fault: Option<Fault>,
    ) -> Self {
        Self {
            counts: AtomicU64::new(0),
            sleepers: Mutex::new(Sleepers::default()),
            seats,
            driver,
            drops_wakes: fault == Some(Fault::DropWakes),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers
            .lock()
            .expect("nothing panics under this lock")
    }

    /// A thread takes a worker's place, and begins as a searcher (J of the protocol).
    pub(crate) fn join(&self) {
        // Ordering: SeqCst, one order of all changes of `counts`.
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

    /// Wakes a worker that a producer should have woken.
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
            let Some(woken) = sleepers.seats.pop() else {
                return false;
            };
            self.leave_list(&mut sleepers, 1);
            woken
        };
        self.unpark(woken);
        true
    }

    /// P4, after `count` seats were taken off the list.
    fn leave_list(&self, sleepers: &mut Sleepers, count: u64) {
        sleepers.generation += 1;
        // Ordering: SeqCst, P4: from sleeping to searching.
        self.counts.fetch_sub(
            count.wrapping_mul(SLEEPING_ONE - SEARCHING_ONE),
            Ordering::SeqCst,
        );
    }

    /// Wakes the worker in this seat, if it sleeps.
    pub(crate) fn wake_seat(&self, seat: usize) {
        if self.take_off(seat) {
            self.unpark(seat);
        }
    }

    /// Gives the token, wherever it is waited for.
    fn unpark(&self, seat: usize) {
        self.seats.get(seat).parker.unpark_outside(|| {
            if let Some(driver) = &self.driver {
                catch_panic::call(|| driver.wake());
            }
        });
    }

    /// Wakes every worker, for shutdown.
    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut sleepers = self.lock();
            let woken = std::mem::take(&mut sleepers.seats);
            self.leave_list(&mut sleepers, woken.len() as u64);
            woken
        };
        for seat in woken {
            self.unpark(seat);
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
        // Ordering: SeqCst, F1 before F2's look at the rings, and before the look at the own standing
        // behind what was stolen (P2').
        fence(Ordering::SeqCst);
        before.searching() == 1
    }

    /// S1 to S4. Returns once the worker has been woken, found work at its last look, or was given some
    /// by the driver; it is searching then. To the driver the worker is `worker`.
    pub(crate) fn sleep(
        &self,
        seat: usize,
        worker: usize,
        was_searching: bool,
        has_work: impl FnOnce() -> bool,
    ) {
        {
            let mut sleepers = self.lock();
            sleepers.seats.push(seat);
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
        if has_work() && self.take_off(seat) {
            return;
        }
        match &self.driver {
            Some(driver) if catch_panic::call(|| driver.is_watching()) == Some(true) => {
                self.wait_in(&**driver, seat, worker)
            }
            _ => self.seats.get(seat).parker.park(),
        }
    }

    /// S4 in the driver, unless somebody else waits there.
    fn wait_in(&self, driver: &dyn Driver, seat: usize, worker: usize) {
        let parker = &self.seats.get(seat).parker;
        loop {
            let mut has_left = false;
            let mut look = Look::Nothing;
            let has_token = parker.park_outside(|| {
                let is_called = || parker.has_token();
                let mut found = || has_left = self.take_off(seat);
                look = catch_panic::call(|| driver.wait(worker, &is_called, &mut found))
                    .unwrap_or(Look::Taken);
            });
            if has_token || has_left {
                return;
            }
            if look != Look::Nothing {
                // Another one waits in the driver; or this one was just taken off the list, and the
                // token is on its way.
                return parker.park();
            }
        }
    }

    /// S3: takes the worker off the list; `false` if a producer was quicker.
    fn take_off(&self, seat: usize) -> bool {
        let mut sleepers = self.lock();
        let Some(place) = sleepers.seats.iter().position(|&sleeper| sleeper == seat) else {
            return false;
        };
        sleepers.seats.swap_remove(place);
        self.leave_list(&mut sleepers, 1);
        true
    }
}
