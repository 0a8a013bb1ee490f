//! The reading that all instruments of a collection share.
//!
//! A collection asks each instrument once. So an instrument that asks for the second time belongs to the
//! next collection, and has the source read anew; those after it find that reading. Two collections at once
//! read more often than they need, and never see anything old.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use crate::{Exposition, Sample};
use ::opentelemetry::KeyValue;

/// A value of an instrument with its attributes.
pub(crate) type Point = (f64, Vec<KeyValue>);

/// Reads what is counted, as long as it is there.
pub(crate) type Source = dyn Fn() -> Option<Exposition> + Send + Sync;

/// The last reading, and who has seen it.
pub(crate) struct Reading {
    source: Box<Source>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the name of the samples.
    points: HashMap<String, Vec<Point>>,
    /// By instrument.
    has_seen: Vec<bool>,
}

impl Reading {
    /// No reading yet: every instrument has seen it.
    pub(crate) fn new(source: Box<Source>, instruments: usize) -> Self {
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
    pub(crate) fn take(&self, instrument: usize, sample: &str) -> Vec<Point> {
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

/// All samples by their names. What is no finite number is left out: exporters refuse it.
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
