//! What a store answers instead of a value.

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
