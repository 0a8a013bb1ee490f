//! Lanes of pooled blocks: many short-lived and long lanes, fed and drained by changing threads.
#![cfg(not(loom))]

use std::{sync::Arc, thread};

use freeboard_queue::{Lane, Popped};

/// Fills a slot of 64 bytes, so that the blocks come from the pool.
type Wide = [u64; 7];

fn wide(value: u64) -> Wide {
    [value; 7]
}

/// Each value arrives once, whole, in its sender's order.
fn check_flow(senders: u64, each: u64) {
    let lane = Arc::new(Lane::new(1 << 40));
    let threads: Vec<_> = (0..senders)
        .map(|sender| {
            let lane = lane.clone();
            thread::spawn(move || {
                for number in 0..each {
                    lane.push(wide(sender << 32 | number)).unwrap();
                }
            })
        })
        .collect();
    let mut next = vec![0; senders as usize];
    let mut left = senders * each;
    while left > 0 {
        // SAFETY: this thread is the only consumer.
        match unsafe { lane.pop() } {
            Popped::Value(value, _) => {
                assert!(value.iter().all(|word| *word == value[0]), "torn");
                let (sender, number) = ((value[0] >> 32) as usize, value[0] & 0xffff_ffff);
                assert_eq!(number, next[sender], "lost, doubled or out of order");
                next[sender] += 1;
                left -= 1;
            }
            Popped::Empty | Popped::Pending => thread::yield_now(),
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn long_lanes_keep_every_value() {
    check_flow(4, 100_000);
}

#[test]
fn short_lanes_keep_every_value() {
    for round in 0..2_000 {
        check_flow(2, round % 40);
    }
}

#[test]
fn lanes_side_by_side_keep_every_value() {
    let threads: Vec<_> = (0..4)
        .map(|_| thread::spawn(|| (0..20).for_each(|_| check_flow(2, 2_000))))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Dropped half full, a lane leaves nothing behind that the next one could find.
#[test]
fn a_lane_dropped_half_full_leaves_clean_blocks() {
    for taken in 0..100 {
        let lane = Lane::new(1 << 40);
        for value in 0..100 {
            lane.push(wide(value)).unwrap();
        }
        for _ in 0..taken {
            // SAFETY: this thread is the only consumer.
            assert!(matches!(unsafe { lane.pop() }, Popped::Value(..)));
        }
        drop(lane);
        let fresh = Lane::new(1 << 40);
        fresh.push(wide(7)).unwrap();
        // SAFETY: as above.
        unsafe {
            assert_eq!(fresh.pop(), Popped::Value(wide(7), 1));
            assert_eq!(fresh.pop(), Popped::Empty);
        }
    }
}
