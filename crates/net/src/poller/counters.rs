//! The counters of polls and their events.

use freeboard_meter::{
    Counter, Histogram, HistogramSnapshot, Padded, Peak, PollerSnapshot, PollsSnapshot, Striped,
};

/// The thread that polls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Worker(usize),
    Monitor,
    Dedicated,
}

/// The polls of one thread, on their own cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Polls {
    pub(crate) attempts: Counter,
    nonwait: Counter,
    wait: Counter,
    won_idle_lazy: Counter,
    won_busy_lazy: Counter,
    won_idle_eager: Counter,
    won_busy_eager: Counter,
    events: Counter,
}

impl Polls {
    /// Counts a poll. `is_lazy`: busy workers poll only after all events of the last poll were handled.
    pub(crate) fn count(&self, is_wait: bool, events: usize, is_lazy: bool) {
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

    fn snapshot(&self) -> PollsSnapshot {
        PollsSnapshot {
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

/// The counts of the threads that run owners, written for each event.
#[derive(Default)]
struct Owners {
    runs: Counter,
    dropped: Counter,
    accepts: Counter,
    agains: Counter,
    readiness_to_run: Histogram,
}

pub(crate) struct Counters {
    workers: Box<[Polls]>,
    monitor: Polls,
    dedicated: Polls,
    owners: Striped<Owners>,
    /// Written by each poll, as the next two.
    pub(crate) events_per_poll: Padded<Histogram>,
    /// Owners that were called. Those of them that have run or were dropped are in `owners`.
    called: Padded<Counter>,
    /// Raised by the thread that has the turn.
    pub(crate) gap_ns: Padded<Peak>,
    pub(crate) wakes: Padded<Counter>,
}

impl Counters {
    /// `reads_outstanding`: busy workers read [`Counters::outstanding`] after each run, so it must be in one place.
    pub(crate) fn new(workers: usize, reads_outstanding: bool) -> Self {
        let owners = if reads_outstanding {
            Striped::with_stripes(1)
        } else {
            Striped::new()
        };
        Self {
            owners,
            workers: (0..workers.max(1)).map(|_| Polls::default()).collect(),
            monitor: Polls::default(),
            dedicated: Polls::default(),
            events_per_poll: Padded::default(),
            called: Padded::default(),
            gap_ns: Padded::default(),
            wakes: Padded::default(),
        }
    }

    pub(crate) fn of(&self, origin: Origin) -> &Polls {
        match origin {
            // Workers beyond the configured number share the counters of the last one.
            Origin::Worker(index) => &self.workers[index.min(self.workers.len() - 1)],
            Origin::Monitor => &self.monitor,
            Origin::Dedicated => &self.dedicated,
        }
    }

    /// `owners` are about to be called.
    pub(crate) fn count_called(&self, owners: u64) {
        self.called.add(owners);
    }

    /// A called owner has run, `delay_ns` after the poll.
    pub(crate) fn count_run(&self, delay_ns: u64) {
        let own = self.owners.own();
        own.runs.add(1);
        own.readiness_to_run.record_shared(delay_ns);
    }

    /// A called owner was dropped.
    pub(crate) fn count_dropped(&self) {
        self.owners.own().dropped.add(1);
    }

    /// A connection was accepted.
    pub(crate) fn count_accept(&self) {
        self.owners.own().accepts.add(1);
    }

    /// A call would have blocked.
    pub(crate) fn count_again(&self) {
        self.owners.own().agains.add(1);
    }

    /// Called owners that have not run.
    pub(crate) fn outstanding(&self) -> u64 {
        let over = self.owners.sum(|own| own.runs.get() + own.dropped.get());
        self.called.get().saturating_sub(over)
    }

    pub(crate) fn snapshot(&self, policy: &str, sources: u64) -> PollerSnapshot {
        let mut readiness_to_run = HistogramSnapshot::default();
        for own in self.owners.iter() {
            readiness_to_run.merge(&own.readiness_to_run.snapshot());
        }
        PollerSnapshot {
            policy: policy.to_owned(),
            sources,
            workers: self.workers.iter().map(Polls::snapshot).collect(),
            monitor: self.monitor.snapshot(),
            dedicated: self.dedicated.snapshot(),
            events_per_poll: self.events_per_poll.summary(),
            outstanding: self.outstanding(),
            runs: self.owners.sum(|own| own.runs.get()),
            readiness_to_run: readiness_to_run.summary(),
            gap_max_ns: self.gap_ns.get(),
            wakes: self.wakes.get(),
            accepts: self.owners.sum(|own| own.accepts.get()),
            agains: self.owners.sum(|own| own.agains.get()),
        }
    }
}
