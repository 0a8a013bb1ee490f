//! The same messages on the BEAM: disk_log, which frames each record and seals nothing.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use freeboard::stream::SyncMode;
use serde::{Deserialize, Serialize};

use super::{
    Record,
    message::NUMBER_BYTES,
    order::Found,
    plan::{Plan, per_writer},
    producer::ProducerKind,
};
use crate::{
    figures::{count, counted},
    interrupt::Interrupt,
    peers::Peers,
    scene::Run,
    section::Side,
};

/// The name of all these runs, so that one sentence tells that the BEAM is not there. Other errors name their run.
pub(super) const NAME: &str = "BEAM disk_log";

/// A call for each record takes microseconds, so a second shows the rate.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// For the last sync and for reading the logs again.
const REST_LIMIT: Duration = Duration::from_secs(30);

/// What disk_log reached. The program prints the fields that are not skipped when they are read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DiskLog {
    #[serde(skip_deserializing)]
    pub(super) writers: u32,
    #[serde(skip_deserializing)]
    pub(super) size: usize,
    #[serde(skip_deserializing)]
    pub(super) sync: String,
    #[serde(skip_deserializing)]
    pub(super) records_a_call: u32,
    pub(super) messages: u64,
    /// Until all were synced in their mode.
    pub(super) seconds: f64,
    pub(super) cpu_s: f64,
    #[serde(flatten)]
    pub(super) found: Found,
    #[serde(skip_deserializing)]
    pub(super) durable_per_s: f64,
    #[serde(skip_deserializing)]
    pub(super) mb_per_s: f64,
}

impl DiskLog {
    /// One log, a call for each record, and a sync that all are waited for.
    pub(super) fn is_plain(&self) -> bool {
        (self.writers, self.records_a_call) == (1, 1) && self.sync == "batch"
    }
}

/// How many records a call has: one, as ours; and a hundred, which hides the price of a call.
pub(super) fn records_a_call(plan: &Plan) -> &'static [u32] {
    let is_like = !plan.seal.is_sealed()
        && (plan.producers, plan.producer) == (1, ProducerKind::Thread)
        && plan.add_every.is_none()
        && !plan.sizes.is_range()
        && plan.sizes.min >= NUMBER_BYTES;
    match (is_like, plan.sync) {
        (false, _) => &[],
        (true, SyncMode::Batch) if plan.sizes.min < 1_024 => &[1, 100],
        (true, _) => &[1],
    }
}

fn title(plan: &Plan, records_a_call: u32) -> String {
    let many = match records_a_call {
        1 => String::new(),
        records => format!(", {records} a call"),
    };
    format!(
        "{NAME} {} x {}{many}, sync {}",
        plan.writers, plan.sizes, plan.sync
    )
}

pub(super) fn run(
    plan: &Plan,
    records_a_call: u32,
    directory: &Path,
    peers: &Peers,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let beam = peers.beam(interrupt)?;
    let (sync, interval) = match plan.sync {
        SyncMode::None => ("none", Duration::ZERO),
        SyncMode::Interval { time, .. } => ("interval", time),
        SyncMode::Batch => ("batch", Duration::ZERO),
    };
    let size = plan.sizes.min;
    let parameters = [
        ("writers", plan.writers.to_string()),
        ("size", size.to_string()),
        ("count", per_writer(plan).to_string()),
        ("records_a_call", records_a_call.to_string()),
        ("sync", sync.to_owned()),
        ("interval_ms", interval.as_millis().to_string()),
        ("limit_ms", WRITE_LIMIT.as_millis().to_string()),
        ("dir", directory.display().to_string()),
    ];
    let limit = WRITE_LIMIT + REST_LIMIT;
    let title = title(plan, records_a_call);
    let printed = beam.run(&[], "streams", &parameters, limit, interrupt);
    let printed: DiskLog = printed.with_context(|| title.clone())?;
    let durable_per_s = printed.messages as f64 / printed.seconds.max(1e-9);
    let syncs = match plan.sync {
        SyncMode::Batch => ", a sync for each 8 MiB",
        _ => "",
    };
    Ok(Run {
        parameters: format!(
            "{}: {} messages of {size} B in {} of disk_log, {records_a_call} a call{syncs}",
            beam.name(),
            count(printed.messages),
            counted(plan.writers.into(), "log")
        ),
        title,
        side: Side::Peer,
        record: Record::DiskLog(DiskLog {
            writers: plan.writers,
            size,
            sync: plan.sync.to_string(),
            records_a_call,
            durable_per_s,
            mb_per_s: durable_per_s * size as f64 / 1e6,
            ..printed
        }),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: None,
    })
}
