//! Families of samples as plain data, the source of the text, the JSON and other exporters.

use serde::{Deserialize, Deserializer, Serialize};

/// The kind of a family of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FamilyKind {
    /// Only grows, but for restarts of the process; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Quantiles, with `_sum` and `_count`.
    Summary,
    /// Not known.
    #[default]
    Untyped,
}

impl FamilyKind {
    /// Its word on a TYPE line.
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

/// One metric and its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Family {
    /// The metric's name, which ends in its unit.
    pub name: String,
    /// The kind of its samples.
    pub kind: FamilyKind,
    /// Its help text, one sentence.
    pub help: String,
    /// Its samples, in the order in which they were added.
    pub samples: Vec<Sample>,
}

impl Family {
    /// The unit of its values.
    #[must_use]
    pub fn unit(&self) -> Unit {
        Unit::of(&self.name)
    }

    /// Whether a sample of this name belongs here.
    pub(super) fn takes(&self, sample: &str) -> bool {
        match sample.strip_prefix(self.name.as_str()) {
            Some("") => true,
            Some("_sum" | "_count") => self.kind == FamilyKind::Summary,
            _ => false,
        }
    }
}

/// The unit of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The name ends in `_seconds`, or `_seconds_total`.
    Seconds,
    /// The name ends in `_bytes`, or `_bytes_total`.
    Bytes,
    /// The name ends in `_ratio`.
    Ratio,
    /// Any other name: a count.
    Count,
}

impl Unit {
    /// The unit in UCUM, as OpenTelemetry requires; empty for counts.
    #[must_use]
    pub const fn ucum(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
            Self::Count => "",
        }
    }

    /// The unit that a metric's name says.
    pub(super) fn of(name: &str) -> Self {
        let name = name.strip_suffix("_total").unwrap_or(name);
        match name.rsplit('_').next() {
            Some("seconds") => Self::Seconds,
            Some("bytes") => Self::Bytes,
            Some("ratio") => Self::Ratio,
            _ => Self::Count,
        }
    }

    /// A recorded number in this unit: times are recorded in nanoseconds.
    pub(super) fn scaled(self, value: u64) -> f64 {
        match self {
            Self::Seconds => value as f64 / 1e9,
            _ => value as f64,
        }
    }
}

/// One value of a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// The family's name; for a summary's sum and count with `_sum` and `_count`.
    pub name: String,
    /// Names and values, in the order of the text.
    pub labels: Vec<(String, String)>,
    /// The value. JSON has no infinite numbers: they come back from it as NaN.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
}

impl Sample {
    /// The value of a label, if the sample has it.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(label, _)| label == name)?;
        Some(&label.1)
    }
}

/// JSON writes numbers that are not finite as null.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
