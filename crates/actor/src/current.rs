//! Which actor this thread runs at the moment, so that a tell from within a handler can mute the
//! actor instead of blocking the worker.

use std::{cell::Cell, ptr::NonNull};

use crate::cell::AnyCell;

thread_local! {
    static CURRENT: Cell<Option<NonNull<dyn AnyCell>>> = const { Cell::new(None) };
    /// Whether that actor has told anything to a full lane.
    static HAS_OUTBOX: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running an actor, until it is dropped.
pub(crate) struct Running(());

impl Running {
    #[inline]
    pub(crate) fn enter(cell: &dyn AnyCell) -> Self {
        // SAFETY: the caller runs the actor.
        let has_outbox = unsafe { (*cell.core().outbox()).is_some() };
        HAS_OUTBOX.with(|flag| flag.set(has_outbox));
        let cell: NonNull<dyn AnyCell + '_> = NonNull::from(cell);
        // SAFETY: only the lifetime differs; the pointer is used only until `drop` takes it away,
        // within the run, while the cell is alive.
        let cell = unsafe {
            std::mem::transmute::<NonNull<dyn AnyCell + '_>, NonNull<dyn AnyCell + 'static>>(cell)
        };
        CURRENT.with(|current| current.set(Some(cell)));
        Self(())
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(None));
        HAS_OUTBOX.with(|flag| flag.set(false));
    }
}

/// Calls `use_cell` with the actor that this thread runs, if it runs one.
pub(crate) fn with<R>(use_cell: impl FnOnce(&dyn AnyCell) -> R) -> Option<R> {
    let cell = CURRENT.with(Cell::get)?;
    // SAFETY: set only while the cell is being run, by this thread.
    Some(use_cell(unsafe { cell.as_ref() }))
}

/// Whether the actor that this thread runs, if any, has letters waiting for full lanes.
#[inline]
pub(crate) fn has_outbox() -> bool {
    HAS_OUTBOX.with(Cell::get)
}

pub(crate) fn set_has_outbox(has_outbox: bool) {
    HAS_OUTBOX.with(|flag| flag.set(has_outbox));
}
