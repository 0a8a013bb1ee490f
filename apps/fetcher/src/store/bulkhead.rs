//! A limit on concurrent fetches, so that a slow store cannot block the whole service: the bulkhead of Nygard's
//! "Release It!".

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use freeboard::meter::{Exposition, metrics};
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
    options: BulkheadOptions,
    state: Mutex<State>,
}

struct State {
    queued: VecDeque<Fetch>,
    /// Without `waiting`, which is the length of `queued`.
    occupancy: Occupancy,
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
            queued: VecDeque::new(),
            occupancy: Occupancy::default(),
            is_starting: false,
        };
        Self {
            shared: Arc::new(Shared {
                store,
                options,
                state: Mutex::new(state),
            }),
        }
    }

    /// The current occupancy.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let state = self.shared.state.lock();
        Occupancy {
            waiting: state.queued.len(),
            ..state.occupancy
        }
    }
}

impl SlowStore for Bulkhead {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            on_outcome,
        };
        let mut state = self.shared.state.lock();
        let State {
            queued, occupancy, ..
        } = &mut *state;
        // A free permit is for the first in the queue.
        if occupancy.running < self.shared.options.running_max.get() && queued.is_empty() {
            occupancy.begin();
            drop(state);
            self.shared.start(fetch);
        } else if queued.len() < self.shared.options.waiting_max {
            queued.push_back(fetch);
            occupancy.waiting_high_water = occupancy.waiting_high_water.max(queued.len());
        } else {
            occupancy.refused += 1;
            drop(state);
            (fetch.on_outcome)(Err(StoreError::Full));
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
        state.occupancy.running -= 1;
        state.occupancy.served += 1;
        if state.is_starting {
            return;
        }
        state.is_starting = true;
        while state.occupancy.running < self.options.running_max.get()
            && let Some(next) = state.queued.pop_front()
        {
            state.occupancy.begin();
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

metrics! {
    const STORE: Occupancy;
    gauge "fetcher_store_running" = |it| it.running,
        "Keys that are being fetched from the slow store.";
    gauge "fetcher_store_waiting" = |it| it.waiting, "Keys that wait for the slow store.";
    counter "fetcher_store_served_total" = |it| it.served,
        "Keys that the slow store has answered.";
    counter "fetcher_store_refused_total" = |it| it.refused,
        "Keys that were refused because too many waited for the slow store.";
}

impl Occupancy {
    fn begin(&mut self) {
        self.running += 1;
        self.running_high_water = self.running_high_water.max(self.running);
    }

    /// Adds the metrics to `text`.
    pub fn render(&self, text: &mut Exposition) {
        text.metrics(STORE, &[], self);
    }
}
