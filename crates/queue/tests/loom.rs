//! The lane and the ring under loom: every interleaving of small cases, with blocks of two slots.
#![cfg(loom)]

use std::{mem::MaybeUninit, ops::Deref};

use freeboard_queue::{Barrier, Lane, PLAIN_MARK, Popped, Refused, Ring, Sizes};
use loom::{sync::Arc, thread};

/// All interleavings of two preemptions, or of as many as LOOM_MAX_PREEMPTIONS says.
fn check(model: impl Fn() + Send + Sync + 'static) {
    check_preempting(2, model);
}

/// As [`check`], with at least so many preemptions.
fn check_preempting(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let asked_for = builder.preemption_bound.unwrap_or(0);
    builder.preemption_bound = Some(asked_for.max(preemptions));
    builder.check(model);
}

/// Pops until `count` values have come, publishing each pop, and yields while a producer is between its two steps.
macro_rules! drain {
    ($queue:expr, $count:expr) => {{
        let mut values: Vec<u32> = Vec::new();
        while values.len() < $count {
            // SAFETY: the test's main thread is the only consumer.
            match unsafe { $queue.pop() } {
                // SAFETY: as above.
                Popped::Value(value, _) => unsafe {
                    values.push(*value);
                    $queue.publish();
                },
                Popped::Empty | Popped::Pending => thread::yield_now(),
            }
        }
        values
    }};
}

/// Two producers cross a block's border while the consumer follows and frees behind them.
#[test]
fn values_arrive_once_in_each_producers_order() {
    check(|| {
        let lane = Arc::new(Lane::new(16));
        let producers: Vec<_> = [10, 20]
            .into_iter()
            .map(|base| {
                let lane = lane.clone();
                thread::spawn(move || {
                    for offset in 0..2 {
                        lane.push(Box::new(base + offset)).unwrap();
                    }
                })
            })
            .collect();
        let values = drain!(lane, 4);
        for base in [10, 20] {
            let own: Vec<u32> = values
                .iter()
                .copied()
                .filter(|value| (base..base + 10).contains(value))
                .collect();
            assert_eq!(own, [base, base + 1]);
        }
        for producer in producers {
            producer.join().unwrap();
        }
        // SAFETY: as above.
        assert_eq!(unsafe { lane.pop() }, Popped::Empty);
    });
}

/// A producer waits between reservation and publication while another fills and leaves its block.
#[test]
fn a_laggard_finds_its_block() {
    check(|| {
        let lane = Arc::new(Lane::new(16));
        let laggard = {
            let lane = lane.clone();
            thread::spawn(move || lane.push(Box::new(1)).unwrap())
        };
        for value in 2..6 {
            lane.push(Box::new(value)).unwrap();
        }
        let mut values = drain!(lane, 5);
        laggard.join().unwrap();
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3, 4, 5]);
    });
}

/// An odd one is long: its number is repeated in bytes that a short one does not have.
#[repr(C)]
struct Item {
    number: Box<u32>,
    tail: MaybeUninit<u64>,
}

struct Mixed;

// SAFETY: the bytes behind a short one's number are `MaybeUninit`.
unsafe impl Sizes<Item> for Mixed {
    type Short = [u64; 1];

    const HAS_SHORT: bool = true;

    fn is_short(item: &Item) -> bool {
        item.number.is_multiple_of(2)
    }
}

impl Item {
    fn new(number: u32) -> Self {
        let tail = match number % 2 {
            1 => MaybeUninit::new(number.into()),
            _ => MaybeUninit::uninit(),
        };
        let number = Box::new(number);
        Self { number, tail }
    }
}

impl Deref for Item {
    type Target = u32;

    fn deref(&self) -> &u32 {
        if *self.number % 2 == 1 {
            // SAFETY: the tail of a long one is there.
            let tail = unsafe { self.tail.assume_init() };
            assert_eq!(tail, (*self.number).into());
        }
        &self.number
    }
}

/// Two producers have short and long values, so blocks of both sizes follow each other.
#[test]
fn short_and_long_values_arrive_whole() {
    check(|| {
        let lane = Arc::new(Lane::<Item, Mixed>::with_tag(16, [0; 3]));
        let other = {
            let lane = lane.clone();
            thread::spawn(move || {
                for number in [11, 12] {
                    assert!(lane.push(Item::new(number)).is_ok());
                }
            })
        };
        for number in [20, 22, 25] {
            assert!(lane.push(Item::new(number)).is_ok());
        }
        let values = drain!(lane, 5);
        other.join().unwrap();
        let of = |tens: u32| {
            let own = values.iter().copied().filter(move |it| it / 10 == tens);
            own.collect::<Vec<_>>()
        };
        assert_eq!((of(1), of(2)), (vec![11, 12], vec![20, 22, 25]));
    });
}

/// The consumer moves values between slots of both sizes while a producer goes on.
#[test]
fn values_move_between_slots_of_both_sizes() {
    check(|| {
        let lane = Arc::new(Lane::<Item, Mixed>::with_tag(16, [0; 3]));
        // A short block, two long ones of which the second has no long value, and a short one.
        for number in [2, 4, 5, 6, 8, 10, 12] {
            assert!(lane.push(Item::new(number)).is_ok());
        }
        let other = {
            let lane = lane.clone();
            thread::spawn(move || assert!(lane.push(Item::new(14)).is_ok()))
        };
        // SAFETY: this thread is the only consumer.
        let taken = unsafe { lane.take_first(|item| **item == 12) };
        assert_eq!(taken.as_deref(), Some(&12));
        let values = drain!(lane, 7);
        other.join().unwrap();
        assert_eq!(values, [2, 4, 5, 6, 8, 10, 14]);
    });
}

/// A lane of four queued values, in the first two blocks.
fn lane_of_four() -> Arc<Lane<Box<u32>>> {
    let lane = Arc::new(Lane::new(16));
    for value in 0..4 {
        lane.push(Box::new(value)).unwrap();
    }
    lane
}

/// A laggard walks from the first block to the third, while the consumer moves along the same way and
/// reclaims behind itself.
#[test]
fn a_laggard_walks_over_blocks_that_the_consumer_leaves() {
    check_preempting(3, || {
        let lane = lane_of_four();
        let laggard = {
            let lane = lane.clone();
            thread::spawn(move || lane.push(Box::new(10)).unwrap())
        };
        for value in 4..7 {
            lane.push(Box::new(value)).unwrap();
        }
        thread::yield_now();
        let mut values = drain!(lane, 8);
        laggard.join().unwrap();
        values.retain(|value| *value != 10);
        assert_eq!(values, [0, 1, 2, 3, 4, 5, 6]);
    });
}

/// Two laggards walk at once: the consumer reclaims after both.
#[test]
fn two_laggards_walk_at_once() {
    check(|| {
        let lane = lane_of_four();
        let laggards = [10, 11].map(|value| {
            let lane = lane.clone();
            thread::spawn(move || lane.push(Box::new(value)).map(drop).unwrap())
        });
        thread::yield_now();
        lane.push(Box::new(4)).unwrap();
        let mut values = drain!(lane, 7);
        for laggard in laggards {
            laggard.join().unwrap();
        }
        values.retain(|value| *value < 10);
        assert_eq!(values, [0, 1, 2, 3, 4]);
    });
}

/// A lane is closed, in two steps, while a laggard is under way and its block is left behind.
#[test]
fn closing_waits_for_laggards() {
    check(|| {
        let lane = lane_of_four();
        let laggard = {
            let lane = lane.clone();
            thread::spawn(move || u32::from(lane.push(Box::new(10)).is_ok()))
        };
        let closer = {
            let lane = lane.clone();
            thread::spawn(move || assert!(lane.close()))
        };
        let mut accepted = 4;
        for value in 4..7 {
            accepted += u32::from(lane.push(Box::new(value)).is_ok());
        }
        thread::yield_now();
        let mut drained = 0;
        loop {
            let was_closed = lane.is_closed();
            // SAFETY: the test's main thread is the only consumer.
            match unsafe { lane.pop() } {
                Popped::Value(..) => drained += 1,
                Popped::Empty if was_closed => break,
                Popped::Empty | Popped::Pending => thread::yield_now(),
            }
        }
        closer.join().unwrap();
        accepted += laggard.join().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { lane.pop() }, Popped::Empty);
        assert_eq!((drained, lane.accepted()), (accepted, accepted.into()));
    });
}

/// The tests that run on a lane and on a ring.
macro_rules! shared_tests {
    ($module:ident, $queue:ident) => {
        mod $module {
            use super::*;

            /// Pushes, yielding while the queue is full.
            pub(super) fn push_waiting(queue: &$queue<Box<u32>>, value: u32) {
                let mut value = Box::new(value);
                while let Err(refused) = queue.push(value) {
                    value = refused.into_inner();
                    thread::yield_now();
                }
            }

            /// Two producers race for one slot: one is refused, and a hole is stepped over.
            #[test]
            fn the_bound_is_hard() {
                for bound in [1, 2] {
                    check(move || {
                        let queue = Arc::new($queue::new(bound));
                        for value in 1..bound {
                            queue.push(Box::new(value as u32)).unwrap();
                        }
                        let other = {
                            let queue = queue.clone();
                            thread::spawn(move || queue.push(Box::new(8)).is_ok())
                        };
                        let mine = queue.push(Box::new(9)).is_ok();
                        let theirs = other.join().unwrap();
                        assert!(mine ^ theirs, "exactly one fits");
                        assert_eq!(queue.depth(), bound);
                        assert_eq!(drain!(queue, bound as usize).len(), bound as usize);
                        // SAFETY: the test's main thread is the only consumer.
                        unsafe {
                            assert_eq!(queue.pop(), Popped::Empty);
                            queue.publish();
                        }
                        assert_eq!(queue.accepted(), bound);
                        queue.push(Box::new(3)).unwrap();
                        assert_eq!(drain!(queue, 1), [3]);
                    });
                }
            }

            /// Values accepted before the close are drained, all others come back.
            #[test]
            fn closing_loses_nothing() {
                check(|| {
                    let queue = Arc::new($queue::new(2));
                    let producer = {
                        let queue = queue.clone();
                        thread::spawn(move || {
                            (0..2)
                                .filter(|value| match queue.push(Box::new(*value)) {
                                    Ok(_) => true,
                                    Err(Refused::Closed(_)) => false,
                                    Err(Refused::Full(_)) => unreachable!("the bound is 2"),
                                })
                                .count()
                        })
                    };
                    assert!(queue.close());
                    let mut drained = 0;
                    loop {
                        // SAFETY: the test's main thread is the only consumer.
                        match unsafe { queue.pop() } {
                            Popped::Value(..) => drained += 1,
                            Popped::Pending => thread::yield_now(),
                            Popped::Empty => break,
                        }
                    }
                    assert_eq!(drained, producer.join().unwrap());
                    assert_eq!(queue.accepted(), drained as u64);
                });
            }

            /// A permit that is given up leaves a hole. It is stepped over, and its slot is used again.
            #[test]
            fn a_permit_given_up_leaves_a_hole() {
                check(|| {
                    let queue = Arc::new($queue::new(2));
                    let producer = {
                        let queue = queue.clone();
                        thread::spawn(move || {
                            drop(queue.reserve().expect("the queue is empty"));
                            for value in 1..3 {
                                push_waiting(&queue, value);
                            }
                        })
                    };
                    assert_eq!(drain!(queue, 2), [1, 2]);
                    producer.join().unwrap();
                    assert_eq!(queue.accepted(), 2);
                });
            }

            /// Barriers go up and down while two producers push, one of them past the waiters. Accepted
            /// accepted arrives, the counts are exact, and the barriers are as their owner left them.
            #[test]
            fn barriers_against_pushes() {
                check(|| {
                    let queue = Arc::new($queue::new(2));
                    let newcomer = {
                        let queue = queue.clone();
                        thread::spawn(move || u64::from(queue.push(Box::new(1)).is_ok()))
                    };
                    let let_in = {
                        let queue = queue.clone();
                        thread::spawn(move || {
                            let pushed = queue.push_past_waiters(Box::new(2), |_| PLAIN_MARK);
                            u64::from(pushed.is_ok())
                        })
                    };
                    queue.raise(Barrier::Waiters);
                    queue.raise(Barrier::Pause);
                    // They happen after the barriers were raised.
                    let refused = queue.push(Box::new(3)).is_err();
                    let refused_past = queue.push_past_waiters(Box::new(4), |_| PLAIN_MARK);
                    assert!(refused && refused_past.is_err());
                    queue.lower(Barrier::Pause);
                    let accepted = newcomer.join().unwrap() + let_in.join().unwrap();
                    assert!(queue.is_raised(Barrier::Waiters) && !queue.is_raised(Barrier::Pause));
                    assert_eq!((queue.depth(), queue.accepted()), (accepted, accepted));
                    assert!(queue.push(Box::new(5)).is_err());
                    for _ in 0..accepted {
                        // SAFETY: the test's main thread is the only consumer.
                        assert!(matches!(unsafe { queue.pop() }, Popped::Value(..)));
                    }
                    // SAFETY: as above.
                    unsafe {
                        assert_eq!(queue.pop(), Popped::Empty);
                        assert_eq!(queue.queued(), 0);
                        queue.publish();
                    }
                    queue.lower(Barrier::Waiters);
                    queue.push(Box::new(6)).unwrap();
                });
            }

            /// A value is taken out of turn while producers append behind an older one, across a block's
            /// border. The older one moves up, into a slot whose producer is done with it; the taken
            /// value leaves capacity at once.
            #[test]
            fn taking_out_of_turn() {
                check(|| {
                    let queue = Arc::new($queue::new(3));
                    queue.push(Box::new(1)).unwrap();
                    let producers = [2, 3].map(|value| {
                        let queue = queue.clone();
                        thread::spawn(move || queue.push(Box::new(value)).map(drop).unwrap())
                    });
                    // SAFETY: the test's main thread is the only consumer.
                    let mut taken = unsafe { queue.take_first(|value| **value == 3) };
                    for producer in producers {
                        producer.join().unwrap();
                    }
                    if taken.is_none() {
                        assert!(queue.push(Box::new(4)).is_err(), "three are queued");
                        // SAFETY: as above.
                        taken = unsafe { queue.take_first(|value| **value == 3) };
                    }
                    assert_eq!(taken, Some(Box::new(3)));
                    // SAFETY: as above.
                    let middle = unsafe { queue.take_first(|value| **value == 2) };
                    assert_eq!(middle, Some(Box::new(2)));
                    // Where a hole was left behind a producer, this call finds it.
                    // SAFETY: as above.
                    assert_eq!(unsafe { queue.take_first(|_| false) }, None);
                    assert_eq!((queue.depth(), queue.accepted()), (1, 3));
                    for value in [5, 6] {
                        queue.push(Box::new(value)).unwrap();
                    }
                    for value in [1, 5, 6] {
                        // SAFETY: as above.
                        let popped = unsafe { queue.pop() };
                        assert_eq!(popped, Popped::Value(Box::new(value), PLAIN_MARK));
                    }
                    // SAFETY: as above.
                    assert_eq!(unsafe { queue.pop() }, Popped::Empty);
                });
            }

            /// Closing, a barrier and a push at once, with a lane whose bound is reached: the bits of
            /// one do not undo those of another.
            #[test]
            fn barriers_against_closing() {
                check(|| {
                    let queue = Arc::new($queue::new(1));
                    let producer = {
                        let queue = queue.clone();
                        thread::spawn(move || {
                            (0..2)
                                .filter(|value| queue.push(Box::new(*value)).is_ok())
                                .count() as u64
                        })
                    };
                    let closer = {
                        let queue = queue.clone();
                        thread::spawn(move || assert!(queue.close()))
                    };
                    queue.raise(Barrier::Pause);
                    // SAFETY: the test's main thread is the only consumer.
                    let early = match unsafe { queue.pop() } {
                        Popped::Value(..) => 1,
                        Popped::Empty | Popped::Pending => 0,
                    };
                    // SAFETY: as above.
                    unsafe { queue.publish() };
                    let accepted = producer.join().unwrap();
                    assert!(queue.is_raised(Barrier::Pause));
                    closer.join().unwrap();
                    assert!(matches!(queue.push(Box::new(3)), Err(Refused::Closed(_))));
                    assert!(!queue.close());
                    queue.lower(Barrier::Pause);
                    assert!(matches!(queue.push(Box::new(4)), Err(Refused::Closed(_))));
                    assert_eq!(queue.accepted(), accepted);
                    for _ in early..accepted {
                        // SAFETY: as above.
                        assert!(matches!(unsafe { queue.pop() }, Popped::Value(..)));
                    }
                    // SAFETY: as above.
                    unsafe {
                        assert_eq!(queue.pop(), Popped::Empty);
                        assert_eq!(queue.queued(), 0);
                        assert_eq!(queue.publish(), 0);
                    }
                });
            }
        }
    };
}

shared_tests!(lane, Lane);
shared_tests!(ring, Ring);

/// Two producers push into slots that the consumer is emptying: accepted values come out once and in
/// their producer's order, refused ones do not.
#[test]
fn a_rings_values_arrive_once_in_each_producers_order() {
    check(|| {
        let ring = Arc::new(Ring::new(2));
        for value in 0..2 {
            ring.push(Box::new(value)).unwrap();
        }
        let producers = [10, 20].map(|base| {
            let ring = ring.clone();
            thread::spawn(move || {
                (base..base + 2)
                    .filter(|value| match ring.push(Box::new(*value)) {
                        Ok(_) => true,
                        Err(Refused::Full(refused)) => {
                            assert_eq!(*refused, *value);
                            false
                        }
                        Err(Refused::Closed(_)) => unreachable!("nobody closes it"),
                    })
                    .collect::<Vec<u32>>()
            })
        });
        let mut values = drain!(ring, 2);
        let accepted = producers.map(|producer| producer.join().unwrap());
        let left = accepted.iter().map(Vec::len).sum();
        values.extend(drain!(ring, left));
        assert_eq!(values[..2], [0, 1]);
        for (base, accepted) in [10, 20].into_iter().zip(accepted) {
            let mut own = values.clone();
            own.retain(|value| (base..base + 10).contains(value));
            assert_eq!(own, accepted);
        }
        // SAFETY: the test's main thread is the only consumer.
        assert_eq!(unsafe { ring.pop() }, Popped::Empty);
        assert_eq!(ring.accepted(), 2 + left as u64);
    });
}

/// Three laps of one producer, with a consumer that publishes its head once per lap.
#[test]
fn a_rings_slots_are_reused_lap_after_lap() {
    check(|| {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (0..6).for_each(|value| ring::push_waiting(&ring, value)))
        };
        for expected in 0..6 {
            loop {
                // SAFETY: the test's main thread is the only consumer.
                match unsafe { ring.pop() } {
                    Popped::Value(value, _) => break assert_eq!(*value, expected),
                    Popped::Empty | Popped::Pending => thread::yield_now(),
                }
            }
            if expected % 2 == 1 {
                // SAFETY: as above.
                unsafe { ring.publish() };
            }
        }
        producer.join().unwrap();
    });
}

/// A narrow ring publishes a pop while the value is still in its slot.
#[test]
fn a_value_popped_in_place_is_not_overwritten() {
    check(|| {
        let ring = Arc::new(Ring::new(1));
        ring.push(Box::new(1)).unwrap();
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring::push_waiting(&ring, 2))
        };
        // SAFETY: the test's main thread is the only consumer.
        let popped = unsafe { ring.pop_in_place() };
        producer.join().unwrap();
        // SAFETY: moved out once, before the next consumer call.
        assert_eq!(
            unsafe { popped.read() },
            Popped::Value(Box::new(1), PLAIN_MARK)
        );
        assert_eq!(drain!(ring, 1), [2]);
    });
}
