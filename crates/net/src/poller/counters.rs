//! What is counted about looks and what they found.

use freeboard_meter::{Counter, Histogram, LooksSnapshot, Peak, PollerSnapshot};

/// Who looks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    Worker(usize),
    Monitor,
    Dedicated,
}

/// The looks of one, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Looks {
    pub(crate) attempts: Counter,
    nonwait: Counter,
    wait: Counter,
    won_idle_lazy: Counter,
    won_busy_lazy: Counter,
    won_idle_eager: Counter,
    won_busy_eager: Counter,
    events: Counter,
}

impl Looks {
    /// A look is over. `is_lazy`: busy workers had to have done with what the last one found.
    pub(crate) fn looked(&self, is_wait: bool, events: usize, is_lazy: bool) {
        let kind = if is_wait { &self.wait } else { &self.nonwait };
        kind.add(1);
        if events == 0 {
            return;
        }
        self.events.add(events as u64);
        let won = match (is_wait, is_lazy) {
            (true, true) => &self.won_idle_lazy,
            (false, true) => &self.won_busy_lazy,
            (true, false) => &self.won_idle_eager,
            (false, false) => &self.won_busy_eager,
        };
        won.add(1);
    }

    fn snapshot(&self) -> LooksSnapshot {
        LooksSnapshot {
            attempts: self.attempts.get(),
            nonwait: self.nonwait.get(),
            wait: self.wait.get(),
            won_idle_lazy: self.won_idle_lazy.get(),
            won_busy_lazy: self.won_busy_lazy.get(),
            won_idle_eager: self.won_idle_eager.get(),
            won_busy_eager: self.won_busy_eager.get(),
            events: self.events.get(),
        }
    }
}

pub(crate) struct Counters {
    workers: Box<[Looks]>,
    monitor: Looks,
    dedicated: Looks,
    pub(crate) events_per_look: Histogram,
    /// Owners that were called, those of them that have run, and those that were gone.
    called: Counter,
    runs: Counter,
    dropped: Counter,
    readiness_to_run: Histogram,
    /// Raised by who has the turn.
    pub(crate) gap_ns: Peak,
    pub(crate) wakes: Counter,
    pub(crate) accepts: Counter,
    pub(crate) agains: Counter,
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers.max(1)).map(|_| Looks::default()).collect(),
            monitor: Looks::default(),
            dedicated: Looks::default(),
            events_per_look: Histogram::new(),
            called: Counter::new(),
            runs: Counter::new(),
            dropped: Counter::new(),
            readiness_to_run: Histogram::new(),
            gap_ns: Peak::new(),
            wakes: Counter::new(),
            accepts: Counter::new(),
            agains: Counter::new(),
        }
    }

    pub(crate) fn of(&self, by: By) -> &Looks {
        match by {
            // More workers than were said share the last one's counters.
            By::Worker(index) => &self.workers[index.min(self.workers.len() - 1)],
            By::Monitor => &self.monitor,
            By::Dedicated => &self.dedicated,
        }
    }

    /// So many owners are about to be called.
    pub(crate) fn found(&self, owners: u64) {
        self.called.add(owners);
    }

    /// An owner has run, so long after the look.
    pub(crate) fn ran(&self, delay_ns: u64) {
        self.runs.add(1);
        self.readiness_to_run.record_shared(delay_ns);
    }

    /// An owner that was called is gone.
    pub(crate) fn dropped(&self) {
        self.dropped.add(1);
    }

    /// Owners that were called and have not run.
    pub(crate) fn outstanding(&self) -> u64 {
        let over = self.runs.get() + self.dropped.get();
        self.called.get().saturating_sub(over)
    }

    pub(crate) fn snapshot(&self, policy: &str, sources: u64) -> PollerSnapshot {
        PollerSnapshot {
            policy: policy.to_owned(),
            sources,
            workers: self.workers.iter().map(Looks::snapshot).collect(),
            monitor: self.monitor.snapshot(),
            dedicated: self.dedicated.snapshot(),
            events_per_look: self.events_per_look.summary(),
            outstanding: self.outstanding(),
            runs: self.runs.get(),
            readiness_to_run: self.readiness_to_run.summary(),
            gap_max_ns: self.gap_ns.get(),
            wakes: self.wakes.get(),
            accepts: self.accepts.get(),
            agains: self.agains.get(),
        }
    }
}
