//! The stores behind the cache: the slow store of keys and the directory of devices.
//!
//! ```text
//!   miss ──▶ Bulkhead ──running_max at once──▶ SlowStore ─┬─ HttpStore: GET URL/KEY
//!               └── waiting_max queued,                    ├─ MariaDbStore: a table of a server
//!                   the rest refused                       └─ MockStore: asleep, for load tests
//!
//!   users ──▶ Directory ─┬─ MemoryDirectory: a table in this process
//!                        └─ MariaDbDirectory: at most queries_max on connections to a server
//! ```
//!
//! Only functions that say so block. Every request has one outcome, also when its store is dropped or loses the
//! request.

mod bulkhead;
mod delay;
mod http;
#[cfg(feature = "mariadb")]
mod mariadb;
mod memory;

use bytes::Bytes;

use crate::report::{self, Lost, OnOutcome};
pub use bulkhead::{Bulkhead, BulkheadOptions, Occupancy};
pub use delay::{DistantDirectory, MockStore};
pub use http::{HttpStore, HttpStoreError, HttpStoreOptions};
#[cfg(feature = "mariadb")]
pub use mariadb::{DATABASE_DEFAULT, MariaDbDirectory, MariaDbOptions, MariaDbStore};
pub use memory::MemoryDirectory;

/// The slow store behind the cache (HBase in the original).
pub trait SlowStore: Send + Sync {
    /// Fetches the value of a key; `None` if it has none. `on_outcome` is called once, on any thread, possibly this
    /// one. It must not block. Never blocks.
    fn fetch(&self, key: &[u8], on_outcome: OnFetched);
}

/// The longest name of a user that every directory can hold, in bytes.
pub const USER_BYTES_MAX: usize = 512;

/// The devices of users: a table `devices` with the columns `user`, the key, and `device`. Names are compared by
/// their bytes.
pub trait Directory: Send + Sync {
    /// Looks up several users with one query; the answers are in their order. Never blocks: refused with
    /// [`StoreError::Full`] when too many queries are in flight. `on_outcome` is called once, on any thread,
    /// possibly this one. It must not block.
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices);

    /// Looks up one user on this thread. Blocks until there is an answer.
    ///
    /// # Errors
    /// [`StoreError`].
    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError>;

    /// Creates the table if it is missing, and adds the users `user-0`, `user-1` and so on, `users` in number, with
    /// the devices `device-0`, `device-1` and so on. Existing users are not changed. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]. A retry continues where it stopped.
    fn provision(&self, users: u64) -> Result<(), StoreError>;
}

/// A request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Too many requests are in flight.
    #[error("the store is full")]
    Full,
    /// The store cannot be reached, or does not answer in time.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store refuses the request, and would refuse it again.
    #[error("the store refuses the query: {0}")]
    Refused(String),
}

/// A callback for the value of a key, called once, on any thread. It must not block.
pub type OnFetched = OnOutcome<Option<Bytes>, StoreError>;

/// A callback for the devices of users, in their order, called once, on any thread. It must not block.
pub type OnDevices = OnOutcome<Vec<Option<String>>, StoreError>;

/// Calls the callback exactly once; if dropped unused, with [`StoreError::Unavailable`].
pub(super) type Report<T> = report::Report<T, StoreError>;

impl Lost for StoreError {
    fn lost() -> Self {
        Self::Unavailable("it ended before it answered".to_owned())
    }
}
