//! Selective receive: taken values leave capacity to producers.

use freeboard_queue::{PLAIN_MARK, Popped, Refused};

use crate::common::{SlotQueue, for_lane_and_ring};

/// A consumer that only calls `take_first` does not fill its queue with holes.
fn taken_values_do_not_fill_the_queue<Q: SlotQueue<Box<u64>>>() {
    for bound in [1, 2, 40, 255, 256, 300] {
        let queue = Q::new(bound);
        for value in 0..3 * bound {
            assert!(queue.push(Box::new(value)).is_ok(), "{value} of {bound}");
            let taken = queue.take_first(|_| true);
            assert_eq!(taken, Some(Box::new(value)));
            assert_eq!((queue.depth(), queue.accepted()), (0, value + 1));
        }
    }
}

/// Values taken from behind an old one at the head leave capacity.
fn values_behind_an_old_one_leave_capacity<Q: SlotQueue<Box<u64>>>() {
    for bound in [2, 3, 40, 255, 256, 300] {
        let queue = Q::new(bound);
        let old = bound / 2;
        for value in 0..old {
            queue.push(Box::new(value)).unwrap();
        }
        for value in old..5 * bound {
            queue.push(Box::new(value)).unwrap();
            let taken = queue.take_first(|taken| **taken >= old);
            assert_eq!(taken, Some(Box::new(value)));
            assert_eq!((queue.depth(), queue.accepted()), (old, value + 1));
        }
        for value in 0..old {
            let popped = queue.pop();
            assert_eq!(popped, Popped::Value(Box::new(value), PLAIN_MARK));
        }
    }
}

/// A slot that is given up at the head costs no capacity once the consumer published.
fn holes_at_the_head_cost_no_capacity<Q: SlotQueue<u8>>() {
    for bound in [1, 2, 300] {
        let queue = Q::new(bound);
        for _ in 0..bound {
            drop(queue.reserve().unwrap());
        }
        assert_eq!(queue.reserve().map(drop), Err(Refused::Full(())));
        assert_eq!(queue.publish(), 0);
        assert_eq!((queue.depth(), queue.accepted()), (0, 0));
        drop(queue.reserve().unwrap());
        assert_eq!(queue.take_first(|_| true), None);
        assert_eq!((queue.depth(), queue.accepted()), (0, 0));
    }
}

/// A reserved slot that is not filled yet stays where it is, and so does a hole behind it
/// until the next call.
fn pending_slots_stay_where_they_are<Q: SlotQueue<u32>>() {
    let queue = Q::new(8);
    queue.push(0).unwrap();
    let pending = queue.reserve().unwrap();
    for value in 2..6 {
        queue.push(value).unwrap();
    }
    assert_eq!(queue.take_first(|value| *value == 4), Some(4));
    assert_eq!(queue.take_first(|value| *value == 2), Some(2));
    assert_eq!(queue.depth(), 6);
    // SAFETY: the writer initialises the value.
    unsafe { pending.fill(PLAIN_MARK, |slot| slot.write(1)) };
    assert_eq!(queue.take_first(|_| false), None);
    assert_eq!((queue.depth(), queue.accepted()), (4, 6));
    for value in [0, 1, 3, 5] {
        assert_eq!(queue.pop(), Popped::Value(value, PLAIN_MARK));
    }
    assert_eq!(queue.pop(), Popped::Empty);
}

for_lane_and_ring!(
    taken_values_do_not_fill_the_queue,
    values_behind_an_old_one_leave_capacity,
    holes_at_the_head_cost_no_capacity,
    pending_slots_stay_where_they_are,
);
