//! RESP3, as Redis 6 and later speak it. Touches no socket.
//!
//! What is sent is arrays of bulk strings only ([`crate::Command`] writes them); what comes is any of
//! the values below, in pieces of any size. The specification is
//! <https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md>. Streamed strings and
//! aggregates, which no server sends, are refused.

mod error;
mod parser;
mod value;

pub use error::{Malformed, ProtocolError};
pub use parser::{Limits, Parser};
pub use value::{ServerError, Value};
