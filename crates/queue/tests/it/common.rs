//! The interface that the queues share, so that one test runs on each of them.

use std::{cell::Cell, mem::MaybeUninit, ptr::NonNull};

use freeboard_queue::{
    Barrier, Lane, LockedLane, PLAIN_MARK, Permit, Popped, Refused, Ring, Sizes, Whole,
};

/// A queue of any kind. Its consumer methods may be safe here: each test has one consumer thread.
pub(crate) trait Queue<T>: Sized {
    fn new(bound: u64) -> Self;
    fn push(&self, value: T) -> Result<(), Refused<T>>;
    /// `None` if the queue has no waiting senders.
    fn push_past_waiters(&self, value: T) -> Option<Result<(), Refused<T>>>;
    fn pop(&self) -> Popped<T>;
    fn publish(&self) -> u64;
    fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T>;
    fn queued(&self) -> u64;
    fn is_ready(&self) -> bool;
    fn raise(&self, barrier: Barrier);
    fn lower(&self, barrier: Barrier);
    fn is_raised(&self, barrier: Barrier) -> bool;
    fn close(&self) -> bool;
    fn is_closed(&self) -> bool;
    fn depth(&self) -> u64;
    fn bound(&self) -> u64;
    fn accepted(&self) -> u64;
}

/// A queue in which producers reserve slots and the consumer pops in place.
pub(crate) trait SlotQueue<T>: Queue<T> + Send + Sync {
    /// Whether a refusal at the bound leaves a hole.
    const LEAVES_HOLES: bool;
    const BOUND_MAX: u64;
    type Sizes: Sizes<T>;

    fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>>;
    fn reserve(&self) -> Result<Permit<'_, T, Self::Sizes>, Refused<()>>;
    /// Pops in place, calls `before_move`, then moves the value out.
    fn pop_in_place(&self, before_move: impl FnOnce(*const T)) -> Option<(T, u64)>;
}

/// The methods that have the same names in all queues.
macro_rules! same_names {
    () => {
        fn new(bound: u64) -> Self {
            Self::new(bound)
        }
        same_names!(besides new);
    };
    (besides new) => {
        fn raise(&self, barrier: Barrier) {
            self.raise(barrier);
        }
        fn lower(&self, barrier: Barrier) {
            self.lower(barrier);
        }
        fn is_raised(&self, barrier: Barrier) -> bool {
            self.is_raised(barrier)
        }
        fn close(&self) -> bool {
            self.close()
        }
        fn is_closed(&self) -> bool {
            self.is_closed()
        }
        fn depth(&self) -> u64 {
            self.depth()
        }
        fn bound(&self) -> u64 {
            self.bound()
        }
        fn accepted(&self) -> u64 {
            self.accepted()
        }
    };
}

macro_rules! slot_queue {
    ([$($generic:ident)?] $queue:ty, $value:ty, $sizes:ty, $leaves_holes:literal, $new:expr, $read:expr) => {
        // SAFETY of all consumer calls: each test has one consumer thread.
        impl$(<$generic>)? Queue<$value> for $queue {
            fn new(bound: u64) -> Self {
                $new(bound)
            }
            same_names!(besides new);
            fn push(&self, value: $value) -> Result<(), Refused<$value>> {
                self.push(value).map(drop)
            }
            fn push_past_waiters(&self, value: $value) -> Option<Result<(), Refused<$value>>> {
                Some(self.push_past_waiters(value, |_| PLAIN_MARK).map(drop))
            }
            fn pop(&self) -> Popped<$value> {
                // SAFETY: see above.
                unsafe { self.pop() }
            }
            fn publish(&self) -> u64 {
                // SAFETY: see above.
                unsafe { self.publish() }
            }
            fn take_first(&self, matches: impl FnMut(&$value) -> bool) -> Option<$value> {
                // SAFETY: see above.
                unsafe { self.take_first(matches) }
            }
            fn queued(&self) -> u64 {
                // SAFETY: see above.
                unsafe { self.queued() }
            }
            fn is_ready(&self) -> bool {
                // SAFETY: see above.
                unsafe { self.is_ready() }
            }
        }

        impl$(<$generic: Send>)? SlotQueue<$value> for $queue {
            const LEAVES_HOLES: bool = $leaves_holes;
            const BOUND_MAX: u64 = Self::BOUND_MAX;
            type Sizes = $sizes;

            fn push_with(
                &self,
                value: $value,
                mark: impl FnOnce(u64) -> u64,
            ) -> Result<u64, Refused<$value>> {
                self.push_with(value, mark)
            }
            fn reserve(&self) -> Result<Permit<'_, $value, $sizes>, Refused<()>> {
                self.reserve()
            }
            fn pop_in_place(&self, before_move: impl FnOnce(*const $value)) -> Option<($value, u64)> {
                // SAFETY: see above.
                let popped = unsafe { self.pop_in_place() };
                let Popped::Value(value, mark) = popped else {
                    return None;
                };
                before_move(value.as_ptr());
                // SAFETY: moved out once, before the next consumer call.
                Some((unsafe { $read(value) }, mark))
            }
        }
    };
}

slot_queue!([T] Lane<T>, T, Whole, true, Lane::new, NonNull::read);
slot_queue!([T] Ring<T>, T, Whole, false, Ring::new, NonNull::read);
slot_queue!([] MixedLane, Item, Mixed, true, |bound| MixedLane::with_tag(bound, [0; 3]), Item::read);

/// A lane with short and long values.
pub(crate) type MixedLane = Lane<Item, Mixed>;

/// A long one repeats its number in bytes that a short one does not have.
#[repr(C)]
pub(crate) struct Item {
    number: Box<u64>,
    pub(crate) looks: Cell<u32>,
    is_long: bool,
    tail: MaybeUninit<[u64; 5]>,
}

pub(crate) struct Mixed;

// SAFETY: the bytes behind `is_long` are padding, or `MaybeUninit` in a short one.
unsafe impl Sizes<Item> for Mixed {
    type Short = [u64; 3];

    const HAS_SHORT: bool = true;

    fn is_short(item: &Item) -> bool {
        !item.is_long
    }
}

impl Item {
    pub(crate) fn sized(number: u64, is_long: bool) -> Self {
        let tail = match is_long {
            true => MaybeUninit::new([number; 5]),
            false => MaybeUninit::uninit(),
        };
        let number = Box::new(number);
        Self {
            number,
            looks: Cell::new(0),
            is_long,
            tail,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        if self.is_long {
            // SAFETY: the tail of a long one is there.
            let tail = unsafe { self.tail.assume_init() };
            assert_eq!(tail, [*self.number; 5], "torn");
        }
        *self.number
    }

    /// # Safety
    /// `slot` has the space of a short one, which this one is.
    pub(crate) unsafe fn write_short(self, slot: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*slot).number).write(self.number);
            (&raw mut (*slot).looks).write(self.looks);
            (&raw mut (*slot).is_long).write(self.is_long);
        }
    }

    /// # Safety
    /// It was popped in place, and is read once.
    unsafe fn read(item: NonNull<Self>) -> Self {
        // SAFETY: the caller's promise; the bytes behind a short one's `is_long` are not read.
        unsafe {
            let item = item.as_ptr();
            let is_long = (&raw const (*item).is_long).read();
            Self {
                number: (&raw const (*item).number).read(),
                looks: (&raw const (*item).looks).read(),
                is_long,
                tail: match is_long {
                    true => (&raw const (*item).tail).read(),
                    false => MaybeUninit::uninit(),
                },
            }
        }
    }
}

impl<T> Queue<T> for LockedLane<T, u32> {
    same_names!();
    fn push(&self, value: T) -> Result<(), Refused<T>> {
        self.push_coalescing(value, |_| PLAIN_MARK, None).map(drop)
    }
    fn push_past_waiters(&self, _value: T) -> Option<Result<(), Refused<T>>> {
        None
    }
    fn pop(&self) -> Popped<T> {
        self.pop()
    }
    fn publish(&self) -> u64 {
        self.publish()
    }
    fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.take_first(matches)
    }
    fn queued(&self) -> u64 {
        self.queued()
    }
    fn is_ready(&self) -> bool {
        self.is_ready()
    }
}

/// Runs each function as a test, once for lanes and once for rings.
macro_rules! for_lane_and_ring {
    ($($test:ident),* $(,)?) => {
        mod lane {
            $(#[test] fn $test() { super::$test::<::freeboard_queue::Lane<_>>(); })*
        }
        mod ring {
            $(#[test] fn $test() { super::$test::<::freeboard_queue::Ring<_>>(); })*
        }
    };
}
pub(crate) use for_lane_and_ring;
