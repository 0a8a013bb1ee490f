//! A source of events: its readiness, and the call that runs its owner.
//!
//! ```text
//!   poll    bits |= ready ─▶ raise the flag: was it down? ─yes─▶ call the owner
//!   owner   lower the flag ─▶ take the bits
//! ```
//!
//! No readiness is left behind. If the poll finds the flag up, the owner was called and has not lowered the flag yet; the
//! bits were set before, so the owner takes them. If the poll finds it down, it calls the owner.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use mio::{Token, event::Event};

/// Bits of a token that are the key; the others are the generation.
const KEY_BITS: u32 = usize::BITS / 2;

/// A registered source.
pub(crate) struct Source {
    generation: u32,
    ready: AtomicU8,
    /// Whether the owner was called and has not taken the readiness yet.
    is_pending: AtomicBool,
    /// When it was called.
    called_ns: AtomicU64,
    call: Box<dyn Fn() + Send + Sync>,
}

impl Source {
    pub(crate) fn new(generation: u32, call: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            generation,
            ready: AtomicU8::new(0),
            is_pending: AtomicBool::new(false),
            called_ns: AtomicU64::new(0),
            call,
        }
    }

    /// Its token for the kernel. Tokens carry a generation, so that stale events of a previous source with the same key are
    /// ignored.
    pub(crate) fn token(&self, key: usize) -> Token {
        Token((self.generation as usize) << KEY_BITS | key)
    }

    /// The key in a token.
    pub(crate) fn key(token: Token) -> usize {
        token.0 & ((1 << KEY_BITS) - 1)
    }

    /// Whether the token is this source's.
    pub(crate) fn has_token(&self, token: Token) -> bool {
        token.0 >> KEY_BITS == self.generation as usize & (usize::MAX >> KEY_BITS)
    }

    /// A poll found `ready` at `now_ns`. Returns whether the owner must be called.
    pub(crate) fn set_ready(&self, ready: Ready, now_ns: u64) -> bool {
        // Ordering: Release pairs with the Acquire of `take`. The bits are set before the flag: an owner that lowers the flag
        // afterwards finds them, and an owner that has lowered it before is called again.
        self.ready.fetch_or(ready.bits(), Ordering::Release);
        // Before the flag, because an owner that runs for another reason may lower it at once.
        // Ordering: Relaxed, a hint and a time for a histogram.
        if !self.is_pending.load(Ordering::Relaxed) {
            self.called_ns.store(now_ns, Ordering::Relaxed);
        }
        // Ordering: AcqRel, in one order with the lowering of the flag.
        !self.is_pending.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn call(&self) {
        (self.call)();
    }

    /// Lowers the flag. Returns when the owner was called, if it was.
    pub(crate) fn settle(&self) -> Option<u64> {
        // Ordering: AcqRel, as in `set_ready`.
        let was_pending = self.is_pending.swap(false, Ordering::AcqRel);
        // Ordering: Relaxed, as in `set_ready`.
        was_pending.then(|| self.called_ns.load(Ordering::Relaxed))
    }

    /// The readiness since the last call; to be called after [`Source::settle`].
    pub(crate) fn take(&self) -> Ready {
        // Ordering: Acquire, as in `set_ready`.
        Ready::from_bits(self.ready.swap(0, Ordering::Acquire))
    }
}

/// The readiness of a source. It is a hint: the next call may still return that it would block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    pub(crate) const READ: u8 = 1;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const READ_CLOSED: u8 = 4;
    pub(crate) const ERROR: u8 = 8;

    pub(crate) fn of(event: &Event) -> Self {
        let mut bits = 0;
        let mut set = |is_set, bit| {
            if is_set {
                bits |= bit;
            }
        };
        set(event.is_readable(), Self::READ);
        set(event.is_writable(), Self::WRITE);
        set(event.is_read_closed(), Self::READ | Self::READ_CLOSED);
        set(
            event.is_error() || event.is_write_closed(),
            Self::READ | Self::WRITE | Self::ERROR,
        );
        Self(bits)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// There may be data to read, or the end of the stream.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0 & Self::READ != 0
    }

    /// There may be space to write.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.0 & Self::WRITE != 0
    }

    /// The peer has closed its writing side.
    #[must_use]
    pub fn is_read_closed(self) -> bool {
        self.0 & Self::READ_CLOSED != 0
    }

    /// The connection is broken; the next read or write returns the error.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & Self::ERROR != 0
    }
}
