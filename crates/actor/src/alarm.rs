//! The alarm of an ask with a deadline: a timer that wakes the future that asks.
//!
//! ```text
//!   poll of an actor's future
//!   ├─ the reply of one ask is there: its alarm becomes the thread's spare
//!   ├─ the next ask has to wait: it takes the spare over, without a lock
//!   └─ the poll returns: a spare that is left is cancelled
//! ```
//!
//! Most replies come long before the deadline. An actor that awaits one ask after the other would set and cancel a timer for
//! each of them.
//!
//! Invariants:
//! 1. There is a spare only while the future of an actor is polled on this thread. So no timer and no reference to an actor
//!    outlives the poll that no longer needs it.
//! 2. An ask's alarm is due at the ask's deadline, or before. If it fires before, the ask sets a new one.
//! 3. An ask takes over only an alarm of its own waker that is certainly pending ([`Timers::is_pending`]): otherwise
//!    nothing would wake it at its deadline.

use std::{cell::Cell, num::NonZero, ptr::NonNull, task::Waker};

use freeboard_sched::{TimerKey, Timers};

use crate::catch_panic;

thread_local! {
    static SPARE: Cell<Option<Spare>> = const { Cell::new(None) };
}

/// An alarm that nobody needs, of the timers of the actor that this thread runs.
pub(crate) struct Spare(Alarm);

/// Identifies a waker while a clone of it lives, without a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WakerId {
    data: usize,
    /// Never zero, so that an `Option` of an alarm is not larger.
    vtable: NonZero<usize>,
}

impl WakerId {
    fn of(waker: &Waker) -> Self {
        Self {
            data: waker.data().addr(),
            vtable: NonNull::from(waker.vtable()).addr(),
        }
    }
}

/// A timer that was set for a waker and not cancelled.
pub(crate) struct Alarm {
    key: TimerKey,
    due_ns: u64,
    waker: WakerId,
}

impl Alarm {
    /// Sets an alarm for the deadline. `None` without a thread for timers.
    pub(crate) fn set(timers: &Timers, waker: &Waker, deadline_ns: u64) -> Option<Self> {
        let key = timers.wake_at(deadline_ns, waker.clone()).ok()?;
        Some(Self {
            key,
            due_ns: deadline_ns,
            waker: WakerId::of(waker),
        })
    }

    /// Takes the spare over, if it wakes this waker at the deadline or before. `timers` are those of the actor that this
    /// thread runs.
    #[inline]
    pub(crate) fn take_over(timers: &Timers, waker: &Waker, deadline_ns: u64) -> Option<Self> {
        let Spare(alarm) = SPARE.take()?;
        if alarm.due_ns <= deadline_ns && alarm.will_wake(timers, waker) {
            return Some(alarm);
        }
        SPARE.set(Some(Spare(alarm)));
        None
    }

    /// Keeps it for the next ask of this poll. `timers` are those of the actor whose future this thread polls.
    #[inline]
    pub(crate) fn spare(self, timers: &Timers) {
        if let Some(Spare(other)) = SPARE.replace(Some(Spare(self))) {
            other.cancel(timers);
        }
    }

    pub(crate) fn cancel(self, timers: &Timers) {
        timers.cancel(self.key);
    }

    /// Whether the waker will be woken at the deadline or before: at the deadline it may have been woken already.
    pub(crate) fn serves(&self, timers: &Timers, waker: &Waker, deadline_ns: u64) -> bool {
        if self.due_ns == deadline_ns {
            self.waker == WakerId::of(waker)
        } else {
            self.will_wake(timers, waker)
        }
    }

    #[inline]
    fn will_wake(&self, timers: &Timers, waker: &Waker) -> bool {
        self.waker == WakerId::of(waker) && timers.is_pending(self.key, self.due_ns)
    }
}

impl Spare {
    /// `timers` are those of the actor whose future this thread has polled.
    #[cold]
    pub(crate) fn cancel(self, timers: &Timers) {
        catch_panic::call(|| self.0.cancel(timers));
    }
}

/// Takes the spare of this thread, if any: to cancel it, or to keep it while the thread runs other actors.
#[inline]
pub(crate) fn take_spare() -> Option<Spare> {
    SPARE.take()
}

#[cfg(feature = "testing")]
pub(crate) fn restore_spare(spare: Option<Spare>) {
    SPARE.set(spare);
}
