//! Memory for what comes and goes all the time: queue blocks and actor cells.
//!
//! ```text
//!   thread's magazine (64 pieces) <── 32 at a time ──> depot (a mutex) ──> slabs of 2 MiB
//! ```
//!
//! A message that crosses threads frees its memory on another thread than it was allocated on; the
//! system allocator answers that with a contended lock. Magazines (Bonwick and Adams, 2001) make it
//! a push on the thread's own stack, and hand over 32 pieces per lock. A flood's backlog is hundreds
//! of megabytes of fresh memory, and on a virtual machine the page faults cost more than the
//! messages: from a kind's second slab on, slabs ask for huge pages. A slab whose pieces have all
//! come back is returned to the system, but for a few.
//!
//! Pieces of one [`Kind`] are only ever reused for that kind, so what a kind's owner leaves in its
//! pieces (a block's empty marks) is there when they come back; fresh pieces are zero.
//!
//! Under loom, and where there is no `mmap`, nothing is pooled. Nor is it with `--cfg unpooled`: a sanitizer sees only
//! what the system allocator hands out and takes back.

use std::ptr::NonNull;

#[cfg(all(unix, not(loom), not(unpooled)))]
mod magazine;
#[cfg(all(unix, not(loom), not(unpooled)))]
mod slab;

/// Largest cell that is pooled, in bytes.
pub const CELL_BYTES_MAX: usize = 1_024;

/// Cells are aligned to this, and sized in steps of it.
pub const CELL_ALIGN_BYTES: usize = 64;

/// Blocks are aligned to this: a cache line.
pub(crate) const BLOCK_ALIGN_BYTES: usize = 64;

#[cfg(all(unix, not(loom), not(unpooled)))]
const CELL_KINDS: usize = CELL_BYTES_MAX / CELL_ALIGN_BYTES;

/// Number of kinds: blocks, first blocks, and cells by size.
#[cfg(all(unix, not(loom), not(unpooled)))]
pub(crate) const KINDS: usize = 2 + CELL_KINDS;

/// What a piece of memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    index: usize,
    bytes: usize,
}

impl Kind {
    /// A lane's regular block, of so many bytes.
    pub(crate) const fn block(bytes: usize) -> Self {
        Self { index: 0, bytes }
    }

    /// A lane's first block, of so many bytes.
    pub(crate) const fn first_block(bytes: usize) -> Self {
        Self { index: 1, bytes }
    }

    /// A cell of so many bytes; `None` if it is too large to be pooled.
    pub const fn cell(bytes: usize) -> Option<Self> {
        if bytes == 0 || bytes > CELL_BYTES_MAX {
            return None;
        }
        let steps = bytes.div_ceil(CELL_ALIGN_BYTES);
        Some(Self {
            index: 1 + steps,
            bytes: steps * CELL_ALIGN_BYTES,
        })
    }
}

/// Whether anything is pooled on this platform. If not, [`take`] gives nothing.
pub const IS_POOLED: bool = cfg!(all(unix, not(loom), not(unpooled)));

/// A piece of the kind, aligned as its kind is: fresh and zero, or as it was last put.
/// `None` exactly where nothing is pooled. Aborts, as allocations do, if the system has no memory
/// left.
#[inline]
pub fn take(kind: Kind) -> Option<NonNull<u8>> {
    #[cfg(all(unix, not(loom), not(unpooled)))]
    return Some(magazine::take(kind));
    #[cfg(not(all(unix, not(loom), not(unpooled))))]
    {
        let _ = kind.bytes + kind.index;
        None
    }
}

/// Keeps a piece for the next [`take`] of its kind.
///
/// # Safety
/// The piece came from [`take`] with this kind, and nobody uses it any more. Its first word may be
/// overwritten; all others stay as they are.
#[inline]
pub unsafe fn put(piece: NonNull<u8>, kind: Kind) {
    #[cfg(all(unix, not(loom), not(unpooled)))]
    // SAFETY: the caller's promise.
    unsafe {
        magazine::put(piece, kind);
    }
    #[cfg(not(all(unix, not(loom), not(unpooled))))]
    {
        let _ = (piece, kind);
        unreachable!("nothing was taken");
    }
}
