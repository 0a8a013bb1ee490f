//! A limit on how many fetches are at a store, so that a slow store cannot take the whole service with it:
//! the bulkhead of Nygard's "Release It!".

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::{OnFetched, Report, SlowStore, StoreError};

/// The limits of a [`Bulkhead`].
#[derive(Clone, Copy, Debug)]
pub struct BulkheadOptions {
    /// Fetches at the store at once: 64 unless set.
    pub running_max: NonZeroUsize,
    /// Fetches in line before it: 4,096 unless set.
    pub waiting_max: usize,
}

impl Default for BulkheadOptions {
    fn default() -> Self {
        Self {
            running_max: const { NonZeroUsize::new(64).unwrap() },
            waiting_max: 4_096,
        }
    }
}

/// A store with a bounded number of fetches at it, and a bounded line before it, first in, first out. What
/// does not fit is refused at once with [`StoreError::Full`].
///
/// A permit is free again when the store calls the callback, or drops it, or panics: the outcome is then
/// [`StoreError::Unavailable`]. Dropping the bulkhead ends nothing: what was accepted has its outcome.
pub struct Bulkhead {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn SlowStore>,
    state: Mutex<State>,
}

struct State {
    admission: AdmissionQueue<Fetch>,
    /// Whether a thread is starting those in line. Others leave it to it: a store that answers on the
    /// asker's thread would otherwise nest one start in another, as deep as the line is long.
    is_starting: bool,
}

struct Fetch {
    key: Box<[u8]>,
    on_outcome: OnFetched,
}

/// A permit at the store, free again when it is dropped.
struct Permit(Arc<Shared>);

impl Bulkhead {
    /// Limits the fetches at this store.
    #[must_use]
    pub fn new(store: Arc<dyn SlowStore>, options: BulkheadOptions) -> Self {
        let state = State {
            admission: AdmissionQueue::new(options.running_max.get(), options.waiting_max),
            is_starting: false,
        };
        Self {
            shared: Arc::new(Shared {
                store,
                state: Mutex::new(state),
            }),
        }
    }

    /// How busy it is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.shared.state.lock().admission.occupancy()
    }
}

impl SlowStore for Bulkhead {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            on_outcome,
        };
        let entry = self.shared.state.lock().admission.enter(fetch);
        match entry {
            Admission::Runs(fetch) => self.shared.start(fetch),
            Admission::Waits => {}
            Admission::Refused(fetch) => (fetch.on_outcome)(Err(StoreError::Full)),
        }
    }
}

impl Shared {
    fn start(self: &Arc<Self>, fetch: Fetch) {
        let permit = Permit(self.clone());
        let report = Report::new(fetch.on_outcome);
        let on_outcome = Box::new(move |outcome| {
            // First, so that who is told finds room.
            drop(permit);
            report.tell(outcome);
        });
        // A panic drops the callback, and so is an outcome.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.store.fetch(&fetch.key, on_outcome)
        }));
    }

    fn leave(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.admission.leave();
        if state.is_starting {
            return;
        }
        state.is_starting = true;
        while let Some(next) = state.admission.next() {
            MutexGuard::unlocked(&mut state, || self.start(next));
        }
        state.is_starting = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl std::fmt::Debug for Bulkhead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Bulkhead")
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}

/// What is at a store and what waits for it, consistent in itself.
///
/// Of all fetches so far, `running + waiting + served` were accepted, and `refused` were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Fetches at the store.
    pub running: usize,
    /// The most there ever were.
    pub running_high_water: usize,
    /// Fetches in line.
    pub waiting: usize,
    /// The most there ever were.
    pub waiting_high_water: usize,
    /// Fetches that have left the store, with whatever outcome.
    pub served: u64,
    /// Fetches that found no place in line.
    pub refused: u64,
}

/// A bounded number of admission to run in, and a bounded line before them.
#[derive(Debug)]
pub(super) struct AdmissionQueue<T> {
    running_max: usize,
    waiting_max: usize,
    line: VecDeque<T>,
    occupancy: Occupancy,
}

/// What becomes of one who comes.
#[must_use]
pub(super) enum Admission<T> {
    /// It runs, and must [`AdmissionQueue::leave`].
    Runs(T),
    /// It is in line, for [`AdmissionQueue::next`].
    Waits,
    /// There is no place, not even in line.
    Refused(T),
}

impl<T> AdmissionQueue<T> {
    pub(super) fn new(running_max: usize, waiting_max: usize) -> Self {
        Self {
            running_max,
            waiting_max,
            line: VecDeque::new(),
            occupancy: Occupancy::default(),
        }
    }

    pub(super) fn enter(&mut self, visitor: T) -> Admission<T> {
        let occupancy = &mut self.occupancy;
        // A free place is for the first in line.
        if occupancy.running < self.running_max && self.line.is_empty() {
            self.begin();
            return Admission::Runs(visitor);
        }
        if self.line.len() == self.waiting_max {
            occupancy.refused += 1;
            return Admission::Refused(visitor);
        }
        self.line.push_back(visitor);
        occupancy.waiting_high_water = occupancy.waiting_high_water.max(self.line.len());
        Admission::Waits
    }

    pub(super) fn leave(&mut self) {
        self.occupancy.running -= 1;
        self.occupancy.served += 1;
    }

    /// The first in line, if there is a place: it runs, and must [`AdmissionQueue::leave`].
    #[must_use]
    pub(super) fn next(&mut self) -> Option<T> {
        if self.occupancy.running == self.running_max {
            return None;
        }
        let next = self.line.pop_front()?;
        self.begin();
        Some(next)
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        Occupancy {
            waiting: self.line.len(),
            ..self.occupancy
        }
    }

    pub(super) fn take_line(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.line)
    }

    fn begin(&mut self) {
        let occupancy = &mut self.occupancy;
        occupancy.running += 1;
        occupancy.running_high_water = occupancy.running_high_water.max(occupancy.running);
    }
}
