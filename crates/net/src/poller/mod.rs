//! The poller that all workers of a scheduler share, and when they poll it.
//!
//! ```text
//!   socket ── Registration ──┐                     ┌─ idle worker: waits in it
//!   socket ── Registration ──┼── Poller (epoll) ◀──┼─ busy worker: polls, by the policy
//!   socket ── Registration ──┘        │            ├─ monitor: polls when no thread has for 1 ms, by the policy
//!        ▲                            │            └─ Dedicated: a dedicated thread
//!        └────── ready: calls the owner ◀─┘
//! ```
//!
//! It knows no actors: the owner of a source registers a call, which the poller makes when the source is ready, once until
//! [`Registration::take`]. Readiness is edge-triggered: an owner reads or writes until the socket would block, or
//! remembers that it has not.
//!
//! - [`Poller`]: registers sources; is the [`Driver`](freeboard_sched::Driver) of a scheduler.
//! - [`Policy`]: when busy workers poll. [`Registration`], [`Ready`]: a source and its readiness.
//!
//! When a busy scheduler should poll is Erlang's question (`+secio`). One epoll that all workers share and an idle one waits
//! in is the design of Go's netpoller and Tokio's driver.

mod counters;
mod policy;
mod pollable;
mod shared;
pub(crate) mod source;

pub use mio;
pub use policy::{EAGER_RUNS, EAGER_TIME, Policy};
pub use pollable::{Pollable, Pollee};
pub use shared::{Poller, PollerError, Registration};
pub use source::Ready;
