//! Clock, counters and the high-water mark.

use std::thread;

use freeboard_meter::{Counter, OwnedCounter, Peak, now_ns};
use proptest::prelude::*;

#[test]
fn the_clock_is_never_zero_and_never_goes_back() {
    let mut before_ns = 0;
    for _ in 0..10_000 {
        let time_ns = now_ns();
        assert!(time_ns >= 1 && time_ns >= before_ns);
        before_ns = time_ns;
    }
}

#[test]
fn the_clock_is_one_for_all_threads() {
    let before_ns = now_ns();
    let beside_ns = thread::spawn(now_ns).join().unwrap();
    assert!(before_ns <= beside_ns && beside_ns <= now_ns());
}

#[test]
fn a_counter_takes_many_writers() {
    static COUNTER: Counter = Counter::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| COUNTER.add(3)));
        }
    });
    assert_eq!(COUNTER.get(), 120_000);
}

#[test]
fn an_owned_counter_may_change_its_writer() {
    let counter = OwnedCounter::new();
    for _ in 0..4 {
        // One after the other: each scope ends before the next begins.
        thread::scope(|scope| {
            scope.spawn(|| (0..1_000).for_each(|_| counter.bump(2)));
        });
    }
    assert_eq!(counter.get(), 8_000);
}

proptest! {
    #[test]
    fn a_peak_is_the_maximum(values in prop::collection::vec(any::<u64>(), 0..50)) {
        let peak = Peak::new();
        values.iter().for_each(|&value| peak.raise(value));
        prop_assert_eq!(peak.get(), values.iter().copied().max().unwrap_or(0));
    }
}
