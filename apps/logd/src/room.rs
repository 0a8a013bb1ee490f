//! The bound of one source, and the wake-up when it has room again.
//!
//! The source adds what it has accepted; any thread removes what was taken or shed. At the bound the source pauses:
//!
//! ```text
//!   source (one thread at a time)           remover (any thread)
//!   1  is_waiting = true                    1  lines -= n
//!   2  bytes += 0, reads lines; if low,     2  bytes -= m, reads is_waiting and lines
//!      takes is_waiting back, goes on       3  if waiting and low, takes is_waiting, wakes
//! ```
//!
//! No wake-up is lost. Each step 2 begins with a read-modify-write of `bytes` (AcqRel), so these steps have one order, and
//! each sees all that came before it. Let L be the remover whose step 2 is the last. If the source's step 2 is after it, the
//! source sees that both values are low, and does not pause. Otherwise L sees that the source waits and that both values are
//! low: it wakes the source, unless another remover has. `is_waiting` is taken by an exchange, so one of them acts.
//!
//! A remover that was delayed between its steps 2 and 3 may take the `is_waiting` of a later pause. That wake-up is early, and
//! not lost: the source reads once more, and pauses again.

use std::{fmt, sync::OnceLock};

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// What one source may have in memory: accepted, and not yet taken by the sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceBound {
    /// In lines.
    pub lines: u64,
    /// In bytes.
    pub bytes: u64,
}

impl SourceBound {
    /// No bound.
    pub(crate) const NONE: Self = Self {
        lines: u64::MAX,
        bytes: u64::MAX,
    };
}

impl Default for SourceBound {
    /// A burst of 1 MiB is taken also by a group that drops lines. A fast sink takes so much in some milliseconds.
    fn default() -> Self {
        Self {
            lines: 8_192,
            bytes: 1 << 20,
        }
    }
}

/// The held lines and bytes of a source, and its waker.
pub(crate) struct Room {
    bound: SourceBound,
    lines: AtomicU64,
    bytes: AtomicU64,
    is_waiting: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Room {
    pub(crate) fn new(bound: SourceBound) -> Self {
        Self {
            bound,
            lines: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_waiting: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// Sets the function that is called when a source that paused has room again. Once; later calls do nothing.
    pub(crate) fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(wake));
    }

    pub(crate) fn lines(&self) -> u64 {
        // Ordering: Acquire, with `remove`: who finds no line here finds all of them counted as taken or shed.
        self.lines.load(Ordering::Acquire)
    }

    /// Whether the source is below its bound. The batch that reaches the bound is the last one.
    pub(crate) fn is_below(&self) -> bool {
        // Ordering: Relaxed: only the source adds; a stale value is too high, and `pauses` reads the last one.
        self.lines() < self.bound.lines && self.bytes.load(Ordering::Relaxed) < self.bound.bytes
    }

    /// Whether it holds at most half of its bound: a wake-up lets the source send that much, so wake-ups are few.
    pub(crate) fn is_low(&self) -> bool {
        // Ordering: Relaxed: an estimate.
        self.is_low_with(self.bytes.load(Ordering::Relaxed))
    }

    fn is_low_with(&self, bytes: u64) -> bool {
        bytes <= self.bound.bytes / 2 && self.lines() <= self.bound.lines / 2
    }

    pub(crate) fn add(&self, lines: u64, bytes: u64) {
        // Ordering: Relaxed: only removals wake.
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, lines: u64, bytes: u64) {
        // Ordering: Release, with `lines`.
        self.lines.fetch_sub(lines, Ordering::Release);
        // Ordering: AcqRel: step 2 of the module's text. The other operations are ordered by it.
        let left = self.bytes.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        if self.is_waiting.load(Ordering::Relaxed)
            && self.is_low_with(left)
            && self.is_waiting.swap(false, Ordering::Relaxed)
            && let Some(wake) = self.waker.get()
        {
            wake();
        }
    }

    /// Whether the source pauses: the waker will be called. Only the source calls it.
    pub(crate) fn pauses(&self) -> bool {
        if self.is_below() {
            return false;
        }
        self.is_waiting.store(true, Ordering::Relaxed);
        // Ordering: AcqRel: step 2 of the module's text; it publishes the store, and sees what removers did before.
        let bytes = self.bytes.fetch_add(0, Ordering::AcqRel);
        !(self.is_low_with(bytes) && self.is_waiting.swap(false, Ordering::Relaxed))
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Room")
            .field("bound", &self.bound)
            .field("lines", &self.lines)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
