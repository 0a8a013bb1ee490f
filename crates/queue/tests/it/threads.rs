//! Many threads push and one consumes: nothing is lost, doubled, torn or out of order. Values of 56 bytes fill slots of
//! 64, so that the blocks of their lanes come from the pool.

use std::{sync::Arc, thread};

use freeboard_queue::{Lane, Popped, Refused, Ring};

use crate::common::{Item, MixedLane, Queue, SlotQueue};

type Wide = [u64; 7];

fn wide(value: u64) -> Wide {
    [value; 7]
}

/// Four threads push through a queue far smaller than the flood: accepted + refused = sent, and each accepted value
/// arrives once and in its sender's order. The boxes show leaks and double drops.
fn check_flood<Q: SlotQueue<Box<(usize, usize)>> + 'static>(bounds: &[u64]) {
    const SENDERS: usize = 4;
    const EACH: usize = 50_000;
    for &bound in bounds {
        let queue = Arc::new(Q::new(bound));
        let senders = [0, 1, 2, 3].map(|sender| {
            let queue = queue.clone();
            thread::spawn(move || {
                (0..EACH)
                    .filter(|&number| queue.push(Box::new((sender, number))).is_ok())
                    .count()
            })
        });
        let mut last = [None; SENDERS];
        let mut taken = 0;
        let mut are_finished = false;
        loop {
            match queue.pop() {
                Popped::Value(value, _) => {
                    let (sender, number) = *value;
                    assert!(last[sender] < Some(number), "out of order");
                    last[sender] = Some(number);
                    taken += 1;
                }
                Popped::Pending => thread::yield_now(),
                Popped::Empty if are_finished => break,
                Popped::Empty => {
                    are_finished = senders.iter().all(thread::JoinHandle::is_finished);
                    thread::yield_now();
                }
            }
            assert!(queue.publish() <= bound);
        }
        let accepted: usize = senders.map(|sender| sender.join().unwrap()).iter().sum();
        assert_eq!(taken, accepted);
        assert_eq!(queue.accepted(), accepted as u64);
    }
}

#[test]
fn a_flood_through_a_lane_adds_up() {
    check_flood::<Lane<_>>(&[1, 3, 100, 1 << 40]);
}

#[test]
fn a_flood_through_a_ring_adds_up() {
    check_flood::<Ring<_>>(&[1, 3, 100, 300, 1_024]);
}

/// Senders wait for capacity, and the consumer publishes once per batch: each value arrives once, whole, in its sender's
/// order.
fn check_flow<Q: SlotQueue<Wide> + 'static>(bound: u64, senders: u64, each: u64) {
    const BATCH: u64 = 64;
    let queue = Arc::new(Q::new(bound));
    let threads: Vec<_> = (0..senders)
        .map(|sender| {
            let queue = queue.clone();
            thread::spawn(move || {
                for number in 0..each {
                    let mut value = wide(sender << 32 | number);
                    while let Err(Refused::Full(refused)) = queue.push(value) {
                        value = refused;
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut next = vec![0; senders as usize];
    let mut taken = 0;
    while taken < senders * each {
        // Both ways of popping take turns.
        let popped = if taken % 2 == 0 {
            queue.pop_in_place(|_| ()).map(|(value, _)| value)
        } else {
            match queue.pop() {
                Popped::Value(value, _) => Some(value),
                Popped::Empty | Popped::Pending => None,
            }
        };
        let Some(value) = popped else {
            queue.publish();
            thread::yield_now();
            continue;
        };
        assert!(value.iter().all(|word| *word == value[0]), "torn");
        let (sender, number) = ((value[0] >> 32) as usize, value[0] & 0xffff_ffff);
        assert_eq!(number, next[sender], "lost, doubled or out of order");
        next[sender] += 1;
        taken += 1;
        if taken % BATCH == 0 {
            queue.publish();
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(queue.accepted(), senders * each);
    assert_eq!(queue.queued(), 0);
}

#[test]
fn waiting_senders_lose_nothing() {
    for bound in [1, 100, 256, 1_000] {
        check_flow::<Ring<_>>(bound, 2, 50_000);
    }
}

#[test]
fn long_lanes_keep_every_value() {
    check_flow::<Lane<_>>(1 << 40, 4, 100_000);
}

#[test]
fn short_lanes_keep_every_value() {
    for round in 0..2_000 {
        check_flow::<Lane<_>>(1 << 40, 2, round % 40);
    }
}

#[test]
fn lanes_side_by_side_keep_every_value() {
    let flows = || (0..20).for_each(|_| check_flow::<Lane<_>>(1 << 40, 2, 2_000));
    for thread in [(); 4].map(|()| thread::spawn(flows)) {
        thread.join().unwrap();
    }
}

/// A lane that is dropped half full leaves nothing in the blocks that the next lane could find.
#[test]
fn a_lane_dropped_half_full_leaves_clean_blocks() {
    for taken in 0..100 {
        let lane: Lane<Wide> = Queue::new(1 << 40);
        for value in 0..100 {
            lane.push(wide(value)).unwrap();
        }
        for _ in 0..taken {
            assert!(matches!(Queue::pop(&lane), Popped::Value(..)));
        }
        drop(lane);
        let fresh = Lane::new(1 << 40);
        fresh.push(wide(7)).unwrap();
        assert_eq!(Queue::pop(&fresh), Popped::Value(wide(7), 1));
        assert_eq!(Queue::pop(&fresh), Popped::Empty);
    }
}

/// Short and long values of several senders arrive once, whole and in each sender's order, while the blocks change their
/// size: runs of short values follow runs of both.
#[test]
fn a_lane_keeps_short_and_long_values() {
    const SENDERS: u64 = 3;
    const EACH: u64 = 60_000;
    let lane = Arc::new(<MixedLane as Queue<Item>>::new(1 << 40));
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let lane = lane.clone();
            thread::spawn(move || {
                for number in 0..EACH {
                    let is_long = (number / 500).is_multiple_of(2) && number.is_multiple_of(3);
                    let value = Item::sized(sender << 32 | number, is_long);
                    lane.push(value).unwrap();
                }
            })
        })
        .collect();
    let mut next = [0; SENDERS as usize];
    let mut taken = 0;
    while taken < SENDERS * EACH {
        let popped = if taken % 2 == 0 {
            SlotQueue::pop_in_place(&*lane, |_| ()).map(|(item, _)| item)
        } else if let Popped::Value(item, _) = Queue::pop(&*lane) {
            Some(item)
        } else {
            None
        };
        let Some(item) = popped else {
            thread::yield_now();
            continue;
        };
        let (sender, number) = ((item.number() >> 32) as usize, item.number() & 0xffff_ffff);
        assert_eq!(number, next[sender], "lost, doubled or out of order");
        next[sender] += 1;
        taken += 1;
        if taken % 100 == 0 {
            Queue::publish(&*lane);
        }
    }
    for sender in senders {
        sender.join().unwrap();
    }
    assert!(matches!(Queue::pop(&*lane), Popped::Empty));
}
