//! A slow store that needs nothing installed.
//!
//! ```text
//!   fetch ──▶ line, in order ──concurrent at once──▶ asleep, until each is due ──▶ outcome
//! ```
//!
//! One thread wakes them all: each sleeps for the same time, so who fell asleep first wakes first.

mod failures;
mod sleepers;

use std::{io, num::NonZeroUsize, sync::Arc, thread, time::Duration};

use super::{
    error::StoreError,
    occupancy::Occupancy,
    report::{OnFetched, Report},
    slow::SlowStore,
};
pub use failures::Failures;
use sleepers::{Fetch, Sleepers};

/// Keys whose last part, behind a colon, begins with it have no value.
pub const NOBODY: &[u8] = b"nobody";

/// How slow a [`MockStore`] is.
#[derive(Clone, Copy, Debug)]
pub struct MockOptions {
    /// How long a fetch takes: 100 ms unless set.
    pub delay: Duration,
    /// Fetches at once: 64 unless set.
    pub concurrent: NonZeroUsize,
    /// Fetches in line, before more are refused with [`StoreError::Full`]: 1,000,000 unless set.
    pub waiting_max: usize,
    /// Which fetches fail: none unless set.
    pub failures: Failures,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(100),
            concurrent: const { NonZeroUsize::new(64).unwrap() },
            waiting_max: 1_000_000,
            failures: Failures::None,
        }
    }
}

/// A store that sleeps for each fetch, so many at once. The value of a key is `value-of-` and the key.
/// Dropping it ends what is under way with [`StoreError::Unavailable`].
pub struct MockStore {
    sleepers: Arc<Sleepers>,
}

impl MockStore {
    /// Starts the store.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(options: MockOptions) -> io::Result<Self> {
        let sleepers = Arc::new(Sleepers::new(options));
        let waker = sleepers.clone();
        thread::Builder::new()
            .name("mock store".to_owned())
            .spawn(move || waker.run())?;
        Ok(Self { sleepers })
    }

    /// How busy it is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.sleepers.occupancy()
    }

    /// Which fetches fail from now on.
    pub fn set_failures(&self, failures: Failures) {
        self.sleepers.set_failures(failures);
    }
}

impl SlowStore for MockStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            report: Report::new(on_outcome),
        };
        if let Err(refused) = self.sleepers.enter(fetch) {
            refused.report.tell(Err(StoreError::Full));
        }
    }
}

impl Drop for MockStore {
    fn drop(&mut self) {
        self.sleepers.close();
    }
}

impl std::fmt::Debug for MockStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MockStore")
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}
