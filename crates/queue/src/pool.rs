//! Recycled block memory: a small magazine per thread and a shared depot behind it.
//!
//! A lane in steady use frees and takes a block every 31 messages, often on different threads; the
//! system allocator answers that with a lock and a search. Magazines (Bonwick and Adams, 2001) make
//! it a push on a thread's own stack, and full magazines change hands whole. The depot is bounded:
//! memory beyond it goes back to the allocator, so a drained flood does not stay resident.
//!
//! Under loom there is no pool: each block is a fresh allocation, so that a use after free shows.

use std::{alloc::Layout, ptr::NonNull};

/// Size in bytes of the one kind of block that is pooled: header and 31 slots of 64 bytes.
#[cfg(not(loom))]
pub(crate) const POOLED_BYTES: usize = 2_048;

#[cfg(loom)]
pub(crate) fn take(_layout: Layout) -> Option<NonNull<u8>> {
    None
}

/// # Safety
/// See the version without loom; this one never takes the memory.
#[cfg(loom)]
pub(crate) unsafe fn put(_memory: NonNull<u8>, _layout: Layout) -> bool {
    false
}

#[cfg(not(loom))]
pub(crate) use pooled::{put, take};

#[cfg(not(loom))]
mod pooled {
    use super::{Layout, NonNull, POOLED_BYTES};
    use std::{
        alloc::dealloc,
        cell::RefCell,
        sync::{Mutex, PoisonError},
    };

    /// Blocks that one thread keeps before it hands half of them to the depot.
    const MAGAZINE_BLOCKS_MAX: usize = 64;
    /// Blocks that change hands at once.
    const EXCHANGE_BLOCKS: usize = MAGAZINE_BLOCKS_MAX / 2;
    /// Blocks that the depot keeps (4 MiB); more go back to the allocator.
    const DEPOT_BLOCKS_MAX: usize = 2_048;

    const ALIGN_BYTES: usize = 64;

    struct Memory(NonNull<u8>);

    // SAFETY: `Memory` is unused memory that its holder owns alone; it may move between threads.
    unsafe impl Send for Memory {}

    impl Drop for Memory {
        fn drop(&mut self) {
            let layout =
                Layout::from_size_align(POOLED_BYTES, ALIGN_BYTES).expect("a valid layout");
            // SAFETY: allocated with this very layout (`put` accepts no other), owned by `self`.
            unsafe { dealloc(self.0.as_ptr(), layout) };
        }
    }

    fn is_pooled(layout: Layout) -> bool {
        layout.size() == POOLED_BYTES && layout.align() == ALIGN_BYTES
    }

    static DEPOT: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

    thread_local! {
        static MAGAZINE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
    }

    /// Memory for one block, all of whose slot marks are zero; `None` if there is none.
    pub(crate) fn take(layout: Layout) -> Option<NonNull<u8>> {
        if !is_pooled(layout) {
            return None;
        }
        let take_from = |magazine: &RefCell<Vec<Memory>>| {
            let mut magazine = magazine.borrow_mut();
            if magazine.is_empty() {
                let mut depot = DEPOT.lock().unwrap_or_else(PoisonError::into_inner);
                let keep = depot.len().saturating_sub(EXCHANGE_BLOCKS);
                magazine.extend(depot.drain(keep..));
            }
            magazine.pop()
        };
        // The magazine is gone while the thread ends; the allocator serves then.
        let memory = MAGAZINE.try_with(take_from).ok().flatten()?;
        let pointer = memory.0;
        std::mem::forget(memory);
        Some(pointer)
    }

    /// Keeps the memory for the next [`take`]; `false` if it is of another kind.
    ///
    /// # Safety
    /// The caller owns `memory`, it was allocated with `layout`, and if it is of the pooled kind,
    /// the first word of each 64-byte slot after the 64-byte header is zero.
    pub(crate) unsafe fn put(memory: NonNull<u8>, layout: Layout) -> bool {
        if !is_pooled(layout) {
            return false;
        }
        let memory = Memory(memory);
        let _ = MAGAZINE.try_with(move |magazine| {
            let mut magazine = magazine.borrow_mut();
            if magazine.len() == MAGAZINE_BLOCKS_MAX {
                let surplus = magazine.split_off(MAGAZINE_BLOCKS_MAX - EXCHANGE_BLOCKS);
                let mut depot = DEPOT.lock().unwrap_or_else(PoisonError::into_inner);
                if depot.len() + surplus.len() <= DEPOT_BLOCKS_MAX {
                    depot.extend(surplus);
                }
            }
            magazine.push(memory);
        });
        true
    }
}
