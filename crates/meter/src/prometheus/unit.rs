//! What a family's values are counted in, as its name says.

use super::family::Family;

/// The unit of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The name ends in `_seconds`, or `_seconds_total`.
    Seconds,
    /// The name ends in `_bytes`, or `_bytes_total`.
    Bytes,
    /// The name ends in `_ratio`.
    Ratio,
    /// The name ends in nothing of these: things are counted.
    Count,
}

impl Unit {
    /// The unit as UCUM writes it, which is what OpenTelemetry wants; empty for a count of things.
    #[must_use]
    pub const fn ucum(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
            Self::Count => "",
        }
    }
}

impl Family {
    /// What its values are counted in.
    #[must_use]
    pub fn unit(&self) -> Unit {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        match name.rsplit('_').next() {
            Some("seconds") => Unit::Seconds,
            Some("bytes") => Unit::Bytes,
            Some("ratio") => Unit::Ratio,
            _ => Unit::Count,
        }
    }
}
