//! The actor that this thread currently runs, so that a tell in a handler mutes the actor instead of
//! blocking the worker, and the deadline of the message that it handles.

use std::{cell::Cell, ptr::NonNull};

use crate::{actor::Actor, alarm, core::Core, reply::NO_DEADLINE_NS, system_inner::SystemInner};

/// The outbox of the actor that this thread runs may hold messages.
pub(crate) const OUTBOX: u8 = 1;
/// The message that this thread handles has a deadline.
pub(crate) const DEADLINE: u8 = 1 << 1;

thread_local! {
    static CURRENT: Cell<Option<NonNull<Core>>> = const { Cell::new(None) };
    /// [`OUTBOX`] and [`DEADLINE`], in one byte: a tell reads both at once.
    static FLAGS: Cell<u8> = const { Cell::new(0) };
    /// The deadline of the message that this thread handles, or [`NO_DEADLINE_NS`].
    static DEADLINE_NS: Cell<u64> = const { Cell::new(NO_DEADLINE_NS) };
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
        FLAGS.set(if has_outbox { OUTBOX } else { 0 });
        let cell = NonNull::from(core);
        CURRENT.with(|current| current.set(Some(cell)));
        Self(())
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(None));
        FLAGS.set(0);
    }
}

/// The actor that this thread runs waits, and the thread runs others meanwhile. The result makes it the running one again.
#[cfg(feature = "testing")]
pub(crate) fn leave() -> Box<dyn FnOnce()> {
    let (current, flags) = (CURRENT.take(), FLAGS.take());
    let deadline_ns = DEADLINE_NS.replace(NO_DEADLINE_NS);
    let (polls_future, spare_alarm) = (POLLS_FUTURE.take(), alarm::take_spare());
    Box::new(move || {
        CURRENT.set(current);
        FLAGS.set(flags);
        DEADLINE_NS.set(deadline_ns);
        POLLS_FUTURE.set(polls_future);
        alarm::restore_spare(spare_alarm);
    })
}

/// Calls `use_core` with the actor that this thread runs, if any.
#[inline]
pub(crate) fn with<R>(use_core: impl FnOnce(Option<&Core>) -> R) -> R {
    let core = CURRENT.with(Cell::get);
    // SAFETY: set only while the cell is being run, by this thread.
    use_core(core.map(|core| unsafe { core.as_ref() }))
}

/// The flags of this thread: [`OUTBOX`] and [`DEADLINE`].
#[inline]
pub(crate) fn flags() -> u8 {
    FLAGS.get()
}

fn set_flag(flag: u8, is_set: bool) {
    let others = FLAGS.get() & !flag;
    FLAGS.set(if is_set { others | flag } else { others });
}

/// Whether the actor that this thread runs, if any, has messages in its outbox.
#[inline]
pub(crate) fn has_outbox() -> bool {
    flags() & OUTBOX != 0
}

/// The actor that this thread runs has put a message into its outbox.
pub(crate) fn set_has_outbox() {
    set_flag(OUTBOX, true);
}

/// The outbox of `core` is empty. Either this thread runs that actor, or no thread does.
pub(crate) fn clear_has_outbox(core: &Core) {
    if with(|running| running.is_some_and(|it| it.id() == core.id())) {
        set_flag(OUTBOX, false);
    }
}

/// The deadline that asks and tells inherit now, or [`NO_DEADLINE_NS`].
#[inline]
pub(crate) fn deadline_ns() -> u64 {
    DEADLINE_NS.get()
}

/// The deadline that a tell to an `A` inherits now, or [`NO_DEADLINE_NS`].
#[inline]
pub(crate) fn inherited_deadline_ns<A: Actor>() -> u64 {
    if A::TELLS_EXPIRE {
        deadline_ns()
    } else {
        NO_DEADLINE_NS
    }
}

/// Sets the deadline that asks and tells inherit from here on.
pub(crate) fn set_deadline(deadline_ns: u64) {
    DEADLINE_NS.set(deadline_ns);
    set_flag(DEADLINE, deadline_ns != NO_DEADLINE_NS);
}

/// Sets the deadline that asks and tells inherit, until it is dropped.
#[must_use]
pub(crate) struct DeadlineScope {
    outer_ns: u64,
}

impl DeadlineScope {
    pub(crate) fn enter(deadline_ns: u64) -> Self {
        let outer_ns = DEADLINE_NS.get();
        set_deadline(deadline_ns);
        Self { outer_ns }
    }
}

impl Drop for DeadlineScope {
    fn drop(&mut self) {
        set_deadline(self.outer_ns);
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
        if let Some(spare) = alarm::take_spare() {
            with(|running| {
                let running = running.expect("its future was polled");
                spare.cancel(&running.system.timers);
            });
        }
    }
}

/// Whether the future of the actor that this thread runs is being polled.
pub(crate) fn polls_future() -> bool {
    POLLS_FUTURE.get()
}

/// Whether it is an actor of this system.
#[inline]
pub(crate) fn polls_future_of(system: &SystemInner) -> bool {
    polls_future() && with(|running| running.is_some_and(|it| std::ptr::eq(&*it.system, system)))
}
