//! A run: a server in this process, a client in another one.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use freeboard::{
    SpawnOptions, System,
    flow::LaneConfig,
    io::Poller,
    meter::PollerSnapshot,
    net::{
        http::{Body, Handler, HttpServer, Limits},
        tcp::ListenerOptions,
    },
};
use http::Response;

use super::{
    ab,
    chew::{Chew, Chewer},
    plan::{Bed, Plan},
};
use crate::{console::Console, load::Load, processor, spin::spin_us};

/// The page: twelve bytes.
const PAGE: &[u8] = b"Hello world\n";
/// How long the end may take.
const END: Duration = Duration::from_secs(10);

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Ab,
    Ours,
}

impl Client {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ab => "ab",
            Self::Ours => "ours",
        }
    }
}

/// What clients saw.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) client: Client,
    pub(super) answered: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// `ab` does not say.
    pub(super) p999_us: Option<f64>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) asked: Asked,
    /// The server's processor time, without the client's.
    pub(super) processor_seconds: Option<f64>,
    pub(super) poller: PollerSnapshot,
}

impl Outcome {
    pub(super) fn rate(&self) -> f64 {
        self.asked.answered as f64 / self.asked.seconds.max(1e-9)
    }

    /// The server's processor time for a request, in microseconds. In the sweep the others' computing
    /// is in it, so it says nothing there.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        let is_alone = !matches!(self.plan.bed, Bed::Sweep { .. });
        let seconds = self.processor_seconds.filter(|_| is_alone)?;
        Some(seconds * 1e6 / self.asked.answered.max(1) as f64)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.asked.errors == 0 && self.asked.answered == self.plan.requests
    }
}

/// Runs one.
pub(super) fn run(plan: &Plan, console: &Console) -> Result<Outcome> {
    let workers = processor::cores();
    let poller = Poller::new(workers, plan.policy)?;
    let system = System::builder().workers(workers).driver(poller.driver());
    let system = system.build()?;
    if matches!(plan.bed, Bed::Sweep { .. }) {
        for _ in 0..workers {
            let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
            let chewer = system.spawn_once(options, Chewer)?;
            chewer.tell(Chew).context("it was just spawned")?;
        }
    }
    let cpu_us = plan.cpu_us;
    let handler = Handler::function(move |_| {
        spin_us(cpu_us);
        Response::new(Body::from(Bytes::from_static(PAGE)))
    });
    let address = ([127, 0, 0, 1], 0).into();
    let options = ListenerOptions::default();
    let limits = Limits::default();
    let server = HttpServer::bind(&system, &poller, address, options, limits, handler)?;
    console.line(&plan.title());
    let processor_before = processor::used();
    let asked = ask(plan, server.address())?;
    let processor_seconds = processor::seconds_since(processor_before);
    let snapshot = poller.snapshot();
    server.drain(END);
    system.shutdown(END);
    Ok(Outcome {
        plan: plan.clone(),
        asked,
        processor_seconds,
        poller: snapshot,
    })
}

fn ask(plan: &Plan, to: std::net::SocketAddr) -> Result<Asked> {
    if !matches!(plan.bed, Bed::Sweep { .. })
        && let Some(asked) = ab::ask(plan, to)?
    {
        return Ok(asked);
    }
    let program = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command
        .args(["load", "--to", &to.to_string()])
        .args(["--clients", &plan.clients.to_string()])
        .args(["--requests", &plan.requests.to_string()]);
    match plan.bed {
        Bed::Short => {}
        Bed::Kept => drop(command.arg("--keep-alive")),
        Bed::Sweep { rate } => {
            command.args(["--keep-alive", "--rate", &rate.to_string()]);
        }
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("the client cannot be started")?;
    ensure!(
        output.status.success(),
        "the client ended with {}",
        output.status
    );
    let load: Load = serde_json::from_slice(&output.stdout).context("the client's result")?;
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Asked {
        client: Client::Ours,
        answered: load.answered,
        errors: load.errors,
        seconds: load.seconds,
        p50_us: us(load.latency.p50),
        p99_us: us(load.latency.p99),
        p999_us: Some(us(load.latency.p999)),
    })
}
