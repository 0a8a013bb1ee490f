//! The behaviour of locked lanes alone: evicting, replacing by key, and taking out of turn without growing.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::VecDeque,
    rc::Rc,
};

use freeboard_queue::{LockedLane, PLAIN_MARK, Popped, Refused};
use proptest::prelude::*;

use crate::barriers::BOTH;

thread_local! {
    /// The largest allocation of this thread, in bytes.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which also records each thread's largest allocation.
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

/// The oldest value's mark decides on the end, and a popped key is free again at both.
#[test]
fn either_end_is_popped() {
    let lane = LockedLane::<u32, u32>::new(4);
    for value in 1..=4 {
        let pushed = lane.push_coalescing(value, |_| u64::from(value), Some(value));
        assert_eq!(pushed, Ok(None));
    }
    let pop = |wanted_mark, takes_newest| {
        // SAFETY: this thread is the only consumer, and moves the value out at once.
        unsafe {
            let popped = lane.pop_either_in_place(|mark| {
                assert_eq!(mark, wanted_mark);
                takes_newest
            });
            popped.read()
        }
    };
    assert_eq!(pop(1, true), Popped::Value(4, 4));
    assert_eq!(pop(1, false), Popped::Value(1, 1));
    assert_eq!(lane.push_coalescing(4, |_| 5, Some(4)), Ok(None));
    assert_eq!(lane.push_coalescing(2, |_| 6, Some(2)), Ok(Some(2)));
    assert_eq!(lane.take_first(|value| *value == 4), Some(4));
    assert_eq!(pop(2, true), Popped::Value(3, 3));
    assert_eq!(pop(2, true), Popped::Value(2, 2));
    assert_eq!((pop(0, true), lane.depth()), (Popped::Empty, 0));
}

/// At a barrier an evicting lane only replaces values.
#[test]
fn a_locked_lane_evicts_at_a_barrier() {
    for barrier in BOTH {
        let lane = LockedLane::<u32, ()>::new(3);
        lane.raise(barrier);
        assert_eq!(lane.push_evicting(1, |_| PLAIN_MARK), Err(Refused::Full(1)));
        assert_eq!((lane.depth(), lane.accepted()), (0, 0));
        lane.lower(barrier);
        assert_eq!(lane.push_evicting(2, |_| PLAIN_MARK), Ok(None));
        lane.raise(barrier);
        assert_eq!(lane.push_evicting(3, |_| PLAIN_MARK), Ok(Some(2)));
        assert_eq!((lane.depth(), lane.accepted()), (1, 2));
        assert_eq!(lane.pop(), Popped::Value(3, PLAIN_MARK));
        lane.close();
        assert_eq!(
            lane.push_evicting(4, |_| PLAIN_MARK),
            Err(Refused::Closed(4))
        );
    }
}

/// At a barrier a coalescing lane still replaces what is queued with the same key.
#[test]
fn a_locked_lane_replaces_at_a_barrier() {
    let lane = LockedLane::new(3);
    let push = |value, key| lane.push_coalescing(value, |_| PLAIN_MARK, Some(key));
    assert_eq!(push(1, 'a'), Ok(None));
    for barrier in BOTH {
        lane.raise(barrier);
        assert_eq!(push(1, 'a'), Ok(Some(1)));
        assert_eq!(push(2, 'b'), Err(Refused::Full(2)));
        lane.lower(barrier);
    }
    assert_eq!((lane.depth(), lane.accepted()), (1, 3));
    assert_eq!(push(2, 'b'), Ok(None));
}

/// A value that was popped in place lies in the lane until the next pop, while producers push, and is moved out once.
#[test]
fn a_locked_lane_pops_in_place() {
    let lane = LockedLane::<Rc<u32>, ()>::new(2);
    for value in 0..4 {
        lane.push_evicting(Rc::new(value), |_| PLAIN_MARK).unwrap();
    }
    for expected in [2, 3] {
        // SAFETY: this thread is the only consumer, and moves the value out once.
        let popped = unsafe { lane.pop_in_place() };
        lane.push_evicting(Rc::new(expected + 2), |_| PLAIN_MARK)
            .unwrap();
        // SAFETY: as above.
        let popped = unsafe { popped.read() };
        assert_eq!(popped, Popped::Value(Rc::new(expected), PLAIN_MARK));
    }
    lane.take_first(|_| true).unwrap();
    assert_eq!(lane.pop(), Popped::Value(Rc::new(5), PLAIN_MARK));
    // SAFETY: as above.
    assert_eq!(unsafe { lane.pop_in_place() }, Popped::Empty);
}

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
    /// Evicting keeps the newest `bound` values and hands back each one it drops.
    #[test]
    fn locked_lane_evicts_the_oldest(count in 0_u64..200, bound in 1_u64..20) {
        let lane = LockedLane::<u64, ()>::new(bound);
        let mut evicted = Vec::new();
        for value in 0..count {
            evicted.extend(lane.push_evicting(value, |_| PLAIN_MARK).unwrap());
            prop_assert!(lane.depth() <= bound);
        }
        let kept: Vec<u64> = std::iter::from_fn(|| match lane.pop() {
            Popped::Value(value, _) => Some(value),
            _ => None,
        })
        .collect();
        let cut = count.saturating_sub(bound);
        prop_assert_eq!(evicted, (0..cut).collect::<Vec<_>>());
        prop_assert_eq!(kept, (cut..count).collect::<Vec<_>>());
    }

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
