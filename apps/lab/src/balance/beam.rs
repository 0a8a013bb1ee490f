//! The same processes on the BEAM.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{
    plan::{NativeKind, Place, Plan, YieldKind},
    plots,
    record::{NativeTime, Record},
};
use crate::{interrupt::Interrupt, peers::Peers, processor, scene::Run, section::Side};

/// For each run, beside the pauses.
const LIMIT: Duration = Duration::from_secs(60);

/// The line that the program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    elapsed: Vec<f64>,
    native_us_mean: f64,
    cpu_s: f64,
    utilisation: Vec<f64>,
}

/// The run's title, if the program has such a run: all processes are born on one scheduler, and nothing is broken.
pub(super) fn title(plan: &Plan) -> Option<String> {
    let is_like = plan.place == Place::One
        && plan.fault.is_none()
        && (plan.online.is_none() || plan.iterations > 0);
    is_like.then(|| format!("BEAM {}", plan.title()))
}

pub(super) fn run(plan: &Plan, peers: &Peers, interrupt: &Interrupt) -> Result<Run<Record>> {
    let beam = peers.beam(interrupt)?;
    // MD5 of the BEAM gives way every 20,000 bytes. A native call that does not is one that waits as long.
    let (native, wait_ms) = match (plan.native, plan.yields) {
        (NativeKind::Cpu, YieldKind::Each) => ("md5", 0),
        (NativeKind::Cpu, YieldKind::Never) => ("wait", 0),
        (NativeKind::Sleep, _) => ("wait", plan.sleep.as_millis()),
    };
    let parameters = [
        ("procs", plan.procs.to_string()),
        ("repeats", plan.repeats.to_string()),
        ("bytes", plan.bytes.to_string()),
        ("spin", plan.spin.to_string()),
        ("native", native.to_owned()),
        ("wait_ms", wait_ms.to_string()),
        ("iterations", plan.iterations.to_string()),
        ("pause_ms", plan.pause.as_millis().to_string()),
        ("online", plan.online.unwrap_or(plan.schedulers).to_string()),
    ];
    let schedulers = format!("{0}:{0}", plan.schedulers);
    let flags = ["+S", &schedulers, "+scl", "false"];
    let limit = LIMIT * (plan.iterations + 1) + plan.pause * plan.iterations;
    let printed: Printed = beam.run(&flags, "balance", &parameters, limit, interrupt)?;
    let is_sane = printed.elapsed.len() == plan.procs as usize
        && printed.elapsed.iter().all(|it| (0.0..1e9).contains(it));
    ensure!(is_sane, "it printed times of other processes");
    let makespan = printed.elapsed.iter().copied().fold(0.0, f64::max);
    let title = format!("BEAM {}", plan.title());
    let call = match native {
        "md5" => "crypto:hash(md5, ..)".to_owned(),
        _ => format!(
            "a native function that waits {:.1} ms and does not give way",
            printed.native_us_mean / 1e3
        ),
    };
    // Of schedulers beyond the cores nothing more can be asked.
    let useful = plan.schedulers.min(processor::cores());
    let is_computing = plan.is_plain() && plan.yields == YieldKind::Each;
    Ok(Run {
        side: Side::Peer,
        parameters: format!("{}, {}, with {call}", beam.name(), plan.parameters()),
        figures: vec![plots::elapsed_times(&title, &printed.elapsed, Side::Peer)],
        tables: Vec::new(),
        failure: None,
        title,
        record: Record {
            cpu_s: is_computing.then_some(printed.cpu_s),
            makespan_over_ideal: is_computing
                .then(|| makespan * useful as f64 / printed.cpu_s.max(1e-9)),
            utilisation: printed.utilisation,
            native_calls: vec![plan.repetitions()],
            native_us: NativeTime {
                mean: Some(printed.native_us_mean),
                ..NativeTime::default()
            },
            ..Record::of_plan(plan, printed.elapsed)
        },
    })
}
