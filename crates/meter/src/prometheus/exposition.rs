//! Families, gathered so that the text is always valid.
//!
//! Families are declared once and keep their samples together whatever the order of calls, as the
//! format demands; names are checked, help and label values escaped.

use std::fmt::Write as _;

use super::{
    Metric, Series, Unit,
    family::{Family, FamilyKind, Sample},
};
use crate::tally::HistogramSummary;

/// Prometheus families that are being filled.
///
/// ```
/// use freeboard_meter::{Exposition, FamilyKind};
///
/// let mut text = Exposition::new();
/// text.family("doors_open", FamilyKind::Gauge, "Open doors.");
/// text.sample("doors_open", &[("house", "the \"old\" one")], 2.0);
/// assert_eq!(text.families()[0].samples[0].value, 2.0);
/// let lines = [
///     "# HELP doors_open Open doors.",
///     "# TYPE doors_open gauge",
///     r#"doors_open{house="the \"old\" one"} 2"#,
/// ];
/// assert!(text.finish().lines().eq(lines));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    families: Vec<Family>,
    /// The family that was used last: samples mostly come family by family.
    recent: usize,
}

impl Exposition {
    /// Without families.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            families: Vec::new(),
            recent: 0,
        }
    }

    /// Declares metrics and reads them from one snapshot.
    ///
    /// # Panics
    ///
    /// As [`Exposition::family`] and [`Exposition::sample`].
    pub fn metrics<S: ?Sized>(
        &mut self,
        metrics: &[Metric<S>],
        labels: &[(&str, &str)],
        snapshot: &S,
    ) -> &mut Self {
        for metric in metrics {
            self.family(metric.name, metric.kind, metric.help);
            self.read(metric, labels, snapshot);
        }
        self
    }

    /// Declares metrics and reads them from several snapshots of the same type, each with its own labels.
    ///
    /// # Panics
    ///
    /// As [`Exposition::metrics`].
    pub fn series<'a, S: 'a, L: AsRef<str>, const N: usize>(
        &mut self,
        metrics: &[Metric<S>],
        snapshots: impl IntoIterator<Item = ([(&'a str, L); N], &'a S)>,
    ) -> &mut Self {
        let snapshots: Vec<_> = snapshots.into_iter().collect();
        for metric in metrics {
            self.family(metric.name, metric.kind, metric.help);
            for (labels, snapshot) in &snapshots {
                let labels: [(&str, &str); N] =
                    std::array::from_fn(|index| (labels[index].0, labels[index].1.as_ref()));
                self.read(metric, &labels, snapshot);
            }
        }
        self
    }

    fn read<S: ?Sized>(&mut self, metric: &Metric<S>, labels: &[(&str, &str)], snapshot: &S) {
        let mut series = Series {
            text: self,
            name: metric.name,
            labels,
        };
        (metric.read)(snapshot, &mut series);
    }

    /// Declares a family. Declaring it again with the same kind changes nothing.
    ///
    /// # Panics
    ///
    /// If `name` is not a metric name (`[a-zA-Z_:][a-zA-Z0-9_:]*`), or was declared with another kind.
    pub fn family(&mut self, name: &str, kind: FamilyKind, help: &str) -> &mut Self {
        assert!(is_name(name, true), "{name:?} is not a metric name");
        match self.families.iter().position(|family| family.name == name) {
            Some(index) => {
                let declared = self.families[index].kind;
                assert!(
                    declared == kind,
                    "{name} is declared as {declared:?} and as {kind:?}"
                );
                self.recent = index;
            }
            None => {
                self.recent = self.families.len();
                self.families.push(Family {
                    name: name.to_owned(),
                    kind,
                    help: help.to_owned(),
                    samples: Vec::new(),
                });
            }
        }
        self
    }

    /// Adds a sample to its family: `name` is the family's name, or for a summary that with `_sum` or
    /// `_count`.
    ///
    /// # Panics
    ///
    /// If no family was declared for it, or a label is not a label name (`[a-zA-Z_][a-zA-Z0-9_]*`).
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let recent = self.families.get(self.recent);
        if !recent.is_some_and(|family| family.takes(name)) {
            let index = self.families.iter().position(|family| family.takes(name));
            assert!(index.is_some(), "no family was declared for sample {name}");
            self.recent = index.unwrap_or_default();
        }
        let labels = labels.iter().map(|&(label, value)| {
            assert!(is_name(label, false), "{label:?} is not a label name");
            (label.to_owned(), value.to_owned())
        });
        self.families[self.recent].samples.push(Sample {
            name: name.to_owned(),
            labels: labels.collect(),
            value,
        });
        self
    }

    /// Adds the samples of a summary: quantiles, sum and count. Recorded nanoseconds become seconds if the
    /// name says seconds. Quantiles 0 and 1 are the least and the greatest value, as in Go's own metrics.
    ///
    /// # Panics
    ///
    /// As [`Exposition::sample`].
    pub fn summary(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        summary: &HistogramSummary,
    ) -> &mut Self {
        self.quantiles(name, labels, Some(summary));
        self.sum_and_count(name, labels, summary.sum(), summary.count)
    }

    /// The quantiles of a summary, whose sum and count may be those of more than it.
    pub(super) fn quantiles(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        summary: Option<&HistogramSummary>,
    ) {
        let Some(summary) = summary else { return };
        for (quantile, value) in [
            ("0", summary.min),
            ("0.5", summary.p50),
            ("0.75", summary.p75),
            ("0.9", summary.p90),
            ("0.95", summary.p95),
            ("0.99", summary.p99),
            ("0.999", summary.p999),
            ("1", summary.max),
        ] {
            let labels = [labels, &[("quantile", quantile)]].concat();
            self.sample(name, &labels, Unit::of(name).scaled(value));
        }
    }

    pub(super) fn sum_and_count(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        sum: u64,
        count: u64,
    ) -> &mut Self {
        let sum = Unit::of(name).scaled(sum);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count as f64)
    }

    /// The families declared so far, in the order of declaration, including those without samples.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The text; families that have no samples are left out.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::new();
        for family in &self.families {
            push_family(&mut text, family);
        }
        text
    }
}

fn is_name(name: &str, colon_allowed: bool) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon_allowed && c == ':');
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Adds a family and its samples in the text exposition format 0.0.4; nothing, if it has none.
fn push_family(text: &mut String, family: &Family) {
    if family.samples.is_empty() {
        return;
    }
    text.push_str("# HELP ");
    text.push_str(&family.name);
    text.push(' ');
    push_escaped(text, &family.help, false);
    text.push_str("\n# TYPE ");
    text.push_str(&family.name);
    text.push(' ');
    text.push_str(family.kind.as_str());
    text.push('\n');
    for sample in &family.samples {
        push_sample(text, sample);
    }
}

fn push_sample(text: &mut String, sample: &Sample) {
    text.push_str(&sample.name);
    for (index, (label, value)) in sample.labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        text.push_str(label);
        text.push_str("=\"");
        push_escaped(text, value, true);
        text.push('"');
    }
    if !sample.labels.is_empty() {
        text.push('}');
    }
    text.push(' ');
    if sample.value.is_infinite() {
        text.push_str(if sample.value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        // Rust writes the shortest digits that read back as the same value, and NaN as "NaN".
        write!(text, "{}", sample.value).expect("writing to a String cannot fail");
    }
    text.push('\n');
}

/// A quote is escaped in label values only: in help, `\"` would be read as two characters.
fn push_escaped(text: &mut String, raw: &str, quotes: bool) {
    for character in raw.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            _ => text.push(character),
        }
    }
}
