//! Families of samples as plain data: what the text, the JSON and other exporters are made of.

use serde::{Deserialize, Deserializer, Serialize};

/// What a family of samples is.
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

/// One metric: what it is, and its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Family {
    /// The metric's name, which ends in its unit.
    pub name: String,
    /// What its samples are.
    pub kind: FamilyKind,
    /// What it says, in a sentence.
    pub help: String,
    /// Its samples, in the order in which they were added.
    pub samples: Vec<Sample>,
}

impl Family {
    /// Whether a sample of this name belongs here.
    pub(super) fn takes(&self, sample: &str) -> bool {
        match sample.strip_prefix(self.name.as_str()) {
            Some("") => true,
            Some("_sum" | "_count") => self.kind == FamilyKind::Summary,
            _ => false,
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

/// JSON writes what is no finite number as null.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
