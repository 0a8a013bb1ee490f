//! What can happen next, as a policy sees it.

use super::{Runnable, nodes::Node, timers::TimerList};

/// Marks the keys of timers and calls, which differ from those of tasks and threads.
const DUE: u64 = 1 << 63;

/// Marks the keys of threads.
pub(super) const THREAD: u64 = 1 << 62;

/// The tasks, futures and threads that can run, and behind them the timers and calls that are due.
pub struct Candidates<'a> {
    ready: &'a [Runnable],
    timers: &'a TimerList,
    due: usize,
}

impl std::fmt::Debug for Candidates<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Candidates({})", self.len())
    }
}

impl<'a> Candidates<'a> {
    pub(super) fn new(ready: &'a [Runnable], timers: &'a TimerList, now_ns: u64) -> Self {
        let due = timers.count_due(now_ns);
        Self { ready, timers, due }
    }

    /// Their number.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a policy never sees none")]
    pub fn len(&self) -> usize {
        self.ready.len() + self.due
    }

    /// Names one of them. A task or a thread has the same key at each of its steps, and no other has it. Each timer and
    /// call has a key of its own. Two runs of one seed have the same keys.
    ///
    /// # Panics
    /// If `index` is not below [`Candidates::len`].
    #[must_use]
    pub fn key(&self, index: usize) -> u64 {
        match self.ready.get(index) {
            Some(runnable) => runnable.key,
            None => DUE | self.timers.number_of_due(index - self.ready.len()),
        }
    }

    /// Whether it is a timer or a call, and no task, future or thread.
    #[must_use]
    pub fn is_event(&self, index: usize) -> bool {
        index >= self.ready.len()
    }

    /// Where one of them runs.
    ///
    /// # Panics
    /// If `index` is not below [`Candidates::len`].
    #[must_use]
    pub fn node(&self, index: usize) -> Node {
        match self.ready.get(index) {
            Some(runnable) => runnable.node,
            None => self.timers.node_of_due(index - self.ready.len()),
        }
    }
}
