//! A run: a server in this process, a client in another one.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use freeboard::{
    SpawnOptions, System,
    flow::LaneConfig,
    meter::PollerSnapshot,
    net::poller::Poller,
    net::{
        http::{Body, HttpHandler, HttpServer, Limits},
        proxy::{Proxy, ProxyOptions},
        tcp::ListenerOptions,
    },
};
use http::Response;

use super::{
    Check, Counts, Latency, Readiness, Record, Rounds,
    ask::{self, Asked},
    backend::Backend,
    busy_work::{BusyActor, BusyTime, BusyWork},
    plan::{Plan, Workload},
};
use crate::{
    console::Console, figures::three_figures, host::Host, processor, scene::Run, section::Side,
    spin::spin_us,
};

/// The page: twelve bytes.
const PAGE: &[u8] = b"Hello world\n";
/// How long the end may take.
const END: Duration = Duration::from_secs(10);

/// What is asked.
enum Served {
    Page(HttpServer),
    Proxied(Proxy),
}

impl Served {
    fn start(
        plan: &Plan,
        system: &System,
        poller: &Poller,
        backend: Option<&Backend>,
    ) -> Result<Self> {
        let address = ([127, 0, 0, 1], 0).into();
        if let Workload::Proxy(_) = plan.workload {
            let backend = backend.context("a proxy has a backend")?.address;
            let options = ProxyOptions::default();
            let proxy = Proxy::bind(system, poller, address, backend, options)?;
            return Ok(Self::Proxied(proxy));
        }
        let cpu_us = plan.cpu_us;
        let handler = HttpHandler::function(move |_| {
            spin_us(cpu_us);
            Response::new(Body::from(Bytes::from_static(PAGE)))
        });
        let options = ListenerOptions::default();
        let limits = Limits::default();
        let server = HttpServer::bind(system, poller, address, options, limits, handler)?;
        Ok(Self::Page(server))
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Page(server) => server.address(),
            Self::Proxied(proxy) => proxy.address(),
        }
    }

    fn drain(&self) {
        match self {
            Self::Page(server) => server.drain(END),
            Self::Proxied(proxy) => proxy.drain(END),
        };
    }
}

/// Runs one.
pub(super) fn run(
    plan: &Plan,
    backend: Option<&Backend>,
    console: &Console,
) -> Result<Run<Record>> {
    let workers = processor::cores();
    let system = System::builder().name("eager");
    let Host { system, poller } = Host::start(system, workers, plan.policy)?;
    let busy_time = Arc::new(BusyTime::default());
    if matches!(plan.workload, Workload::Sweep { .. }) {
        for _ in 0..workers {
            let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
            let actor = system.spawn_once(options, BusyActor::new(busy_time.clone()))?;
            actor.tell(BusyWork).context("it was just spawned")?;
        }
    }
    let served = Served::start(plan, &system, &poller, backend)?;
    console.line(&plan.title());
    let (processor_before, busy_before) = (processor::used(), busy_time.seconds());
    let asked = ask::ask(plan, served.address(), backend)?;
    let busy_seconds = busy_time.seconds() - busy_before;
    let processor_seconds =
        processor::seconds_since(processor_before).map(|seconds| seconds - busy_seconds);
    let snapshot = poller.snapshot();
    served.drain();
    system.shutdown(END);
    let run = outcome(plan, &asked, processor_seconds, &snapshot);
    for line in lines(&run.record) {
        console.line(&line);
    }
    Ok(run)
}

fn outcome(
    plan: &Plan,
    asked: &Asked,
    processor_seconds: Option<f64>,
    poller: &PollerSnapshot,
) -> Run<Record> {
    let polls = poller.polls();
    let cpu_us = processor_seconds.map(|it| it * 1e6 / asked.answered.max(1) as f64);
    let failure = (asked.errors > 0 || asked.answered != plan.requests).then(|| {
        format!(
            "{} of {} requests were answered, {} failed",
            asked.answered, plan.requests, asked.errors
        )
    });
    let record = Record {
        scene: plan.workload.scene(),
        poll: plan.policy.name(),
        backend: match plan.workload {
            Workload::Proxy(backend) => Some(backend.name()),
            _ => None,
        },
        client: asked.client.name(),
        clients: plan.clients,
        requests: plan.requests,
        cpu_us: plan.cpu_us,
        seconds: asked.seconds,
        rps: asked.answered as f64 / asked.seconds.max(1e-9),
        errors: asked.errors,
        latency_us: Latency {
            p50: asked.p50_us,
            p99: asked.p99_us,
            p999: asked.p999_us,
        },
        cpu_us_per_request: cpu_us,
        counts: Counts {
            attempts: polls.attempts,
            idle_lazy: polls.won_idle_lazy,
            busy_lazy: polls.won_busy_lazy,
            idle_eager: polls.won_idle_eager,
            busy_eager: polls.won_busy_eager,
        },
        check: Check {
            total: polls.nonwait + polls.wait,
            nonwait: polls.nonwait,
            wait: polls.wait,
        },
        readiness_to_run_us: Readiness {
            p50: poller.readiness_to_run.p50 as f64 / 1e3,
            p99: poller.readiness_to_run.p99 as f64 / 1e3,
        },
        max_gap_us: poller.gap_max_ns as f64 / 1e3,
        workload: plan.workload,
        rounds: Rounds {
            count: 1,
            p99_us: (asked.p99_us, asked.p99_us),
            cpu_us: (cpu_us.unwrap_or(0.0), cpu_us.unwrap_or(0.0)),
        },
    };
    Run {
        title: plan.title(),
        side: Side::Neither,
        record,
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    }
}

/// The counters in the original's form.
fn lines(record: &Record) -> [String; 3] {
    let [rps, p50, p99, ready] = [
        record.rps,
        record.latency_us.p50,
        record.latency_us.p99,
        record.readiness_to_run_us.p99,
    ]
    .map(three_figures);
    let (counts, check) = (&record.counts, &record.check);
    [
        format!("  {rps} requests/s, p50 {p50} us, p99 {p99} us, readiness to run p99 {ready} us"),
        format!(
            "  counts: {} {} {} {} {}",
            counts.attempts,
            counts.idle_lazy,
            counts.busy_lazy,
            counts.idle_eager,
            counts.busy_eager
        ),
        format!("  check: {} {} {}", check.total, check.nonwait, check.wait),
    ]
}
