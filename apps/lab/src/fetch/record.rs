//! The scene's results as JSON.

use std::collections::BTreeMap;

use freeboard::meter::HistogramSummary;
use serde::Serialize;

use super::{plan::Mode, run::Outcome};

/// The scene's results.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) scene: &'static str,
    pub(super) runs: Vec<RunRecord>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecord {
    step: String,
    mode: &'static str,
    main: usize,
    redis_threads: usize,
    route: String,
    wait: Option<String>,
    /// The most commands in flight on a connection.
    queue_bound: Option<usize>,
    /// Whether what was found is kept in the process, too.
    has_local_layer: bool,
    /// What the link to Redis carries, if it is narrow, in look-ups a second.
    link: Option<f64>,
    qps: f64,
    seconds: f64,
    sent: u64,
    completed: u64,
    completed_per_s: f64,
    shed: u64,
    dead: u64,
    /// In the queues when the fetcher ended.
    left: u64,
    /// Acknowledged, and still under way then.
    unfinished: u64,
    lost: u64,
    /// Replies that came more than once.
    repeated: u64,
    misses: u64,
    /// From when it was due to the reply.
    latency_ms: Percentiles,
    wait_ms: Percentiles,
    lifetime_ms: Percentiles,
    in_queue_ms: Percentiles,
    from_send_ms: Percentiles,
    from_tell_ms: Percentiles,
    /// What each redis actor was told, or each connection sent.
    per_actor: Vec<u64>,
    in_flight_peak: u64,
    mailbox_peak: u64,
    rss_peak_bytes: Option<u64>,
    rss_growth_bytes: Option<u64>,
    /// Of this process without who sends: with embedded servers, and who takes the replies.
    cpu_us_per_message: Option<f64>,
    idle_cpu_percent: Option<f64>,
    /// By the original's names.
    counters: BTreeMap<String, f64>,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p75: f64,
    p95: f64,
    p99: f64,
    p999: f64,
}

impl Percentiles {
    fn of(summary: &HistogramSummary) -> Self {
        let milliseconds = |ns: u64| ns as f64 / 1e6;
        Self {
            p75: milliseconds(summary.p75),
            p95: milliseconds(summary.p95),
            p99: milliseconds(summary.p99),
            p999: milliseconds(summary.p999),
        }
    }
}

impl RunRecord {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let plan = &outcome.plan;
        Self {
            step: plan.step.to_string(),
            mode: plan.mode.name(),
            main: plan.mains,
            redis_threads: plan.redis_threads,
            route: plan.route.to_string(),
            wait: plan.wait.map(|wait| wait.to_string()),
            queue_bound: plan.queue_bound_in_force(),
            has_local_layer: plan.mode == Mode::Ours,
            link: plan.link,
            qps: plan.rate,
            seconds: outcome.seconds,
            sent: outcome.sent,
            completed: outcome.completed,
            completed_per_s: outcome.rate(),
            shed: outcome.shed,
            dead: outcome.dead,
            left: outcome.left,
            unfinished: outcome.unfinished,
            lost: outcome.lost,
            repeated: outcome.repeated,
            misses: outcome.misses,
            latency_ms: Percentiles::of(&outcome.latency),
            wait_ms: Percentiles::of(&outcome.wait),
            lifetime_ms: Percentiles::of(&outcome.lifetime),
            in_queue_ms: Percentiles::of(&outcome.in_queue),
            from_send_ms: Percentiles::of(&outcome.from_send),
            from_tell_ms: Percentiles::of(&outcome.from_tell),
            per_actor: outcome.per_actor.clone(),
            in_flight_peak: outcome.in_flight_peak,
            mailbox_peak: outcome.mailbox_peak,
            rss_peak_bytes: outcome.rss_peak_bytes,
            rss_growth_bytes: outcome.rss_growth_bytes,
            cpu_us_per_message: outcome.cpu_us_per_message,
            idle_cpu_percent: outcome.idle_cpu_percent,
            counters: outcome.counters.iter().cloned().collect(),
        }
    }
}
