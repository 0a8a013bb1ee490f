//! Sockets as actors: TCP, HTTP/1.1 and a proxy, on the poller of a system's workers.
//!
//! ```text
//!   Listener ──accept──▶ Connection ──Event──▶ your actor         (credit: it says how many)
//!                        Connection ◀──Write── anybody            (waits while the peer does not read)
//!            ──accept──▶ HttpConnection ──▶ function or actor      (one request at a time)
//!            ──accept──▶ ProxyLink ◀──▶ backend                    (bounded both ways)
//! ```
//!
//! Each connection is an actor. A socket that is ready has it run, past its mailbox; it reads until it
//! has no room for more and writes until the peer takes no more, so a slow end slows the other, and
//! costs a bounded number of bytes.
//!
//! A system is built with its poller, `System::builder().driver(poller.driver())`; see
//! `crates/freeboard/examples/network.rs` for a server by a function, one by an actor, and an echo under
//! credit. Requests and answers are the types of [`::http`], bytes those of [`::bytes`], both re-exported
//! here.

#![forbid(unsafe_code)]

/// The types of requests and answers, of the crate `http`.
pub use ::http as types;
pub use bytes;

mod deadline;
pub mod http;
#[cfg(all(loom, test))]
mod loom_tests;
pub mod poller;
mod prometheus;
pub mod proxy;
pub mod tcp;
