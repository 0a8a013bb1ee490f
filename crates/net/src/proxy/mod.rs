//! A TCP proxy: each connection is carried on to a backend, byte by byte.
//!
//! An end of one side is passed on as an end, behind all bytes before it. A reset of one side is passed on as a reset,
//! at once: bytes that have not been delivered by then are lost, as on a connection without a proxy.

mod gauges;
mod link;
mod server;

pub use gauges::ProxySnapshot;
pub use server::{Proxy, ProxyOptions};
