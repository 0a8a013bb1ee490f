//! A value of RESP3.

use std::{fmt, sync::Arc};

use bytes::Bytes;

/// What a server can answer. Attributes are read and dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: also RESP2's null string and null array.
    Null,
    /// A short text, such as `OK`.
    Simple(Bytes),
    /// The server's refusal.
    Error(ServerError),
    /// A number.
    Integer(i64),
    /// A number with a fraction, or infinity, or none.
    Double(f64),
    /// Yes or no.
    Boolean(bool),
    /// A number of any length, in decimal digits.
    BigNumber(Bytes),
    /// Bytes.
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
    /// Keys with their values, in the order that they came.
    Map(Vec<(Value, Value)>),
    /// Values without an order.
    Set(Vec<Value>),
    /// What came without being asked for.
    Push(Vec<Value>),
}

impl Value {
    /// What kind of value it is, for an error's text.
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

/// A refusal of the server: a code in capitals, and a text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerError {
    text: Arc<str>,
}

impl ServerError {
    /// From the line as it came.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into() }
    }

    /// The first word: `WRONGTYPE`, `NOSCRIPT`, `ERR`.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// What follows the code.
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
