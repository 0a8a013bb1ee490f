//! Memory stays constant: watchers that have given up, and notices for terminated actors.
//!
//! A process of its own: its allocator counts the live bytes of all threads.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System as SystemAllocator},
    sync::atomic::AtomicIsize,
};

use common::*;

/// Counts the bytes that are allocated now, in the whole process.
struct Counting;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promise is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { SystemAllocator.alloc(layout) }
    }

    // SAFETY: the caller's promise is passed on.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { SystemAllocator.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const REPEATS: isize = 10_000;

/// Checks that nothing is left of each call, not one byte on average.
#[track_caller]
fn check_no_growth(what: &str, mut call: impl FnMut()) {
    (0..100).for_each(|_| call());
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    (0..REPEATS).for_each(|_| call());
    let growth = LIVE_BYTES.load(Ordering::Relaxed) - before;
    assert!(
        growth < REPEATS,
        "{what}: {growth} bytes in {REPEATS} calls"
    );
}

// One test: the counter is the process's.
#[test]
fn watchers_that_gave_up_and_notices_for_the_terminated_leave_nothing() {
    let system = system();
    let (alive, gone) = (probe(&system).0, probe(&system).0);
    check_no_growth("a deadline of a wait has passed", || {
        assert!(alive.wait_ended_until(Instant::now()).is_none());
    });
    let notifiers = Notes::default();
    let (known, watched) = (notifiers.clone(), alive.clone());
    act(&gone, move |cx| {
        known.push(Arc::new(cx.waker_fn(|_, _| ())) as Arc<dyn Fn() + Send + Sync>);
        cx.watch(&watched);
    });
    let notify = notifiers.wait_len(1).remove(0);
    gone.stop();
    ended(&gone);
    check_no_growth("a notice for a terminated actor", || notify());
    // Its watch is of no use to anybody.
    alive.stop();
    ended(&alive);
}
