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
    ask::{self, Asked},
    backend::Backend,
    busy_work::{BusyActor, BusyTime, BusyWork},
    plan::{Plan, Workload},
};
use crate::{console::Console, host::Host, processor, spin::spin_us};

/// The page: twelve bytes.
const PAGE: &[u8] = b"Hello world\n";
/// How long the end may take.
const END: Duration = Duration::from_secs(10);

/// What came of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) asked: Asked,
    /// The server's processor time, without the client's and without that of actors that only compute.
    pub(super) processor_seconds: Option<f64>,
    pub(super) poller: PollerSnapshot,
    /// Least and most of all rounds of this run.
    pub(super) p99_range_us: (f64, f64),
    pub(super) cpu_range_us: (f64, f64),
}

impl Outcome {
    pub(super) fn rate(&self) -> f64 {
        self.asked.answered as f64 / self.asked.seconds.max(1e-9)
    }

    /// The server's processor time for a request, in microseconds.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        Some(self.processor_seconds? * 1e6 / self.asked.answered.max(1) as f64)
    }

    /// Looks a second.
    pub(super) fn poll_rate(&self) -> f64 {
        let polls = self.poller.polls();
        (polls.nonwait + polls.wait) as f64 / self.asked.seconds.max(1e-9)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.asked.errors == 0 && self.asked.answered == self.plan.requests
    }
}

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
pub(super) fn run(plan: &Plan, backend: Option<&Backend>, console: &Console) -> Result<Outcome> {
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
    let p99_us = asked.p99_us;
    let mut outcome = Outcome {
        plan: plan.clone(),
        asked,
        processor_seconds,
        poller: snapshot,
        p99_range_us: (p99_us, p99_us),
        cpu_range_us: (0.0, 0.0),
    };
    let cpu_us = outcome.cpu_us().unwrap_or(0.0);
    outcome.cpu_range_us = (cpu_us, cpu_us);
    Ok(outcome)
}
