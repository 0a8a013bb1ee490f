//! The lane under loom: every interleaving of small cases, with blocks of two slots.
#![cfg(loom)]

use freeboard_queue::{Lane, Popped, Refused};
use loom::{sync::Arc, thread};

/// All interleavings of two preemptions, or of as many as LOOM_MAX_PREEMPTIONS says.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

/// Pops until `count` values have come, yielding while a producer is between its two steps.
fn drain(lane: &Lane<Box<u32>>, count: usize) -> Vec<u32> {
    let mut values = Vec::new();
    while values.len() < count {
        // SAFETY: the test's main thread is the only consumer.
        match unsafe { lane.pop() } {
            Popped::Value(value, _) => values.push(*value),
            Popped::Empty | Popped::Pending => thread::yield_now(),
        }
    }
    values
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
        let values = drain(&lane, 4);
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

/// A producer that dawdles between drawing and writing while another fills and leaves its block.
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
        let mut values = drain(&lane, 5);
        laggard.join().unwrap();
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3, 4, 5]);
    });
}

/// Two producers race for one place: one is refused, and the hole is stepped over.
#[test]
fn the_bound_is_hard() {
    check(|| {
        let lane = Arc::new(Lane::new(1));
        let other = {
            let lane = lane.clone();
            thread::spawn(move || lane.push(Box::new(1)).is_ok())
        };
        let mine = lane.push(Box::new(2)).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine ^ theirs, "exactly one fits");
        assert_eq!(lane.depth(), 1);
        assert_eq!(drain(&lane, 1).len(), 1);
        // SAFETY: the test's main thread is the only consumer.
        unsafe {
            assert_eq!(lane.pop(), Popped::Empty);
            lane.publish();
        }
        assert_eq!(lane.accepted(), 1);
        lane.push(Box::new(3)).unwrap();
        assert_eq!(drain(&lane, 1), [3]);
    });
}

/// What was accepted before the close is drained, all else comes back: nothing is lost between.
#[test]
fn closing_loses_nothing() {
    check(|| {
        let lane = Arc::new(Lane::new(8));
        let producer = {
            let lane = lane.clone();
            thread::spawn(move || {
                (0..2)
                    .filter(|value| match lane.push(Box::new(*value)) {
                        Ok(_) => true,
                        Err(Refused::Closed(_)) => false,
                        Err(Refused::Full(_)) => unreachable!("the bound is 8"),
                    })
                    .count()
            })
        };
        assert!(lane.close());
        let mut drained = 0;
        loop {
            // SAFETY: the test's main thread is the only consumer.
            match unsafe { lane.pop() } {
                Popped::Value(..) => drained += 1,
                Popped::Pending => thread::yield_now(),
                Popped::Empty => break,
            }
        }
        assert_eq!(drained, producer.join().unwrap());
    });
}
