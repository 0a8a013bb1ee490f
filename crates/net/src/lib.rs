//! Sockets as actors: TCP, HTTP/1.1 and a proxy, on the poller of a system's workers.
//!
//! ```text
//!   Listener ──accept──▶ Connection ──Event──▶ your actor         (credit: it says how many)
//!            ──accept──▶ HttpConnection ──▶ function or actor      (one request at a time)
//!            ──accept──▶ ProxyLink ◀──▶ backend                    (bounded both ways)
//! ```
//!
//! Each connection is an actor. A socket that is ready has it run, past its mailbox; it reads until it
//! has no room for more and writes until the peer takes no more, so a slow end slows the other, and
//! costs a bounded number of bytes.

#![forbid(unsafe_code)]

mod deadline;
pub mod http;
pub mod proxy;
pub mod tcp;
