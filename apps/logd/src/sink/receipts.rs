//! Which records of a stream a receiver has, for those who wait for its answer.
//!
//! ```text
//!   StreamSink ── a batch is durable in the stream ──▶ Receipts::outcome ──▶ its source is told
//!   forwarder  ── advance, refuse ───────────────────▶     │
//!                                                          └─▶ wakes the sink
//! ```

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use freeboard::platform::sync::Mutex;

use super::{SinkGauge, lock};

/// Ranges of refused records that are told apart. Beyond that, those between the oldest two count as refused too: their
/// sources send them again.
const REFUSED_MAX: usize = 4_096;

#[derive(Debug, Default)]
struct State {
    /// The receiver has all records up to this one, but for refused ones.
    reached: u64,
    /// Ranges of records that it does not have and will not get, first and last, in order.
    refused: VecDeque<(u64, u64)>,
}

/// Which records a receiver has.
#[derive(Debug)]
pub(super) struct Receipts {
    state: Mutex<State>,
    /// Whether batches wait for it.
    is_awaited: AtomicBool,
    /// The gauge of the stream's sink.
    sink: Arc<SinkGauge>,
}

impl Receipts {
    pub(super) fn new(sink: &Arc<SinkGauge>) -> Self {
        Self {
            state: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            sink: sink.clone(),
        }
    }

    /// The receiver has all records up to this one, but for refused ones.
    pub(super) fn advance(&self, reached: u64) {
        let mut state = lock(&self.state);
        state.reached = state.reached.max(reached);
        drop(state);
        // Ordering: SeqCst, with `await_changes`: either this sees that a batch waits, or its sink sees the new state.
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            self.sink.wake();
        }
    }

    /// The receiver does not get these records. Called in about the order of the sequences, and before
    /// [`advance`](Self::advance) passes them.
    pub(super) fn refuse(&self, first: u64, last: u64) {
        let mut state = lock(&self.state);
        let at = state.refused.partition_point(|(_, end)| *end < first);
        state.refused.insert(at, (first, last));
        if state.refused.len() > REFUSED_MAX
            && let Some((oldest, _)) = state.refused.pop_front()
            && let Some(next) = state.refused.front_mut()
        {
            next.0 = oldest;
        }
    }

    /// Whether the receiver has these records; `None` if it is not known yet. Records before them are not asked for again.
    pub(super) fn outcome(&self, first: u64, last: u64) -> Option<bool> {
        let mut state = lock(&self.state);
        while state.refused.front().is_some_and(|(_, end)| *end < first) {
            state.refused.pop_front();
        }
        let is_refused = state.refused.front().is_some_and(|(at, _)| *at <= last);
        (state.reached >= last).then_some(!is_refused)
    }

    /// Nobody waits for records up to this one.
    pub(super) fn forget(&self, last: u64) {
        let mut state = lock(&self.state);
        while state.refused.front().is_some_and(|(_, end)| *end <= last) {
            state.refused.pop_front();
        }
    }

    /// The sink will be woken by the next change. What changed before it is to be asked for again.
    pub(super) fn await_changes(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipts() -> Receipts {
        Receipts::new(&SinkGauge::named("test"))
    }

    #[test]
    fn a_batch_with_a_refused_record_is_not_taken() {
        let receipts = receipts();
        assert_eq!(receipts.outcome(1, 3), None);
        receipts.refuse(5, 5);
        receipts.advance(6);
        assert_eq!(receipts.outcome(1, 3), Some(true));
        assert_eq!(receipts.outcome(4, 6), Some(false));
        assert_eq!(receipts.outcome(6, 6), Some(true));
        assert_eq!(receipts.outcome(6, 7), None);
    }

    #[test]
    fn too_many_refusals_refuse_more_and_never_fewer() {
        let receipts = receipts();
        let last = 2 * REFUSED_MAX as u64 + 10;
        (2..=last).step_by(2).for_each(|it| receipts.refuse(it, it));
        receipts.advance(last);
        assert!(lock(&receipts.state).refused.len() <= REFUSED_MAX);
        let outcomes = (1..=last).map(|it| (it, receipts.outcome(it, it)));
        let taken: Vec<_> = outcomes.filter(|it| it.1 == Some(true)).collect();
        assert!(taken.iter().all(|(it, _)| it % 2 == 1));
        assert!(taken.len() >= REFUSED_MAX - 1);
        receipts.forget(last);
        assert!(lock(&receipts.state).refused.is_empty());
    }
}
