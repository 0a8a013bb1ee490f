//! The interface that the queues share, so that one test runs on each of them.

use freeboard_queue::{Barrier, Lane, LockedLane, PLAIN_MARK, Permit, Popped, Refused, Ring};

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

    fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>>;
    fn reserve(&self) -> Result<Permit<'_, T>, Refused<()>>;
    /// Pops in place, calls `before_move`, then moves the value out.
    fn pop_in_place(&self, before_move: impl FnOnce(*const T)) -> Option<(T, u64)>;
}

/// The methods that have the same names in all queues.
macro_rules! same_names {
    () => {
        fn new(bound: u64) -> Self {
            Self::new(bound)
        }
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
    ($queue:ident, $leaves_holes:literal) => {
        // SAFETY of all consumer calls: each test has one consumer thread.
        impl<T> Queue<T> for $queue<T> {
            same_names!();
            fn push(&self, value: T) -> Result<(), Refused<T>> {
                self.push(value).map(drop)
            }
            fn push_past_waiters(&self, value: T) -> Option<Result<(), Refused<T>>> {
                Some(self.push_past_waiters(value, |_| PLAIN_MARK).map(drop))
            }
            fn pop(&self) -> Popped<T> {
                // SAFETY: see above.
                unsafe { self.pop() }
            }
            fn publish(&self) -> u64 {
                // SAFETY: see above.
                unsafe { self.publish() }
            }
            fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
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

        impl<T: Send> SlotQueue<T> for $queue<T> {
            const LEAVES_HOLES: bool = $leaves_holes;
            const BOUND_MAX: u64 = Self::BOUND_MAX;

            fn push_with(
                &self,
                value: T,
                mark: impl FnOnce(u64) -> u64,
            ) -> Result<u64, Refused<T>> {
                self.push_with(value, mark)
            }
            fn reserve(&self) -> Result<Permit<'_, T>, Refused<()>> {
                self.reserve()
            }
            fn pop_in_place(&self, before_move: impl FnOnce(*const T)) -> Option<(T, u64)> {
                // SAFETY: see above.
                let popped = unsafe { self.pop_in_place() };
                let Popped::Value(value, mark) = popped else {
                    return None;
                };
                before_move(value.as_ptr());
                // SAFETY: moved out once, before the next consumer call.
                Some((unsafe { value.read() }, mark))
            }
        }
    };
}

slot_queue!(Lane, true);
slot_queue!(Ring, false);

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
