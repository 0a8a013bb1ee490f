//! Allocations per message: none up to 48 bytes, one box beyond that. A group's router adds none.
//!
//! A process of its own: its allocator counts what every thread allocates.
#![cfg(not(any(loom, unpooled)))]

use std::{
    alloc::{GlobalAlloc, Layout, System as SystemAllocator},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use freeboard_actor::{
    Actor, ActorRef, Context, GroupOptions, Handler, INLINE_BYTES, Router, System,
};

/// Counts allocations of at least [`COUNTED_BYTES`], in the whole process.
struct Counting;

/// Below it are those of the test's own asks and of the standard library.
const COUNTED_BYTES: usize = INLINE_BYTES;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promise is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= COUNTED_BYTES {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { SystemAllocator.alloc(layout) }
    }

    // SAFETY: the caller's promise is passed on.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { SystemAllocator.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Sum(u64);

impl Actor for Sum {}

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

/// Allocations that `count` messages of so many words make, once all pools are warm.
fn allocations<const WORDS: usize>(count: u64) -> u64 {
    let system = System::builder().workers(1).build().expect("it starts");
    let sum = system.spawn(Sum::default());
    let tell = || sum.tell(Words::<WORDS>([1; WORDS])).expect("it lives");
    allocations_of(&system, count, tell, &sum)
}

/// The same through a group of one.
fn allocations_through(router: Router, count: u64) -> u64 {
    let system = System::builder().workers(1).build().expect("it starts");
    let options = GroupOptions::new(1).router(router);
    let group = system.spawn_group(options, |_| Sum::default());
    let group = group.expect("valid options");
    let tell = || group.route("key").tell(Words([1; 6])).expect("it lives");
    allocations_of(&system, count, tell, &group.members()[0])
}

fn allocations_of(system: &System, count: u64, tell: impl Fn(), sum: &ActorRef<Sum>) -> u64 {
    let send = || {
        (0..count).for_each(|_| tell());
        sum.ask(Total).wait().expect("it answers")
    };
    assert_eq!(send(), count);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(send(), 2 * count);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(system.shutdown(Duration::from_secs(20)).is_clean());
    allocated
}

// One test: the counter is the process's.
#[test]
fn a_message_of_48_bytes_allocates_nothing_and_a_larger_one_is_boxed() {
    const COUNT: u64 = 10_000;
    let inline = allocations::<6>(COUNT);
    assert!(inline < COUNT / 100, "{inline} allocations");
    for router in [Router::HashOfKey, Router::PowerOfTwoChoices { seed: 1 }] {
        let routed = allocations_through(router, COUNT);
        assert!(routed < COUNT / 100, "{routed} allocations, {router}");
    }
    let boxed = allocations::<7>(COUNT);
    assert!((COUNT..COUNT + COUNT / 100).contains(&boxed), "{boxed}");
}
