//! A store whose answers a test gives one by one, and a record of outcomes.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use freeboard_fetcher::store::{OnFetched, SlowStore, StoreError};

use crate::common::eventually;

/// A fetch's outcome.
pub(crate) type Outcome = Result<Option<Bytes>, StoreError>;

/// The value of a key that has one.
pub(crate) fn value_of(key: &str) -> Option<Bytes> {
    Some(format!("value-of-{key}").into())
}

/// Keys and their outcomes, in the order of the callbacks.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<Mutex<Vec<(String, Outcome)>>>);

impl Outcomes {
    /// Fetches a key and records the outcome.
    pub(crate) fn fetch(&self, store: &dyn SlowStore, key: &str) {
        let (told, name) = (self.0.clone(), key.to_owned());
        let on_outcome = Box::new(move |outcome| {
            told.lock().expect("nobody panics").push((name, outcome));
        });
        store.fetch(key.as_bytes(), on_outcome);
    }

    /// The keys, in the order of their outcomes.
    pub(crate) fn order(&self) -> Vec<String> {
        let told = self.0.lock().expect("nobody panics");
        told.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Waits for the outcome of a key.
    pub(crate) fn of(&self, key: &str) -> Outcome {
        let find = || {
            let told = self.0.lock().expect("nobody panics");
            let mut of_key = told.iter().filter(|(other, _)| other == key);
            of_key.next().map(|(_, outcome)| outcome.clone())
        };
        eventually(|| find().is_some());
        find().expect("it is there")
    }

    /// Waits for so many outcomes.
    pub(crate) fn wait_for(&self, count: usize) {
        eventually(|| self.0.lock().expect("nobody panics").len() >= count);
    }
}

/// A store that answers when the test says so; at once for the key `at once`. At the key `panic` it panics.
#[derive(Default)]
pub(crate) struct HeldStore {
    held: Mutex<Vec<(String, OnFetched)>>,
    seen: Mutex<Vec<String>>,
}

impl HeldStore {
    /// Answers the fetch of a key.
    pub(crate) fn answer(&self, key: &str) {
        self.take(key)(Ok(value_of(key)));
    }

    /// Drops the fetch of a key.
    pub(crate) fn lose(&self, key: &str) {
        drop(self.take(key));
    }

    /// Drops all fetches, also those that start meanwhile.
    pub(crate) fn lose_all(&self) {
        let next = || self.held.lock().expect("nobody panics").pop();
        // Outside the lock: dropping one may start another.
        while let Some(lost) = next() {
            drop(lost);
        }
    }

    /// All keys that were fetched, in their order.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panics").clone()
    }

    fn take(&self, key: &str) -> OnFetched {
        let mut held = self.held.lock().expect("nobody panics");
        let index = held.iter().position(|(other, _)| other == key);
        held.remove(index.expect("it was fetched")).1
    }
}

impl SlowStore for HeldStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let key = String::from_utf8(key.to_vec()).expect("text");
        match key.as_str() {
            "at once" => return on_outcome(Ok(value_of("at once"))),
            "panic" => panic!("a store's own"),
            _ => {}
        }
        self.seen.lock().expect("nobody panics").push(key.clone());
        self.held
            .lock()
            .expect("nobody panics")
            .push((key, on_outcome));
    }
}
