//! A TCP proxy: each connection is carried on to a backend, byte by byte.

mod gauges;
mod link;
mod server;

pub use gauges::ProxySnapshot;
pub use server::{Proxy, ProxyOptions};
