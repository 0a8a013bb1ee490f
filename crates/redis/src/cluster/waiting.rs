//! Commands that will be tried again, by when.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::errand::Errand;
use crate::{error::RedisError, protocol::Value};

/// A command, and what it would be told if it were not tried again.
pub(crate) struct Parked {
    pub(crate) errand: Errand,
    pub(crate) outcome: Result<Value, RedisError>,
}

pub(crate) struct Waiting {
    state: Mutex<State>,
    max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    /// By when they are due, and the order in which they came.
    parked: BTreeMap<(u64, u64), Parked>,
    /// Of all of them.
    bytes: usize,
    turn: u64,
    /// Nobody will try them any more.
    is_closed: bool,
}

impl Waiting {
    pub(crate) fn new(max: usize, bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            max,
            bytes_max,
        }
    }

    /// Keeps one until it is due. Whether it is the first to be due; it comes back if there is no room.
    #[allow(clippy::result_large_err, reason = "what is refused comes back")]
    pub(crate) fn park(&self, due_ns: u64, parked: Parked) -> Result<bool, Parked> {
        let mut state = self.state.lock();
        let bytes = state.bytes + parked.errand.bytes();
        if state.is_closed || state.parked.len() >= self.max || bytes > self.bytes_max {
            return Err(parked);
        }
        state.bytes = bytes;
        state.turn += 1;
        let key = (due_ns, state.turn);
        state.parked.insert(key, parked);
        let first = state.parked.first_key_value().map(|(first, _)| *first);
        Ok(first == Some(key))
    }

    /// Takes those that are due.
    pub(crate) fn take_due(&self, now_ns: u64) -> Vec<Parked> {
        let mut state = self.state.lock();
        let later = state.parked.split_off(&(now_ns, u64::MAX));
        let due = std::mem::replace(&mut state.parked, later);
        let due: Vec<Parked> = due.into_values().collect();
        state.bytes -= due.iter().map(|it| it.errand.bytes()).sum::<usize>();
        due
    }

    /// When the next one is due.
    pub(crate) fn due_ns(&self) -> u64 {
        let state = self.state.lock();
        let first = state.parked.first_key_value();
        first.map_or(u64::MAX, |((due_ns, _), _)| *due_ns)
    }

    /// Takes all that are left; from here on none are kept.
    pub(crate) fn close(&self) -> Vec<Parked> {
        let mut state = self.state.lock();
        (state.is_closed, state.bytes) = (true, 0);
        std::mem::take(&mut state.parked).into_values().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().parked.len()
    }
}
