//! A run: a server in this process, a client in another one.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

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
    Check, Counts, Readiness, Record, ask,
    backend::Backend,
    busy_work::{BusyActor, BusyTime, BusyWork},
    counts,
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
    if plan.is_sweep() {
        for _ in 0..workers {
            let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
            let actor = system.spawn_once(options, BusyActor::new(busy_time.clone()))?;
            actor.tell(BusyWork).context("it was just spawned")?;
        }
    }
    let served = Served::start(plan, &system, &poller, backend)?;
    console.line(&plan.title());
    let (processor_before, busy_before) = (processor::used(), busy_time.seconds());
    let asked = thread::scope(|scope| {
        let (over, end) = mpsc::channel::<()>();
        if let Some(every) = plan.counts_every {
            let poller = &poller;
            scope.spawn(move || counts::watch(poller, every, &end, console));
        }
        let asked = ask::ask(plan, served.address(), backend);
        drop(over);
        asked
    })?;
    let busy_seconds = busy_time.seconds() - busy_before;
    let processor_seconds =
        processor::seconds_since(processor_before).map(|seconds| seconds - busy_seconds);
    let snapshot = poller.snapshot();
    served.drain();
    system.shutdown(END);
    let record = Record {
        counts: Some(Counts::of(&snapshot)),
        check: Some(Check::of(&snapshot)),
        readiness_to_run_us: Some(Readiness {
            p50: snapshot.readiness_to_run.p50 as f64 / 1e3,
            p99: snapshot.readiness_to_run.p99 as f64 / 1e3,
        }),
        max_gap_us: Some(snapshot.gap_max_ns as f64 / 1e3),
        ..Record::new(plan, plan.policy.name(), &asked, processor_seconds)
    };
    for line in lines(&record, &snapshot) {
        console.line(&format!("  {line}"));
    }
    Ok(Run {
        title: plan.title(),
        side: Side::Neither,
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: asked.failure(plan),
        record,
    })
}

/// What clients saw, and the counters in the original's form.
fn lines(record: &Record, snapshot: &PollerSnapshot) -> [String; 3] {
    let [rps, p50, p99, ready] = [
        record.rps,
        record.latency_us.p50,
        record.latency_us.p99,
        snapshot.readiness_to_run.p99 as f64 / 1e3,
    ]
    .map(three_figures);
    let [counts, check] = counts::lines(&snapshot.polls());
    [
        format!("{rps} requests/s, p50 {p50} us, p99 {p99} us, readiness to run p99 {ready} us"),
        counts,
        check,
    ]
}
