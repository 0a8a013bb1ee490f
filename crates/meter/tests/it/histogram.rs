//! The histogram against a sorted list and against the hdrhistogram crate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use freeboard_meter::{Histogram, HistogramSummary};
use proptest::prelude::*;

/// One past the range that quantiles are exact to 1/32 in.
const RANGE_NS: u64 = 1 << 42;

const QUANTILES: [f64; 9] = [0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];

/// Values of every order of magnitude alike, rather than mostly huge ones.
fn value() -> impl Strategy<Value = u64> {
    (0_u32..=42, any::<u64>()).prop_map(|(bits, random)| random % (1 << bits))
}

fn filled(values: &[u64]) -> Histogram {
    let histogram = Histogram::new();
    values.iter().for_each(|&value| histogram.record(value));
    histogram
}

fn is_within_error(got: u64, wanted: u64) -> bool {
    got.abs_diff(wanted) <= wanted / 32
}

#[test]
fn octaves_are_powers_of_two_and_count_every_value() {
    let snapshot = filled(&[0, 1, 2, 3, 1_000, 1_023, 1_024, 5_000_000]).snapshot();
    let wanted = [(0, 1), (1, 1), (2, 2), (512, 2), (1_024, 1), (4_194_304, 1)];
    assert_eq!(snapshot.octaves(), wanted);
    assert_eq!(Histogram::new().snapshot().octaves(), []);
}

#[test]
fn totals_are_those_of_the_summary() {
    assert_eq!(Histogram::new().totals(), (0, 0));
    let histogram = filled(&[0, 5, 1_000, 5_000_000]);
    let summary = histogram.summary();
    assert_eq!(histogram.totals(), (4, 5_001_005));
    assert_eq!(histogram.totals(), (summary.count, summary.sum()));
}

proptest! {
    #[test]
    fn quantiles_are_within_a_32nd_of_the_sorted_values(
        mut values in prop::collection::vec(value(), 1..400)
    ) {
        let snapshot = filled(&values).snapshot();
        values.sort_unstable();
        for quantile in QUANTILES {
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let (got, wanted) = (snapshot.value_at(quantile), values[rank - 1]);
            prop_assert!(is_within_error(got, wanted), "{quantile}: {got} for {wanted}");
        }
        let summary = snapshot.summary();
        prop_assert_eq!(summary.count, values.len() as u64);
        prop_assert_eq!((summary.min, summary.max), (values[0], values[values.len() - 1]));
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        prop_assert!((summary.mean - mean).abs() <= mean * 1e-9);
    }

    #[test]
    fn quantiles_agree_with_hdrhistogram(values in prop::collection::vec(value(), 1..400)) {
        let snapshot = filled(&values).snapshot();
        // Three digits: the reference is itself at most 1/1000 off, always upwards.
        let mut reference = hdrhistogram::Histogram::<u64>::new_with_bounds(1, RANGE_NS, 3).unwrap();
        for &value in &values {
            reference.record(value).unwrap();
        }
        for quantile in QUANTILES {
            let (got, wanted) = (snapshot.value_at(quantile), reference.value_at_quantile(quantile));
            let tolerance = wanted as f64 * (1.0 / 32.0 + 1.0 / 1_000.0);
            prop_assert!(got.abs_diff(wanted) as f64 <= tolerance, "{quantile}: {got} for {wanted}");
        }
        prop_assert_eq!(snapshot.summary().count, reference.len());
    }

    #[test]
    fn quantiles_do_not_decrease(values in prop::collection::vec(any::<u64>(), 0..100)) {
        let snapshot = filled(&values).snapshot();
        let figures = QUANTILES.map(|quantile| snapshot.value_at(quantile));
        prop_assert!(figures.is_sorted());
    }

    #[test]
    fn merged_is_the_same_as_recorded_in_one(
        left in prop::collection::vec(value(), 0..100),
        right in prop::collection::vec(value(), 0..100),
    ) {
        let both = filled(&[left.clone(), right.clone()].concat()).snapshot();
        let mut plain = filled(&left).snapshot();
        plain.merge(&filled(&right).snapshot());
        prop_assert_eq!(&plain, &both);
    }

    #[test]
    fn shared_recording_gives_the_same_histogram(values in prop::collection::vec(value(), 0..100)) {
        let shared = Histogram::new();
        values.iter().for_each(|&value| shared.record_shared(value));
        prop_assert_eq!(shared.snapshot(), filled(&values).snapshot());
    }

    #[test]
    fn reading_in_place_is_reading_a_copy(values in prop::collection::vec(value(), 1..200)) {
        let histogram = filled(&values);
        let copy = histogram.snapshot();
        prop_assert_eq!(histogram.summary(), copy.summary());
        let copied = QUANTILES.map(|quantile| copy.value_at(quantile));
        prop_assert_eq!(histogram.values_at(QUANTILES), Some(copied));
    }
}

#[test]
fn an_empty_histogram_is_all_zero() {
    assert_eq!(Histogram::new().summary(), HistogramSummary::default());
    assert_eq!(Histogram::new().values_at([0.5]), None);
    assert_eq!(Histogram::new().snapshot().value_at(0.5), 0);
}

#[test]
fn values_past_the_range_share_a_bucket_and_keep_their_maximum() {
    let histogram = filled(&[5, RANGE_NS, RANGE_NS + 77, u64::MAX / 4]);
    let summary = histogram.summary();
    assert_eq!((summary.count, summary.min), (4, 5));
    assert_eq!((summary.max, summary.p50), (u64::MAX / 4, u64::MAX / 4));
}

#[test]
fn both_sides_of_every_bucket_edge_are_within_the_error() {
    for bits in 0..42 {
        for sixteenth in 16..32_u64 {
            let edge = (sixteenth << bits) >> 4;
            for value in [edge.saturating_sub(1), edge, edge + 1] {
                // A neighbour far below keeps the minimum from giving the answer away.
                let snapshot = filled(&[0, 0, value, u64::MAX]).snapshot();
                let got = snapshot.value_at(0.75);
                assert!(is_within_error(got, value), "{got} for {value}");
            }
        }
    }
}

#[test]
fn quantiles_out_of_range_are_clamped() {
    let snapshot = filled(&[1, 2, 3]).snapshot();
    assert_eq!(snapshot.value_at(-1.0), 1);
    assert_eq!(snapshot.value_at(f64::NAN), 1);
    assert_eq!(snapshot.value_at(7.0), 3);
    assert_eq!(snapshot.value_at(f64::INFINITY), 3);
}

#[test]
fn it_is_small() {
    assert!(size_of::<Histogram>() <= 5 * 1024);
}

#[test]
fn a_reader_beside_the_writer_sees_agreeing_figures() {
    const RECORDS: u64 = 300_000;
    let histogram = Histogram::new();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..RECORDS {
                // Falling values, so that the minimum moves as well.
                histogram.record((RECORDS - n) * 1_000);
            }
            is_done.store(true, Ordering::Release);
        });
        let mut count_before = 0;
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            let summary = histogram.summary();
            assert!(summary.count >= count_before, "the count went back");
            count_before = summary.count;
            if summary.count > 0 {
                let figures = [summary.min, summary.p50, summary.p99, summary.max];
                assert!(figures.is_sorted(), "{figures:?}");
                assert!(summary.min as f64 <= summary.mean && summary.mean <= summary.max as f64);
            }
            if was_done {
                break;
            }
        }
    });
    assert_eq!(histogram.summary().count, RECORDS);
}

#[test]
fn many_shared_writers_lose_nothing() {
    let histogram = Histogram::new();
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let histogram = &histogram;
            scope.spawn(move || (0..10_000).for_each(|n| histogram.record_shared(n * 4 + writer)));
        }
    });
    let summary = histogram.summary();
    assert_eq!(
        (summary.count, summary.min, summary.max),
        (40_000, 0, 39_999)
    );
    assert!((summary.mean - 19_999.5).abs() < 1e-6);
}
