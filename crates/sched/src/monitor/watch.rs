//! One thread's run, from check to check.

use freeboard_meter::WorkerState;

use crate::{thread_slot::ThreadSlot, thread_stat::ThreadStat};

/// The number of checks that meet the same run after which it is stuck. With a millisecond between two checks this is a run
/// of two to three milliseconds.
const STUCK_CHECKS: u32 = 2;
/// The number after which the run counts as blocked, if the system does not tell how a thread spends its time.
const UNKNOWN_CHECKS: u32 = 10;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    /// The same run as at the last check.
    Long,
    /// Stuck, and on a processor or waiting for one.
    Computing,
    /// It has no worker slot, and is known to block.
    Displaced,
    /// Stuck, and blocked. The run began after `since_ns`.
    Blocked {
        since_ns: u64,
    },
}

/// A run that was longer than the threshold.
pub(super) struct LongRun {
    /// The thread's count of runs during this one.
    pub(super) runs: u64,
    pub(super) elapsed_ns: u64,
    pub(super) cpu_share: Option<f64>,
    pub(super) is_blocked: bool,
}

#[derive(Default)]
pub(super) struct RunWatch {
    /// The thread's count of runs at the last check.
    runs: u64,
    /// When the thread began to run, and the time of the last check.
    entered_ns: u64,
    checked_ns: u64,
    /// Checks that met this run.
    checks: u32,
    /// The run began after this.
    since_ns: u64,
    /// The thread's processor time at the first check of the run, and at the last.
    first_cpu_ns: Option<u64>,
    last_cpu_ns: Option<u64>,
    first_ns: u64,
    last_ns: u64,
    is_blocked: bool,
    is_reported: bool,
    /// Its worker slot was handed over because all workers computed.
    is_relieved: bool,
    /// The time up to here was counted as blocked.
    counted_ns: u64,
    /// There was no spare for its worker slot.
    is_exhausted: bool,
    /// The run before this one was counted as blocked.
    has_left_blocked: bool,
}

impl RunWatch {
    pub(super) fn check(&mut self, slot: &ThreadSlot, is_worker: bool, now_ns: u64) -> Finding {
        let runs = slot.runs.get();
        let (state, entered_ns) = slot.accounting.now();
        let is_same = (runs, entered_ns) == (self.runs, self.entered_ns);
        let checked_ns = std::mem::replace(&mut self.checked_ns, now_ns);
        if state != WorkerState::Run || !is_same {
            let has_left_blocked = self.counted_ns > 0;
            *self = Self {
                runs,
                entered_ns,
                checked_ns: now_ns,
                // The previous check may have been long ago.
                since_ns: checked_ns.max(entered_ns),
                has_left_blocked,
                ..Self::default()
            };
            return Finding::Nothing;
        }
        self.checks += 1;
        if !is_worker && self.is_blocked {
            // Nothing else needs to be done for it, and there may be thousands.
            return Finding::Displaced;
        }
        let (before_cpu_ns, before_ns) = (self.last_cpu_ns, self.last_ns);
        self.last_cpu_ns = slot.read_stat(ThreadStat::cpu_ns);
        self.last_ns = now_ns;
        if self.checks == 1 {
            (self.first_cpu_ns, self.first_ns) = (self.last_cpu_ns, now_ns);
        }
        if self.checks < STUCK_CHECKS {
            return Finding::Long;
        }
        self.is_blocked = match before_cpu_ns.zip(self.last_cpu_ns) {
            Some((before, last)) if last.saturating_sub(before) >= (now_ns - before_ns) / 2 => {
                false
            }
            // It may wait for a processor.
            Some(_) => slot.read_stat(ThreadStat::is_blocked).unwrap_or(true),
            None => self.checks >= UNKNOWN_CHECKS,
        };
        if self.is_blocked {
            Finding::Blocked {
                since_ns: self.since_ns,
            }
        } else {
            Finding::Computing
        }
    }

    /// When the thread was last checked.
    pub(super) fn checked_ns(&self) -> u64 {
        self.checked_ns
    }

    /// Whether a run that was counted as blocked has just ended.
    pub(super) fn has_left_blocked_run(&mut self) -> bool {
        std::mem::take(&mut self.has_left_blocked)
    }

    /// The run blocks: returns the blocked time that was not returned before.
    pub(super) fn count_blocked(&mut self, now_ns: u64) -> u64 {
        let from_ns = self.since_ns.max(self.counted_ns);
        self.counted_ns = now_ns;
        now_ns.saturating_sub(from_ns)
    }

    /// Notes that there was no spare for the run; `true` at the first time.
    pub(super) fn note_exhausted(&mut self) -> bool {
        !std::mem::replace(&mut self.is_exhausted, true)
    }

    /// Since when the run has been computing, if it is stuck.
    pub(super) fn computing_since_ns(&self) -> Option<u64> {
        (self.checks >= STUCK_CHECKS && !self.is_blocked).then_some(self.since_ns)
    }

    pub(super) fn is_relieved(&self) -> bool {
        self.is_relieved
    }

    pub(super) fn relieve(&mut self) {
        self.is_relieved = true;
    }

    /// Returns the run once, when it is longer than the threshold.
    pub(super) fn report(&mut self, threshold_ns: u64, now_ns: u64) -> Option<LongRun> {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        // Not before the checks can tell computing from blocked.
        if self.is_reported || elapsed_ns < threshold_ns || self.checks < STUCK_CHECKS {
            return None;
        }
        self.is_reported = true;
        let watched_ns = self.last_ns - self.first_ns;
        let cpu_times = self.first_cpu_ns.zip(self.last_cpu_ns);
        let cpu_share = cpu_times.and_then(|(first_ns, last_ns)| {
            let cpu_ns = last_ns.saturating_sub(first_ns);
            (watched_ns > 0).then(|| (cpu_ns as f64 / watched_ns as f64).min(1.0))
        });
        Some(LongRun {
            runs: self.runs,
            elapsed_ns,
            cpu_share,
            is_blocked: self.is_blocked,
        })
    }
}
