//! In place of `platform` where call stacks of other threads are not supported.

use std::time::Duration;

use super::StackError;

#[derive(Debug, Clone, Copy)]
pub(super) struct Thread;

impl Thread {
    pub(super) fn current() -> Self {
        Self
    }

    pub(super) fn capture(self, _timeout: Duration) -> Result<String, StackError> {
        Err(StackError::NotSupported)
    }
}
