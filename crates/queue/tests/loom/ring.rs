//! What only a ring has to keep under loom.

use freeboard_queue::{Popped, Refused, Ring};
use loom::{sync::Arc, thread};

use super::check;

/// Pushes, yielding while the ring is full.
fn push_waiting(ring: &Ring<Box<u32>>, value: u32) {
    let mut value = Box::new(value);
    while let Err(refused) = ring.push(value) {
        value = refused.into_inner();
        thread::yield_now();
    }
}

/// As [`drain`], telling the producers of each value that was taken.
fn drain_ring(ring: &Ring<Box<u32>>, count: usize) -> Vec<u32> {
    let mut values = Vec::new();
    while values.len() < count {
        // SAFETY: the test's main thread is the only consumer.
        match unsafe { ring.pop() } {
            // SAFETY: as above.
            Popped::Value(value, _) => unsafe {
                values.push(*value);
                ring.publish();
            },
            Popped::Empty | Popped::Pending => thread::yield_now(),
        }
    }
    values
}

/// Two producers push into slots that the consumer is emptying: what was accepted comes out once and
/// in its producer's order, what was refused does not.
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
        let mut values = drain_ring(&ring, 2);
        let accepted = producers.map(|producer| producer.join().unwrap());
        let left = accepted.iter().map(Vec::len).sum();
        values.extend(drain_ring(&ring, left));
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
            thread::spawn(move || (0..6).for_each(|value| push_waiting(&ring, value)))
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

/// Two producers race for one place: one is refused.
#[test]
fn a_rings_bound_is_hard() {
    for bound in [1, 2] {
        check(move || {
            let ring = Arc::new(Ring::new(bound));
            for value in 1..bound {
                ring.push(Box::new(value as u32)).unwrap();
            }
            let other = {
                let ring = ring.clone();
                thread::spawn(move || ring.push(Box::new(8)).is_ok())
            };
            let mine = ring.push(Box::new(9)).is_ok();
            let theirs = other.join().unwrap();
            assert!(mine ^ theirs, "exactly one fits");
            assert_eq!(ring.depth(), bound);
            assert_eq!(drain_ring(&ring, bound as usize).len(), bound as usize);
            assert_eq!(ring.accepted(), bound);
            ring.push(Box::new(3)).unwrap();
            assert_eq!(drain_ring(&ring, 1), [3]);
        });
    }
}

/// What was accepted before the close is drained, all else comes back: nothing is lost between.
#[test]
fn closing_a_ring_loses_nothing() {
    check(|| {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || {
                (0..2)
                    .filter(|value| match ring.push(Box::new(*value)) {
                        Ok(_) => true,
                        Err(Refused::Closed(_)) => false,
                        Err(Refused::Full(_)) => unreachable!("the bound is 2"),
                    })
                    .count()
            })
        };
        assert!(ring.close());
        let mut drained = 0;
        loop {
            // SAFETY: the test's main thread is the only consumer.
            match unsafe { ring.pop() } {
                Popped::Value(..) => drained += 1,
                Popped::Pending => thread::yield_now(),
                Popped::Empty => break,
            }
        }
        assert_eq!(drained, producer.join().unwrap());
        assert_eq!(ring.accepted(), drained as u64);
    });
}

/// Given up places are stepped over, and their slots are used again.
#[test]
fn a_place_given_up_is_a_hole() {
    check(|| {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || {
                drop(ring.reserve().expect("the ring is empty"));
                for value in 1..3 {
                    push_waiting(&ring, value);
                }
            })
        };
        assert_eq!(drain_ring(&ring, 2), [1, 2]);
        producer.join().unwrap();
        assert_eq!(ring.accepted(), 2);
    });
}

/// A narrow ring tells its producers of a pop while the value still lies in its slot.
#[test]
fn a_value_popped_in_place_is_not_overwritten() {
    check(|| {
        let ring = Arc::new(Ring::new(1));
        ring.push(Box::new(1)).unwrap();
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || push_waiting(&ring, 2))
        };
        // SAFETY: the test's main thread is the only consumer.
        let (value, _) = unsafe { ring.pop_in_place() }.expect("it was pushed before");
        producer.join().unwrap();
        // SAFETY: moved out once, before the next consumer call.
        assert_eq!(*unsafe { value.read() }, 1);
        assert_eq!(drain_ring(&ring, 1), [2]);
    });
}
