//! The table that compares the runs.

use super::{disk::Disk, naive::Naive, run::Outcome};
use crate::{
    figures::{count, hundredths, rate},
    table::unseen,
};

/// A row for each run, the header first.
pub(super) fn rows(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Vec<Vec<String>> {
    let durable = format!("{}/s", disk.durable());
    let header = [
        "sync, seal",
        "writers",
        "size",
        "messages",
        "accepted/s",
        &durable,
        "MB/s",
        "flush KiB",
        "ack p50 us",
        "p99",
        "max",
        "processor",
        "verified",
    ];
    let header = header.map(str::to_owned).into();
    let rows = outcomes.iter().map(|outcome| {
        let plan = &outcome.plan;
        let (p50, p99, max) = outcome.acknowledge_us();
        let seal = if plan.seal.is_sealed() {
            format!("{}, {} by {}", plan.sync, plan.seal, plan.unit)
        } else {
            format!("{}, unsealed", plan.sync)
        };
        vec![
            seal,
            plan.writers.to_string(),
            count(plan.size as u64),
            count(outcome.accepted),
            rate(outcome.accepted_rate()),
            rate(outcome.rate()),
            count(outcome.megabytes().round() as u64),
            count(outcome.flush_bytes() >> 10),
            count(p50.round() as u64),
            count(p99.round() as u64),
            count(max.round() as u64),
            outcome.processor_seconds.map_or_else(unseen, hundredths),
            if outcome.is_sound() { "yes" } else { "NO" }.to_owned(),
        ]
    });
    let naive = naive.map(|naive| {
        let mut row = vec![
            "naive: fdatasync each".to_owned(),
            "1".to_owned(),
            count(naive.size as u64),
            count(naive.messages),
            rate(naive.durable_per_s),
            rate(naive.durable_per_s),
            format!("{:.1}", naive.durable_per_s * naive.size as f64 / 1e6),
        ];
        row.resize_with(13, unseen);
        row
    });
    std::iter::once(header).chain(rows).chain(naive).collect()
}
