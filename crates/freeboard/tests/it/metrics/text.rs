//! The text of everything, read by a parser that is not ours.

use std::{collections::HashSet, io};

use freeboard::meter::{Exposition, FamilyKind, Sample};
use prometheus_parse::{Scrape, Value};

use super::catalogue;

/// The families as text.
fn text() -> String {
    let mut text = Exposition::new();
    for family in catalogue::all() {
        text.family(&family.name, family.kind, &family.help);
        for sample in &family.samples {
            let labels = sample.labels.iter();
            let labels: Vec<_> = labels.map(|(a, b)| (a.as_str(), b.as_str())).collect();
            text.sample(&sample.name, &labels, sample.value);
        }
    }
    text.finish()
}

/// The value that was read for a sample, if its labels are the same.
fn read(scrape: &Scrape, sample: &Sample, kind: FamilyKind) -> Option<f64> {
    let quantile = sample.label("quantile");
    let labels: Vec<_> = sample
        .labels
        .iter()
        .filter(|(label, _)| label != "quantile")
        .collect();
    let found = scrape.samples.iter().find(|found| {
        found.metric == sample.name
            && found.labels.len() == labels.len()
            && labels
                .iter()
                .all(|(label, value)| found.labels.get(label) == Some(value))
    })?;
    match (&found.value, kind, quantile) {
        (Value::Counter(value), FamilyKind::Counter, None) => Some(*value),
        (Value::Gauge(value), FamilyKind::Gauge, None) => Some(*value),
        // The parser knows of no kind for a summary's sum and count.
        (Value::Untyped(value), FamilyKind::Summary, None) => Some(*value),
        (Value::Summary(quantiles), FamilyKind::Summary, Some(quantile)) => {
            let quantile: f64 = quantile.parse().ok()?;
            let found = quantiles.iter().find(|it| it.quantile == quantile)?;
            Some(found.count)
        }
        _ => None,
    }
}

#[test]
fn another_parser_reads_every_sample_with_its_kind_and_its_help() {
    let text = text();
    let lines = text.lines().map(|line| io::Result::Ok(line.to_owned()));
    let scrape = Scrape::parse(lines).expect("it is text");
    let families = catalogue::all();
    for family in &families {
        let help = scrape.docs.get(&family.name);
        assert_eq!(help, Some(&family.help), "{}", family.name);
        assert!(!family.samples.is_empty(), "{} has no sample", family.name);
        for sample in &family.samples {
            let value = read(&scrape, sample, family.kind);
            assert_eq!(value, Some(sample.value), "{sample:?}");
        }
    }
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    let samples = families.iter().map(|family| family.samples.len());
    assert_eq!(lines, samples.sum::<usize>(), "nothing besides");
}

#[test]
fn no_series_comes_twice() {
    let mut series = HashSet::new();
    for sample in catalogue::all().into_iter().flat_map(|it| it.samples) {
        let mut labels = sample.labels.clone();
        labels.sort_unstable();
        assert!(
            series.insert((sample.name.clone(), labels)),
            "twice: {sample:?}"
        );
    }
}
