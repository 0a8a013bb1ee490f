//! How the outcome of a publish is told.

use super::error::Unconfirmed;
use crate::report::{self, Lost};

/// Called once with the outcome of a publish, on any thread. It must not block.
pub type OnOutcome = report::OnOutcome<(), Unconfirmed>;

/// Tells the outcome exactly once: as unknown if it is dropped before.
pub(super) type Report = report::Report<(), Unconfirmed>;

impl Lost for Unconfirmed {
    fn lost() -> Self {
        Self::Unknown
    }
}
