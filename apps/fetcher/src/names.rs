//! Counters under the names of the original fetcher.

use freeboard::meter::HistogramSummary;

/// Four percentiles of a histogram, in milliseconds.
fn percentiles<'a>(
    name: &'a str,
    summary: &HistogramSummary,
) -> impl Iterator<Item = (String, f64)> + use<'a> {
    let values = [
        ("75", summary.p75),
        ("95", summary.p95),
        ("99", summary.p99),
        ("999", summary.p999),
    ];
    values
        .into_iter()
        .map(move |(part, ns)| (format!("{name}.HIST-{part}-percentile"), ns as f64 / 1e6))
}

/// The figures of a fetcher that have names in the original. Lanes are ordered by priority.
pub(crate) struct Figures<'a> {
    /// Commands shed because the queue of a connection was full.
    pub(crate) queue_full: u64,
    /// Notifications handled by each main actor, by lane.
    pub(crate) mains: &'a [Vec<u64>],
    /// Commands sent by each connection to Redis.
    pub(crate) redis: Vec<u64>,
    /// The messages in the main actors' mailboxes now, by lane.
    pub(crate) mailboxes: &'a [Vec<u64>],
    pub(crate) wait: &'a HistogramSummary,
    pub(crate) lifetime: &'a HistogramSummary,
    pub(crate) in_queue: &'a HistogramSummary,
    pub(crate) from_tell: &'a HistogramSummary,
    pub(crate) from_send: &'a HistogramSummary,
}

impl Figures<'_> {
    /// Counters, percentiles in milliseconds and gauges under their original names. `0/3` is the first of three.
    pub(crate) fn named(&self) -> Vec<(String, f64)> {
        let queue_full = "redis~mampa~fail~queue~full.COUNTER".to_owned();
        let mut named = vec![(queue_full, self.queue_full as f64)];
        let told = |kind, actor, of: usize, lane| {
            format!("mampa~tell~actor~{kind}~{actor}/{of}.P{lane}.COUNTER")
        };
        each(&mut named, self.mains, |actor, lane| {
            told("Fetcher", actor, self.mains.len(), lane)
        });
        let redis: Vec<_> = self.redis.iter().map(|count| vec![*count]).collect();
        each(&mut named, &redis, |actor, lane| {
            told("RedisMampa", actor, redis.len(), lane)
        });
        each(&mut named, self.mailboxes, |actor, lane| {
            format!("mailbox~occupied~size~Fetcher~{actor}.p{lane}.GAUGE")
        });
        for (name, summary) in [
            ("wait~before~process", self.wait),
            ("Request.lifetime", self.lifetime),
            ("mampa~event~inqueue~time", self.in_queue),
            ("redis~mampa~from~tell", self.from_tell),
            ("redis~mampa~from~send", self.from_send),
        ] {
            named.extend(percentiles(name, summary));
        }
        named
    }
}

/// Adds the figure of each actor and lane.
fn each(
    named: &mut Vec<(String, f64)>,
    figures: &[Vec<u64>],
    name: impl Fn(usize, usize) -> String,
) {
    for (actor, lanes) in figures.iter().enumerate() {
        let lanes = lanes.iter().enumerate();
        named.extend(lanes.map(|(lane, figure)| (name(actor, lane), *figure as f64)));
    }
}

/// The slowest of several summaries at each quantile.
pub fn slowest<'a>(summaries: impl Iterator<Item = &'a HistogramSummary>) -> HistogramSummary {
    summaries.fold(HistogramSummary::default(), |worst, it| HistogramSummary {
        count: worst.count + it.count,
        min: 0,
        max: worst.max.max(it.max),
        mean: worst.mean.max(it.mean),
        p50: worst.p50.max(it.p50),
        p75: worst.p75.max(it.p75),
        p90: worst.p90.max(it.p90),
        p95: worst.p95.max(it.p95),
        p99: worst.p99.max(it.p99),
        p999: worst.p999.max(it.p999),
    })
}
