//! Families in the making, gathered so that the text cannot come out wrong.
//!
//! Families are declared once and keep their samples together whatever the order of calls, as the
//! format demands; names are checked, help and label values escaped.

use super::{
    family::{Family, FamilyKind, Sample},
    seconds, text,
};
use crate::tally::HistogramSummary;

/// Prometheus families in the making.
///
/// ```
/// use freeboard_meter::{Exposition, FamilyKind};
///
/// let mut text = Exposition::new();
/// text.family("doors_open", FamilyKind::Gauge, "Doors that stand open.");
/// text.sample("doors_open", &[("house", "the \"old\" one")], 2.0);
/// assert_eq!(text.families()[0].samples[0].value, 2.0);
/// let lines = [
///     "# HELP doors_open Doors that stand open.",
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

    /// Adds the samples of a summary of times: quantiles, sum and count, in seconds. Quantiles 0 and 1 are
    /// the least and the greatest value, as Go's own metrics have them.
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
        self.scaled_summary(name, labels, summary, seconds)
    }

    /// As [`Exposition::summary`], of values that are no times, such as bytes: they stay as they were
    /// recorded.
    ///
    /// # Panics
    ///
    /// As [`Exposition::sample`].
    pub fn unscaled_summary(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        summary: &HistogramSummary,
    ) -> &mut Self {
        self.scaled_summary(name, labels, summary, |value| value)
    }

    fn scaled_summary(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        summary: &HistogramSummary,
        scaled: fn(f64) -> f64,
    ) -> &mut Self {
        self.quantiles(name, labels, summary, scaled);
        self.sample(&format!("{name}_sum"), labels, scaled(summary.sum() as f64));
        self.sample(&format!("{name}_count"), labels, summary.count as f64)
    }

    /// The quantiles of a summary alone, whose sum and count are those of more than it.
    pub(super) fn quantiles(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        summary: &HistogramSummary,
        scaled: fn(f64) -> f64,
    ) {
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
            let mut with_quantile = labels.to_vec();
            with_quantile.push(("quantile", quantile));
            self.sample(name, &with_quantile, scaled(value as f64));
        }
    }

    /// What was declared so far, in the order of declaration; families without samples among them.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The text; families that have no samples are left out.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::new();
        for family in &self.families {
            text::push_family(&mut text, family);
        }
        text
    }
}

fn is_name(name: &str, colon_allowed: bool) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon_allowed && c == ':');
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}
