//! The decisions of overload control, as pure functions.
//!
//! Before an envelope enters a lane, the actor crate asks [`admit`] what the lane's bound and policy allow. When a worker
//! drains a mailbox, [`WeightedRounds`] chooses the lane of the next message, and an [`AgeLaw`], if the lane has one,
//! sheds it if it waited too long.
//!
//! ```text
//!   tell ──▶ admit(lane, depth, ..) ──▶ lane 0 ─┐
//!                  │                    lane 1 ─┼─▶ WeightedRounds::next ──▶ handler
//!                  ▼                    lane 2 ─┘            │
//!          wait · refuse · shed(reason)                      ▼ AgeLaw::judge(waited, now): shed(reason)
//! ```
//!
//! The crate has no threads, no clock (time is an argument in nanoseconds), no atomics, no randomness (jitter and the
//! seed of [`random`] are arguments) and no allocation on the path of a decision. The same inputs give the same decision,
//! so that a simulated run can replay a real one.
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

mod adaptive;
mod admission;
mod age;
mod backoff;
mod dam;
mod epoch;
mod error;
mod lane;
mod mailbox;
pub mod random;
mod restart;
mod rounds;

pub use adaptive::{AdaptiveLimit, GradientLimit, LIMIT_MAX};
pub use admission::{Admission, ShedReason, admit};
pub use age::{AgeLaw, CoDel};
pub use backoff::Backoff;
pub use dam::{Credit, ReservoirBound};
pub use epoch::Epoch;
pub use error::{BOUND_MAX, ConfigError, MAX_LANES, RESTARTS_MAX};
pub use lane::{BOUND_DEFAULT, LaneConfig, Overload};
pub use mailbox::MailboxConfig;
pub use restart::{RestartHistory, RestartLimit};
pub use rounds::{WeightedRounds, batch_default};
