//! The callers of one key in this process, which share each request to Redis and each fetch.
//!
//! ```text
//!              joins                                    a lease, and nothing stale
//!   ─────────▶ Getting ──▶ Leasing ─────────────────────────────▶ Held ──fill──▶ Filling
//!                             │  ▲                                  │
//!                        wait │  │ notified, due          given up, │
//!                             ▼  │                   or expired      │
//!                            Waiting ◀──────────────────────────────┘
//! ```
//!
//! An answer serves the callers that had joined when its request was sent (`asked`). A fetched value that was not
//! stored serves those that had joined when the fetch began. So nobody gets a value that was invalidated before the
//! call. The other callers share a new request.

use std::collections::VecDeque;

use freeboard_flow::Backoff;
use freeboard_platform::planted;

use crate::{call::Reply, lease::Found};

/// Refused callers between two removals of callers that no longer wait.
const SWEEP_EVERY: u32 = 64;

/// A caller, and the deadline of its wait for another's fetch.
pub(crate) struct Caller {
    pub(crate) reply: Reply<Found>,
    pub(crate) since_ns: u64,
    pub(crate) deadline_ns: u64,
}

/// The operation in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A GET.
    Getting,
    /// The script for a lease.
    Leasing {
        /// Whether the key was filled or released after the request was sent.
        is_notified: bool,
    },
    /// A caller of another process fetches.
    Waiting,
    /// One of the callers fetches.
    Held {
        /// End of its lease; then others may request one.
        until_ns: u64,
    },
    /// The value is being stored in Redis.
    Filling {
        /// Number of callers when the fill was sent.
        at_fill: usize,
    },
}

/// The callers of one key.
pub(crate) struct Flight {
    pub(crate) callers: VecDeque<Caller>,
    asked: usize,
    /// Identifies the request or lease in progress. Answers of other turns are too late.
    pub(crate) turn: u64,
    pub(crate) stage: Stage,
    pub(crate) has_waited: bool,
    pub(crate) polls: u32,
    /// Callers refused by the limit.
    refused: u32,
    /// When to act without an answer.
    pub(crate) due_ns: Option<u64>,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Stored,
    /// The value may have been invalidated since the lease was given.
    NotStored,
}

impl Flight {
    pub(crate) fn new(turn: u64, caller: Caller) -> Self {
        Self {
            callers: VecDeque::from([caller]),
            asked: 1,
            turn,
            stage: Stage::Getting,
            has_waited: false,
            polls: 0,
            refused: 0,
            due_ns: None,
        }
    }

    /// Whether one more of at most `max` callers can join. Removes callers that no longer wait if needed.
    pub(crate) fn has_capacity(&mut self, max: usize) -> bool {
        if self.callers.len() < max {
            return true;
        }
        if self.refused.is_multiple_of(SWEEP_EVERY) {
            self.remove_gone();
        }
        let has_capacity = self.callers.len() < max;
        self.refused = if has_capacity {
            0
        } else {
            self.refused.wrapping_add(1)
        };
        has_capacity
    }

    fn remove_gone(&mut self) {
        let mut before = 0..;
        let asked = self.asked;
        let stage = self.stage;
        self.callers.retain(|caller| {
            let index = before.next().unwrap_or_default();
            let is_gone = caller.reply.is_gone();
            self.asked -= usize::from(is_gone && index < asked);
            if let (Stage::Filling { at_fill }, Stage::Filling { at_fill: was }) =
                (&mut self.stage, stage)
            {
                *at_fill -= usize::from(is_gone && index < was);
            }
            !is_gone
        });
    }

    /// A request is sent.
    pub(crate) fn ask(&mut self, turn: u64, stage: Stage) {
        self.turn = turn;
        self.stage = stage;
        self.asked = self.callers.len();
    }

    /// Takes the callers that an answer serves.
    pub(crate) fn take_asked(&mut self) -> Vec<Caller> {
        self.take(self.asked)
    }

    fn take(&mut self, count: usize) -> Vec<Caller> {
        self.asked = self.asked.saturating_sub(count);
        self.callers
            .drain(..count.min(self.callers.len()))
            .collect()
    }

    /// Takes the first caller that still waits, and drops those before it.
    pub(crate) fn take_leader(&mut self) -> Option<Caller> {
        while let Some(caller) = self.callers.pop_front() {
            self.asked = self.asked.saturating_sub(1);
            if !caller.reply.is_gone() {
                return Some(caller);
            }
        }
        None
    }

    /// One of the callers fetches.
    pub(crate) fn hold(&mut self, turn: u64, until_ns: u64) {
        self.ask(turn, Stage::Held { until_ns });
        self.has_waited = true;
    }

    /// The fill is sent.
    pub(crate) fn fill(&mut self) {
        let at_fill = self.callers.len();
        self.stage = Stage::Filling { at_fill };
    }

    /// Takes the callers that get the fetched value.
    pub(crate) fn filled(&mut self, ending: Ending) -> Vec<Caller> {
        match (ending, self.stage) {
            (Ending::Stored, Stage::Filling { at_fill }) => self.take(at_fill),
            _ if planted!("old-value-for-late-callers") => self.take(self.callers.len()),
            _ => self.take_asked(),
        }
    }

    /// Another process fetches. Returns when to ask again, at `open_ns` at the latest, when a lease is available.
    pub(crate) fn wait(&mut self, open_ns: u64, now_ns: u64, poll: &Backoff) -> Option<u64> {
        self.stage = Stage::Waiting;
        self.has_waited = true;
        let poll_ns = now_ns.saturating_add(poll.delay_ns(self.polls));
        self.polls = self.polls.saturating_add(1);
        Some(poll_ns.min(open_ns).min(self.deadline_ns()?))
    }

    /// The first caller's deadline, which is the earliest.
    fn deadline_ns(&self) -> Option<u64> {
        self.callers.front().map(|caller| caller.deadline_ns)
    }

    /// When to act while one of the callers fetches.
    pub(crate) fn held_due_ns(&self) -> Option<u64> {
        let until_ns = match self.stage {
            Stage::Held { until_ns } => Some(until_ns),
            _ => None,
        };
        self.deadline_ns().into_iter().chain(until_ns).min()
    }

    /// Takes the callers whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now_ns: u64) -> Vec<Caller> {
        let is_over = |caller: &&Caller| caller.deadline_ns <= now_ns;
        let count = self.callers.iter().take_while(is_over).count();
        if let Stage::Filling { at_fill } = &mut self.stage {
            *at_fill = at_fill.saturating_sub(count);
        }
        self.take(count)
    }
}
