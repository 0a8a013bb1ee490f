//! The poller that all workers of a scheduler share, and when they poll it.
//!
//! ```text
//!   socket ── Registration ──┐                     ┌─ idle worker: waits in it
//!   socket ── Registration ──┼── Poller (epoll) ◀──┼─ busy worker: looks, by the policy
//!   socket ── Registration ──┘        │            ├─ monitor: looks when nobody has for 1 ms
//!        ▲                            │            └─ Dedicated: a thread of its own
//!        └────── ready: a call that has the owner run ◀──┘
//! ```
//!
//! It knows no actors: whoever registers a source says what is to be called when it is ready, which is
//! once until [`Registration::take`]. Readiness is by edges: who reads or writes goes on until the
//! socket would block, or remembers that it has not.
//!
//! - [`Poller`]: registers sources; is the [`Driver`](freeboard_sched::Driver) of a scheduler.
//! - [`Policy`]: when busy workers look. [`Registration`], [`Ready`]: a source and what it is ready for.
//!
//! The question when a busy scheduler should look at the network is Erlang's (`+secio`); one epoll
//! shared by all workers and waited in by an idle one is Go's netpoller and Tokio's driver.

mod counters;
mod dedicated;
mod policy;
mod ready;
mod registration;
mod shared;
pub(crate) mod source;
mod sync;
mod turn;

pub use mio;
pub use policy::{EAGER_RUNS, EAGER_TIME, Policy};
pub use ready::Ready;
pub use registration::Registration;
pub use shared::{Poller, PollerError};
