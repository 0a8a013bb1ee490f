//! Wait strategies: what a pinned thread does while it has nothing to do.
//!
//! A strategy trades processor time for latency, from parking at once (the wake costs the waker some 14 us, and the
//! thread runs 25 us later) to polling without a pause. The documentation of `Dispatcher` has a table of both costs.
//!
//! After the LMAX Disruptor's strategies of the same names.

use std::{fmt, hint, thread};

/// How a thread continues after a poll that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It polls again at once.
    Poll,
    /// It sleeps until a message or a signal wakes it.
    Park,
}

/// How a pinned thread waits while it has nothing to do.
pub trait WaitStrategy: fmt::Debug + Send + Sync + 'static {
    /// Called after a poll that found nothing; `polls` is the number of such polls in a row, from 1. It may pause, which
    /// delays the next poll.
    ///
    /// # Panics
    /// It should not panic. A panic is reported, and the thread continues as under [`Blocking`].
    fn idle(&self, polls: u32) -> Idle;
}

/// Polls a few times, then parks. Uses no processor time while idle.
#[derive(Clone, Copy, Debug)]
pub struct Blocking {
    /// Polls before it parks, some 20 ns each.
    pub polls: u32,
}

impl Default for Blocking {
    fn default() -> Self {
        Self { polls: 100 }
    }
}

impl WaitStrategy for Blocking {
    #[inline]
    fn idle(&self, polls: u32) -> Idle {
        if polls >= self.polls {
            return Idle::Park;
        }
        hint::spin_loop();
        Idle::Poll
    }
}

/// Polls for a while, then yields the processor between polls for a while, then parks.
#[derive(Clone, Copy, Debug)]
pub struct Sleeping {
    /// Polls without a pause.
    pub spins: u32,
    /// Polls with a yield before each.
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
    fn idle(&self, polls: u32) -> Idle {
        if polls > self.spins && polls - self.spins > self.yields {
            return Idle::Park;
        }
        spin_then_yield(polls, self.spins)
    }
}

/// Polls for a while, then yields the processor between polls; never parks. It keeps a core busy, and lends it to any
/// thread that wants it.
#[derive(Clone, Copy, Debug)]
pub struct Yielding {
    /// Polls without a yield.
    pub spins: u32,
}

impl Default for Yielding {
    fn default() -> Self {
        Self { spins: 100 }
    }
}

impl WaitStrategy for Yielding {
    #[inline]
    fn idle(&self, polls: u32) -> Idle {
        spin_then_yield(polls, self.spins)
    }
}

#[inline]
fn spin_then_yield(polls: u32, spins: u32) -> Idle {
    if polls <= spins {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
    Idle::Poll
}

/// Polls without a pause: the shortest delay, for a core that nothing else needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusySpin;

impl WaitStrategy for BusySpin {
    #[inline]
    fn idle(&self, _: u32) -> Idle {
        hint::spin_loop();
        Idle::Poll
    }
}
