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
mod directory;
mod distant;
mod error;
mod mariadb;
mod mock;
mod occupancy;
mod places;
mod report;
mod slow;
mod sqlite;

pub use bulkhead::{Bulkhead, BulkheadOptions};
pub use directory::{Directory, USER_BYTES_MAX};
pub use distant::DistantDirectory;
pub use error::StoreError;
pub use mariadb::{ConnectError, DATABASE_DEFAULT, MariaDbDirectory, MariaDbOptions};
pub use mock::{Failures, MockOptions, MockStore, NOBODY};
pub use occupancy::Occupancy;
pub use report::{OnDevices, OnFetched};
pub use slow::SlowStore;
pub use sqlite::{OpenError, SqliteDirectory, SqliteOptions};
