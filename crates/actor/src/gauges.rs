//! The counters of one lane: messages handled and shed, high water, time in queue.
//!
//! The thread that runs the actor adds to them once per batch. One message in 128 is timed: it carries its
//! time of arrival as the mark that travels with it in its lane. In a lane that sheds by age each message does.
//! Rarely used parts are allocated on first use.
//!
//! ```text
//!   mark   62 ............ 2   1               0
//!          time of arrival     for histograms  PLAIN_MARK
//! ```

use freeboard_flow::ShedReason;
use freeboard_meter::{Counter, Histogram, OwnedCounter, Peak, ReasonCount, clock};
use freeboard_queue::PLAIN_MARK;

use once_cell::race::OnceBox;

use crate::sync::{AtomicU64, Ordering};

/// One message in 128 has its time in the queue and its handling recorded.
const SAMPLE_EVERY: u64 = 128;

/// Set in the mark of a message whose times are recorded.
const SAMPLED: u64 = 2;

/// A lane reads the coarse clock if its ticks are at most this part of the lane's threshold.
const TICKS_PER_THRESHOLD: u64 = 8;

/// Which messages of a lane carry their time of arrival, and by which clock.
#[derive(Clone, Copy)]
pub(crate) struct Stamps {
    /// Those whose index has all these bits.
    mask: u8,
    is_coarse: bool,
}

/// The flag of a lane's tag for [`Stamps`] that read the coarse clock.
const COARSE: u8 = 1;

impl Stamps {
    /// The stamps in a lane's tag: the mask, and a byte of flags.
    #[inline]
    pub(crate) fn of_tag([mask, flags, _]: [u8; 3]) -> Self {
        Self {
            mask,
            is_coarse: flags & COARSE != 0,
        }
    }

    /// The tag of a lane with these stamps and these further flags, which leave bit 0 free.
    pub(crate) fn tag(self, flags: u8) -> [u8; 3] {
        [
            self.mask,
            flags | if self.is_coarse { COARSE } else { 0 },
            0,
        ]
    }

    /// The sampled ones. The last of each 128, so that an actor with few messages never allocates histograms.
    pub(crate) const SAMPLED: Self = Self {
        mask: SAMPLE_EVERY as u8 - 1,
        is_coarse: false,
    };

    /// All, for a law with this threshold.
    pub(crate) fn all(threshold_ns: u64) -> Self {
        Self {
            mask: 0,
            is_coarse: threshold_ns / TICKS_PER_THRESHOLD >= clock::coarse_resolution_ns(),
        }
    }

    /// The mark of the message with this index.
    #[inline]
    pub(crate) fn mark(self, index: u64) -> u64 {
        let mask = u64::from(self.mask);
        if index & mask != mask {
            return PLAIN_MARK;
        }
        let is_sampled = index % SAMPLE_EVERY == SAMPLE_EVERY - 1;
        let sampled = if is_sampled { SAMPLED } else { 0 };
        // 2^61 ns are 73 years of uptime.
        (self.now_ns(sampled) << 2) | sampled | PLAIN_MARK
    }

    /// The time by the clock of messages with this mark: histograms need the precise one.
    pub(crate) fn now_ns(self, mark: u64) -> u64 {
        if self.is_coarse && !is_sampled(mark) {
            clock::coarse_ns()
        } else {
            clock::now_ns()
        }
    }
}

/// The time of arrival that a mark other than [`PLAIN_MARK`] carries, in nanoseconds.
pub(crate) const fn arrived_ns(mark: u64) -> u64 {
    mark >> 2
}

/// Whether the message's times are recorded.
pub(crate) const fn is_sampled(mark: u64) -> bool {
    mark & SAMPLED != 0
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
            add_counters(account, &shedding.by_reason);
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

    /// Messages shed for other reasons than these.
    #[cfg(feature = "testing")]
    pub(crate) fn shed_except(&self, others: &[ShedReason]) -> u64 {
        let Some(shedding) = self.shedding.get() else {
            return 0;
        };
        let others = others.iter().map(|it| shedding.by_reason[it.index()].get());
        self.shed_total() - others.sum::<u64>()
    }

    /// Messages that the actor's own runs took from the lane, handled or not. Refusals at a full lane do not count.
    pub(crate) fn consumed(&self) -> u64 {
        let by_turns = [
            ShedReason::Expired,
            ShedReason::AskerGone,
            ShedReason::HandlerPanicked,
            ShedReason::CoDel,
            ShedReason::TooOld,
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

/// Adds each of `counters` to the sum of its reason.
pub(crate) fn add_counters(sums: &ShedCounters, counters: &ShedCounters) {
    for (sum, counter) in sums.iter().zip(counters) {
        sum.add(counter.get());
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
