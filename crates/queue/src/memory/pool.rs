//! The pool: magazines of the threads, and depots of slabs, one per kind.
//!
//! ```text
//!   slab   0        64                                                     2 MiB
//!          ┌ header ┬ piece ┬ piece ┬ piece ┬ ...                     ┬ rest ┐
//! ```
//!
//! A slab is aligned to its size, so a piece's address gives its slab. Free pieces are linked through their first word.

use std::{
    alloc::{Layout, handle_alloc_error},
    cell::RefCell,
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{BLOCK_ALIGN_BYTES, BLOCK_KINDS, CELL_ALIGN_BYTES, CELL_BYTES_MAX, Kind};

/// Number of kinds: blocks, and cells by size.
const KINDS: usize = BLOCK_KINDS + CELL_BYTES_MAX / CELL_ALIGN_BYTES;

/// The most pieces of a kind that one thread keeps.
const MAGAZINE_MAX: usize = 64;
/// Pieces that a thread and the depot exchange at once.
const EXCHANGE: usize = MAGAZINE_MAX / 2;

/// The free pieces of one thread, by kind.
struct Magazines([Vec<NonNull<u8>>; KINDS]);

impl Drop for Magazines {
    fn drop(&mut self) {
        for (index, magazine) in self.0.iter_mut().enumerate() {
            // SAFETY: the pieces of a magazine are free, and of its kind.
            unsafe { give_back(index, magazine.drain(..)) };
        }
    }
}

thread_local! {
    static MAGAZINES: RefCell<Magazines> =
        const { RefCell::new(Magazines([const { Vec::new() }; KINDS])) };
}

#[inline]
pub(super) fn take(kind: Kind) -> NonNull<u8> {
    let take_from = |magazines: &RefCell<Magazines>| {
        let magazine = &mut magazines.borrow_mut().0[kind.index];
        magazine.pop().or_else(|| refill(kind, EXCHANGE, magazine))
    };
    // The magazines of a terminating thread may be gone: then it takes one piece straight from the depot.
    MAGAZINES
        .try_with(take_from)
        .unwrap_or_else(|_| refill(kind, 1, &mut Vec::with_capacity(1)))
        .unwrap_or_else(|| out_of_memory(kind))
}

#[cold]
fn refill(kind: Kind, count: usize, magazine: &mut Vec<NonNull<u8>>) -> Option<NonNull<u8>> {
    hand_out(kind, count, magazine);
    magazine.pop()
}

#[cold]
fn out_of_memory(kind: Kind) -> ! {
    let layout = Layout::from_size_align(kind.bytes, BLOCK_ALIGN_BYTES);
    handle_alloc_error(layout.unwrap_or(Layout::new::<u64>()))
}

/// # Safety
/// As [`super::put`].
#[inline]
pub(super) unsafe fn put(piece: NonNull<u8>, kind: Kind) {
    let put_into = |magazines: &RefCell<Magazines>| {
        let magazine = &mut magazines.borrow_mut().0[kind.index];
        if magazine.len() == MAGAZINE_MAX {
            // The oldest pieces go: they are the coldest in this thread's cache.
            // SAFETY: the pieces of a magazine are free, and of its kind.
            unsafe { give_back(kind.index, magazine.drain(..EXCHANGE)) };
        }
        magazine.push(piece);
    };
    if MAGAZINES.try_with(put_into).is_err() {
        // SAFETY: the caller's promise.
        unsafe { give_back(kind.index, [piece].into_iter()) };
    }
}

const SLAB_BYTES: usize = 2 << 20;
const HEADER_BYTES: usize = BLOCK_ALIGN_BYTES;
/// Entirely free slabs that a kind keeps (8 MiB).
const EMPTY_SLABS_MAX: usize = 4;

/// Header of a slab, protected by the depot's lock.
struct Slab {
    /// The list of free pieces.
    free: *mut u8,
    /// Pieces handed out.
    live: usize,
    /// Pieces cut from the slab so far.
    cut: usize,
    capacity: usize,
    piece_bytes: usize,
    /// Whether it is in the depot's list.
    is_listed: bool,
}

/// The slabs of one kind.
struct Depot {
    /// Slabs with free pieces; the last one is used first.
    with_free: Vec<NonNull<Slab>>,
    slabs: usize,
    empty: usize,
}

// SAFETY: slabs are accessed only through their depot, under its lock.
unsafe impl Send for Depot {}

/// Alone on its cache lines: threads lock the depots of different kinds at the same time.
#[repr(align(128))]
struct DepotLock(Mutex<Depot>);

static DEPOTS: [DepotLock; KINDS] = [const {
    DepotLock(Mutex::new(Depot {
        with_free: Vec::new(),
        slabs: 0,
        empty: 0,
    }))
}; KINDS];

fn lock(kind_index: usize) -> MutexGuard<'static, Depot> {
    let DepotLock(depot) = &DEPOTS[kind_index];
    depot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds up to `count` pieces to `magazine`; fewer, or none, if the system has no memory left.
fn hand_out(kind: Kind, count: usize, magazine: &mut Vec<NonNull<u8>>) {
    let mut depot = lock(kind.index);
    for _ in 0..count {
        let Some(slab) = depot.slab_with_free(kind.bytes) else {
            return;
        };
        // SAFETY: the slab has a free piece, and the depot's lock is held.
        magazine.push(unsafe { depot.cut_piece(slab) });
    }
}

/// Returns free pieces to the depot.
///
/// # Safety
/// The pieces are free and of the kind with this index.
unsafe fn give_back(kind_index: usize, pieces: impl Iterator<Item = NonNull<u8>>) {
    let mut depot = lock(kind_index);
    for piece in pieces {
        // SAFETY: the caller's promise; the lock is held.
        unsafe { depot.take_back(piece) };
    }
}

impl Depot {
    fn slab_with_free(&mut self, piece_bytes: usize) -> Option<NonNull<Slab>> {
        if let Some(slab) = self.with_free.last() {
            return Some(*slab);
        }
        // The first slab of a kind uses small pages: small systems stay small.
        let slab = map_slab(piece_bytes, self.slabs > 0)?;
        self.slabs += 1;
        self.empty += 1;
        self.with_free.push(slab);
        Some(slab)
    }

    /// # Safety
    /// `slab` is the last of `with_free`, and the depot's lock is held.
    unsafe fn cut_piece(&mut self, slab: NonNull<Slab>) -> NonNull<u8> {
        // SAFETY: a listed slab is mapped, and its header is ours under the lock.
        let header = unsafe { &mut *slab.as_ptr() };
        if header.live == 0 {
            self.empty -= 1;
        }
        header.live += 1;
        let piece = if header.free.is_null() {
            let offset = HEADER_BYTES + header.cut * header.piece_bytes;
            header.cut += 1;
            // SAFETY: `cut` was below the capacity, so the piece lies within the slab.
            unsafe { slab.as_ptr().cast::<u8>().add(offset) }
        } else {
            let piece = header.free;
            // SAFETY: a free piece holds the next one's address in its first word.
            header.free = unsafe { piece.cast::<*mut u8>().read() };
            piece
        };
        if header.live == header.capacity {
            header.is_listed = false;
            self.with_free.pop();
        }
        // SAFETY: within the slab, so not null.
        unsafe { NonNull::new_unchecked(piece) }
    }

    /// # Safety
    /// The piece is one of this depot's, free, and the depot's lock is held.
    unsafe fn take_back(&mut self, piece: NonNull<u8>) {
        let address = piece.as_ptr();
        let slab = address
            .map_addr(|address| address & !(SLAB_BYTES - 1))
            .cast::<Slab>();
        // SAFETY: slabs are aligned to their size, so this is the piece's slab; its header is ours under the lock.
        let header = unsafe { &mut *slab };
        // SAFETY: the piece is free, at least a word long and aligned for it.
        unsafe { address.cast::<*mut u8>().write(header.free) };
        header.free = address;
        header.live -= 1;
        // SAFETY: derived from a piece's address, so not null.
        let slab = unsafe { NonNull::new_unchecked(slab) };
        if !header.is_listed {
            header.is_listed = true;
            self.with_free.push(slab);
        }
        if header.live == 0 {
            self.empty += 1;
            if self.empty > EMPTY_SLABS_MAX {
                self.empty -= 1;
                self.slabs -= 1;
                self.with_free.retain(|listed| *listed != slab);
                // SAFETY: all its pieces are free, and it is in no list.
                unsafe { unmap(slab.as_ptr().cast()) };
            }
        }
    }
}

fn map_slab(piece_bytes: usize, with_huge_pages: bool) -> Option<NonNull<Slab>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping anywhere.
    let region = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            2 * SLAB_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }
    .ok()?
    .cast::<u8>();
    let lead_bytes = region.align_offset(SLAB_BYTES);
    // SAFETY: a mapping of twice the size contains one aligned slab; the rest of it is unused.
    let slab = unsafe {
        let slab = region.add(lead_bytes);
        if lead_bytes > 0 {
            let _ = munmap(region.cast(), lead_bytes);
        }
        let _ = munmap(slab.add(SLAB_BYTES).cast(), SLAB_BYTES - lead_bytes);
        slab
    };
    if with_huge_pages {
        // SAFETY: our own mapping. A refusal only costs speed.
        let _ = unsafe { madvise(slab.cast(), SLAB_BYTES, Advice::LinuxHugepage) };
    }
    let slab = NonNull::new(slab.cast::<Slab>())?;
    // SAFETY: mapped, aligned and ours alone.
    unsafe {
        slab.write(Slab {
            free: ptr::null_mut(),
            live: 0,
            cut: 0,
            capacity: (SLAB_BYTES - HEADER_BYTES) / piece_bytes,
            piece_bytes,
            is_listed: true,
        });
    }
    Some(slab)
}

/// # Safety
/// The slab is mapped and unused.
unsafe fn unmap(slab: *mut u8) {
    // SAFETY: the caller's promise. A refusal leaks address space; nothing can be done about it.
    let _ = unsafe { munmap(slab.cast(), SLAB_BYTES) };
}

const _: () = assert!(size_of::<Slab>() <= HEADER_BYTES, "the header fits");
