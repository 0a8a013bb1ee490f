//! The fetch suite: a service that takes notifications from a broker, looks up two keys and a device for each,
//! publishes a reply with confirm, and acknowledges after it.
//!
//! ```text
//!   fetch_embedded   20,000/s on a schedule ──► broker in memory ──► service ──► broker ──► account
//!                                                 Redis and a directory in this process
//!   fetch_real       all published beforehand ──► RabbitMQ ──► service ──► RabbitMQ
//!                                                 Redis and MariaDB, processes of their own
//!   fetch_overload   `freeboard lab fetch --step end`: a process of its own sends 1.5 times what ours can do
//! ```
//!
//! The keys lie in Redis, which is warm; what it does not have comes from a store that takes 100 ms. All
//! services have the same stores, prefetches and numbers of connections. In `fetch_real` all of it shares the
//! two cores, most of which RabbitMQ takes: the bare loop, which consumes, publishes and acknowledges and looks
//! nothing up, is what that leaves.

mod embedded;
mod link;
mod overload;
mod real;
mod times;
mod warm;

use std::num::NonZeroU16;
use std::time::Duration;

use freeboard_fetcher::broker::Queue;

pub use embedded::EmbeddedBed;
pub use link::Link;
pub use overload::overload;
pub use real::{RealBed, Stores};
pub use times::Times;
pub use warm::{Entries, PREFIX};

/// Where it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Embedded,
    Real,
    Overload,
}

/// Of every service, as many as the machine of the goals has cores.
pub const WORKERS_COUNT: usize = 2;
/// Of every service, to Redis.
pub const REDIS_CONNECTIONS: usize = 4;
/// Of every service: notifications under way at once, of each priority.
pub const PREFETCHES: [(Queue, NonZeroU16); 2] = [
    (Queue::Priority0, NonZeroU16::new(1_024).unwrap()),
    (Queue::Priority1, NonZeroU16::new(512).unwrap()),
];
/// What the slow store takes for a key.
pub const STORE_TIME: Duration = Duration::from_millis(100);
/// Of each notification one, by chance.
const USERS_COUNT: u64 = 200_000;
