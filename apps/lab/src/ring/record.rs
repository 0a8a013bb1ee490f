//! The scene's results as they are written to JSON. The shape is fixed: others read it.

use serde::Serialize;

use super::{knobs::Wait, run::Outcome};

/// All runs of one call.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) scene: &'static str,
    pub(crate) runs: Vec<RunRecord>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct RunRecord {
    wait: Wait,
    priorities: u32,
    ring: usize,
    producers: u32,
    /// Consumers beside it that got nothing, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<u32>,
    /// Handled.
    messages: u64,
    /// From the producers' start until the last message was handled.
    seconds: f64,
    qps: f64,
    /// Processor time of the whole process.
    cpu_s: Option<f64>,
}

impl Outcome {
    /// The run as JSON.
    pub(crate) fn record(&self) -> RunRecord {
        RunRecord {
            wait: self.plan.wait,
            priorities: self.plan.priorities,
            ring: self.plan.ring,
            producers: self.plan.producers,
            idle: (self.plan.idle > 0).then_some(self.plan.idle),
            messages: self.received,
            seconds: self.seconds,
            qps: self.rate(),
            cpu_s: self.processor_seconds,
        }
    }
}
