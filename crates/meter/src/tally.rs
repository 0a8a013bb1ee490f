//! Snapshots and summaries of histograms as plain data.
//!
//! A snapshot is consistent even if it is taken during a record, when a bucket may be counted before the minimum
//! is lowered.

use serde::{Deserialize, Serialize};

use crate::buckets::{BUCKET_COUNT, highest, lowest, middle};

/// The buckets of a [`Histogram`](crate::Histogram) at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// Empty, or one element for each bucket.
    counts: Vec<u64>,
    sum_ns: u64,
    extent: Extent,
}

/// The number of values, and their range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) count: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl HistogramSnapshot {
    /// Makes fields consistent that were read one after the other: the buckets decide.
    pub(crate) fn from_parts(counts: Vec<u64>, sum_ns: u64, min_ns: u64, max_ns: u64) -> Self {
        assert_eq!(counts.len(), BUCKET_COUNT);
        let first = counts.iter().position(|&count| count > 0);
        let last = counts.iter().rposition(|&count| count > 0);
        let (Some(first), Some(last)) = (first, last) else {
            return Self::default();
        };
        let max_ns = max_ns.clamp(lowest(last), highest(last));
        let min_ns = min_ns.clamp(lowest(first), highest(first)).min(max_ns);
        let count = counts.iter().fold(0, |sum, &n| n.saturating_add(sum));
        Self {
            counts,
            sum_ns,
            extent: Extent {
                count,
                min_ns,
                max_ns,
            },
        }
    }

    /// The value in nanoseconds that a share `quantile` of all values does not exceed, within 1/32 of
    /// the true one; 0 if there is no value.
    ///
    /// A quantile outside 0..=1 counts as the nearer end, NaN as 0.
    #[must_use]
    pub fn value_at(&self, quantile: f64) -> u64 {
        let [value] = values_at(self.counts(), self.extent, [quantile]);
        value
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.extent.count == 0 {
            return;
        }
        if self.extent.count == 0 {
            self.clone_from(other);
            return;
        }
        for (count, add) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*add);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        let extent = &mut self.extent;
        extent.count = extent.count.saturating_add(other.extent.count);
        extent.min_ns = extent.min_ns.min(other.extent.min_ns);
        extent.max_ns = extent.max_ns.max(other.extent.max_ns);
    }

    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate()
    }

    /// Count, range, mean and quantiles.
    #[must_use]
    pub fn summary(&self) -> HistogramSummary {
        summary(self.counts(), self.extent, self.sum_ns)
    }

    /// The number of values in each octave that is not empty: from a power of two nanoseconds (or 0) to below
    /// twice that.
    #[must_use]
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut octaves: Vec<(u64, u64)> = Vec::new();
        for (index, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let from_ns = lowest(index)
                .checked_ilog2()
                .map_or(0, |octave| 1 << octave);
            match octaves.last_mut() {
                Some((last_ns, sum)) if *last_ns == from_ns => *sum = sum.saturating_add(count),
                _ => octaves.push((from_ns, count)),
            }
        }
        octaves
    }
}

impl Extent {
    fn mean(&self, sum_ns: u64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (sum_ns as f64 / self.count as f64).clamp(self.min_ns as f64, self.max_ns as f64)
    }

    /// The rank of a quantile among the ordered values, from 1.
    fn rank(&self, quantile: f64) -> u64 {
        let quantile = quantile.clamp(0.0, 1.0);
        // The cast turns NaN into 0.
        ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1))
    }
}

/// The values at rising quantiles, in one pass over buckets and their counts.
pub(crate) fn values_at<const N: usize>(
    counts: impl Iterator<Item = (usize, u64)>,
    extent: Extent,
    quantiles: [f64; N],
) -> [u64; N] {
    let ranks = quantiles.map(|quantile| extent.rank(quantile));
    let mut values = [extent.max_ns; N];
    let mut seen = 0_u64;
    let mut next = 0;
    for (index, count) in counts {
        seen = seen.saturating_add(count);
        while next < N && seen >= ranks[next] {
            values[next] = middle(index).clamp(extent.min_ns, extent.max_ns);
            next += 1;
        }
        if next == N {
            break;
        }
    }
    values
}

pub(crate) fn summary(
    counts: impl Iterator<Item = (usize, u64)>,
    extent: Extent,
    sum_ns: u64,
) -> HistogramSummary {
    let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
    let [p50, p75, p90, p95, p99, p999] = values_at(counts, extent, quantiles);
    HistogramSummary {
        count: extent.count,
        min: extent.min_ns,
        max: extent.max_ns,
        mean: extent.mean(sum_ns),
        p50,
        p75,
        p90,
        p95,
        p99,
        p999,
    }
}

/// Count, range, mean and quantiles of a histogram, in nanoseconds; all 0 if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistogramSummary {
    /// The number of recorded values.
    pub count: u64,
    /// The least value, exact.
    pub min: u64,
    /// The greatest value, exact.
    pub max: u64,
    /// The arithmetic mean, exact.
    pub mean: f64,
    /// The median, within 1/32 as all quantiles are.
    pub p50: u64,
    /// Three quarters of the values do not exceed this.
    pub p75: u64,
    /// 90 % of the values do not exceed this.
    pub p90: u64,
    /// 95 % of the values do not exceed this.
    pub p95: u64,
    /// 99 % of the values do not exceed this.
    pub p99: u64,
    /// 99.9 % of the values do not exceed this.
    pub p999: u64,
}

impl HistogramSummary {
    /// The sum of all values in nanoseconds, exact up to some 26 days.
    #[must_use]
    pub fn sum(&self) -> u64 {
        (self.mean * self.count as f64).round() as u64
    }
}
