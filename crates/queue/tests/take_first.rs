//! Selective receive: what it takes leaves capacity to producers and no memory behind.
#![cfg(not(loom))]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::VecDeque,
};

use freeboard_queue::{Lane, LockedLane, PLAIN_MARK, Popped, Refused, Ring};
use proptest::prelude::*;

thread_local! {
    /// The largest allocation of this thread, in bytes.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator; remembers each thread's largest allocation.
struct Observed;

// SAFETY: the system's allocator, unchanged.
unsafe impl GlobalAlloc for Observed {
    // SAFETY: as the trait's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static OBSERVED: Observed = Observed;

/// What a lane and a ring have in common.
macro_rules! capacity_tests {
    ($queue:ident, $only:ident, $behind:ident, $holes:ident, $pending:ident) => {
        /// A consumer that only calls `take_first` never fills its queue.
        #[test]
        fn $only() {
            for bound in [1, 2, 40, 255, 256, 300] {
                let queue = $queue::new(bound);
                for value in 0..3 * bound {
                    assert!(queue.push(Box::new(value)).is_ok(), "{value} of {bound}");
                    // SAFETY: the test's thread is the only consumer.
                    let taken = unsafe { queue.take_first(|_| true) };
                    assert_eq!(taken, Some(Box::new(value)));
                    assert_eq!((queue.depth(), queue.accepted()), (0, value + 1));
                }
            }
        }

        /// Values behind an old one at the head make room as they are taken.
        #[test]
        fn $behind() {
            for bound in [2, 3, 40, 255, 256, 300] {
                let queue = $queue::new(bound);
                let old = bound / 2;
                for value in 0..old {
                    queue.push(Box::new(value)).unwrap();
                }
                for value in old..5 * bound {
                    queue.push(Box::new(value)).unwrap();
                    // SAFETY: the test's thread is the only consumer.
                    let taken = unsafe { queue.take_first(|taken| **taken >= old) };
                    assert_eq!(taken, Some(Box::new(value)));
                    assert_eq!((queue.depth(), queue.accepted()), (old, value + 1));
                }
                for value in 0..old {
                    // SAFETY: as above.
                    let popped = unsafe { queue.pop() };
                    assert_eq!(popped, Popped::Value(Box::new(value), PLAIN_MARK));
                }
            }
        }

        /// A slot that is given up at the head costs no capacity once the consumer published.
        #[test]
        fn $holes() {
            for bound in [1, 2, 300] {
                let queue = $queue::<u8>::new(bound);
                for _ in 0..bound {
                    drop(queue.reserve().unwrap());
                }
                assert_eq!(queue.reserve().map(drop), Err(Refused::Full(())));
                // SAFETY: the test's thread is the only consumer.
                assert_eq!(unsafe { queue.publish() }, 0);
                assert_eq!((queue.depth(), queue.accepted()), (0, 0));
                drop(queue.reserve().unwrap());
                // SAFETY: as above.
                assert_eq!(unsafe { queue.take_first(|_| true) }, None);
                assert_eq!((queue.depth(), queue.accepted()), (0, 0));
            }
        }

        /// A reserved slot that is not filled yet stays where it is, and so does a hole behind it
        /// until the next call.
        #[test]
        fn $pending() {
            let queue = $queue::new(8);
            queue.push(0).unwrap();
            let pending = queue.reserve().unwrap();
            for value in 2..6 {
                queue.push(value).unwrap();
            }
            // SAFETY: the test's thread is the only consumer; the writer initialises the value.
            unsafe {
                assert_eq!(queue.take_first(|value| *value == 4), Some(4));
                assert_eq!(queue.take_first(|value| *value == 2), Some(2));
                assert_eq!(queue.depth(), 6);
                pending.fill(PLAIN_MARK, |slot| slot.write(1));
                assert_eq!(queue.take_first(|_| false), None);
                assert_eq!((queue.depth(), queue.accepted()), (4, 6));
                for value in [0, 1, 3, 5] {
                    assert_eq!(queue.pop(), Popped::Value(value, PLAIN_MARK));
                }
                assert_eq!(queue.pop(), Popped::Empty);
            }
        }
    };
}

capacity_tests!(
    Lane,
    a_lane_is_not_filled_by_what_was_taken,
    a_lane_has_room_behind_an_old_value,
    a_lane_steps_over_slots_given_up,
    a_lane_leaves_pending_slots_where_they_are
);
capacity_tests!(
    Ring,
    a_ring_is_not_filled_by_what_was_taken,
    a_ring_has_room_behind_an_old_value,
    a_ring_steps_over_slots_given_up,
    a_ring_leaves_pending_slots_where_they_are
);

/// The deque of a locked lane does not grow while values behind an old one are taken.
#[test]
fn a_locked_lanes_deque_stays_small() {
    const VALUE_BYTES: usize = 1_000;
    let lane = LockedLane::<[u8; VALUE_BYTES], ()>::new(4);
    lane.push_evicting([0; VALUE_BYTES], |_| PLAIN_MARK)
        .unwrap();
    for _ in 0..1_000 {
        lane.push_evicting([1; VALUE_BYTES], |_| PLAIN_MARK)
            .unwrap();
        assert!(lane.take_first(|value| value[0] == 1).is_some());
    }
    assert_eq!(lane.depth(), 1);
    let largest = LARGEST.get();
    assert!(largest < 100 * VALUE_BYTES, "{largest} bytes");
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8),
    Take(u8),
    Pop,
}

proptest! {
    /// Keys find their entries whatever was taken from the middle.
    #[test]
    fn a_locked_lane_finds_its_keys(
        steps in proptest::collection::vec(
            prop_oneof![
                6 => (0_u8..20).prop_map(Step::Push),
                4 => (0_u8..20).prop_map(Step::Take),
                1 => Just(Step::Pop),
            ],
            0..400,
        ),
        bound in 1_u64..16,
    ) {
        let lane = LockedLane::new(bound);
        let mut model: VecDeque<(u8, usize)> = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(key) => {
                    let outcome = lane.push_coalescing((key, number), |_| PLAIN_MARK, Some(key));
                    if let Some(entry) = model.iter_mut().find(|entry| entry.0 == key) {
                        prop_assert_eq!(outcome, Ok(Some(*entry)));
                        entry.1 = number;
                    } else if model.len() as u64 == bound {
                        prop_assert_eq!(outcome, Err(Refused::Full((key, number))));
                    } else {
                        prop_assert_eq!(outcome, Ok(None));
                        model.push_back((key, number));
                    }
                }
                Step::Take(key) => {
                    let taken = lane.take_first(|entry| entry.0 == key);
                    let at = model.iter().position(|entry| entry.0 == key);
                    prop_assert_eq!(taken, at.and_then(|at| model.remove(at)));
                }
                Step::Pop => {
                    let popped = match lane.pop() {
                        Popped::Value(value, _) => Some(value),
                        _ => None,
                    };
                    prop_assert_eq!(popped, model.pop_front());
                }
            }
            prop_assert_eq!(lane.depth(), model.len() as u64);
        }
    }
}
