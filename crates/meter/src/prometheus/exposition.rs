//! The text exposition format, written so that it cannot come out wrong.
//!
//! Families are declared once and keep their samples together whatever the order of calls, as the
//! format demands; names are checked, help and label values escaped.

use std::fmt::Write as _;

use super::seconds;
use crate::tally::HistogramSummary;

/// What a family of samples is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Only grows, but for restarts of the process; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Quantiles, with `_sum` and `_count`.
    Summary,
    /// Not known.
    Untyped,
}

impl FamilyKind {
    /// The word that stands for it on a TYPE line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }
}

/// Prometheus text in the making.
///
/// ```
/// use freeboard_meter::{Exposition, FamilyKind};
///
/// let mut text = Exposition::new();
/// text.family("doors_open", FamilyKind::Gauge, "Doors that stand open.");
/// text.sample("doors_open", &[("house", "the \"old\" one")], 2.0);
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

#[derive(Clone, Debug)]
struct Family {
    name: String,
    kind: FamilyKind,
    help: String,
    samples: String,
}

impl Family {
    fn takes(&self, sample: &str) -> bool {
        match sample.strip_prefix(self.name.as_str()) {
            Some("") => true,
            Some("_sum" | "_count") => self.kind == FamilyKind::Summary,
            _ => false,
        }
    }
}

impl Exposition {
    /// Text without families.
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
                    samples: String::new(),
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
        let text = &mut self.families[self.recent].samples;
        text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            assert!(is_name(label, false), "{label:?} is not a label name");
            text.push(if index == 0 { '{' } else { ',' });
            text.push_str(label);
            text.push_str("=\"");
            push_escaped(text, value, true);
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        text.push(' ');
        push_value(text, value);
        text.push('\n');
        self
    }

    /// Adds the samples of a summary: quantiles, sum and count, in seconds. Quantiles 0 and 1 are the least
    /// and the greatest value, as Go's own metrics have them.
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
        for (quantile, value_ns) in [
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
            self.sample(name, &with_quantile, seconds(value_ns as f64));
        }
        let sum_seconds = seconds(summary.mean * summary.count as f64);
        self.sample(&format!("{name}_sum"), labels, sum_seconds);
        self.sample(&format!("{name}_count"), labels, summary.count as f64)
    }

    /// The text; families that have no samples are left out.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::new();
        for family in self.families {
            if family.samples.is_empty() {
                continue;
            }
            let Family {
                name,
                kind,
                help,
                samples,
            } = family;
            text.push_str("# HELP ");
            text.push_str(&name);
            text.push(' ');
            push_escaped(&mut text, &help, false);
            text.push_str("\n# TYPE ");
            text.push_str(&name);
            text.push(' ');
            text.push_str(kind.as_str());
            text.push('\n');
            text.push_str(&samples);
        }
        text
    }
}

fn is_name(name: &str, colon_allowed: bool) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon_allowed && c == ':');
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
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

fn push_value(text: &mut String, value: f64) {
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        // Rust writes the shortest digits that read back as the same value, and NaN as "NaN".
        write!(text, "{value}").expect("writing to a String cannot fail");
    }
}
