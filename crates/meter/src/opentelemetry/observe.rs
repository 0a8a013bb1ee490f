//! Registering.

use std::sync::Arc;

use crate::Exposition;
use ::opentelemetry::metrics::{AsyncInstrument, Meter};

use super::{
    instrument::{Instrument, InstrumentKind, instruments},
    reading::Reading,
};

/// The source had nothing to read when it was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to observe: the source is gone already")]
pub struct Gone;

/// Registers on `meter` an observable instrument for each family that `source` names, now and once: families
/// that it names later are not exported. Each collection calls `source` once, on the thread of whoever
/// collects.
///
/// The meter's provider keeps `source` for as long as it lives. So it had better hold what it reads weakly;
/// once it returns `None` there is nothing more to see. A collection that finds a family missing sees
/// nothing of it this time.
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
    // The handles that are built say nothing: the meter keeps the callbacks.
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
