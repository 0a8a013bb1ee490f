//! The barriers of all three queues.

use freeboard_queue::{Barrier, Lane, LockedLane, Popped, Refused, Ring};

use crate::common::Queue;

pub(crate) const BOTH: [Barrier; 2] = [Barrier::Waiters, Barrier::Pause];

/// The table in the documentation of barriers: each combination of barriers and depth, open and closed.
fn check_table<Q: Queue<u32>>() {
    for bound in [1, 2, 300] {
        for depth in [0, bound - 1, bound] {
            for raised in 0..4 {
                for is_closed in [false, true] {
                    check_row::<Q>(bound, depth, raised, is_closed);
                }
            }
        }
    }
}

fn check_row<Q: Queue<u32>>(bound: u64, depth: u64, raised: usize, is_closed: bool) {
    let queue = Q::new(bound);
    for value in 0..depth {
        queue.push(value as u32).unwrap();
    }
    let is_raised = |barrier: usize| raised & 1 << barrier != 0;
    for (number, barrier) in BOTH.into_iter().enumerate() {
        // Twice: the second call changes nothing.
        for _ in 0..2 {
            if is_raised(number) {
                queue.raise(barrier);
            } else {
                queue.lower(barrier);
            }
        }
        assert_eq!(queue.is_raised(barrier), is_raised(number));
    }
    if is_closed {
        assert!(queue.close());
    }
    let [waiters, pause] = [is_raised(0), is_raised(1)];
    let expected = |is_full| match (is_closed, is_full) {
        (true, _) => Err(Refused::Closed(7)),
        (false, true) => Err(Refused::Full(7)),
        (false, false) => Ok(()),
    };
    let mut accepted = depth;
    for _ in 0..2 {
        let pushed = queue.push(7);
        assert_eq!(pushed, expected(waiters || pause || accepted == bound));
        accepted += u64::from(pushed.is_ok());
    }
    for _ in 0..2 {
        let Some(pushed) = queue.push_past_waiters(7) else {
            break;
        };
        assert_eq!(pushed, expected(pause || accepted == bound));
        accepted += u64::from(pushed.is_ok());
    }
    assert_eq!((queue.depth(), queue.accepted()), (accepted, accepted));
    assert_eq!(queue.is_closed(), is_closed);
    assert_eq!((queue.queued(), queue.is_ready()), (accepted, accepted > 0));
    for _ in 0..accepted {
        assert!(matches!(queue.pop(), Popped::Value(..)));
        queue.publish();
    }
    assert_eq!(queue.pop(), Popped::Empty);
    assert_eq!((queue.depth(), queue.accepted()), (0, accepted));
    assert_eq!(queue.queued(), 0);
    // Neither the bound nor the consumer changes the barriers.
    for (number, barrier) in BOTH.into_iter().enumerate() {
        assert_eq!(queue.is_raised(barrier), is_raised(number));
        queue.lower(barrier);
    }
    assert_eq!(queue.push(7), expected(false));
    assert_eq!(queue.close(), !is_closed);
}

#[test]
fn a_lane_keeps_its_barriers() {
    check_table::<Lane<u32>>();
}

#[test]
fn a_ring_keeps_its_barriers() {
    check_table::<Ring<u32>>();
}

#[test]
fn a_locked_lane_keeps_its_barriers() {
    check_table::<LockedLane<u32, u32>>();
}
