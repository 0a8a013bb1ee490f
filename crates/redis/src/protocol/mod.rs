//! RESP3, as Redis 6 and later speak it. Uses no socket.
//!
//! Clients send arrays of bulk strings ([`crate::Command`] encodes them). Servers send any of the values below.
//! The specification is
//! <https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md>. Streamed strings and
//! aggregates, which no server sends, are refused.

mod parser;
mod value;

pub use parser::{Limits, Parser};
pub use value::{Malformed, ProtocolError, ServerError, Value};
