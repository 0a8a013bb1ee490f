//! The bound of one source, and the wake-up when it has room again.
//!
//! The source adds what it has accepted; any thread removes what was taken or shed. At the bound the source pauses:
//!
//! ```text
//!   source (one thread at a time)         remover (any thread)
//!   1  is_waiting = true                  1  lines -= n, bytes -= m
//!   2  reads lines and bytes; if low,     2  reads is_waiting, then lines and bytes
//!      takes is_waiting back, goes on     3  if waiting and low, takes is_waiting, wakes
//! ```
//!
//! No wake-up is lost. All operations are SeqCst, so they have one order. Let S be the last subtraction that a paused
//! source waits for. If S is before the source's step 2, the source reads low values and does not pause. Otherwise S is
//! after its step 1, and the remover of S reads, after S, that the source waits and that both values are low: it wakes the
//! source, unless another remover has. `is_waiting` is taken by an exchange, so one of them acts. The remover reads both
//! values after its subtractions: two removers that used the results of their own subtractions could each see one high.

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
    /// Some milliseconds of a fast sink, so that one source delays the others by no more.
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
        // Ordering: SeqCst, as everywhere here; see the module's text.
        self.lines.load(Ordering::SeqCst)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Whether the source is below its bound. The batch that reaches the bound is the last one.
    pub(crate) fn is_below(&self) -> bool {
        self.lines() < self.bound.lines && self.bytes() < self.bound.bytes
    }

    /// At most half of the bound: a wake-up lets the source send that much, so wake-ups are few.
    pub(crate) fn is_low(&self) -> bool {
        self.lines() <= self.bound.lines / 2 && self.bytes() <= self.bound.bytes / 2
    }

    pub(crate) fn add(&self, lines: u64, bytes: u64) {
        self.lines.fetch_add(lines, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, lines: u64, bytes: u64) {
        self.lines.fetch_sub(lines, Ordering::SeqCst);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if self.is_waiting.load(Ordering::SeqCst)
            && self.is_low()
            && self.is_waiting.swap(false, Ordering::SeqCst)
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
        self.is_waiting.store(true, Ordering::SeqCst);
        !(self.is_low() && self.is_waiting.swap(false, Ordering::SeqCst))
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
