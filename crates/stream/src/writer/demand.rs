//! The flag by which those who wait make the writer hurry.
//!
//! A waiter appends its record (under its shard's lock) and then raises the flag; whoever finds it
//! down locks the writer state. If somebody is at work there, that is all; if not, it rings for a writer
//! thread, or, if it would block anyway, does the work itself. Who works lowers the flag and then
//! empties the shards, and looks at the flag again when the work is done.
//!
//! ```text
//!   waiter   append ─▶ raise: was down? ─yes─▶ state: is a thread at work? ─no─▶ ring, or work
//!   worker   state: begin ─▶ lower ─▶ take all that the shards hold ─▶ write ─▶ state: end; raised?
//! ```
//!
//! No record is left behind with nobody to take it. If the waiter found the flag up, the lowering that
//! follows in the flag's order reads its raise or a later one, so it happens after the append, and
//! what is taken then includes the record. If it found it down and nobody at work, it sees to it
//! itself. If somebody was at work, its end comes after it under the lock, and finds the flag as it was
//! raised: a writer thread goes on then, a waiter that has worked rings for one.

use crate::sync::{AtomicBool, Ordering};

/// Whether somebody waits for what is still in the shards.
#[derive(Debug)]
pub(crate) struct Demand(AtomicBool);

impl Demand {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag. Whether the caller is to ring.
    #[must_use]
    pub(crate) fn raise(&self) -> bool {
        // Ordering: Release pairs with the Acquire of `lower`, which makes the append visible to
        // who empties the shards; Acquire is not needed, the bell is behind a lock.
        !self.0.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_raised(&self) -> bool {
        // Ordering: Relaxed, a hint: `lower` follows before anything is read.
        self.0.load(Ordering::Relaxed)
    }

    /// Lowers the flag, before the shards are emptied.
    pub(crate) fn lower(&self) {
        // Ordering: Acquire pairs with the Release of `raise`.
        self.0.swap(false, Ordering::AcqRel);
    }
}
