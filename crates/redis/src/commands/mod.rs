//! Typed commands, by family. Each returns a [`Request`](crate::Request); what is not here goes by
//! [`Redis::cmd`](crate::Redis::cmd).

mod hashes;
mod keys;
mod lists;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

pub use keys::{Page, Ttl};
pub use lists::End;
pub use sorted_sets::ScoreIf;
pub use streams::{PendingSummary, StreamEntry};
pub use strings::{Expiry, SetIf, SetOptions};
