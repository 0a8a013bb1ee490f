//! Bad usage: what the user can mend by calling the program differently. Exit code 2.

/// A mistake in what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

impl Usage {
    /// Says what is wrong, in one line.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
