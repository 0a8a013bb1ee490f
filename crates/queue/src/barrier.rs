//! Barriers: an owner's means to make a queue refuse senders although it has capacity.
//!
//! | raised    | `push`, `push_with`, `reserve` | `push_past_waiters`          |
//! |-----------|--------------------------------|------------------------------|
//! | none      | up to the bound                | up to the bound              |
//! | `Waiters` | [`Full`](crate::Refused::Full) | up to the bound              |
//! | `Pause`   | `Full`                         | `Full`                       |
//!
//! A closed queue answers `Closed`, whatever is raised. A refusal at a barrier reserves nothing, so
//! the depth and the count of accepted values stay exact.
//!
//! A barrier is a hint for newcomers. A push that happens after `raise` (in the sense of the memory
//! model: the same thread, or a lock or channel between the two) and before `lower` is refused. A
//! producer that passed the check before the barrier was raised may still push afterwards. `raise` and
//! `lower` may be called by any thread at any time; calls that may disagree need a lock of their owner.

use crate::{Lane, Refused, lane::SHUT, sync::Ordering};

/// One of the two barriers of a queue. They are independent of each other.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Barrier {
    /// Senders wait in line for capacity: a newcomer must not overtake them.
    Waiters,
    /// The owner takes no values for now: nobody is let in.
    Pause,
}

impl Barrier {
    /// The barrier's bit among [`ALL`].
    pub(crate) const fn bit(self) -> u8 {
        match self {
            Self::Waiters => 1,
            Self::Pause => 2,
        }
    }
}

/// The bits of all barriers.
pub(crate) const ALL: u8 = Barrier::Waiters.bit() | Barrier::Pause.bit();

impl<T> Lane<T> {
    /// Raises a barrier, if it is not raised.
    pub fn raise(&self, barrier: Barrier) {
        // Ordering: Relaxed, a hint. Pushes that happen after this call see it by coherence.
        self.published
            .gate
            .fetch_or(barrier.bit(), Ordering::Relaxed);
    }

    /// Lowers a barrier, if it is raised.
    pub fn lower(&self, barrier: Barrier) {
        // Ordering: Relaxed, as in `raise`.
        self.published
            .gate
            .fetch_and(!barrier.bit(), Ordering::Relaxed);
    }

    /// Whether a barrier is raised.
    pub fn is_raised(&self, barrier: Barrier) -> bool {
        // Ordering: Relaxed, as in `raise`.
        self.published.gate.load(Ordering::Relaxed) & barrier.bit() != 0
    }

    /// `None` if the gate was shut at the bound and there is capacity again.
    #[cold]
    pub(crate) fn refuse_at_gate(&self, gate: u8) -> Option<Refused<()>> {
        if gate == SHUT && self.depth() < self.published.bound {
            None
        } else if self.is_closed() {
            Some(Refused::Closed(()))
        } else {
            Some(Refused::Full(()))
        }
    }
}
