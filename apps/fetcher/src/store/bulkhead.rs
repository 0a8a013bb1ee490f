//! A limit on how many fetches are at a store, so that a slow store cannot take the whole service with it:
//! the bulkhead of Nygard's "Release It!".

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    error::StoreError,
    occupancy::Occupancy,
    places::{Entry, Places},
    report::{OnFetched, Report},
    slow::SlowStore,
};

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
/// A place is free again when the store calls the callback, or drops it, or panics: the outcome is then
/// [`StoreError::Unavailable`]. Dropping the bulkhead ends nothing: what was accepted has its outcome.
pub struct Bulkhead {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn SlowStore>,
    state: Mutex<State>,
}

struct State {
    places: Places<Fetch>,
    /// Whether a thread is starting those in line. Others leave it to it: a store that answers on the
    /// asker's thread would otherwise nest one start in another, as deep as the line is long.
    is_starting: bool,
}

struct Fetch {
    key: Box<[u8]>,
    on_outcome: OnFetched,
}

/// A place at the store, free again when it is dropped.
struct Place(Arc<Shared>);

impl Bulkhead {
    /// Limits the fetches at this store.
    #[must_use]
    pub fn new(store: Arc<dyn SlowStore>, options: BulkheadOptions) -> Self {
        let state = State {
            places: Places::new(options.running_max.get(), options.waiting_max),
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
        self.shared.state.lock().places.occupancy()
    }
}

impl SlowStore for Bulkhead {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            on_outcome,
        };
        let entry = self.shared.state.lock().places.enter(fetch);
        match entry {
            Entry::Runs(fetch) => self.shared.start(fetch),
            Entry::Waits => {}
            Entry::Refused(fetch) => (fetch.on_outcome)(Err(StoreError::Full)),
        }
    }
}

impl Shared {
    fn start(self: &Arc<Self>, fetch: Fetch) {
        let place = Place(self.clone());
        let report = Report::new(fetch.on_outcome);
        let on_outcome = Box::new(move |outcome| {
            // First, so that who is told finds room.
            drop(place);
            report.tell(outcome);
        });
        // A panic drops the callback, and so is an outcome.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.store.fetch(&fetch.key, on_outcome)
        }));
    }

    fn leave(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.places.leave();
        if state.is_starting {
            return;
        }
        state.is_starting = true;
        while let Some(next) = state.places.next() {
            MutexGuard::unlocked(&mut state, || self.start(next));
        }
        state.is_starting = false;
    }
}

impl Drop for Place {
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
