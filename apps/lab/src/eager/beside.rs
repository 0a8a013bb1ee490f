//! The same servers on the BEAM and in Go, each in a process of its own, asked by the same clients as ours.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Record, ask,
    backend::Backend,
    plan::{Plan, Workload},
};
use crate::{
    interrupt::Interrupt,
    peers::Peers,
    processor,
    scene::{Run, Stage},
    section::Side,
};

/// A runtime that has not printed its address then hangs.
const START_LIMIT: Duration = Duration::from_secs(10);
/// For all requests of a run, beside the time in which they are due.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Another runtime, and how it polls.
#[derive(Debug, Clone, Copy)]
enum Runtime {
    /// Threads of its own poll, each a set of sockets of its own: `+IOt` and `+IOp`.
    Beam { poll_threads: usize },
    /// Idle processors and a monitor poll.
    Go,
}

impl Runtime {
    fn poll(self) -> String {
        match self {
            Self::Beam { poll_threads } => format!("+IOt {poll_threads} +IOp {poll_threads}"),
            Self::Go => "netpoll".to_owned(),
        }
    }

    fn title(self, plan: &Plan) -> String {
        let name = match self {
            Self::Beam { .. } => "BEAM",
            Self::Go => "Go",
        };
        format!("{name} {}", plan.title_with(&self.poll()))
    }
}

/// Runs short connections, the proxy and the sweep on each runtime, once. The runs of the sweep with this computing time
/// are compared with ours.
pub(super) fn play(
    plans: &[Plan],
    backend: Option<&Backend>,
    compared_us: Option<u64>,
    stage: &mut Stage<'_, Record>,
) {
    let Some(policy) = plans.first().map(|plan| plan.policy) else {
        return;
    };
    let is_wanted = |plan: &&Plan| plan.policy == policy && plan.workload != Workload::Kept;
    let plans: Vec<&Plan> = plans.iter().filter(is_wanted).collect();
    let sweep = plans.iter().copied().filter(|plan| plan.is_sweep());
    let heaviest = sweep.max_by_key(|plan| plan.cpu_us);
    let beam = |poll_threads| move |plan| (Runtime::Beam { poll_threads }, plan);
    let many = processor::cores().max(2);
    let on_beam = plans.iter().copied().map(beam(1));
    let on_beam = on_beam.chain(heaviest.map(beam(many))).collect();
    let on_go: Vec<_> = plans.iter().map(|&plan| (Runtime::Go, plan)).collect();
    for runs in [on_beam, on_go] {
        for (runtime, plan) in runs {
            let is_performed = stage.beside(&runtime.title(plan), |peers, interrupt| {
                let mut run = run(plan, runtime, backend, peers, interrupt)?;
                run.record.is_compared = plan.is_sweep() && compared_us == Some(plan.cpu_us);
                Ok(run)
            });
            // A runtime that fails once is left alone.
            if !is_performed {
                break;
            }
        }
    }
}

fn run(
    plan: &Plan,
    runtime: Runtime,
    backend: Option<&Backend>,
    peers: &Peers,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let busy = if plan.is_sweep() {
        processor::cores()
    } else {
        0
    };
    let backend_port = match plan.workload {
        Workload::Proxy(_) => {
            let address = backend.context("the proxy has no backend")?.address;
            ensure!(
                address.ip() == Ipv4Addr::LOCALHOST,
                "its proxy leads only to 127.0.0.1"
            );
            address.port()
        }
        _ => 0,
    };
    let parameters = [
        ("busy", busy.to_string()),
        ("cpu_us", plan.cpu_us.to_string()),
        ("backend", backend_port.to_string()),
    ];
    let poll = runtime.poll();
    let (name, mut server) = match runtime {
        Runtime::Beam { .. } => {
            let beam = peers.beam(interrupt)?;
            let flags: Vec<&str> = poll.split(' ').collect();
            (beam.name(), beam.serve(&flags, "eager", &parameters)?)
        }
        Runtime::Go => {
            let go = peers.go(interrupt)?;
            (go.name(), go.serve("eager", &parameters)?)
        }
    };
    let line = server.line(START_LIMIT, interrupt)?;
    let address = line
        .parse()
        .with_context(|| format!("it printed {line:?}"))?;
    let process = server.id();
    let limit = ANSWER_LIMIT + plan.due();
    let (asked, processor_seconds) = server.during(limit, interrupt, || {
        let before = processor::seconds_of(process);
        let asked = ask::ask(plan, address, backend);
        let seconds = || Some(processor::seconds_of(process)? - before?);
        (asked, seconds())
    });
    ensure!(!interrupt.has_come(), "it was interrupted");
    let asked = asked?;
    if let Some(failure) = asked.failure(plan) {
        bail!("{failure}");
    }
    // It does not tell the processor time of those that only compute.
    let processor_seconds = processor_seconds.filter(|_| !plan.is_sweep());
    Ok(Run {
        title: runtime.title(plan),
        side: Side::Peer,
        record: Record::new(plan, &poll, &asked, processor_seconds),
        parameters: format!("{name}: {}, 1 round", plan.load()),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: None,
    })
}
