//! A pool for objects that are allocated and freed all the time: queue blocks, actor cells and reply channels.
//!
//! ```text
//!   thread's magazine (64 pieces) <── 32 at a time ──> depot (a mutex) ──> slabs of 2 MiB
//! ```
//!
//! A message that crosses threads is freed on another thread than it was allocated on, which the system allocator
//! answers with a contended lock. Magazines (Bonwick and Adams, 2001) make both a push or pop on the thread's own stack
//! and exchange 32 pieces per lock. The backlog of a flood takes hundreds of megabytes of fresh memory, and on a virtual
//! machine the page faults cost more than the messages: a kind's second and later slabs ask for huge pages. A slab
//! whose pieces are all free is returned to the system, except for a few.
//!
//! A piece is reused only for its `Kind`. So the content that an owner leaves in it (the empty marks of a block) is
//! there when it is taken again; fresh pieces are zero.
//!
//! Nothing is pooled under loom, without `mmap`, and with `--cfg unpooled`: a sanitizer sees only the system
//! allocator's calls.

use std::{
    alloc::{Layout, handle_alloc_error},
    ptr::NonNull,
};

#[cfg(all(unix, not(loom), not(unpooled)))]
mod pool;

/// Largest pooled cell, in bytes.
const CELL_BYTES_MAX: usize = 1_024;

/// Alignment and size step of cells, in bytes.
const CELL_ALIGN_BYTES: usize = 64;

/// Alignment of blocks, in bytes: a cache line.
pub(crate) const BLOCK_ALIGN_BYTES: usize = 64;

/// Kinds of blocks: first and later ones, with long and with short slots.
const BLOCK_KINDS: usize = 4;

/// The purpose and size of a piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    index: usize,
    bytes: usize,
}

impl Kind {
    /// A lane's block of `bytes`. Blocks with slots of different sizes have their marks at different places.
    pub(crate) const fn block(bytes: usize, is_first: bool, is_long: bool) -> Self {
        let index = is_first as usize + 2 * is_long as usize;
        Self { index, bytes }
    }

    /// A cell for a `T`; `None` if it does not fit into the pool.
    const fn cell<T>() -> Option<Self> {
        let bytes = size_of::<T>();
        if !IS_POOLED || bytes > CELL_BYTES_MAX || align_of::<T>() > CELL_ALIGN_BYTES {
            return None;
        }
        let steps = bytes.div_ceil(CELL_ALIGN_BYTES);
        Some(Self {
            index: BLOCK_KINDS - 1 + steps,
            bytes: steps * CELL_ALIGN_BYTES,
        })
    }
}

/// Whether this build pools memory. If not, [`take`] returns `None`.
pub(crate) const IS_POOLED: bool = cfg!(all(unix, not(loom), not(unpooled)));

/// An aligned piece of the kind: fresh and zero, or as it was last put. `None` if and only if nothing is pooled. Aborts,
/// like allocations, if the system has no memory left.
#[inline]
pub(crate) fn take(kind: Kind) -> Option<NonNull<u8>> {
    #[cfg(all(unix, not(loom), not(unpooled)))]
    return Some(pool::take(kind));
    #[cfg(not(all(unix, not(loom), not(unpooled))))]
    {
        let _ = kind.bytes + kind.index;
        None
    }
}

/// Keeps a piece for the next [`take`] of its kind.
///
/// # Safety
/// The piece came from [`take`] with this kind and is no longer used. Its first word may be overwritten; the others stay
/// as they are.
#[inline]
pub(crate) unsafe fn put(piece: NonNull<u8>, kind: Kind) {
    #[cfg(all(unix, not(loom), not(unpooled)))]
    // SAFETY: the caller's promise.
    unsafe {
        pool::put(piece, kind);
    }
    #[cfg(not(all(unix, not(loom), not(unpooled))))]
    {
        let _ = (piece, kind);
        unreachable!("nothing was taken");
    }
}

/// Memory for one `T`, from the pool if it fits. Aborts if the system has no memory left.
#[inline]
pub fn allocate<T>() -> NonNull<T> {
    if size_of::<T>() == 0 {
        return NonNull::dangling();
    }
    match const { Kind::cell::<T>() }.and_then(take) {
        Some(piece) => piece.cast(),
        None => {
            let layout = Layout::new::<T>();
            // SAFETY: the layout is not zero-sized.
            let memory = unsafe { std::alloc::alloc(layout) };
            NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
        }
    }
}

/// Releases memory from [`allocate`]; drops nothing.
///
/// # Safety
/// The memory came from [`allocate`] with the same `T`, and is no longer used.
#[inline]
pub unsafe fn free<T>(memory: NonNull<T>) {
    if size_of::<T>() == 0 {
        return;
    }
    match const { Kind::cell::<T>() } {
        // SAFETY: it was taken with this kind; the caller's promise.
        Some(kind) => unsafe { put(memory.cast(), kind) },
        // SAFETY: it was allocated with this layout; the caller's promise.
        None => unsafe { std::alloc::dealloc(memory.as_ptr().cast(), Layout::new::<T>()) },
    }
}
