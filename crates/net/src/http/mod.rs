//! HTTP/1.1, as RFC 9110 and RFC 9112 say.
//!
//! - [`HttpServer`]: listens, and answers by a [`Handler`], which is a function or an actor.
//! - [`Limits`]: what one connection may cost. [`Refusal`]: what is not answered by the handler.
//! - [`RequestReader`]: requests out of bytes, without a socket.
//!
//! What others might read differently is refused: two lengths, a length beside chunks, a `Host` or an authority that is
//! not one name or address with a port of digits, more than 16 empty lines before a request. An answer to HEAD has no
//! body, a refusal neither.

mod answer;
mod body;
mod chunked;
mod connection;
mod gauges;
mod handler;
mod head;
mod limits;
mod refusal;
mod request_reader;
mod server;

pub use body::Body;
pub use connection::{Answer, HttpConnection};
pub use gauges::HttpSnapshot;
pub use handler::{Call, Handler, Reply};
pub use limits::Limits;
pub use refusal::Refusal;
pub use request_reader::{Incoming, Manner, RequestReader, Step};
pub use server::HttpServer;
