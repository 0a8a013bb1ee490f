//! How evenly runnable work is distributed over the workers' queues.
//!
//! The rule of a scheduler benchmark of 2013 (`wait:run`), unchanged, so that results can be compared:
//!
//! - *even*: no queue is empty; *minority_zero*: at most half of them are; *unbalanced*: more are.
//! - The ratio is the longest queue over the median one, an empty one counted as 1, truncated to
//!   hundredths. The median of `n` is the `floor(n/2)`-th smallest (the first, of one queue).
//!
//! A worker with an empty queue may still run its only actor. The rule cannot tell, so [`Balance::empty_idle`]
//! lists the idle ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scheduler::WorkerSnapshot;

/// The share of empty queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BalanceClass {
    /// None.
    Even,
    /// At most half.
    MinorityZero,
    /// More than half.
    Unbalanced,
}

impl BalanceClass {
    /// The name as the original printed it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::MinorityZero => "minority_zero",
            Self::Unbalanced => "unbalanced",
        }
    }
}

/// One reading of the workers' queues. Displays as `{even,1.02} {37,38}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// The class by empty queues.
    pub class: BalanceClass,
    /// Longest over median queue, in hundredths.
    pub ratio_hundredths: u64,
    /// Lengths of the queues, by worker.
    pub queues: Vec<u64>,
    /// Workers that run an actor and have an empty queue.
    pub empty_busy: Vec<usize>,
    /// Idle workers with an empty queue.
    pub empty_idle: Vec<usize>,
}

impl Balance {
    /// Classifies queue lengths, without the lists of busy and idle workers.
    ///
    /// # Panics
    /// If there is no queue.
    #[must_use]
    pub fn of_queues(queues: Vec<u64>) -> Self {
        assert!(!queues.is_empty(), "a balance needs at least one queue");
        let empty = queues.iter().filter(|&&length| length == 0).count();
        let class = match empty {
            0 => BalanceClass::Even,
            _ if empty * 2 <= queues.len() => BalanceClass::MinorityZero,
            _ => BalanceClass::Unbalanced,
        };
        let mut sorted = queues.clone();
        sorted.sort_unstable();
        // The floor(n/2)-th smallest, counted from one as the original did.
        let median = sorted[(sorted.len() / 2).saturating_sub(1)].max(1);
        let longest = sorted[sorted.len() - 1].max(1);
        Self {
            class,
            ratio_hundredths: longest.saturating_mul(100) / median,
            queues,
            empty_busy: Vec::new(),
            empty_idle: Vec::new(),
        }
    }

    /// Classifies the queues of the online workers; `None` if there is none.
    #[must_use]
    pub fn of_workers(workers: &[WorkerSnapshot]) -> Option<Self> {
        let online: Vec<_> = workers.iter().filter(|it| it.is_online()).collect();
        if online.is_empty() {
            return None;
        }
        let mut balance = Self::of_queues(online.iter().map(|it| it.queue_depth).collect());
        for worker in online.iter().filter(|it| it.queue_depth == 0) {
            if worker.is_idle() {
                balance.empty_idle.push(worker.index);
            } else {
                balance.empty_busy.push(worker.index);
            }
        }
        Some(balance)
    }

    /// Longest over median queue.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ratio_hundredths as f64 / 100.0
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.ratio_hundredths / 100, self.ratio_hundredths % 100);
        write!(
            formatter,
            "{{{},{whole}.{hundredths:02}}} {{",
            self.class.name()
        )?;
        for (index, length) in self.queues.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{length}")?;
        }
        formatter.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::WorkerState;

    fn check(queues: &[u64], wanted: &str) {
        assert_eq!(Balance::of_queues(queues.to_vec()).to_string(), wanted);
    }

    #[test]
    fn the_original_reading() {
        check(
            &[37, 37, 36, 38, 37, 38, 18, 38],
            "{even,1.02} {37,37,36,38,37,38,18,38}",
        );
    }

    #[test]
    fn classes_go_by_empty_queues() {
        check(&[1, 1], "{even,1.00} {1,1}");
        check(&[0, 4], "{minority_zero,4.00} {0,4}");
        check(&[0, 0, 5], "{unbalanced,5.00} {0,0,5}");
        check(&[0, 0], "{unbalanced,1.00} {0,0}");
        check(&[7], "{even,1.00} {7}");
    }

    #[test]
    fn the_ratio_is_truncated() {
        check(&[3, 3, 5, 5], "{even,1.66} {3,3,5,5}");
    }

    #[test]
    fn an_empty_queue_is_busy_or_idle_by_its_worker() {
        let worker = |index, state, queue_depth| WorkerSnapshot {
            index,
            state,
            queue_depth,
            ..WorkerSnapshot::default()
        };
        let balance = Balance::of_workers(&[
            worker(0, WorkerState::Run, 0),
            worker(1, WorkerState::Park, 0),
            worker(2, WorkerState::Run, 2),
            worker(3, WorkerState::Offline, 0),
        ])
        .unwrap();
        assert_eq!(balance.queues, [0, 0, 2]);
        assert_eq!(balance.class, BalanceClass::Unbalanced);
        assert_eq!(balance.empty_busy, [0]);
        assert_eq!(balance.empty_idle, [1]);
        assert_eq!(
            Balance::of_workers(&[worker(0, WorkerState::Offline, 0)]),
            None
        );
    }
}
