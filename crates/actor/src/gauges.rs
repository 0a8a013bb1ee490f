//! The counters of one lane: messages handled and shed, high water, time in queue.
//!
//! The thread that runs the actor adds to them once per batch. One message in 128 is timed: it carries its
//! time of arrival as the mark that travels with it in its lane. Rarely used parts are allocated on first use.

use freeboard_flow::ShedReason;
use freeboard_meter::{Counter, Histogram, OwnedCounter, Peak, ReasonCount, clock};
use freeboard_queue::PLAIN_MARK;

use once_cell::race::OnceBox;

use crate::sync::{AtomicU64, Ordering};

/// One message in 128 carries its time of arrival and has its handling timed.
const SAMPLE_EVERY: u64 = 128;

/// The time of arrival as a mark; the inverse of [`arrived_ns`].
pub(crate) fn arrival_mark(index: u64) -> u64 {
    // The last of each 128, so that an actor with few messages never allocates histograms.
    if index % SAMPLE_EVERY == SAMPLE_EVERY - 1 {
        clock::now_ns() << 1 | PLAIN_MARK
    } else {
        PLAIN_MARK
    }
}

/// When a sampled message arrived.
pub(crate) fn arrived_ns(mark: u64) -> Option<u64> {
    (mark != PLAIN_MARK).then_some(mark >> 1)
}

/// One counter per reason, made when the first message is shed.
pub(crate) type ShedCounters = [Counter; ShedReason::COUNT];

struct Shedding {
    by_reason: ShedCounters,
    offered_above_high: AtomicU64,
}

pub(crate) struct LaneGauges {
    /// Messages given to a handler.
    pub(crate) handled: OwnedCounter,
    pub(crate) high_water: Peak,
    shedding: OnceBox<Shedding>,
    time_in_queue: OnceBox<Histogram>,
}

impl LaneGauges {
    pub(crate) const fn new() -> Self {
        Self {
            handled: OwnedCounter::new(),
            high_water: Peak::new(),
            shedding: OnceBox::new(),
            time_in_queue: OnceBox::new(),
        }
    }

    fn shedding(&self) -> &Shedding {
        self.shedding.get_or_init(|| {
            Box::new(Shedding {
                by_reason: std::array::from_fn(|_| Counter::new()),
                offered_above_high: AtomicU64::new(0),
            })
        })
    }

    pub(crate) fn count_shed(&self, reason: ShedReason) {
        self.shedding().by_reason[reason.index()].add(1);
    }

    /// Number of messages that were offered above the high watermark before this one.
    pub(crate) fn offered_above_high(&self) -> u64 {
        // Ordering: Relaxed, each caller gets its own number; their order does not matter.
        self.shedding()
            .offered_above_high
            .fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn shed(&self) -> Vec<ReasonCount> {
        let Some(shedding) = self.shedding.get() else {
            return Vec::new();
        };
        reason_counts(&shedding.by_reason)
    }

    /// Adds the shed messages to the sums of several lanes.
    pub(crate) fn add_shed_to(&self, account: &ShedCounters) {
        if let Some(shedding) = self.shedding.get() {
            for (sum, counter) in account.iter().zip(&shedding.by_reason) {
                sum.add(counter.get());
            }
        }
    }

    /// Only the thread that runs the actor records.
    pub(crate) fn record_time_in_queue(&self, time_ns: u64) {
        self.time_in_queue
            .get_or_init(|| Box::new(Histogram::new()))
            .record(time_ns);
    }

    /// Messages shed for any reason.
    pub(crate) fn shed_total(&self) -> u64 {
        let shedding = self.shedding.get();
        shedding.map_or(0, |it| it.by_reason.iter().map(Counter::get).sum())
    }

    /// Messages that the actor's own runs took from the lane, handled or not. Refusals at a full lane do not count.
    pub(crate) fn consumed(&self) -> u64 {
        let by_turns = [
            ShedReason::Expired,
            ShedReason::AskerGone,
            ShedReason::HandlerPanicked,
        ];
        let shed = self.shedding.get().map_or(0, |it| {
            let counts = by_turns
                .iter()
                .map(|reason| it.by_reason[reason.index()].get());
            counts.sum()
        });
        self.handled.get() + shed
    }

    pub(crate) fn time_in_queue(&self) -> Option<&Histogram> {
        self.time_in_queue.get()
    }
}

/// The reasons that occurred, with their counts.
pub(crate) fn reason_counts(counters: &ShedCounters) -> Vec<ReasonCount> {
    ShedReason::ALL
        .into_iter()
        .map(|reason| ReasonCount {
            reason: reason.as_str().to_owned(),
            count: counters[reason.index()].get(),
        })
        .filter(|counted| counted.count > 0)
        .collect()
}
