//! The magazines: each thread's own stack of free pieces per kind.

use std::{
    alloc::{Layout, handle_alloc_error},
    cell::RefCell,
    ptr::NonNull,
};

use super::{BLOCK_ALIGN_BYTES, KINDS, Kind, slab};

/// Pieces of a kind that one thread keeps.
const MAGAZINE_MAX: usize = 64;
/// Pieces that change hands with the depot at once.
const EXCHANGE: usize = MAGAZINE_MAX / 2;

/// The free pieces of one thread.
struct Magazines([Vec<NonNull<u8>>; KINDS]);

impl Drop for Magazines {
    fn drop(&mut self) {
        for (index, magazine) in self.0.iter_mut().enumerate() {
            // SAFETY: the pieces of a magazine are free, and of its kind.
            unsafe { slab::give_back(index, magazine.drain(..)) };
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
    // While the thread ends its magazines may be gone: one piece straight from the depot then.
    MAGAZINES
        .try_with(take_from)
        .unwrap_or_else(|_| refill(kind, 1, &mut Vec::with_capacity(1)))
        .unwrap_or_else(|| out_of_memory(kind))
}

#[cold]
fn refill(kind: Kind, count: usize, magazine: &mut Vec<NonNull<u8>>) -> Option<NonNull<u8>> {
    slab::hand_out(kind, count, magazine);
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
            // The oldest go: they are the coldest in this thread's cache.
            // SAFETY: the pieces of a magazine are free, and of its kind.
            unsafe { slab::give_back(kind.index, magazine.drain(..EXCHANGE)) };
        }
        magazine.push(piece);
    };
    if MAGAZINES.try_with(put_into).is_err() {
        // SAFETY: the caller's promise.
        unsafe { slab::give_back(kind.index, [piece].into_iter()) };
    }
}
