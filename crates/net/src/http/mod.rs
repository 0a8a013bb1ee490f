//! HTTP/1.1 after RFC 9110 and RFC 9112.
//!
//! - [`HttpServer`]: listens and answers with an [`HttpHandler`], which is a function or an actor. A [`BodySink`]
//!   takes a body in pieces, under back-pressure.
//! - [`Limits`]: bounds of one connection. [`Refusal`]: requests that do not reach the handler.
//! - [`RequestReader`]: parses requests from bytes, without a socket.
//!
//! The reader refuses requests that another parser may read differently (request smuggling): two lengths, a
//! length beside chunks, a `Host` or an authority other than one name or address with a numeric port, and more
//! than 16 empty lines before a request. A response to HEAD has no body, nor has a refusal of HEAD.

mod chunked;
mod connection;
mod handler;
mod head;
mod limits;
mod request_reader;
mod response;
mod server;

pub use handler::{BeginBody, Begun, Body, BodyFlow, BodySink, Call, HttpHandler, Reply, Resume};
pub use limits::{Limits, Refusal};
pub use request_reader::{Framing, Incoming, RequestReader, Step};
pub use server::{HttpServer, HttpSnapshot};
