//! RESP3 values, and errors in malformed input.

use std::{fmt, sync::Arc};

use bytes::Bytes;

/// A value sent by a server. Attributes are parsed and dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null; also RESP2's null string and null array.
    Null,
    /// A short text, such as `OK`.
    Simple(Bytes),
    /// An error reply.
    Error(ServerError),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Boolean(bool),
    /// An integer of any length, as decimal digits.
    BigNumber(Bytes),
    /// A string of bytes.
    Bulk(Bytes),
    /// A text with its format, such as `txt` or `mkd`.
    Verbatim {
        /// Three characters.
        format: [u8; 3],
        /// The text.
        text: Bytes,
    },
    /// Values in order.
    Array(Vec<Value>),
    /// Keys and values, in the order received.
    Map(Vec<(Value, Value)>),
    /// Unordered values.
    Set(Vec<Value>),
    /// A push message, which is not a reply.
    Push(Vec<Value>),
}

impl Value {
    /// The name of its type, for error messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Simple(_) => "a simple string",
            Self::Error(_) => "an error",
            Self::Integer(_) => "an integer",
            Self::Double(_) => "a double",
            Self::Boolean(_) => "a boolean",
            Self::BigNumber(_) => "a big number",
            Self::Bulk(_) => "a string",
            Self::Verbatim { .. } => "a verbatim string",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Set(_) => "a set",
            Self::Push(_) => "a push message",
        }
    }
}

/// An error reply: a code in capitals, and a text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerError {
    text: Arc<str>,
}

impl ServerError {
    /// From its text, such as `ERR unknown command`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into() }
    }

    /// The first word: `WRONGTYPE`, `NOSCRIPT`, `ERR`.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The text after the code.
    #[must_use]
    pub fn message(&self) -> &str {
        self.text.split_once(' ').map_or("", |(_, message)| message)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServerError({:?})", self.text)
    }
}

impl std::error::Error for ServerError {}

/// Malformed RESP3, or input that exceeds the limits. The rest of the stream cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at byte {at} of the stream")]
pub struct ProtocolError {
    /// The defect.
    pub what: Malformed,
    /// Offset in the stream, in bytes.
    pub at: u64,
}

/// A defect of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A value begins with a byte that is not a type of RESP3.
    #[error("no type of RESP3 begins with byte {0:#04x}")]
    UnknownType(u8),
    /// A line exceeds the limit.
    #[error("a line of more than {0} bytes")]
    LongLine(usize),
    /// A line or a string does not end with CR LF, or a line contains CR.
    #[error("a line end is missing or misplaced")]
    LineEnd,
    /// A malformed number, or one out of range.
    #[error("a number is malformed or out of range")]
    Number,
    /// A malformed length.
    #[error("a length is malformed")]
    Length,
    /// A malformed null or boolean.
    #[error("a null or boolean is malformed")]
    Literal,
    /// A verbatim string without its format.
    #[error("a verbatim string has no format")]
    Verbatim,
    /// A string exceeds the limit.
    #[error("a string of {length} bytes; the limit is {limit}")]
    LongBulk {
        /// Its declared length in bytes.
        length: u64,
        /// [`super::Limits::bulk_bytes`].
        limit: u64,
    },
    /// The aggregates of a reply have more elements than the limit.
    #[error("a reply of more than {0} elements")]
    ManyElements(usize),
    /// A reply exceeds the limit in bytes.
    #[error("a reply of more than {0} bytes")]
    LongReply(u64),
    /// Aggregates are nested too deeply.
    #[error("aggregates nested more than {0} deep")]
    Nesting(usize),
    /// A push message inside another value.
    #[error("a push message inside another value")]
    NestedPush,
    /// A reply without a command.
    #[error("a reply to no command")]
    Unasked,
}
