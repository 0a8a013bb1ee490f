//! The flag by which waiting callers make the writer hurry.
//!
//! A waiter appends its record (under its shard's lock) and then raises the flag. If it was down, the waiter locks the
//! writer state. If a thread seals there, that is all. If none does, the waiter rings for a writer thread, or, if it
//! would block anyway, does the work itself. The worker lowers the flag, then empties the shards, and reads the flag
//! again when the work is done.
//!
//! ```text
//!   waiter   append ─▶ raise: was down? ─yes─▶ state: does a thread seal? ─no─▶ ring, or work
//!   worker   state: begin ─▶ lower ─▶ take the pages of all shards ─▶ write ─▶ state: end; raised?
//! ```
//!
//! No record is left behind without a thread to take it. If the waiter found the flag up, the lowering that follows in
//! the flag's order reads its raise or a later one, so it happens after the append, and the pages that are taken then
//! include the record. If the waiter found the flag down and no thread at work, it works or rings itself. If a thread
//! was at work, the end of that work comes after the waiter under the lock, and finds the flag raised: a writer thread
//! continues then, and a waiter that has worked rings for one.

use crate::sync::{AtomicBool, Ordering};

/// Whether a caller waits for a record that is still in a shard.
#[derive(Debug)]
pub(crate) struct Demand(AtomicBool);

impl Demand {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag. Returns whether the caller must ring.
    #[must_use]
    pub(crate) fn raise(&self) -> bool {
        // Ordering: Release pairs with the Acquire of `lower`, which makes the append visible to the thread that empties
        // the shards; Acquire is not needed, the bell is behind a lock.
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
