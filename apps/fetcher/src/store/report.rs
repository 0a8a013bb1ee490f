//! How outcomes are told.

use bytes::Bytes;

use super::error::StoreError;
use crate::report::{self, Lost, OnOutcome};

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
