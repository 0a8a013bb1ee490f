//! A value that one thread polls when it is woken, while any thread wakes it or takes it away.
//!
//! ```text
//!   idle ── begin ──> polling ── end ──> idle      cancel, or the end of the value ──> gone
//! ```
//!
//! **No wake-up is lost.** `is_notified` means that a notice is on its way, and that its handling will call
//! [`PollSlot::begin`]. [`PollSlot::notify`] sets it, and has the caller send the notice if it was not set. `begin` clears
//! it before the value is polled. Both hold the lock. So a wake-up before the clearing is seen by this poll, and a later
//! one sends a notice. At most one notice is on its way.
//!
//! **The value is dropped once, and not while it is polled.** It is in the slot, or with the thread that polls it.
//! [`PollSlot::cancel`] takes it out of the slot; if it is polled, [`PollSlot::end`] returns it to its thread. Both return it,
//! so that it is dropped without the lock.

use std::{fmt, sync::PoisonError};

use crate::sync::{Mutex, MutexGuard};

/// See the module.
pub struct PollSlot<T>(Mutex<State<T>>);

struct State<T> {
    stage: Stage<T>,
    is_notified: bool,
}

enum Stage<T> {
    Idle(T),
    Polling,
    /// It has ended or was cancelled.
    Gone,
}

impl<T> PollSlot<T> {
    /// The value is idle.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(State {
            stage: Stage::Idle(value),
            is_notified: false,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the value has ended or was cancelled.
    pub fn is_gone(&self) -> bool {
        matches!(self.lock().stage, Stage::Gone)
    }

    /// Wakes the value. If `true`, the caller sends a notice, whose handling calls [`PollSlot::begin`].
    #[must_use]
    pub fn notify(&self) -> bool {
        let mut state = self.lock();
        let must_send = !state.is_notified && !matches!(state.stage, Stage::Gone);
        state.is_notified |= must_send;
        must_send
    }

    /// The value, to be polled. `None` if it is gone.
    pub fn begin(&self) -> Option<T> {
        let mut state = self.lock();
        state.is_notified = false;
        match std::mem::replace(&mut state.stage, Stage::Polling) {
            Stage::Idle(value) => Some(value),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// The value was polled and is pending. It comes back if it was cancelled meanwhile.
    #[must_use]
    pub fn end(&self, value: T) -> Option<T> {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Polling) {
            return Some(value);
        }
        state.stage = Stage::Idle(value);
        None
    }

    /// Takes the value away; if it is being polled, [`PollSlot::end`] returns it. Also called when it has ended.
    pub fn cancel(&self) -> Option<T> {
        match std::mem::replace(&mut self.lock().stage, Stage::Gone) {
            Stage::Idle(value) => Some(value),
            Stage::Polling | Stage::Gone => None,
        }
    }
}

impl<T> fmt::Debug for PollSlot<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PollSlot")
    }
}
