//! A seat: what other threads see of a worker. Its queue, its next slot, its counters.

use freeboard_meter::OwnedCounter;

use crate::{
    local::LocalQueue,
    sync::{AtomicBool, AtomicPtr, Ordering},
    task::{Header, Task},
};

// A seat of its own cache lines, so that neighbours' counters do not share one.
#[repr(align(128))]
pub(crate) struct Seat {
    pub(crate) queue: LocalQueue,
    pub(crate) next_slot: NextSlot,
    /// Set by the monitor while the worker has been in one run for a tick.
    pub(crate) is_stuck: AtomicBool,
    pub(crate) runs: OwnedCounter,
    pub(crate) steals: OwnedCounter,
    pub(crate) wakes: OwnedCounter,
    pub(crate) parks: OwnedCounter,
    pub(crate) budget_expiries: OwnedCounter,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            queue: LocalQueue::new(),
            next_slot: NextSlot::new(),
            is_stuck: AtomicBool::new(false),
            runs: OwnedCounter::new(),
            steals: OwnedCounter::new(),
            wakes: OwnedCounter::new(),
            parks: OwnedCounter::new(),
            budget_expiries: OwnedCounter::new(),
        }
    }
}

/// One task, put by the owner, taken by anybody.
pub(crate) struct NextSlot(AtomicPtr<Header>);

impl NextSlot {
    fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Relaxed, a hint; `take` acquires.
        self.0.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    pub(crate) fn replace(&self, task: Task) -> Option<Task> {
        // Ordering: AcqRel, the taker sees what the waker of the task wrote.
        Task::from_raw(self.0.swap(task.into_raw(), Ordering::AcqRel))
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        // Ordering: AcqRel, as in `replace`.
        Task::from_raw(self.0.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }
}
