//! The slabs: regions of 2 MiB, cut into pieces of one kind, and the depot that keeps them.
//!
//! ```text
//!   0        64                                                     2 MiB
//!   ┌ header ┬ piece ┬ piece ┬ piece ┬ ...                     ┬ rest ┐
//! ```
//!
//! The region is aligned to its size, so a piece's address tells its slab. Free pieces are linked
//! through their first word.

use std::{
    ptr::{self, NonNull},
    sync::{Mutex, PoisonError},
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{BLOCK_ALIGN_BYTES, KINDS, Kind};

const SLAB_BYTES: usize = 2 << 20;
const HEADER_BYTES: usize = BLOCK_ALIGN_BYTES;
/// Slabs of a kind that are kept although all their pieces are free (8 MiB).
const EMPTY_SLABS_MAX: usize = 4;

/// Head of a slab. Everything in it is under the depot's lock.
struct Slab {
    /// Free pieces, linked.
    free: *mut u8,
    /// Pieces handed out.
    live: usize,
    /// Pieces cut so far.
    cut: usize,
    capacity: usize,
    piece_bytes: usize,
    /// Whether it is in the depot's list of slabs with room.
    is_listed: bool,
}

impl Slab {
    fn has_room(&self) -> bool {
        self.live < self.capacity
    }
}

/// The slabs of one kind.
struct Depot {
    /// Slabs with room; the last one is used first.
    with_room: Vec<NonNull<Slab>>,
    slabs: usize,
    empty: usize,
}

// SAFETY: slabs are reached only through their depot, under its lock.
unsafe impl Send for Depot {}

static DEPOTS: [Mutex<Depot>; KINDS] = [const {
    Mutex::new(Depot {
        with_room: Vec::new(),
        slabs: 0,
        empty: 0,
    })
}; KINDS];

/// Adds up to `count` pieces to `magazine`; fewer, or none, if the system has no memory left.
pub(super) fn hand_out(kind: Kind, count: usize, magazine: &mut Vec<NonNull<u8>>) {
    let mut depot = DEPOTS[kind.index]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for _ in 0..count {
        let Some(slab) = depot.slab_with_room(kind.bytes) else {
            return;
        };
        // SAFETY: the slab has room, and the depot's lock is held.
        magazine.push(unsafe { depot.cut_piece(slab) });
    }
}

/// Takes free pieces back.
///
/// # Safety
/// The pieces are of the kind with this index, and nobody uses them.
pub(super) unsafe fn give_back(kind_index: usize, pieces: impl Iterator<Item = NonNull<u8>>) {
    let mut depot = DEPOTS[kind_index]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for piece in pieces {
        // SAFETY: the caller's promise; the lock is held.
        unsafe { depot.take_back(piece) };
    }
}

impl Depot {
    fn slab_with_room(&mut self, piece_bytes: usize) -> Option<NonNull<Slab>> {
        if let Some(slab) = self.with_room.last() {
            return Some(*slab);
        }
        // The first slab of a kind is filled page by page: small systems stay small.
        let slab = map_slab(piece_bytes, self.slabs > 0)?;
        self.slabs += 1;
        self.empty += 1;
        self.with_room.push(slab);
        Some(slab)
    }

    /// # Safety
    /// `slab` is the depot's last slab with room, and the depot's lock is held.
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
        if !header.has_room() {
            header.is_listed = false;
            self.with_room.pop();
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
        // SAFETY: slabs are aligned to their size, so this is the piece's slab; its header is ours
        // under the lock.
        let header = unsafe { &mut *slab };
        // SAFETY: the piece is free, at least a word long and aligned for it.
        unsafe { address.cast::<*mut u8>().write(header.free) };
        header.free = address;
        header.live -= 1;
        // SAFETY: derived from a piece's address, so not null.
        let slab = unsafe { NonNull::new_unchecked(slab) };
        if !header.is_listed {
            header.is_listed = true;
            self.with_room.push(slab);
        }
        if header.live == 0 {
            self.empty += 1;
            if self.empty > EMPTY_SLABS_MAX {
                self.empty -= 1;
                self.slabs -= 1;
                self.with_room.retain(|listed| *listed != slab);
                // SAFETY: all of its pieces are free, and nothing lists it any more.
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
    let lead = region.align_offset(SLAB_BYTES);
    // SAFETY: twice the size holds one aligned slab; what lies around it is not used by anybody.
    let slab = unsafe {
        let slab = region.add(lead);
        if lead > 0 {
            let _ = munmap(region.cast(), lead);
        }
        let _ = munmap(slab.add(SLAB_BYTES).cast(), SLAB_BYTES - lead);
        slab
    };
    if with_huge_pages {
        // SAFETY: our own mapping. A refusal costs only speed.
        let _ = unsafe { madvise(slab.cast(), SLAB_BYTES, Advice::LinuxHugepage) };
    }
    let slab = NonNull::new(slab.cast::<Slab>())?;
    // SAFETY: mapped, aligned, and nobody else's.
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
/// The slab is mapped and nobody uses it.
unsafe fn unmap(slab: *mut u8) {
    // SAFETY: the caller's promise. A refusal leaks address space, which nothing can mend.
    let _ = unsafe { munmap(slab.cast(), SLAB_BYTES) };
}

const _: () = assert!(size_of::<Slab>() <= HEADER_BYTES, "the header fits");
