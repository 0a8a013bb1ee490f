//! An edge of a wait-for graph: a pointer that its owner sets and clears, and that other threads follow while it is set.
//!
//! ```text
//!   word:  null               the owner waits for nothing
//!          pointer            the owner waits for one thing
//!          pointer | LOCKED   the same, and a thread reads the pointee
//!          count | SEVERAL    the owner waits for several things: nobody follows
//! ```
//!
//! **A pointee that is read is valid.** A reader sets LOCKED by an exchange of a set pointer, reads, and restores the
//! word. An edge is cleared only by an exchange of the unlocked pointer. So the owner, which keeps the pointee valid
//! until it has cleared the edge, waits for the reader. Readers run a few instructions of ours between the two.
//!
//! **No circle is missed.** Each owner sets its own edge first, and follows the edges of others after that; both are
//! SeqCst. Of the owners whose edges close a circle, consider the one whose edge comes last in the single order of these
//! operations: it sees all other edges of the circle.

use std::{fmt, ptr::NonNull};

use crate::sync::{AtomicPtr, Ordering, fence_for_loom, spin_or_yield};

const LOCKED: usize = 1;
const SEVERAL: usize = 2;
const COUNT_SHIFT: u32 = 2;

/// See the module. The pointee's type is aligned to 4 bytes at least.
pub struct Edge<T>(AtomicPtr<T>);

fn bits<T>(word: *mut T) -> usize {
    word.addr() & (LOCKED | SEVERAL)
}

fn several<T>(count: usize) -> *mut T {
    std::ptr::without_provenance_mut(count << COUNT_SHIFT | SEVERAL)
}

impl<T> Default for Edge<T> {
    fn default() -> Self {
        const { assert!(align_of::<T>() > SEVERAL, "both bits are free") };
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Edge<T> {
    /// The owner begins to wait for `pointee`, besides what it waits for already. `false` if it waits for several
    /// things now.
    ///
    /// # Safety
    /// The caller is the owner. The pointee is valid until [`Edge::remove`], [`Edge::forget`] or [`Edge::take`] has
    /// returned for it.
    #[inline]
    pub unsafe fn add(&self, pointee: NonNull<T>) -> bool {
        let mut spins = 0;
        // Ordering: Relaxed: only the owner sets a null word; it reads no pointee here.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word.is_null() {
                // Ordering: SeqCst: the owner follows the edges of others after this; see the module.
                self.0.swap(pointee.as_ptr(), Ordering::SeqCst);
                fence_for_loom();
                return true;
            }
            if bits(word) & SEVERAL != 0 {
                let count = word.addr() >> COUNT_SHIFT;
                // Ordering: Release, as below.
                self.0.store(several(count + 1), Ordering::Release);
                return false;
            }
            let unlocked = word.map_addr(|addr| addr & !LOCKED);
            // Ordering: AcqRel: a reader's reads come before it, and before the end of the pointee, whose thread
            // acquires the word in `forget`. Relaxed on failure: nothing is read.
            let replaced =
                self.0
                    .compare_exchange(unlocked, several(2), Ordering::AcqRel, Ordering::Relaxed);
            match replaced {
                Ok(_) => return false,
                Err(seen) => word = seen,
            }
            spin_or_yield(&mut spins);
        }
    }

    /// The owner no longer waits for `pointee`. Does nothing if it did not wait for it.
    #[inline]
    pub fn remove(&self, pointee: NonNull<T>) {
        if self.forget(pointee) {
            return;
        }
        // Ordering: Relaxed: the owner alone changes a count.
        let word = self.0.load(Ordering::Relaxed);
        if bits(word) & SEVERAL != 0 {
            let left = (word.addr() >> COUNT_SHIFT) - 1;
            let next = if left == 0 {
                std::ptr::null_mut()
            } else {
                several(left)
            };
            // Ordering: Release, as in `add`.
            self.0.store(next, Ordering::Release);
        }
    }

    /// Clears the edge if it leads to `pointee`: for threads other than the owner's. `false` if it does not.
    pub fn forget(&self, pointee: NonNull<T>) -> bool {
        let pointer = pointee.as_ptr();
        let mut spins = 0;
        loop {
            // Ordering: AcqRel: a reader's reads come before it. Acquire on failure, as another thread may have cleared
            // the edge after a reader.
            let cleared = self.0.compare_exchange(
                pointer,
                std::ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match cleared {
                Ok(_) => return true,
                Err(seen) if seen == pointer.map_addr(|addr| addr | LOCKED) => {
                    spin_or_yield(&mut spins);
                }
                Err(_) => return false,
            }
        }
    }

    /// The owner waits for nothing any more. Returns the pointee, unless it waited for several things.
    #[inline]
    pub fn take(&self) -> Option<NonNull<T>> {
        let mut spins = 0;
        loop {
            // Ordering: Relaxed, as in `add`.
            let word = self.0.load(Ordering::Relaxed);
            let pointee = NonNull::new(word)?;
            if bits(word) & SEVERAL != 0 {
                // Ordering: Release, as in `add`.
                self.0.store(std::ptr::null_mut(), Ordering::Release);
                return None;
            }
            if bits(word) & LOCKED == 0 && self.forget(pointee) {
                return Some(pointee);
            }
            spin_or_yield(&mut spins);
        }
    }

    /// Whether nothing can be followed: the usual case, at the cost of a load.
    #[inline]
    pub fn is_clear(&self) -> bool {
        // Ordering: SeqCst, as in `follow`.
        self.0.load(Ordering::SeqCst).is_null()
    }

    /// Reads what the owner waits for, unless that is nothing or several things. `read` must return soon and not panic:
    /// the owner may wait for it.
    pub fn follow<R>(&self, read: impl FnOnce(NonNull<T>) -> R) -> Option<R> {
        let mut spins = 0;
        // Ordering: SeqCst: after the reader has set its own edge; see the module.
        let mut word = self.0.load(Ordering::SeqCst);
        loop {
            let pointee = NonNull::new(word)?;
            match bits(word) {
                0 => {
                    let locked = word.map_addr(|addr| addr | LOCKED);
                    // Ordering: SeqCst: acquires what the owner wrote before `add`, and as the load above.
                    let lock =
                        self.0
                            .compare_exchange(word, locked, Ordering::SeqCst, Ordering::SeqCst);
                    match lock {
                        Ok(_) => {
                            let result = read(pointee);
                            // Ordering: Release: our reads come before the exchange that clears the edge.
                            self.0.store(word, Ordering::Release);
                            return Some(result);
                        }
                        Err(seen) => word = seen,
                    }
                }
                LOCKED => {
                    spin_or_yield(&mut spins);
                    // Ordering: as above.
                    word = self.0.load(Ordering::SeqCst);
                }
                _ => return None,
            }
        }
    }
}

impl<T> fmt::Debug for Edge<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Edge")
    }
}
