//! A task: what the scheduler runs, as a thin pointer to a header that its owner embeds.
//!
//! The actor cell begins with a [`Header`]; run queues hold pointers to headers, eight bytes each.
//! A queue owns nothing: whoever hands a task over keeps it alive until it has run (the actor floor
//! keeps every living cell in its registry, and a cell that has ended is never queued again).

use std::{cell::UnsafeCell, fmt, ptr::NonNull};

use crate::run_context::RunContext;

/// What became of a task that ran.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It waits or has ended; the scheduler must not touch it again.
    Done,
    /// Its budget is spent and it has more to do: it goes to the global queue, behind the others.
    BudgetSpent,
    /// It has to wait for another thread's next step (a message reserved but not published): it
    /// goes to the global queue and the worker gives up the rest of its time slice.
    Yield,
}

/// How to run a task.
#[derive(Debug)]
pub struct Vtable {
    /// Runs the task once, for at most one budget.
    ///
    /// # Safety
    /// Called by one worker at a time, with a task of the type the table was made for.
    pub run: unsafe fn(task: Task, context: &mut RunContext<'_>) -> After,
    /// Whether the task has a thread of its own, and is never put into a run queue.
    pub is_pinned: bool,
}

/// First field of everything that can be scheduled.
#[repr(C)]
pub struct Header {
    vtable: &'static Vtable,
    /// Next task in the injector's list; touched only under its lock.
    pub(crate) next: UnsafeCell<Option<Task>>,
}

// SAFETY: `next` is touched only by the holder of the injector's lock that has the task in its list.
unsafe impl Sync for Header {}
// SAFETY: a `Task` in `next` is only a pointer; see `Task`.
unsafe impl Send for Header {}

impl Header {
    /// A header whose task is run through `vtable`.
    pub const fn new(vtable: &'static Vtable) -> Self {
        Self {
            vtable,
            next: UnsafeCell::new(None),
        }
    }

    /// Whether the task has a thread of its own.
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

// SAFETY: a task is handed from thread to thread through the queues, and `from_header`'s contract
// makes its target usable from any of them.
unsafe impl Send for Task {}

impl Task {
    /// # Safety
    /// The header is the first field of a `Send` value which stays at its place, alive, from the
    /// moment the task is scheduled until it has run and returned [`After::Done`]; and the task is
    /// never scheduled while it is queued or running ([`crate::RunState`] sees to that).
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
    /// The caller took the task from a run queue, where it was alone.
    pub(crate) unsafe fn run(self, context: &mut RunContext<'_>) -> After {
        // SAFETY: a queued task is alive (contract of `from_header`).
        let vtable = unsafe { self.0.as_ref().vtable };
        // SAFETY: the task is the table's own, and only the caller has it.
        unsafe { (vtable.run)(self, context) }
    }
}
