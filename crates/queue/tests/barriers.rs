//! The barriers of all three queues, through their public interface.
#![cfg(not(loom))]

use freeboard_queue::{Barrier, Lane, LockedLane, PLAIN_MARK, Popped, Refused, Ring};

/// What the three queues have in common.
trait Queue {
    fn with_bound(bound: u64) -> Self;
    fn push(&self, value: u32) -> Result<(), Refused<u32>>;
    fn push_past_waiters(&self, value: u32) -> Result<(), Refused<u32>>;
    fn pop(&self) -> Option<u32>;
    fn raise(&self, barrier: Barrier);
    fn lower(&self, barrier: Barrier);
    fn is_raised(&self, barrier: Barrier) -> bool;
    fn close(&self) -> bool;
    fn is_closed(&self) -> bool;
    fn is_drained(&self) -> bool;
    /// Depth and number of accepted values.
    fn counts(&self) -> (u64, u64);
}

/// The parts that have the same names everywhere.
macro_rules! shared {
    () => {
        fn with_bound(bound: u64) -> Self {
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
        fn counts(&self) -> (u64, u64) {
            (self.depth(), self.accepted())
        }
    };
}

/// The parts that a lane and a ring share.
macro_rules! by_one_consumer {
    () => {
        shared!();
        fn push(&self, value: u32) -> Result<(), Refused<u32>> {
            self.push(value).map(drop)
        }
        fn push_past_waiters(&self, value: u32) -> Result<(), Refused<u32>> {
            self.push_past_waiters(value, |_| PLAIN_MARK).map(drop)
        }
        fn pop(&self) -> Option<u32> {
            // SAFETY: the test's thread is the only consumer.
            let popped = unsafe { self.pop() };
            // SAFETY: as above.
            unsafe { self.publish() };
            match popped {
                Popped::Value(value, _) => Some(value),
                Popped::Empty => None,
                Popped::Pending => unreachable!("nobody is pushing"),
            }
        }
        fn is_drained(&self) -> bool {
            // SAFETY: the test's thread is the only consumer.
            unsafe { self.is_drained() }
        }
    };
}

impl Queue for Lane<u32> {
    by_one_consumer!();
}

impl Queue for Ring<u32> {
    by_one_consumer!();
}

impl Queue for LockedLane<u32, u32> {
    shared!();
    fn push(&self, value: u32) -> Result<(), Refused<u32>> {
        self.push_coalescing(value, |_| PLAIN_MARK, None).map(drop)
    }
    fn push_past_waiters(&self, value: u32) -> Result<(), Refused<u32>> {
        self.push_past_waiters(value, |_| PLAIN_MARK, None)
            .map(drop)
    }
    fn pop(&self) -> Option<u32> {
        match self.pop() {
            Popped::Value(value, _) => Some(value),
            _ => None,
        }
    }
    fn is_drained(&self) -> bool {
        self.depth() == 0
    }
}

const BOTH: [Barrier; 2] = [Barrier::Waiters, Barrier::Pause];

/// The table of `barrier.rs`: each combination of barriers and fill level, open and closed.
fn check_table<Q: Queue>() {
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

fn check_row<Q: Queue>(bound: u64, depth: u64, raised: usize, is_closed: bool) {
    let queue = Q::with_bound(bound);
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
        let pushed = queue.push_past_waiters(7);
        assert_eq!(pushed, expected(pause || accepted == bound));
        accepted += u64::from(pushed.is_ok());
    }
    assert_eq!(queue.counts(), (accepted, accepted));
    assert_eq!(queue.is_closed(), is_closed);
    assert_eq!(queue.is_drained(), accepted == 0);
    for _ in 0..accepted {
        assert!(queue.pop().is_some());
    }
    assert_eq!(queue.pop(), None);
    assert_eq!(queue.counts(), (0, accepted));
    assert!(queue.is_drained());
    // The bound's refusals and the consumer's progress leave the barriers as they were.
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

/// At a barrier an evicting lane takes a value only in another one's place.
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
        let past = lane.push_past_waiters(1, |_| PLAIN_MARK, Some('a'));
        assert_eq!(past, Ok(Some(1)));
        lane.lower(barrier);
    }
    assert_eq!((lane.depth(), lane.accepted()), (1, 5));
    assert_eq!(push(2, 'b'), Ok(None));
}
