//! A bounded deque behind a lock, with a condition for each end: the baseline of the rings.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use anyhow::Result;

use crate::outcome::Outcome;
use crate::ring::{CAPACITY, Shape, Strategy, consume, measure};

const BLOCKS_ONLY: &str = "a lock with conditions blocks, it has no other wait";
const NO_PANIC: &str = "nobody panics while it holds the lock";

pub fn run(shape: Shape, count: u64) -> Result<Outcome> {
    match shape.plain() {
        Some(Strategy::Blocking) => measure(count, |tally| {
            let queue = Arc::new(Queue::default());
            let receiver = Arc::clone(&queue);
            consume(tally, move || receiver.take());
            move |value| queue.put(value)
        }),
        Some(_) => Ok(Outcome::Skipped(BLOCKS_ONLY)),
        None => Ok(Outcome::Skipped(super::ring_skip(shape))),
    }
}

#[derive(Default)]
struct Queue {
    values: Mutex<VecDeque<u64>>,
    filled: Condvar,
    drained: Condvar,
}

impl Queue {
    fn put(&self, value: u64) {
        let values = self.values.lock().expect(NO_PANIC);
        let is_full = |values: &mut VecDeque<u64>| values.len() == CAPACITY;
        let mut values = self.drained.wait_while(values, is_full).expect(NO_PANIC);
        values.push_back(value);
        let was_empty = values.len() == 1;
        drop(values);
        // With one thread at each end, only the first value can find the other asleep.
        if was_empty {
            self.filled.notify_one();
        }
    }

    fn take(&self) -> u64 {
        let values = self.values.lock().expect(NO_PANIC);
        let mut values = self
            .filled
            .wait_while(values, |values| values.is_empty())
            .expect(NO_PANIC);
        let was_full = values.len() == CAPACITY;
        let value = values.pop_front().expect("it is not empty");
        drop(values);
        if was_full {
            self.drained.notify_one();
        }
        value
    }
}
