//! Where the fetcher looks things up that the cache does not have.
//!
//! ```text
//!   miss ──▶ Bulkhead ──running_max at once──▶ SlowStore (MockStore)
//!               └── waiting_max in line, the rest refused
//!
//!   users ──questions_max──▶ Directory ─┬─ SqliteDirectory: threads that read a file
//!                                       └─ MariaDbDirectory: connections to a server
//! ```
//!
//! Nothing here blocks but what says so, and every question has one outcome: also when its store is
//! dropped before, or loses the question.

mod bulkhead;
mod distant;
mod mariadb;
mod mock;
mod sqlite;

use bytes::Bytes;

use crate::report::{self, Lost, OnOutcome};
pub use bulkhead::{Bulkhead, BulkheadOptions, Occupancy};
pub use distant::DistantDirectory;
pub use mariadb::{ConnectError, DATABASE_DEFAULT, MariaDbDirectory, MariaDbOptions};
pub use mock::{Failures, MockOptions, MockStore, NOBODY};
pub use sqlite::{OpenError, SqliteDirectory, SqliteOptions};

/// The slow store behind the cache (HBase in the original).
pub trait SlowStore: Send + Sync {
    /// Looks a key up. `on_outcome` is called once, on any thread: this one, for example, if the question is
    /// refused. It must not block. `None` is a key without a value. Never blocks.
    fn fetch(&self, key: &[u8], on_outcome: OnFetched);
}

/// The longest name of a user that every directory can hold, in bytes.
pub const USER_BYTES_MAX: usize = 512;

/// Who has which device: the table `devices` of a SQL database, with the columns `user`, the key, and
/// `device`. Names are told apart by their bytes.
pub trait Directory: Send + Sync {
    /// Looks several users up with one question; the answers are in their order. Never blocks: refused with
    /// [`StoreError::Full`] when as many questions as allowed are under way. `on_outcome` is called once, on
    /// any thread: this one, for example, if the question is refused. It must not block.
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices);

    /// Looks one user up, on this thread: blocks until there is an answer.
    ///
    /// # Errors
    /// [`StoreError`].
    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError>;

    /// Makes the table if there is none, and puts the users `user-0`, `user-1` and so on into it, as many as
    /// that, with the devices `device-0`, `device-1` and so on; who is there already stays as he is. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]. It can be tried again, and goes on where it was.
    fn provision(&self, users: u64) -> Result<(), StoreError>;
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// As many questions as allowed are under way or wait.
    #[error("the store takes no more questions at the moment")]
    Full,
    /// The store cannot be reached, or does not answer in time.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store was reached, and refuses the question: it would do so again.
    #[error("the store refuses the question: {0}")]
    Refused(String),
}

impl StoreError {
    /// Whether the same question may have an answer later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Full | Self::Unavailable(_) => true,
            Self::Refused(_) => false,
        }
    }
}

/// Called once with the value of a key, on any thread. It must not block.
pub type OnFetched = OnOutcome<Option<Bytes>, StoreError>;

/// Called once with the devices of the users in their order, on any thread. It must not block.
pub type OnDevices = OnOutcome<Vec<Option<String>>, StoreError>;

/// Tells the outcome exactly once: as unavailable if it is dropped before.
pub(super) type Report<T> = report::Report<T, StoreError>;

impl Lost for StoreError {
    fn lost() -> Self {
        Self::Unavailable("it ended before it answered".to_owned())
    }
}
