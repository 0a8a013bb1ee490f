//! Every metric as an observable instrument of OpenTelemetry.
//!
//! The user brings the SDK and an exporter; this crate depends on the API only. [`observe`] registers an
//! instrument for each family of a source. Each collection then reads the source once.
//!
//! ```text
//!   system.snapshot() ──families──▶ Reading ──▶ counter, gauge, ... ──▶ SDK ──▶ OTLP, stdout, ...
//!   redis.snapshot()  ──render────┘ (one for all instruments of a collection)
//! ```
//!
//! | family | instruments |
//! |---|---|
//! | counter `a_total` | observable counter `a` |
//! | gauge `a` | observable gauge `a` |
//! | summary `a` | observable gauge `a` with the attribute `quantile`, observable counters `a_sum` and `a_count` |
//!
//! Labels become attributes, units are UCUM's, help texts become descriptions. Names stay the same, so an
//! exporter to Prometheus shows the same names as our text.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use ::opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Meter},
};

/// The API that the meter comes from.
pub use ::opentelemetry;

use crate::{Exposition, Family, FamilyKind, Sample};

/// The source returned `None` when it was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to observe: the source is gone already")]
pub struct Gone;

/// Registers on `meter` an observable instrument for each family that `source` returns now. Families that it
/// returns only later are not exported. Each collection calls `source` once, on the collecting thread.
///
/// The meter's provider keeps `source` for as long as it lives, so `source` should hold what it reads weakly.
/// Once it returns `None` nothing is exported. A family that is missing in a collection is left out of it.
///
/// ```
/// use freeboard_actor::System;
/// use freeboard_meter::families;
///
/// let meter = opentelemetry::global::meter("freeboard");
/// let system = System::builder().workers(1).build()?;
/// let weak = system.downgrade();
/// freeboard_meter::opentelemetry::observe(&meter, move || Some(families(&weak.upgrade()?.snapshot())))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Gone`] if `source` returns `None` already.
pub fn observe(
    meter: &Meter,
    source: impl Fn() -> Option<Exposition> + Send + Sync + 'static,
) -> Result<(), Gone> {
    let first = source().ok_or(Gone)?;
    let all: Vec<_> = first.families().iter().flat_map(instruments).collect();
    let reading = Arc::new(Reading::new(Box::new(source), all.len()));
    for (index, instrument) in all.into_iter().enumerate() {
        register(meter, index, instrument, reading.clone());
    }
    Ok(())
}

fn register(meter: &Meter, index: usize, instrument: Instrument, reading: Arc<Reading>) {
    let Instrument {
        name,
        kind,
        unit,
        help,
        sample,
    } = instrument;
    let show = move |observer: &dyn AsyncInstrument<f64>| {
        for (value, attributes) in reading.take(index, &sample) {
            observer.observe(value, &attributes);
        }
    };
    // The built handles can be dropped: the meter keeps the callbacks.
    match kind {
        InstrumentKind::Counter => {
            let builder = meter.f64_observable_counter(name);
            let builder = builder.with_unit(unit).with_description(help);
            let _ = builder.with_callback(show).build();
        }
        InstrumentKind::Gauge => {
            let builder = meter.f64_observable_gauge(name);
            let builder = builder.with_unit(unit).with_description(help);
            let _ = builder.with_callback(show).build();
        }
    }
}

/// The kind of an instrument to the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstrumentKind {
    Counter,
    Gauge,
}

/// One instrument and the samples that it shows.
#[derive(Clone, Debug)]
struct Instrument {
    name: String,
    kind: InstrumentKind,
    unit: &'static str,
    help: String,
    /// The name of its samples.
    sample: String,
}

/// The instruments of a family.
fn instruments(family: &Family) -> Vec<Instrument> {
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

/// A value of an instrument with its attributes.
type Point = (f64, Vec<KeyValue>);

/// Reads the families; `None` once the source is gone.
type Source = dyn Fn() -> Option<Exposition> + Send + Sync;

/// The reading that all instruments of a collection share.
///
/// A collection asks each instrument once. An instrument that asks for the second time belongs to the next
/// collection, so the source is read again; the instruments after it use that reading. Two concurrent
/// collections read more often than needed, and never see old values.
struct Reading {
    source: Box<Source>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the name of the samples.
    points: HashMap<String, Vec<Point>>,
    /// Which instruments have seen this reading.
    has_seen: Vec<bool>,
}

impl Reading {
    /// No reading yet: every instrument has seen it.
    fn new(source: Box<Source>, instruments: usize) -> Self {
        let state = State {
            has_seen: vec![true; instruments],
            ..State::default()
        };
        Self {
            source,
            state: Mutex::new(state),
        }
    }

    /// The points of an instrument, in a reading that it has not seen.
    fn take(&self, instrument: usize, sample: &str) -> Vec<Point> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.has_seen[instrument] {
            state.points = (self.source)().map(points).unwrap_or_default();
            state.has_seen.fill(false);
        }
        state.has_seen[instrument] = true;
        state.points.remove(sample).unwrap_or_default()
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reading")
    }
}

/// All samples by name, without values that are not finite, which exporters refuse.
fn points(text: Exposition) -> HashMap<String, Vec<Point>> {
    let mut points: HashMap<String, Vec<Point>> = HashMap::new();
    let samples = text.families().iter().flat_map(|family| &family.samples);
    for sample in samples.filter(|sample| sample.value.is_finite()) {
        let point = (sample.value, attributes(sample));
        match points.get_mut(&sample.name) {
            Some(known) => known.push(point),
            None => _ = points.insert(sample.name.clone(), vec![point]),
        }
    }
    points
}

fn attributes(sample: &Sample) -> Vec<KeyValue> {
    let labels = sample.labels.iter().cloned();
    labels
        .map(|(label, value)| KeyValue::new(label, value))
        .collect()
}
