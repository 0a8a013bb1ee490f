//! Memory: a message of up to 48 bytes allocates nothing and a larger one is boxed, also through a group; watchers that
//! have given up and notices for terminated actors leave nothing.
//!
//! A process of its own: its allocator counts the allocations of all threads.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System as SystemAllocator},
    sync::atomic::AtomicIsize,
};

use common::*;

/// Counts allocations of at least [`COUNTED_BYTES`], and the bytes that are allocated now, in the whole process.
struct Counting;

/// Below it are those of the test's own asks and of the standard library.
const COUNTED_BYTES: usize = INLINE_BYTES;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

/// The counters are the process's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promise is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_counted = layout.size() >= COUNTED_BYTES;
        ALLOCATIONS.fetch_add(u64::from(is_counted), Ordering::Relaxed);
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

#[derive(Default)]
struct Sum(u64);

impl Actor for Sum {}

/// Words of the largest message that is not boxed; with spans, one word is the sender's.
const INLINE_WORDS: usize = INLINE_BYTES / 8 - cfg!(feature = "spans") as usize;

struct Words<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Handler<Words<WORDS>> for Sum {
    type Reply = ();
    fn handle(&mut self, msg: Words<WORDS>, _cx: &mut Context<Self>) {
        self.0 += msg.0[WORDS - 1];
    }
}

struct Total;

impl Handler<Total> for Sum {
    type Reply = u64;
    fn handle(&mut self, _msg: Total, _cx: &mut Context<Self>) -> u64 {
        self.0
    }
}

const MESSAGES: u64 = 10_000;

/// Allocations that so many messages make, once all pools are warm. `tell` tells the actor a message that counts one.
fn allocations(sum: &ActorRef<Sum>, tell: impl Fn()) -> u64 {
    let send = || {
        (0..MESSAGES).for_each(|_| tell());
        sum.ask(Total).wait().expect("it answers")
    };
    assert_eq!(send(), MESSAGES);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(send(), 2 * MESSAGES);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
#[cfg_attr(unpooled, ignore = "without pools each message allocates")]
fn a_message_of_48_bytes_allocates_nothing_and_a_larger_one_is_boxed() {
    let _turn = lock(&TURN);
    let system = system_of(1);
    let sum = system.spawn(Sum::default());
    let inline = allocations(&sum, || {
        sum.tell(Words([1; INLINE_WORDS])).expect("it lives")
    });
    assert!(inline < MESSAGES / 100, "{inline} allocations");
    for router in [Router::HashOfKey, Router::PowerOfTwoChoices { seed: 1 }] {
        let options = GroupOptions::new(1).router(router);
        let group = system.spawn_group(options, |_| Sum::default());
        let group = group.expect("valid options");
        let tell = || {
            group
                .route("key")
                .tell(Words([1; INLINE_WORDS]))
                .expect("it lives")
        };
        let routed = allocations(&group.members()[0], tell);
        assert!(routed < MESSAGES / 100, "{routed} allocations, {router}");
    }
    let sum = system.spawn(Sum::default());
    let boxed = allocations(&sum, || {
        sum.tell(Words([1; INLINE_WORDS + 1])).expect("it lives")
    });
    assert!(
        (MESSAGES..MESSAGES + MESSAGES / 100).contains(&boxed),
        "{boxed}"
    );
}

/// Checks that nothing is left of each call, not one byte on average.
#[track_caller]
fn check_no_growth(what: &str, mut call: impl FnMut()) {
    const REPEATS: isize = 10_000;
    (0..100).for_each(|_| call());
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    (0..REPEATS).for_each(|_| call());
    let growth = LIVE_BYTES.load(Ordering::Relaxed) - before;
    assert!(
        growth < REPEATS,
        "{what}: {growth} bytes in {REPEATS} calls"
    );
}

#[test]
fn watchers_that_gave_up_and_notices_for_the_terminated_leave_nothing() {
    let _turn = lock(&TURN);
    let system = system();
    let (alive, gone) = (probe(&system).0, probe(&system).0);
    check_no_growth("a deadline of a wait has passed", || {
        assert!(alive.wait_ended_until(Instant::now()).is_none());
    });
    let watched = alive.clone();
    let notify = within(&gone, move |cx| {
        cx.watch(&watched);
        Box::new(cx.waker_fn(|_, _| ())) as Box<dyn Fn() + Send>
    });
    gone.stop();
    ended(&gone);
    check_no_growth("a notice for a terminated actor", notify);
    // Its watch is of no use to anybody.
    alive.stop();
    ended(&alive);
}
