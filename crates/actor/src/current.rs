//! The actor that this thread currently runs, so that a tell in a handler mutes the actor instead of
//! blocking the worker.

use std::{cell::Cell, ptr::NonNull};

use crate::core::Core;

thread_local! {
    static CURRENT: Cell<Option<NonNull<Core>>> = const { Cell::new(None) };
    /// Whether that actor's outbox may hold messages.
    static HAS_OUTBOX: Cell<bool> = const { Cell::new(false) };
    /// Whether its async handler's future is being polled.
    static POLLS_FUTURE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running an actor, until it is dropped.
pub(crate) struct Running(());

impl Running {
    #[inline]
    pub(crate) fn enter(core: &Core) -> Self {
        // SAFETY: the caller runs the actor.
        let has_outbox = unsafe { (*core.outbox()).is_some() };
        HAS_OUTBOX.with(|flag| flag.set(has_outbox));
        let cell = NonNull::from(core);
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

/// Calls `use_core` with the actor that this thread runs, if any.
#[inline]
pub(crate) fn with<R>(use_core: impl FnOnce(Option<&Core>) -> R) -> R {
    let core = CURRENT.with(Cell::get);
    // SAFETY: set only while the cell is being run, by this thread.
    use_core(core.map(|core| unsafe { core.as_ref() }))
}

/// Whether the actor that this thread runs, if any, has messages in its outbox.
#[inline]
pub(crate) fn has_outbox() -> bool {
    HAS_OUTBOX.with(Cell::get)
}

/// The actor that this thread runs has put a message into its outbox.
pub(crate) fn set_has_outbox() {
    HAS_OUTBOX.with(|flag| flag.set(true));
}

/// The outbox of `core` is empty. Either this thread runs that actor, or no thread does.
pub(crate) fn clear_has_outbox(core: &Core) {
    if with(|running| running.is_some_and(|it| it.id() == core.id())) {
        HAS_OUTBOX.with(|flag| flag.set(false));
    }
}

/// Marks the thread as polling the future of the actor that it runs, until it is dropped.
pub(crate) struct Polling(());

impl Polling {
    pub(crate) fn enter() -> Self {
        POLLS_FUTURE.set(true);
        Self(())
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLS_FUTURE.set(false);
    }
}

/// Whether the future of the actor that this thread runs is being polled.
pub(crate) fn polls_future() -> bool {
    POLLS_FUTURE.get()
}
