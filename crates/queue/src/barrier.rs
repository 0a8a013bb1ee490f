//! Barriers make a queue refuse senders although it has capacity.
//!
//! | raised    | `push`, `push_with`, `reserve` | `push_past_waiters`          |
//! |-----------|--------------------------------|------------------------------|
//! | none      | up to the bound                | up to the bound              |
//! | `Waiters` | [`Full`](crate::Refused::Full) | up to the bound              |
//! | `Pause`   | `Full`                         | `Full`                       |
//!
//! A closed queue answers `Closed`, whichever barriers are raised. A refusal at a barrier reserves nothing, so the
//! depth and the count of accepted values stay exact.
//!
//! A barrier is a hint for newcomers. A push is refused if it happens after `raise` (in the sense of the memory model:
//! same thread, or ordered by a lock or a channel) and before `lower`. A producer that passed the check before the
//! barrier was raised may still push afterwards. Any thread may call `raise` and `lower` at any time; calls that may
//! disagree need a lock of their owner.

/// One of the two independent barriers of a queue.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Barrier {
    /// Senders wait in line for capacity: a newcomer must not take what is reserved for them.
    Waiters,
    /// The owner accepts no values for now.
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
