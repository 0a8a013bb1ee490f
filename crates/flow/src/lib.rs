//! The decisions that keep a flood within its banks.
//!
//! Step 1 of a message's way: before an envelope enters a lane, the actor crate asks this one what
//! the lane's bound and policy make of it; and when a worker drains a mailbox, this crate says from
//! which lane the next message comes.
//!
//! ```text
//!   tell ──▶ admit(lane, depth, ..) ──▶ lane 0 ─┐
//!                  │                    lane 1 ─┼─▶ WeightedRounds::next ──▶ handler
//!                  ▼                    lane 2 ─┘
//!          wait · refuse · shed(reason)
//! ```
//!
//! Everything here is pure: no thread, no clock (time is an argument in nanoseconds), no atomics, no
//! chance (jitter is an argument, and [`random`] mixes a seed that is one) and no allocation on a
//! decision's path. The same inputs give the same decision, which is what lets a simulated run replay a
//! real one.
//!
//! ```
//! use freeboard_flow::{Admission, LaneConfig, Overload, admit};
//!
//! let lane = LaneConfig::bounded(1_000).overload(Overload::Reject);
//! lane.validate()?;
//! assert_eq!(admit(&lane, 999, 0), Admission::Accept);
//! assert_eq!(admit(&lane, 1_000, 0), Admission::Refuse);
//! # Ok::<(), freeboard_flow::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

pub mod admission;
pub mod backoff;
pub mod budget;
pub mod credit;
pub mod error;
pub mod lane;
pub mod mailbox;
pub mod overload;
pub mod random;
pub mod restart;
pub mod rounds;
pub mod shed;

pub use admission::{Admission, admit};
pub use backoff::Backoff;
pub use budget::ReservoirBound;
pub use credit::Credit;
pub use error::ConfigError;
pub use lane::{BOUND_DEFAULT, BOUND_MAX, LaneConfig};
pub use mailbox::{MAX_LANES, MailboxConfig};
pub use overload::Overload;
pub use restart::{RESTARTS_MAX, RestartHistory, RestartLimit};
pub use rounds::{WeightedRounds, batch_default};
pub use shed::ShedReason;
