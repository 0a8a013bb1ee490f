//! The future of an async handler, in memory that is used again.
//!
//! A future needs its last address before it is polled first. A box would be an allocation for each message. So each thread
//! keeps a few blocks of one size. A future that fits takes a block of the thread that makes it, and the thread that drops
//! it keeps the block. A larger future is boxed.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cell::RefCell,
    future::Future,
    mem,
    pin::Pin,
    ptr::NonNull,
};

/// The largest future that needs no allocation, in bytes.
const BLOCK_BYTES: usize = 512;
/// Unused blocks that a thread keeps; none for the address sanitizer, which must see that they are free.
const BLOCKS_MAX: usize = if cfg!(unpooled) { 0 } else { 8 };

#[repr(align(16))]
struct Block(#[expect(dead_code, reason = "its size counts")] [u8; BLOCK_BYTES]);

type AnyFuture<'a> = dyn Future<Output = ()> + Send + 'a;

/// Blocks without a value.
struct Blocks(Vec<NonNull<Block>>);

impl Drop for Blocks {
    fn drop(&mut self) {
        self.0.drain(..).for_each(free);
    }
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = const { RefCell::new(Blocks(Vec::new())) };
}

fn take() -> NonNull<Block> {
    // While the thread ends it has none.
    let kept = BLOCKS.try_with(|it| it.borrow_mut().0.pop());
    kept.ok().flatten().unwrap_or_else(|| {
        let layout = Layout::new::<Block>();
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc(layout) };
        NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
    })
}

/// The block holds nothing any more.
fn give_back(block: NonNull<Block>) {
    let keep = |blocks: &RefCell<Blocks>| {
        let blocks = &mut blocks.borrow_mut().0;
        let has_capacity = blocks.len() < BLOCKS_MAX;
        if has_capacity {
            blocks.push(block);
        }
        has_capacity
    };
    if !BLOCKS.try_with(keep).unwrap_or(false) {
        free(block);
    }
}

fn free(block: NonNull<Block>) {
    // SAFETY: `take` allocated it with this layout, and nothing uses it any more.
    unsafe { dealloc(block.as_ptr().cast(), Layout::new::<Block>()) };
}

/// The future of an async handler. Its size and alignment tell whether it is in a block.
pub(crate) struct SuspendedFuture(NonNull<AnyFuture<'static>>);

// SAFETY: the future is `Send`, and this is its only owner.
unsafe impl Send for SuspendedFuture {}

const fn fits(future: Layout) -> bool {
    let block = Layout::new::<Block>();
    future.size() <= block.size() && future.align() <= block.align()
}

impl SuspendedFuture {
    /// # Safety
    /// What the future borrows outlives it.
    pub(crate) unsafe fn new<'a, F: Future<Output = ()> + Send + 'a>(future: F) -> Self {
        let place = if fits(Layout::new::<F>()) {
            let place = take().cast::<F>();
            // SAFETY: the block is unused, and large enough for it.
            unsafe { place.write(future) };
            place
        } else {
            NonNull::from(Box::leak(Box::new(future)))
        };
        let future: NonNull<AnyFuture<'a>> = place;
        // SAFETY: only the lifetime differs; the caller's promise.
        Self(unsafe {
            mem::transmute::<NonNull<AnyFuture<'a>>, NonNull<AnyFuture<'static>>>(future)
        })
    }

    fn is_in_block(&self) -> bool {
        // SAFETY: the future is there until this is dropped.
        fits(Layout::for_value(unsafe { self.0.as_ref() }))
    }

    pub(crate) fn as_mut(&mut self) -> Pin<&mut AnyFuture<'static>> {
        // SAFETY: it is not moved until it is dropped, which is where it is.
        unsafe { Pin::new_unchecked(self.0.as_mut()) }
    }
}

impl Drop for SuspendedFuture {
    fn drop(&mut self) {
        /// Also if the drop of the future panics.
        struct GiveBack(NonNull<Block>);
        impl Drop for GiveBack {
            fn drop(&mut self) {
                give_back(self.0);
            }
        }
        if self.is_in_block() {
            let _block = GiveBack(self.0.cast());
            // SAFETY: the block holds the future, which is not used again.
            unsafe { self.0.drop_in_place() };
        } else {
            // SAFETY: `new` made it of a box, and it is not used again.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
        task::{Context, Waker},
    };

    use super::*;

    fn kept() -> usize {
        BLOCKS.with(|it| it.borrow().0.len())
    }

    /// A future that is ready at once, with a value that it drops.
    async fn holds<T: Send, const BYTES: usize>(value: T) {
        let bytes = [1_u8; BYTES];
        std::future::ready(()).await;
        std::hint::black_box(&bytes);
        drop(value);
    }

    fn suspended(future: impl Future<Output = ()> + Send + 'static) -> SuspendedFuture {
        // SAFETY: it borrows nothing.
        unsafe { SuspendedFuture::new(future) }
    }

    fn is_ready(future: &mut SuspendedFuture) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        future.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn a_block_is_used_again_and_a_large_future_has_its_own_memory() {
        let value = Arc::new(());
        for _ in 0..3 {
            let mut small = suspended(holds::<_, 8>(value.clone()));
            assert!(small.is_in_block());
            assert_eq!(kept(), 0);
            assert!(is_ready(&mut small));
            drop(small);
            assert_eq!(kept(), BLOCKS_MAX.min(1));
        }
        let mut large = suspended(holds::<_, BLOCK_BYTES>(value.clone()));
        assert!(!large.is_in_block());
        assert!(is_ready(&mut large));
        // Dropped before it is polled.
        drop(suspended(holds::<_, 8>(value.clone())));
        let many: Vec<_> = (0..BLOCKS_MAX + 1)
            .map(|_| suspended(holds::<_, 8>(value.clone())))
            .collect();
        drop((large, many));
        assert_eq!((kept(), Arc::strong_count(&value)), (BLOCKS_MAX, 1));
    }

    #[test]
    fn a_block_comes_back_from_another_thread_and_from_a_drop_that_panics() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("planted");
            }
        }
        let moved = suspended(holds::<_, 8>(()));
        std::thread::spawn(move || {
            drop(moved);
            assert_eq!(kept(), BLOCKS_MAX.min(1));
        })
        .join()
        .expect("no panic");
        let panics = suspended(holds::<_, 8>(Panics));
        let outcome = catch_unwind(AssertUnwindSafe(|| drop(panics)));
        assert!(outcome.is_err());
        assert_eq!(kept(), BLOCKS_MAX.min(1));
    }
}
