//! Percentiles from a sample, as in the original.
//!
//! Vitter, "Random Sampling with a Reservoir" (1985), algorithm R, with the 1,028 slots of the metrics library that
//! the original used. The 99.9th percentile of 1,028 values is the second largest.

use std::sync::atomic::{AtomicU64, Ordering};

use freeboard::meter::HistogramSummary;
use parking_lot::Mutex;

/// The size of the reservoir.
const PLACES: usize = 1_028;

/// A uniform sample of all values.
#[derive(Debug, Default)]
pub(super) struct Sample {
    seen: AtomicU64,
    kept: Mutex<Vec<u64>>,
}

impl Sample {
    /// Offers a value to the sample.
    pub(super) fn record(&self, value_ns: u64) {
        // Ordering: Relaxed: only the number matters.
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if seen < PLACES as u64 {
            self.kept.lock().push(value_ns);
            return;
        }
        let place = fastrand::u64(0..=seen);
        let mut kept = self.kept.lock();
        if let Some(place) = usize::try_from(place).ok().and_then(|it| kept.get_mut(it)) {
            *place = value_ns;
        }
    }

    /// The summary of the sample.
    pub(super) fn summary(&self) -> HistogramSummary {
        let mut kept = self.kept.lock().clone();
        kept.sort_unstable();
        let Some((&min, &max)) = kept.first().zip(kept.last()) else {
            return HistogramSummary::default();
        };
        let at = |quantile: f64| {
            let rank = (quantile * kept.len() as f64).ceil() as usize;
            kept[rank.clamp(1, kept.len()) - 1]
        };
        HistogramSummary {
            // Ordering: Relaxed, as in `record`.
            count: self.seen.load(Ordering::Relaxed),
            min,
            max,
            mean: kept.iter().sum::<u64>() as f64 / kept.len() as f64,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_kept_and_many_are_sampled() {
        let sample = Sample::default();
        (1..=1_000).rev().for_each(|value| sample.record(value));
        let summary = sample.summary();
        assert_eq!((summary.count, summary.min, summary.max), (1_000, 1, 1_000));
        assert_eq!((summary.p50, summary.p99, summary.p999), (500, 990, 999));
        (1_001..=100_000).for_each(|value| sample.record(value));
        let summary = sample.summary();
        assert_eq!(summary.count, 100_000);
        assert!(summary.p50 > 1_000, "of the later ones none was kept");
    }
}
