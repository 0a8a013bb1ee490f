//! The flag by which those who wait make the writer hurry.
//!
//! A waiter appends its record (under its shard's lock) and then raises the flag; whoever finds it
//! down rings for a writer thread. A writer thread lowers the flag and then empties the shards.
//!
//! ```text
//!   waiter   append ─▶ raise: was down? ─yes─▶ ring
//!   writer   lower  ─▶ take all that the shards hold
//! ```
//!
//! No record is left behind with nobody rung: if the waiter found the flag up, the lowering that
//! follows in the flag's order reads its raise or a later one, so it happens after the append, and
//! what is taken then includes the record. If it found it down, it rings.

use crate::sync::{AtomicBool, Ordering};

/// Whether somebody waits for what is still in the shards.
#[derive(Debug)]
pub(super) struct Demand(AtomicBool);

impl Demand {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag. Whether the caller is to ring.
    #[must_use]
    pub(super) fn raise(&self) -> bool {
        // Ordering: Release pairs with the Acquire of `lower`, which makes the append visible to
        // who empties the shards; Acquire is not needed, the bell is behind a lock.
        !self.0.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_raised(&self) -> bool {
        // Ordering: Relaxed, a hint: `lower` follows before anything is read.
        self.0.load(Ordering::Relaxed)
    }

    /// Lowers the flag, before the shards are emptied.
    pub(super) fn lower(&self) {
        // Ordering: Acquire pairs with the Release of `raise`.
        self.0.swap(false, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::{
        sync::{Arc, Condvar, Mutex},
        thread,
    };

    use super::*;

    /// Two waiters and a writer that sleeps while the flag is down: both records are taken.
    #[test]
    fn no_waiter_is_left_behind() {
        loom::model(|| {
            let demand = Arc::new(Demand::new());
            let shard = Arc::new(Mutex::new(0));
            let bell = Arc::new((Mutex::new(()), Condvar::new()));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let (demand, shard, bell) = (demand.clone(), shard.clone(), bell.clone());
                    thread::spawn(move || {
                        *shard.lock().unwrap() += 1;
                        if demand.raise() {
                            let _desk = bell.0.lock().unwrap();
                            bell.1.notify_one();
                        }
                    })
                })
                .collect();
            let mut taken = 0;
            while taken < 2 {
                let mut desk = bell.0.lock().unwrap();
                while !demand.is_raised() {
                    desk = bell.1.wait(desk).unwrap();
                }
                drop(desk);
                demand.lower();
                taken += std::mem::take(&mut *shard.lock().unwrap());
            }
            waiters
                .into_iter()
                .for_each(|waiter| waiter.join().unwrap());
        });
    }
}
