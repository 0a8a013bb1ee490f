//! The scene's results as JSON.

use serde::Serialize;

use super::{plan::Workload, run::Outcome};

/// The scene's results.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) scene: &'static str,
    pub(super) runs: Vec<RunRecord>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecord {
    scene: &'static str,
    poll: &'static str,
    /// What is behind the proxy.
    backend: Option<&'static str>,
    client: &'static str,
    clients: u32,
    requests: u64,
    cpu_us: u64,
    seconds: f64,
    rps: f64,
    errors: u64,
    latency_us: Latency,
    /// The server's processor time, without that of the actors that only compute beside it.
    cpu_us_per_request: Option<f64>,
    counts: Counts,
    check: Check,
    readiness_to_run_us: Readiness,
    max_gap_us: f64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Counts {
    attempts: u64,
    idle_lazy: u64,
    busy_lazy: u64,
    idle_eager: u64,
    busy_eager: u64,
}

#[derive(Debug, Serialize)]
struct Check {
    total: u64,
    nonwait: u64,
    wait: u64,
}

#[derive(Debug, Serialize)]
struct Readiness {
    p50: f64,
    p99: f64,
}

impl RunRecord {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let (plan, asked) = (&outcome.plan, &outcome.asked);
        let polls = outcome.poller.polls();
        let readiness = &outcome.poller.readiness_to_run;
        Self {
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
            rps: outcome.rate(),
            errors: asked.errors,
            latency_us: Latency {
                p50: asked.p50_us,
                p99: asked.p99_us,
                p999: asked.p999_us,
            },
            cpu_us_per_request: outcome.cpu_us(),
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
                p50: readiness.p50 as f64 / 1e3,
                p99: readiness.p99 as f64 / 1e3,
            },
            max_gap_us: outcome.poller.gap_max_ns as f64 / 1e3,
        }
    }
}
