//! Ground floor: the queues that messages wait in.
//!
//! A message enters a [`Lane`] (many producers, one consumer, linked blocks, a hard bound) and
//! leaves it when a worker runs its receiver. Policies that take a message out of the middle or
//! the old end of the queue (drop oldest, coalesce) use a [`LockedLane`]: they need the producer to
//! remove, which a single-consumer queue cannot give. An actor on a thread of its own may have a
//! [`Ring`] in a lane's place: the same contract over a fixed array.
//!
//! An owner can make a queue refuse senders although it has capacity, by a [`Barrier`].
//!
//! The queue knows nothing of actors, threads or time. A producer hands over a value and a *mark*,
//! one word that travels with the value and comes back at the consumer; the actor floor puts the
//! enqueue time of sampled messages there.
//!
//! Sources: Tokio's `mpsc` block list (positions by fetch-add, blocks released against an observed
//! tail position), Vyukov's node-based MPSC queue (publication apart from reservation).

mod barrier;
mod block;
mod consumer;
mod lane;
mod locked;
#[cfg(all(loom, test))]
mod loom_tests;
pub mod memory;
pub mod oneshot;
mod place;
mod prefetch;
mod refused;
mod ring;
mod ring_consumer;
mod ring_place;
mod sync;

pub use barrier::Barrier;
pub use consumer::Popped;
pub use lane::Lane;
pub use locked::LockedLane;
pub use place::Place;
pub use refused::Refused;
pub use ring::Ring;
pub use ring_place::RingPlace;

/// The mark of a value that carries no further word.
pub const PLAIN_MARK: u64 = 1;
