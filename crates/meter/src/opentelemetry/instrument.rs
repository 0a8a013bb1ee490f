//! Which instruments a family becomes.

use crate::{Family, FamilyKind};

/// What an instrument is to the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstrumentKind {
    Counter,
    Gauge,
}

/// One instrument: which samples it shows.
#[derive(Clone, Debug)]
pub(crate) struct Instrument {
    pub(crate) name: String,
    pub(crate) kind: InstrumentKind,
    pub(crate) unit: &'static str,
    pub(crate) help: String,
    /// The name of its samples.
    pub(crate) sample: String,
}

/// The instruments of a family.
pub(crate) fn instruments(family: &Family) -> Vec<Instrument> {
    let instrument = |suffix: &str, kind, unit| {
        let sample = format!("{}{suffix}", family.name);
        Instrument {
            name: sample.strip_suffix("_total").unwrap_or(&sample).to_owned(),
            kind,
            unit,
            help: family.help.clone(),
            sample,
        }
    };
    let unit = family.unit().ucum();
    use InstrumentKind::{Counter, Gauge};
    match family.kind {
        FamilyKind::Counter => vec![instrument("", Counter, unit)],
        FamilyKind::Gauge | FamilyKind::Untyped => vec![instrument("", Gauge, unit)],
        FamilyKind::Summary => vec![
            instrument("", Gauge, unit),
            instrument("_sum", Counter, unit),
            instrument("_count", Counter, ""),
        ],
    }
}
