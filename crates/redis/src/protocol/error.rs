//! What is wrong with bytes that are no RESP3.

/// Bytes that are no RESP3, or more than the limits allow. The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at byte {at} of the stream")]
pub struct ProtocolError {
    /// What is wrong.
    pub what: Malformed,
    /// The bytes of the stream before the piece that is wrong.
    pub at: u64,
}

/// What is wrong with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A value begins with a byte that stands for no type.
    #[error("no type of RESP3 begins with byte {0:#04x}")]
    UnknownType(u8),
    /// A line is longer than the limit.
    #[error("a line of more than {0} bytes")]
    LongLine(usize),
    /// A line or a string does not end with carriage return and line feed, or a line has one inside.
    #[error("a line end is missing or misplaced")]
    LineEnd,
    /// A number that is none, or too large.
    #[error("a number is malformed or out of range")]
    Number,
    /// A length that is none.
    #[error("a length is malformed")]
    Length,
    /// A null or boolean that is none.
    #[error("a null or boolean is malformed")]
    Literal,
    /// A verbatim string without its format.
    #[error("a verbatim string has no format")]
    Verbatim,
    /// A string is longer than the limit.
    #[error("a string of {length} bytes, at most {limit} are allowed")]
    LongBulk {
        /// Its length in bytes.
        length: u64,
        /// [`super::Limits::bulk_bytes`].
        limit: u64,
    },
    /// A reply has more elements than the limit, all its aggregates together.
    #[error("a reply of more than {0} elements")]
    ManyElements(usize),
    /// A reply has more bytes than the limit.
    #[error("a reply of more than {0} bytes")]
    LongReply(u64),
    /// Aggregates within aggregates beyond the limit.
    #[error("aggregates nested more than {0} deep")]
    Nesting(usize),
    /// A push message inside another value.
    #[error("a push message inside another value")]
    NestedPush,
    /// A reply that nobody waits for.
    #[error("a reply to no command")]
    Unasked,
}
