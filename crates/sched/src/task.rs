//! A task: a thin pointer to a header that its owner embeds.
//!
//! The actor cell begins with a [`Header`]; run queues hold pointers to headers, eight bytes each. A queue owns nothing:
//! the caller that schedules a task keeps it alive until it has run. The actor crate keeps every live cell in its
//! registry, and never queues a terminated one.

use std::{cell::UnsafeCell, fmt, ptr::NonNull};

use crate::run_context::RunContext;

/// The result of a run.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The task rests or has terminated; the scheduler must not touch it again.
    Done,
    /// Its budget is spent and it has more work: it goes to the injector, behind the others.
    BudgetSpent,
    /// It waits for another thread's next step (a message reserved but not published): it goes to the injector, and the
    /// worker yields its processor.
    Yield,
}

/// The functions of a task type.
#[derive(Debug)]
pub struct Vtable {
    /// Runs the task once, for at most one budget.
    ///
    /// # Safety
    /// Called by one thread at a time, with a task of the table's type.
    pub run: unsafe fn(task: Task, context: &mut RunContext<'_>) -> After,
    /// Whether the task has a pinned thread, and is never put into a run queue.
    pub is_pinned: bool,
}

/// The first field of every value that can be scheduled.
#[repr(C)]
pub struct Header {
    vtable: &'static Vtable,
    /// The next task in an injector's list; touched only under its lock.
    pub(crate) next: UnsafeCell<Option<Task>>,
}

// SAFETY: only the holder of the injector's lock touches `next`, while the task is in its list.
unsafe impl Sync for Header {}
// SAFETY: a `Task` in `next` is only a pointer; see `Task`.
unsafe impl Send for Header {}

impl Header {
    /// A header of a task with this table.
    pub const fn new(vtable: &'static Vtable) -> Self {
        Self {
            vtable,
            next: UnsafeCell::new(None),
        }
    }

    /// Whether the task has a pinned thread.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.vtable.is_pinned
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Header")
    }
}

/// Pointer to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task(NonNull<Header>);

// SAFETY: queues move a task between threads, and the contract of `from_header` makes its target usable from any thread.
unsafe impl Send for Task {}

impl Task {
    /// # Safety
    /// The header is the first field of a `Send` value. The value stays alive and does not move from the moment the task
    /// is scheduled until a run has returned [`After::Done`]. The task is never scheduled while it is queued or running
    /// ([`crate::RunState`] ensures that).
    pub const unsafe fn from_header(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// The header this task points to.
    pub const fn header(self) -> NonNull<Header> {
        self.0
    }

    pub(crate) fn from_raw(raw: *mut Header) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    pub(crate) fn into_raw(self) -> *mut Header {
        self.0.as_ptr()
    }

    /// # Safety
    /// The caller took the task from a run queue, and no other queue holds it.
    pub(crate) unsafe fn run(self, context: &mut RunContext<'_>) -> After {
        // SAFETY: a queued task is alive (contract of `from_header`).
        let vtable = unsafe { self.0.as_ref().vtable };
        // SAFETY: the task has the table's type, and only the caller has it.
        unsafe { (vtable.run)(self, context) }
    }
}
