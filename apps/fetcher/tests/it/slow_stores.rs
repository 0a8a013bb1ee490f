//! The mock of a slow store, and the bulkhead in front of any store.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::eventually,
    fixture::bulkhead,
    held_store::{HeldStore, Outcomes, value_of},
};
use freeboard_fetcher::store::{Bulkhead, MockStore, SlowStore, StoreError};

const TINY: Duration = Duration::from_millis(1);

/// A mock behind a bulkhead of this size.
fn mock(concurrent: usize, delay: Duration) -> Bulkhead {
    let mock = MockStore::new(delay).expect("a thread");
    bulkhead(Arc::new(mock), concurrent, usize::MAX)
}

#[test]
fn a_value_is_a_function_of_its_key() {
    let store = mock(64, TINY);
    let outcomes = Outcomes::default();
    for key in ["", "user", "nobody", "nobody-else", "no"] {
        outcomes.fetch(&store, key);
    }
    assert_eq!(outcomes.of(""), Ok(value_of("")));
    assert_eq!(outcomes.of("user"), Ok(value_of("user")));
    assert_eq!(outcomes.of("no"), Ok(value_of("no")));
    assert_eq!(outcomes.of("nobody"), Ok(None));
    assert_eq!(outcomes.of("nobody-else"), Ok(None));
}

#[test]
fn the_mock_delays_each_fetch_and_limits_concurrency() {
    let delay = Duration::from_millis(100);
    let store = mock(4, delay);
    let outcomes = Outcomes::default();
    let begun = Instant::now();
    for key in 0..12 {
        outcomes.fetch(&store, &key.to_string());
    }
    outcomes.wait_for(12);
    assert!(begun.elapsed() >= delay * 3);
    assert_eq!(
        outcomes.order(),
        (0..12).map(|key| key.to_string()).collect::<Vec<_>>()
    );
    let occupancy = store.occupancy();
    assert_eq!(
        (occupancy.running, occupancy.waiting, occupancy.served),
        (0, 0, 12)
    );
    assert_eq!(occupancy.running_high_water, 4);
}

#[test]
fn the_bulkhead_keeps_its_limits_under_many_threads() {
    const THREADS: usize = 8;
    const FETCHES: usize = 500;
    let store = Arc::new(mock(64, TINY));
    let bulkhead = bulkhead(store.clone(), 8, 100);
    let outcomes = Outcomes::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (outcomes, bulkhead) = (&outcomes, &bulkhead);
            scope.spawn(move || {
                for number in 0..FETCHES {
                    outcomes.fetch(bulkhead, &format!("{thread}/{number}"));
                    if number % 50 == 0 {
                        // Lets it catch up, so that not all are refused.
                        eventually(|| bulkhead.occupancy().waiting < 50);
                    }
                }
            });
        }
    });
    let all = THREADS * FETCHES;
    outcomes.wait_for(all);
    eventually(|| bulkhead.occupancy().running == 0);
    let mut keys = outcomes.order();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
    let occupancy = bulkhead.occupancy();
    assert!(occupancy.running_high_water <= 8 && occupancy.waiting_high_water <= 100);
    assert_eq!(occupancy.served + occupancy.refused, all as u64);
    assert!(occupancy.served > 100, "{occupancy:?}");
    let full = keys
        .iter()
        .filter(|key| outcomes.of(key) == Err(StoreError::Full));
    assert_eq!(full.count() as u64, occupancy.refused);
    let behind = store.occupancy();
    assert!(behind.running_high_water <= 8 && behind.waiting_high_water == 0);
    assert_eq!(behind.served, occupancy.served);
}

#[test]
fn the_bulkhead_lets_them_through_in_order_and_refuses_the_rest() {
    let store = Arc::new(HeldStore::default());
    let bulkhead = bulkhead(store.clone(), 2, 3);
    let outcomes = Outcomes::default();
    for key in 0..7 {
        outcomes.fetch(&bulkhead, &key.to_string());
    }
    assert_eq!(outcomes.order(), ["5", "6"]);
    assert_eq!(outcomes.of("5"), Err(StoreError::Full));
    assert_eq!(store.seen(), ["0", "1"]);
    store.answer("1");
    assert_eq!(store.seen(), ["0", "1", "2"]);
    store.answer("0");
    store.answer("2");
    assert_eq!(store.seen(), ["0", "1", "2", "3", "4"]);
    store.answer("4");
    store.answer("3");
    assert_eq!(outcomes.order(), ["5", "6", "1", "0", "2", "4", "3"]);
    assert_eq!(outcomes.of("4"), Ok(value_of("4")));
    let occupancy = bulkhead.occupancy();
    assert_eq!((occupancy.served, occupancy.refused), (5, 2));
    assert_eq!((occupancy.running, occupancy.waiting), (0, 0));
    assert_eq!(
        (occupancy.running_high_water, occupancy.waiting_high_water),
        (2, 3)
    );
}

#[test]
fn a_store_that_drops_a_callback_or_panics_releases_the_permit() {
    let store = Arc::new(HeldStore::default());
    let bulkhead = bulkhead(store.clone(), 1, 10);
    let outcomes = Outcomes::default();
    for key in ["lost", "panic", "next"] {
        outcomes.fetch(&bulkhead, key);
    }
    // Then the fetch that panics starts, then the next.
    store.lose("lost");
    assert_eq!(outcomes.order(), ["panic", "lost"]);
    for key in ["lost", "panic"] {
        assert!(matches!(outcomes.of(key), Err(StoreError::Unavailable(_))));
    }
    store.answer("next");
    assert_eq!(outcomes.of("next"), Ok(value_of("next")));
    assert_eq!(bulkhead.occupancy().served, 3);
}

#[test]
fn a_caller_that_panics_releases_the_permit() {
    let bulkhead = bulkhead(Arc::new(mock(1, TINY)), 1, 10);
    for _ in 0..5 {
        bulkhead.fetch(b"key", Box::new(|_| panic!("an asker's own")));
    }
    let outcomes = Outcomes::default();
    outcomes.fetch(&bulkhead, "key");
    assert_eq!(outcomes.of("key"), Ok(value_of("key")));
}

#[test]
fn a_long_line_before_a_store_that_answers_at_once_does_not_nest() {
    const LINE: usize = 100_000;
    let store = Arc::new(HeldStore::default());
    let bulkhead = bulkhead(store.clone(), 1, LINE);
    let (sender, outcomes) = mpsc::channel();
    for number in 0..=LINE {
        let sender = sender.clone();
        let key = if number == 0 { "first" } else { "at once" };
        let on_outcome = Box::new(move |outcome: Result<_, _>| {
            sender.send(outcome.is_ok()).expect("it is waited for");
        });
        bulkhead.fetch(key.as_bytes(), on_outcome);
    }
    drop(sender);
    assert_eq!(bulkhead.occupancy().waiting, LINE);
    store.answer("first");
    assert_eq!(outcomes.iter().filter(|is_ok| *is_ok).count(), LINE + 1);
    assert_eq!(bulkhead.occupancy().running_high_water, 1);
}

#[test]
fn a_callback_finds_a_free_permit() {
    let store = Arc::new(HeldStore::default());
    let bulkhead = Arc::new(bulkhead(store.clone(), 1, 0));
    let outcomes = Outcomes::default();
    let (again, told) = (bulkhead.clone(), outcomes.clone());
    let on_outcome = Box::new(move |_| told.fetch(&*again, "second"));
    bulkhead.fetch(b"first", on_outcome);
    store.answer("first");
    store.answer("second");
    assert_eq!(outcomes.of("second"), Ok(value_of("second")));
}
