//! What the poller knows of a source of events.
//!
//! ```text
//!   look    bits |= ready ─▶ raise: was down? ─yes─▶ call the owner
//!   owner   lower ─▶ take the bits
//! ```
//!
//! No readiness is left behind with nobody called: if the look found the flag up, a call is under way
//! whose owner has not lowered it yet; the bits were set before, so that owner takes them. If it found it
//! down, it calls.

use mio::Token;

use super::{
    ready::Ready,
    sync::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Bits of a token that are the key; the others are the generation.
const KEY_BITS: u32 = usize::BITS / 2;

/// What the poller knows of a source.
pub(crate) struct Source {
    generation: u32,
    ready: AtomicU8,
    /// Whether `call` was called, and nobody has taken what was found since.
    is_pending: AtomicBool,
    /// When it was called.
    found_ns: AtomicU64,
    call: Box<dyn Fn() + Send + Sync>,
}

impl Source {
    pub(crate) fn new(generation: u32, call: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            generation,
            ready: AtomicU8::new(0),
            is_pending: AtomicBool::new(false),
            found_ns: AtomicU64::new(0),
            call,
        }
    }

    /// What the kernel knows it by: its key, and which of those that had this key it is, so that an
    /// event of one that is gone is not taken for one of the next.
    pub(crate) fn token(&self, key: usize) -> Token {
        Token((self.generation as usize) << KEY_BITS | key)
    }

    /// The key in a token.
    pub(crate) fn key(token: Token) -> usize {
        token.0 & ((1 << KEY_BITS) - 1)
    }

    /// Whether the token is its own.
    pub(crate) fn is_of(&self, token: Token) -> bool {
        token.0 >> KEY_BITS == self.generation as usize & (usize::MAX >> KEY_BITS)
    }

    /// A look has found `ready` at `now_ns`. Whether the owner was called for it.
    pub(crate) fn found(&self, ready: Ready, now_ns: u64) -> bool {
        // Ordering: Release pairs with the Acquire of `take`. Before the flag: whoever lowers the
        // flag after this finds these bits, and whoever has lowered it before is called again.
        self.ready.fetch_or(ready.bits(), Ordering::Release);
        // Before the flag, for an owner that runs for another reason may lower it at once.
        // Ordering: Relaxed, a hint and a time for a histogram.
        if !self.is_pending.load(Ordering::Relaxed) {
            self.found_ns.store(now_ns, Ordering::Relaxed);
        }
        // Ordering: AcqRel, one order of raising and lowering the flag.
        !self.is_pending.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn call(&self) {
        (self.call)();
    }

    /// Since when the owner was to be run, if it was; it need not any more.
    pub(crate) fn settle(&self) -> Option<u64> {
        // Ordering: AcqRel, as in `found`.
        let was_pending = self.is_pending.swap(false, Ordering::AcqRel);
        // Ordering: Relaxed, as in `found`.
        was_pending.then(|| self.found_ns.load(Ordering::Relaxed))
    }

    /// What was found since the last time; after [`Source::settle`].
    pub(crate) fn take(&self) -> Ready {
        // Ordering: Acquire, as in `found`.
        Ready::from_bits(self.ready.swap(0, Ordering::Acquire))
    }
}
