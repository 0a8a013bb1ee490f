//! One thread's run, from look to look.

use freeboard_meter::WorkerState;

use crate::{seat::Seat, thread_stat::ThreadStat};

/// Looks at one and the same run after which it is stuck; with a millisecond between two, a run of
/// two to three milliseconds.
const STUCK_LOOKS: u32 = 2;
/// Where the system does not tell how a thread spends its time, so many are taken for blocked.
const UNKNOWN_LOOKS: u32 = 10;

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    /// The same run as at the last look.
    Long,
    /// Stuck, and on a processor or waiting for one.
    Computing,
    /// Its place was given away, and it was known to block.
    Displaced,
    /// Stuck, and neither. It began after `since_ns`.
    Blocked {
        since_ns: u64,
    },
}

/// A run that was longer than the threshold.
pub(super) struct LongRun {
    /// The seat's count of runs during this one.
    pub(super) runs: u64,
    pub(super) elapsed_ns: u64,
    pub(super) cpu_share: Option<f64>,
    pub(super) is_blocked: bool,
}

#[derive(Default)]
pub(super) struct RunWatch {
    /// The seat's count of runs at the last look.
    runs: u64,
    /// When the thread began to run, and the time of the last look.
    entered_ns: u64,
    looked_ns: u64,
    /// Looks at the same run before this one.
    looks: u32,
    /// The run began after this.
    since_ns: u64,
    /// The thread's processor time at the first look at the run, and at the last.
    first_cpu_ns: Option<u64>,
    last_cpu_ns: Option<u64>,
    first_ns: u64,
    last_ns: u64,
    is_blocked: bool,
    is_reported: bool,
    /// Its place went to another thread because all workers computed.
    is_relieved: bool,
    /// Reckoned as blocked up to here.
    reckoned_ns: u64,
    /// There was no spare for it.
    is_exhausted: bool,
    /// The run before this one was reckoned as blocked.
    has_left_blocked: bool,
}

impl RunWatch {
    pub(super) fn look(&mut self, seat: &Seat, is_seated: bool, now_ns: u64) -> Finding {
        let runs = seat.runs.get();
        let (state, entered_ns) = seat.accounting.now();
        let is_same = (runs, entered_ns) == (self.runs, self.entered_ns);
        let looked_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        if state != WorkerState::Run || !is_same {
            let has_left_blocked = self.reckoned_ns > 0;
            *self = Self {
                runs,
                entered_ns,
                looked_ns: now_ns,
                // The look before may have been long ago.
                since_ns: looked_ns.max(entered_ns),
                has_left_blocked,
                ..Self::default()
            };
            return Finding::Nothing;
        }
        self.looks += 1;
        if !is_seated && self.is_blocked {
            // Nothing is left to be done for it; there may be thousands.
            return Finding::Displaced;
        }
        let (before_cpu_ns, before_ns) = (self.last_cpu_ns, self.last_ns);
        self.last_cpu_ns = seat.ask_thread(ThreadStat::cpu_ns);
        self.last_ns = now_ns;
        if self.looks == 1 {
            (self.first_cpu_ns, self.first_ns) = (self.last_cpu_ns, now_ns);
        }
        if self.looks < STUCK_LOOKS {
            return Finding::Long;
        }
        self.is_blocked = match before_cpu_ns.zip(self.last_cpu_ns) {
            Some((before, last)) if last.saturating_sub(before) >= (now_ns - before_ns) / 2 => {
                false
            }
            // It may be waiting for a processor.
            Some(_) => seat.ask_thread(ThreadStat::is_blocked).unwrap_or(true),
            None => self.looks >= UNKNOWN_LOOKS,
        };
        if self.is_blocked {
            Finding::Blocked {
                since_ns: self.since_ns,
            }
        } else {
            Finding::Computing
        }
    }

    /// When the thread was looked at last.
    pub(super) fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// Whether a run that was reckoned as blocked has just ended.
    pub(super) fn has_left_blocked_run(&mut self) -> bool {
        std::mem::take(&mut self.has_left_blocked)
    }

    /// The run was found to block: for how long, as far as that was not said before.
    pub(super) fn reckon_blocked(&mut self, now_ns: u64) -> u64 {
        let from_ns = self.since_ns.max(self.reckoned_ns);
        self.reckoned_ns = now_ns;
        now_ns.saturating_sub(from_ns)
    }

    /// There was no spare for the blocked run. Whether that is news.
    pub(super) fn note_exhausted(&mut self) -> bool {
        !std::mem::replace(&mut self.is_exhausted, true)
    }

    /// Since when the run computes, if it is stuck in that.
    pub(super) fn computing_since_ns(&self) -> Option<u64> {
        (self.looks >= STUCK_LOOKS && !self.is_blocked).then_some(self.since_ns)
    }

    pub(super) fn is_relieved(&self) -> bool {
        self.is_relieved
    }

    pub(super) fn relieve(&mut self) {
        self.is_relieved = true;
    }

    /// The run, once, if it is longer than the threshold by now.
    pub(super) fn report(&mut self, threshold_ns: u64, now_ns: u64) -> Option<LongRun> {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        // Not before it was told apart what the run does.
        if self.is_reported || elapsed_ns < threshold_ns || self.looks < STUCK_LOOKS {
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
