//! What a run reports.

use serde_json::{Value, json};

use crate::work::Work;

/// A measurement, or why the peer has none for this work.
pub enum Outcome {
    Measured {
        count: u64,
        seconds: f64,
        /// Further fields of the line.
        fields: Vec<(&'static str, f64)>,
    },
    Skipped(&'static str),
}

impl Outcome {
    pub fn measured(count: u64, seconds: f64) -> Self {
        Self::Measured {
            count,
            seconds,
            fields: Vec::new(),
        }
    }

    /// Adds a field to a measurement; a skip has none.
    pub fn with_field(mut self, name: &'static str, value: f64) -> Self {
        if let Self::Measured { fields, .. } = &mut self {
            fields.push((name, value));
        }
        self
    }

    /// The line of the protocol.
    pub fn line(&self, peer: &str, work: Work) -> Value {
        match self {
            Self::Skipped(reason) => json!({"peer": peer, "work": work.name(), "skipped": reason}),
            Self::Measured {
                count,
                seconds,
                fields,
            } => {
                let mut line = json!({
                    "peer": peer,
                    "work": work.name(),
                    "count": count,
                    "seconds": seconds,
                    "unit": work.unit(),
                });
                for (name, value) in fields {
                    line[*name] = json!(value);
                }
                line
            }
        }
    }
}
