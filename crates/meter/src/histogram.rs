//! A histogram that one writer updates and any reader can read at any time.
//!
//! It records time in queue and handling time of actors. Its layout is an HDR histogram (see `buckets.rs`)
//! with atomic buckets: the writer never waits, a reader copies the buckets. The number of values is the sum
//! of the buckets, which saves a write and is always consistent with them.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::buckets::{BUCKET_COUNT, index_of};

use crate::tally::{Extent, summary, values_at};

pub use crate::tally::{HistogramSnapshot, HistogramSummary};

/// A histogram of nanoseconds with one writer at a time and any number of readers.
///
/// Quantiles are within 1/32 (3.2 %) of the true value up to 2^42 ns (73 minutes); longer times share
/// one bucket, reported as the longest recorded. About 5 KB: make it when it is first needed.
///
/// ```
/// let histogram = freeboard_meter::Histogram::new();
/// for micros in 1..=100 {
///     histogram.record(micros * 1_000);
/// }
/// let summary = histogram.summary();
/// assert_eq!((summary.count, summary.min, summary.max), (100, 1_000, 100_000));
/// assert!(summary.p50.abs_diff(50_000) <= 50_000 / 32);
/// ```
pub struct Histogram {
    counts: [AtomicU64; BUCKET_COUNT],
    sum_ns: AtomicU64,
    /// `u64::MAX` while empty.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKET_COUNT],
            sum_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Records one value, in nanoseconds; only the one writer may call it.
    ///
    /// Two writers at once lose values, and nothing worse.
    #[inline]
    pub fn record(&self, value_ns: u64) {
        bump(&self.counts[index_of(value_ns)], 1);
        bump(&self.sum_ns, value_ns);
        // Ordering: Relaxed here and in `bump`: one writer, and readers take each field for itself;
        // `HistogramSnapshot` brings them into agreement.
        if value_ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.store(value_ns, Ordering::Relaxed);
        }
        if value_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(value_ns, Ordering::Relaxed);
        }
    }

    /// Records one value, in nanoseconds, from any number of writers that all use this method.
    #[inline]
    pub fn record_shared(&self, value_ns: u64) {
        // Ordering: Relaxed, as in `record`; the read-modify-writes keep concurrent counts whole.
        self.counts[index_of(value_ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(value_ns, Ordering::Relaxed);
        self.min_ns.fetch_min(value_ns, Ordering::Relaxed);
        self.max_ns.fetch_max(value_ns, Ordering::Relaxed);
    }

    /// The buckets as plain data, for quantiles of one's own choice.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        // Ordering: Relaxed, as in `record`.
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        HistogramSnapshot::from_parts(
            counts,
            self.sum_ns.load(Ordering::Relaxed),
            self.min_ns.load(Ordering::Relaxed),
            self.max_ns.load(Ordering::Relaxed),
        )
    }

    /// The values at rising quantiles, each as [`HistogramSnapshot::value_at`] has it, without a copy of
    /// the buckets; none if there is no value.
    #[must_use]
    pub fn values_at<const N: usize>(&self, quantiles: [f64; N]) -> Option<[u64; N]> {
        let span = self.span()?;
        Some(values_at(span.counts(), span.extent, quantiles))
    }

    /// The usual figures, without a copy of the buckets.
    #[must_use]
    pub fn summary(&self) -> HistogramSummary {
        let Some(span) = self.span() else {
            return HistogramSummary::default();
        };
        // Ordering: Relaxed, as in `record`.
        let sum_ns = self.sum_ns.load(Ordering::Relaxed);
        summary(span.counts(), span.extent, sum_ns)
    }

    /// The number of values and their sum in nanoseconds, as in the summary, without its quantiles.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        let Some(span) = self.span() else {
            return (0, 0);
        };
        // Ordering: Relaxed, as in `record`.
        (span.extent.count, self.sum_ns.load(Ordering::Relaxed))
    }

    /// The buckets between the least and the greatest value; a value whose record is under way may be
    /// outside, and is then not counted yet. Most histograms use a few of their many cache lines.
    fn span(&self) -> Option<Span<'_>> {
        // Ordering: Relaxed, as in `record`.
        let max_ns = self.max_ns.load(Ordering::Relaxed);
        // The first record may have set the one and not yet the other.
        let min_ns = self.min_ns.load(Ordering::Relaxed).min(max_ns);
        let first = index_of(min_ns);
        let mut span = Span {
            first,
            counts: &self.counts[first..=index_of(max_ns)],
            extent: Extent {
                count: 0,
                min_ns,
                max_ns,
            },
        };
        span.extent.count = span.counts().fold(0, |sum, (_, n)| n.saturating_add(sum));
        (span.extent.count > 0).then_some(span)
    }
}

/// The buckets that have values.
struct Span<'a> {
    first: usize,
    counts: &'a [AtomicU64],
    extent: Extent,
}

impl Span<'_> {
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        // Ordering: Relaxed, as in `Histogram::record`.
        let loaded = self.counts.iter().map(|it| it.load(Ordering::Relaxed));
        (self.first..).zip(loaded)
    }
}

/// Adds without a locked instruction, for the one writer.
#[inline]
fn bump(cell: &AtomicU64, n: u64) {
    let value = cell.load(Ordering::Relaxed);
    cell.store(value.saturating_add(n), Ordering::Relaxed);
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Histogram")
            .field(&self.summary())
            .finish()
    }
}
