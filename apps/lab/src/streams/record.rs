//! The scene's results as they are written to JSON. The shape is fixed: others read it.

use serde::Serialize;

use super::{naive::Naive, run::Outcome};

/// All runs of one call.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) scene: &'static str,
    /// What was written to, if the system tells: on one in memory nothing is durable.
    pub(super) file_system: Option<String>,
    pub(super) runs: Vec<RunRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) naive: Option<Naive>,
}

/// Microseconds from a buffer's first message until it was durable.
#[derive(Debug, Serialize)]
struct Acknowledge {
    p50: f64,
    p99: f64,
    max: f64,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecord {
    writers: u32,
    size: usize,
    seal: &'static str,
    seal_unit: &'static str,
    sync: String,
    buffer: String,
    messages: u64,
    /// Until all were durable in their mode.
    seconds: f64,
    accepted_per_s: f64,
    written_per_s: f64,
    durable_per_s: f64,
    mb_per_s: f64,
    flush_bytes: u64,
    flushes: u64,
    disk_bytes: u64,
    direct: Option<bool>,
    ack_us: Acknowledge,
    cpu_s: Option<f64>,
    verified: bool,
    verify_s: f64,
}

impl Outcome {
    /// The run as JSON.
    pub(super) fn record(&self) -> RunRecord {
        let (p50, p99, max) = self.acknowledge_us();
        let sum = |figure: fn(&freeboard::stream::StreamSnapshot) -> u64| -> u64 {
            self.streams.iter().map(figure).sum()
        };
        RunRecord {
            writers: self.plan.writers,
            size: self.plan.size,
            seal: self.plan.seal.name(),
            seal_unit: self.plan.unit.name(),
            sync: self.plan.sync.to_string(),
            buffer: self.plan.buffer.to_string(),
            messages: self.accepted,
            seconds: self.seconds,
            accepted_per_s: self.accepted_rate(),
            written_per_s: self.rate(),
            durable_per_s: self.rate(),
            mb_per_s: self.megabytes(),
            flush_bytes: self.flush_bytes(),
            flushes: sum(|stream| stream.flush_bytes.count),
            disk_bytes: sum(|stream| stream.bytes_written),
            direct: self.streams.first().and_then(|stream| stream.is_direct),
            ack_us: Acknowledge { p50, p99, max },
            cpu_s: self.processor_seconds,
            verified: self.is_sound(),
            verify_s: self.read_seconds,
        }
    }
}
