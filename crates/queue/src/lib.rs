//! The queues in which messages wait.
//!
//! - [`Lane`]: linked blocks under a hard bound; many producers, one consumer. The default.
//! - [`Ring`]: the same contract over a fixed array, for actors with a thread of their own.
//! - [`spsc`]: a ring for one producer, with values of their own size.
//! - [`LockedLane`]: a mutex and a deque, for drop-oldest and coalesce, which let a producer remove queued values, and for
//!   lanes that hand out the newest value. A queue with a single consumer can offer neither.
//! - [`Barrier`]: makes a queue refuse senders although it has capacity.
//! - [`Credit`] and [`InFlightLimit`]: bounds on values that are on their way.
//! - [`any_queue`]: senders that wait for the capacity of any of several queues.
//! - [`PollSlot`]: a value that one thread polls when any thread has woken it.
//! - [`oneshot`]: the channel of one reply. [`memory`]: the pool behind blocks, cells and channels.
//!
//! The crate knows no actors, threads or time. A producer passes a value and a *mark*: one word that travels with the
//! value to the consumer. The actor crate stores the enqueue time of sampled messages there.
//!
//! Sources: Tokio's `mpsc` block list (positions by fetch-add, blocks released against an observed tail position),
//! Vyukov's node-based MPSC queue (publication apart from reservation).

pub mod any_queue;
mod barrier;
mod block;
mod consumer;
mod credit;
mod edge;
mod lane;
mod locked;
#[cfg(all(loom, test))]
mod loom_tests;
pub mod memory;
pub mod oneshot;
mod permit;
mod poll_slot;
mod ring;
mod slot;
pub mod spsc;
mod sync;

use std::{fmt, ptr::NonNull};

pub use barrier::Barrier;
pub use credit::{Credit, InFlightLimit};
pub use edge::Edge;
pub use lane::Lane;
pub use locked::LockedLane;
pub use permit::Permit;
pub use poll_slot::PollSlot;
pub use ring::Ring;
pub use slot::{Sizes, Whole};

/// The mark of a value that carries no further word.
pub const PLAIN_MARK: u64 = 1;

/// The content of the head, as the consumer found it.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// A value and the mark it was pushed with.
    Value(T, u64),
    /// The queue is empty.
    Empty,
    /// A producer has reserved the slot and not yet published its value: yield and try again.
    Pending,
}

/// Why a value was not accepted; the value comes back.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum Refused<T> {
    /// The queue holds as many values as its bound allows, or a [`Barrier`] is raised.
    Full(T),
    /// The queue was closed.
    Closed(T),
}

impl<T> Popped<NonNull<T>> {
    /// Moves the value out of its slot.
    ///
    /// # Safety
    /// The value was popped in place just now, from a queue without short values, and is moved out once.
    #[inline(always)]
    pub unsafe fn read(self) -> Popped<T> {
        match self {
            // SAFETY: the caller's promise.
            Self::Value(value, mark) => Popped::Value(unsafe { value.read() }, mark),
            Self::Empty => Popped::Empty,
            Self::Pending => Popped::Pending,
        }
    }
}

impl<T> Refused<T> {
    /// The refused value.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl Refused<()> {
    /// The same refusal, with the value.
    fn with<T>(self, value: T) -> Refused<T> {
        match self {
            Self::Full(()) => Refused::Full(value),
            Self::Closed(()) => Refused::Closed(value),
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}
