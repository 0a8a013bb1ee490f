//! What is wrong with bytes that are no request, in Redis' words.

/// Why a stream of requests cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("Protocol error: too big inline request")]
    LongInline,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("Protocol error: too big mbulk count string")]
    LongCount,
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: unauthenticated multibulk length")]
    CountBeforeLogin,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    NoBulk(u8),
    #[error("Protocol error: too big bulk count string")]
    LongLength,
    #[error("Protocol error: invalid bulk length")]
    Length,
    #[error("Protocol error: unauthenticated bulk length")]
    LengthBeforeLogin,
    /// Redis closes the connection without a word.
    #[error("Protocol error: too big request")]
    LongRequest,
    /// Redis evicts the clients that take the most instead.
    #[error("unfinished requests of all clients take too many bytes")]
    Unfinished,
}
