//! A limit on concurrent fetches, so that a slow store cannot block the whole service: the bulkhead of Nygard's
//! "Release It!".

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
    /// Concurrent fetches; 64 unless set.
    pub running_max: NonZeroUsize,
    /// Fetches waiting in the queue; 4,096 unless set.
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

/// A store with a bounded number of concurrent fetches and a bounded FIFO queue. Further fetches are refused at
/// once with [`StoreError::Full`].
///
/// A fetch ends when the store calls the callback, drops it, or panics; the last two give
/// [`StoreError::Unavailable`]. Dropping the bulkhead ends nothing: accepted fetches still have their outcome.
pub struct Bulkhead {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn SlowStore>,
    state: Mutex<State>,
}

struct State {
    admission: AdmissionQueue<Fetch>,
    /// Whether a thread is starting queued fetches. Other threads leave it to that one: a store that answers on the
    /// caller's thread would otherwise nest one start in another, as deep as the queue is long.
    is_starting: bool,
}

struct Fetch {
    key: Box<[u8]>,
    on_outcome: OnFetched,
}

/// The permit of a running fetch, released on drop.
struct Permit(Arc<Shared>);

impl Bulkhead {
    /// Limits the fetches of `store`.
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

    /// The current occupancy.
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
            // First, so that the callback finds a free permit.
            drop(permit);
            report.tell(outcome);
        });
        // A panic drops the callback, which reports an outcome.
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

/// The running and queued fetches of a store, consistent in itself.
///
/// Of all fetches so far, `running + waiting + served` were accepted and `refused` were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Fetches running.
    pub running: usize,
    /// The most there ever were.
    pub running_high_water: usize,
    /// Fetches queued.
    pub waiting: usize,
    /// The most there ever were.
    pub waiting_high_water: usize,
    /// Fetches finished, with any outcome.
    pub served: u64,
    /// Fetches refused because the queue was full.
    pub refused: u64,
}

/// A bounded number of permits, and a bounded queue for them. Plain data, without a lock, a clock or a thread.
#[derive(Debug)]
pub(super) struct AdmissionQueue<T> {
    running_max: usize,
    waiting_max: usize,
    queued: VecDeque<T>,
    occupancy: Occupancy,
}

/// The result of [`AdmissionQueue::enter`].
#[must_use]
pub(super) enum Admission<T> {
    /// It runs, and must [`AdmissionQueue::leave`].
    Runs(T),
    /// It is queued for [`AdmissionQueue::next`].
    Waits,
    /// The queue is full.
    Refused(T),
}

impl<T> AdmissionQueue<T> {
    pub(super) fn new(running_max: usize, waiting_max: usize) -> Self {
        Self {
            running_max,
            waiting_max,
            queued: VecDeque::new(),
            occupancy: Occupancy::default(),
        }
    }

    pub(super) fn enter(&mut self, item: T) -> Admission<T> {
        let occupancy = &mut self.occupancy;
        // A free permit is for the first in the queue.
        if occupancy.running < self.running_max && self.queued.is_empty() {
            self.begin();
            return Admission::Runs(item);
        }
        if self.queued.len() == self.waiting_max {
            occupancy.refused += 1;
            return Admission::Refused(item);
        }
        self.queued.push_back(item);
        occupancy.waiting_high_water = occupancy.waiting_high_water.max(self.queued.len());
        Admission::Waits
    }

    pub(super) fn leave(&mut self) {
        self.occupancy.running -= 1;
        self.occupancy.served += 1;
    }

    /// The first in the queue, if a permit is free. It runs, and must [`AdmissionQueue::leave`].
    #[must_use]
    pub(super) fn next(&mut self) -> Option<T> {
        if self.occupancy.running == self.running_max {
            return None;
        }
        let next = self.queued.pop_front()?;
        self.begin();
        Some(next)
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        Occupancy {
            waiting: self.queued.len(),
            ..self.occupancy
        }
    }

    pub(super) fn take_queued(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.queued)
    }

    fn begin(&mut self) {
        let occupancy = &mut self.occupancy;
        occupancy.running += 1;
        occupancy.running_high_water = occupancy.running_high_water.max(occupancy.running);
    }
}
