//! Counters under the names of the original fetcher.

use freeboard::meter::HistogramSummary;

/// Four percentiles of a histogram, in milliseconds.
pub(crate) fn percentiles<'a>(
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

/// The messages told to each actor of a kind, by priority.
pub(crate) fn told(kind: &str, counts: &[Vec<u64>]) -> Vec<(String, f64)> {
    let counts = counts.iter().enumerate();
    let counted = counts.flat_map(|(index, lanes)| {
        let lanes = lanes.iter().enumerate();
        lanes.map(move |(lane, count)| {
            let name = format!("mampa~tell~actor~{kind}~{index}.P{lane}.COUNTER");
            (name, *count as f64)
        })
    });
    counted.collect()
}

/// The counts of actors with one priority.
pub(crate) fn one_priority(counts: &[u64]) -> Vec<Vec<u64>> {
    counts.iter().map(|count| vec![*count]).collect()
}

/// Commands shed because the queue of a connection was full.
pub(crate) const QUEUE_FULL: &str = "redis~mampa~fail~queue~full.COUNTER";
pub(crate) const WAIT: &str = "wait~before~process";
pub(crate) const LIFETIME: &str = "Request.lifetime";
pub(crate) const IN_QUEUE: &str = "mampa~event~inqueue~time";
pub(crate) const FROM_TELL: &str = "redis~mampa~from~tell";
pub(crate) const FROM_SEND: &str = "redis~mampa~from~send";

/// The high-water marks of mailboxes.
pub(crate) fn mailboxes(mailboxes: &[Vec<u64>]) -> impl Iterator<Item = (String, f64)> + use<'_> {
    let mailboxes = mailboxes.iter().enumerate();
    mailboxes.flat_map(|(index, lanes)| {
        let lanes = lanes.iter().enumerate();
        lanes.map(move |(lane, size)| {
            let name = format!("mailbox~occupied~size~Fetcher~{index}.p{lane}.GAUGE");
            (name, *size as f64)
        })
    })
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
