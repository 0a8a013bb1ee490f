//! Bounds on values that are on their way: any thread returns what one thread has taken, and the bound may change
//! meanwhile.
//!
//! - [`Credit`]: one thread at a time takes, and may wait for more.
//! - [`InFlightLimit`]: any thread takes, and is refused at the bound.

use crate::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence_for_loom};

/// The largest window of a [`Credit`].
const WINDOW_MAX: u64 = i64::MAX as u64;

/// Credit for the values of one sender. The credit that is available, that which was taken, and the changes under way
/// sum up to the window. A smaller window may leave a debt: credit below 0.
///
/// A sender without credit waits for half a window, so that each wake-up pays off.
///
/// **No wake-up is lost.** Whoever changes the credit reads `is_waiting` afterwards; the waiter sets `is_waiting`, then
/// reads the credit. All are SeqCst. So of the last change and the waiter at least one sees the other; the exchange of
/// `is_waiting` lets only one act. [`Credit::set_window`] stores the window before it changes the credit. So who sees the
/// last change of the credit sees the last window, and compares with that.
#[derive(Debug)]
pub struct Credit {
    window: AtomicU64,
    available: AtomicI64,
    is_waiting: AtomicBool,
}

impl Credit {
    /// All of this window is available.
    #[must_use]
    pub fn new(window: u64) -> Self {
        let window = window.min(WINDOW_MAX);
        Self {
            window: AtomicU64::new(window),
            available: AtomicI64::new(window as i64),
            is_waiting: AtomicBool::new(false),
        }
    }

    /// The most values that may be on their way.
    pub fn window(&self) -> u64 {
        // Ordering: SeqCst, see the type's text.
        self.window.load(Ordering::SeqCst)
    }

    /// Takes what is available, at most `max`. One thread at a time calls it.
    #[inline]
    pub fn take(&self, max: u64) -> u64 {
        // Ordering: SeqCst, one order with the changes.
        let available = self.available.load(Ordering::SeqCst).max(0);
        let taken = available.min(max.min(WINDOW_MAX) as i64);
        if taken > 0 {
            self.available.fetch_sub(taken, Ordering::SeqCst);
        }
        taken as u64
    }

    /// Gives one credit back. If `true`, the caller wakes the sender that waits.
    #[inline]
    #[must_use]
    pub fn give_back(&self) -> bool {
        self.change(1)
    }

    /// Changes the window. If `true`, the caller wakes the sender that waits.
    #[must_use]
    pub fn set_window(&self, window: u64) -> bool {
        let next = window.min(WINDOW_MAX);
        // Ordering: SeqCst, see the type's text.
        let previous = self.window.swap(next, Ordering::SeqCst);
        next != previous && self.change(next as i64 - previous as i64)
    }

    #[inline]
    fn change(&self, credit: i64) -> bool {
        // Ordering: SeqCst, see the type's text.
        let available = self.available.fetch_add(credit, Ordering::SeqCst) + credit;
        fence_for_loom();
        self.is_refilled(available)
            && self.is_waiting.load(Ordering::SeqCst)
            && self.is_waiting.swap(false, Ordering::SeqCst)
    }

    fn is_refilled(&self, available: i64) -> bool {
        available >= (self.window() / 2).max(1) as i64
    }

    /// Waits until half a window is available: then one call of [`Credit::give_back`] or [`Credit::set_window`] returns
    /// `true`. `false` if it is available already. The thread that takes calls it.
    #[must_use]
    pub fn wait(&self) -> bool {
        // Ordering: SeqCst, see the type's text.
        self.is_waiting.store(true, Ordering::SeqCst);
        fence_for_loom();
        let is_there = self.is_refilled(self.available.load(Ordering::SeqCst));
        !(is_there && self.is_waiting.swap(false, Ordering::SeqCst))
    }

    /// Whether the sender waits, or half of the window is taken: an estimate.
    pub fn is_used(&self) -> bool {
        // Ordering: Relaxed: an estimate.
        self.is_waiting.load(Ordering::Relaxed)
            || self.available.load(Ordering::Relaxed) <= (self.window() / 2) as i64
    }
}

/// A count of values on their way, and its limit. Nothing waits for the count, so all accesses are Relaxed.
///
/// **The count is exact.** It rises only if it is below the limit that was read before, so a value that is refused
/// changes nothing: it takes no capacity from others, not even for a moment. It exceeds the limit only after the limit has
/// become smaller.
#[derive(Debug)]
pub struct InFlightLimit {
    limit: AtomicU64,
    in_flight: AtomicU64,
}

impl InFlightLimit {
    /// Nothing is on its way.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            in_flight: AtomicU64::new(0),
        }
    }

    /// The most values that may be on their way.
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, see the type's text.
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Values that are on their way stay counted.
    pub fn set(&self, limit: u64) {
        // Ordering: Relaxed, see the type's text.
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Values on their way.
    pub fn in_flight(&self) -> u64 {
        // Ordering: Relaxed, see the type's text.
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one more value, unless there are as many as this part of the limit. The caller calls
    /// [`InFlightLimit::leave`] for it, once.
    #[inline]
    #[must_use]
    pub fn try_enter(&self, part: impl FnOnce(u64) -> u64) -> bool {
        let max = part(self.get());
        let enter = |in_flight| (in_flight < max).then_some(in_flight + 1);
        // Ordering: Relaxed, see the type's text.
        let (relaxed, count) = (Ordering::Relaxed, &self.in_flight);
        count.fetch_update(relaxed, relaxed, enter).is_ok()
    }

    /// A value has arrived, or was given up.
    #[inline]
    pub fn leave(&self) {
        // Ordering: Relaxed, see the type's text.
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
