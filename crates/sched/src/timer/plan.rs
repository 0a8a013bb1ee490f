//! The two times of a shard of timers that are read without its lock.
//!
//! ```text
//!   setter                            timer thread
//!   lock                              planned_ns > now: next shard
//!   due < planned_ns:                 lock
//!     planned_ns = due                served_ns = now
//!   insert                            take what is due
//!   unlock                            planned_ns = the next time, perhaps
//!   unpark the timer thread           unlock
//!                                     wake and call what was taken, then park until a planned_ns
//! ```
//!
//! Both are written only under the lock.
//!
//! **1. No timer is left behind.** Every timer in the wheel is due at `planned_ns` or later. A setter that lowers
//! `planned_ns` unparks the timer thread afterwards. So either the thread reads the lower time before it parks, or the park
//! returns at once, and the unpark makes the lower time visible to the next pass. A setter whose time is not before
//! `planned_ns` does not unpark: the time was planned by the timer thread, or by a setter that unparks.
//!
//! **2. A poll that reads a `served_ns` before a timer's time is not the result of that timer's wake-up.** The timer thread
//! stores `served_ns` before it wakes. If the poll were a result of the wake-up, the store would happen before the poll, and
//! the poll would read it. So the wake-up, if there is one, leads to a further poll.
//!
//! `served_ns` never goes back. `planned_ns` does, so it cannot replace `served_ns`: after a timer is set for the past, timers
//! that were called before it would seem pending.

use crate::sync::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Plan {
    /// The timer thread serves the shard then at the latest.
    planned_ns: AtomicU64,
    /// What is due by then was taken, or is being taken.
    served_ns: AtomicU64,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self {
            planned_ns: AtomicU64::new(u64::MAX),
            served_ns: AtomicU64::new(0),
        }
    }

    // Ordering: Relaxed everywhere: with the lock, its holders are ordered by it. Without, the timer thread has the
    // unpark and a poll its wake-up, as the module's documentation explains.

    /// When the timer thread serves the shard at the latest.
    #[inline]
    pub(crate) fn planned_ns(&self) -> u64 {
        self.planned_ns.load(Ordering::Relaxed)
    }

    /// Under the shard's lock. A setter that makes it earlier unparks the timer thread afterwards.
    #[inline]
    pub(crate) fn set_planned_ns(&self, planned_ns: u64) {
        self.planned_ns.store(planned_ns, Ordering::Relaxed);
    }

    /// Under the shard's lock, before what is due by then is taken.
    pub(crate) fn serve(&self, now_ns: u64) {
        self.served_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether a timer that is due at `due_ns`, and was not cancelled, is certainly pending: rule 2.
    #[inline]
    pub(crate) fn is_pending(&self, due_ns: u64) -> bool {
        due_ns > self.served_ns.load(Ordering::Relaxed)
    }
}
