//! Sockets as actors: TCP, Unix sockets, datagrams, HTTP/1.1 and a proxy, on the poller of a system's workers.
//!
//! ```text
//!   Listener ──accept──▶ Connection ──Event──▶ your actor         (under read credit)
//!                        Connection ◀──Write── any actor          (waits while the peer does not read)
//!            ──accept──▶ HttpConnection ──▶ function or actor     (one request at a time)
//!            ──accept──▶ ProxyLink ◀──▶ backend                   (bounded in both directions)
//!   DatagramSocket ──────Received──▶ your actor                    (many datagrams in a message, under credit)
//! ```
//!
//! Each connection is an actor. A ready socket schedules its actor directly, past the mailbox. The actor reads
//! until its buffers are full and writes until the kernel takes no more. So a slow peer slows the other side
//! down, and each connection holds a bounded number of bytes.
//!
//! A system is built with its poller: `System::builder().driver(poller.driver())`. The examples `http_server` and
//! `tcp_echo` of the crate `freeboard` are complete servers. Requests and responses are the types of [`::http`], bytes
//! those of [`::bytes`]; both are re-exported here.

#![forbid(unsafe_code)]

/// The crate `http`, whose types requests and responses are.
pub use ::http as types;
pub use alarm::Alarm;
pub use bytes;

mod alarm;
#[cfg(unix)]
pub mod datagram;
pub mod http;
#[cfg(all(loom, test))]
mod loom_tests;
pub mod poller;
pub mod proxy;
#[cfg(feature = "simulated")]
pub mod simulated;
pub mod tcp;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{UnixBindError, UnixOptions};
