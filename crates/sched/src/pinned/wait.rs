//! What a thread of its own does while there is nothing to do.
//!
//! A wait strategy trades processor time for the time until the thread is at work again: from parking
//! at once (a wake costs the waker some 14 us, and the thread is there 25 us later) to looking without
//! a pause. How much of either each costs stands in the table of `Dispatcher`'s documentation.
//!
//! After the LMAX Disruptor's strategies of the same names.

use std::{fmt, hint, thread};

/// How a thread that found nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It looks again at once.
    Look,
    /// It sleeps until a message or a signal comes, which then has to wake it.
    Park,
}

/// What a pinned thread does while it has nothing to do.
pub trait WaitStrategy: fmt::Debug + Send + Sync + 'static {
    /// Called after a look that found nothing; `looks` says how many in a row did, from 1 on. It may
    /// let some time go by itself, which delays the next look by as much.
    ///
    /// # Panics
    /// It should not; should it all the same, it is reported, and the thread goes on as under
    /// [`Blocking`].
    fn idle(&self, looks: u32) -> Idle;
}

/// Looks a few times more, then parks. Takes nothing while idle.
#[derive(Clone, Copy, Debug)]
pub struct Blocking {
    /// Looks before it parks, some 20 ns each.
    pub looks: u32,
}

impl Default for Blocking {
    fn default() -> Self {
        Self { looks: 100 }
    }
}

impl WaitStrategy for Blocking {
    #[inline]
    fn idle(&self, looks: u32) -> Idle {
        if looks >= self.looks {
            return Idle::Park;
        }
        hint::spin_loop();
        Idle::Look
    }
}

/// Looks for a while, then yields the processor between looks for a while, then parks.
#[derive(Clone, Copy, Debug)]
pub struct Sleeping {
    /// Looks without a pause.
    pub spins: u32,
    /// Looks with a yield before each.
    pub yields: u32,
}

impl Default for Sleeping {
    fn default() -> Self {
        Self {
            spins: 100,
            yields: 100,
        }
    }
}

impl WaitStrategy for Sleeping {
    #[inline]
    fn idle(&self, looks: u32) -> Idle {
        if looks <= self.spins {
            hint::spin_loop();
        } else if looks - self.spins <= self.yields {
            thread::yield_now();
        } else {
            return Idle::Park;
        }
        Idle::Look
    }
}

/// Looks for a while, then yields the processor between looks, and never parks: a core is busy, and
/// lent to whoever wants it.
#[derive(Clone, Copy, Debug)]
pub struct Yielding {
    /// Looks without a yield.
    pub spins: u32,
}

impl Default for Yielding {
    fn default() -> Self {
        Self { spins: 100 }
    }
}

impl WaitStrategy for Yielding {
    #[inline]
    fn idle(&self, looks: u32) -> Idle {
        if looks <= self.spins {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
        Idle::Look
    }
}

/// Looks without a pause: the shortest delay, for a core that nobody else needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusySpin;

impl WaitStrategy for BusySpin {
    #[inline]
    fn idle(&self, _: u32) -> Idle {
        hint::spin_loop();
        Idle::Look
    }
}
