//! The same flood on the BEAM: its senders, its dam and its server, in a process of its own.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{
    knobs::{DamRule, Receive, SinkKind},
    lines,
    monitor::Point,
    plan::Plan,
    plots,
    record::{PeakQueue, RunRecord},
    source::Source,
};
use crate::{interrupt::Interrupt, peers::Peers, scene::Run, section::Side};

/// For filling the mailbox and reading the file back, beside the time in which the server drains.
const REST_LIMIT: Duration = Duration::from_secs(30);
/// A server that does not scan drains a million lines in seconds.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// The line that the program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    written: u64,
    seconds: f64,
    cpu_s: f64,
    drain_rate_deep: Option<f64>,
    drain_rate_shallow: Option<f64>,
    samples: Vec<Sample>,
    rss_peak_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    seconds: f64,
    dam: u64,
    server: u64,
}

/// The run's title, if the program has such a run: it has no streams, only the original's dam, and scans only for the
/// replies of a file.
pub(super) fn title(plan: &Plan) -> Option<String> {
    let scans = plan.receive == Receive::Scan && !plan.is_trial;
    let is_file = matches!(plan.sink, SinkKind::Raw | SinkKind::Buffered);
    let is_like = matches!(plan.source, Source::Generated { .. })
        && plan.sink != SinkKind::Stream
        && (is_file || !scans)
        && !matches!(plan.dam, Some(DamRule::Credit { .. }));
    is_like.then(|| format!("BEAM {}", plan.title()))
}

pub(super) fn run(plan: &Plan, peers: &Peers, interrupt: &Interrupt) -> Result<Run<RunRecord>> {
    let beam = peers.beam(interrupt)?;
    let (threshold, wait) = match plan.dam {
        Some(DamRule::Poll { threshold, wait }) => (threshold, wait),
        _ => (0, Duration::ZERO),
    };
    // The trials are of today's files, which do not scan.
    let mode = match plan.receive {
        Receive::Scan if !plan.is_trial => "scan",
        _ => plan.sink.name(),
    };
    let limit = plan.limit.unwrap_or(DRAIN_LIMIT);
    let parameters = [
        ("senders", plan.senders.to_string()),
        ("messages", plan.messages().to_string()),
        ("mode", mode.to_owned()),
        ("hold", plan.hold.to_string()),
        ("threshold", threshold.to_string()),
        ("wait_ms", wait.as_millis().to_string()),
        ("limit_ms", limit.as_millis().to_string()),
    ];
    let limit = limit + REST_LIMIT;
    let printed: Printed = beam.run(&[], "flood", &parameters, limit, interrupt)?;
    let is_sane = printed.written <= plan.total()
        && printed.seconds >= 0.0
        && printed
            .samples
            .iter()
            .all(|it| (0.0..1e9).contains(&it.seconds));
    ensure!(is_sane, "it printed figures that contradict each other");
    let longest = |length: fn(&Sample) -> u64| printed.samples.iter().map(length).max();
    let record = RunRecord {
        route: plan.route(),
        receive: match mode {
            "scan" => Receive::Scan,
            _ => Receive::Indexed,
        },
        sink: plan.sink,
        dam: plan.dam,
        senders: plan.senders,
        messages: plan.messages(),
        accepted: plan.total(),
        written: printed.written,
        shed: plan.total().saturating_sub(printed.written),
        seconds: printed.seconds,
        drain_rate_deep: printed.drain_rate_deep,
        drain_rate_shallow: printed.drain_rate_shallow,
        cpu_s: Some(printed.cpu_s),
        peak_queue: PeakQueue {
            dam: longest(|it| it.dam).unwrap_or(0),
            server: longest(|it| it.server).unwrap_or(0),
        },
        // The program counts the lines of its file.
        verified: true,
        rss_peak_bytes: printed.rss_peak_bytes,
        watch: Vec::new(),
        is_held: plan.hold,
        remarks: Vec::new(),
    };
    let points = printed.samples.iter().map(|it| Point {
        at: Duration::from_secs_f64(it.seconds),
        dam: it.dam,
        server: it.server,
    });
    let title = format!("BEAM {}", plan.title());
    let points: Vec<Point> = points.collect();
    Ok(Run {
        side: Side::Peer,
        parameters: format!("{}, {}", beam.name(), lines::opening(plan)),
        figures: vec![plots::queues(&title, plan, &record, &points, Side::Peer)],
        tables: Vec::new(),
        failure: None,
        record,
        title,
    })
}
