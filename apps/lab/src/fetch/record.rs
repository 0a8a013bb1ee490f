//! What a run measured; serialized, it is the JSON.

use std::collections::BTreeMap;

use freeboard::meter::HistogramSummary;
use serde::Serialize;

use super::{
    cost::Cost,
    lines,
    outcome::Outcome,
    owners::Owners,
    plan::{Mode, Plan},
    step::Step,
};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(super) step: String,
    pub(super) mode: &'static str,
    pub(super) main: usize,
    pub(super) redis_threads: usize,
    pub(super) route: String,
    pub(super) wait: Option<String>,
    /// The most commands in flight on a connection.
    pub(super) queue_bound: Option<usize>,
    /// Whether both keys are looked up with one command.
    pub(super) multi_get: bool,
    /// Whether what was found is kept in the process, too.
    pub(super) has_local_layer: bool,
    pub(super) qps: f64,
    /// What Freeboard mode can do, if the load is a multiple of it.
    pub(super) capacity_per_s: Option<f64>,
    pub(super) seconds: f64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) completed_per_s: f64,
    pub(super) shed: u64,
    pub(super) dead: u64,
    /// In the queues when the fetcher ended.
    pub(super) left: u64,
    /// Acknowledged, and still under way then.
    pub(super) unfinished: u64,
    pub(super) lost: u64,
    /// Replies that came more than once.
    pub(super) repeated: u64,
    pub(super) misses: u64,
    /// From when it was due to the reply.
    pub(super) latency_ms: Percentiles,
    /// The same of notifications that were delivered once.
    pub(super) latency_at_once_ms: Percentiles,
    pub(super) wait_max_ms: Option<u64>,
    /// How often notifications were put off because they had waited longer.
    pub(super) put_off: u64,
    pub(super) wait_ms: Percentiles,
    pub(super) lifetime_ms: Percentiles,
    pub(super) in_queue_ms: Percentiles,
    pub(super) from_send_ms: Percentiles,
    pub(super) from_tell_ms: Percentiles,
    /// What each redis actor was told, or each connection sent.
    pub(super) per_actor: Vec<u64>,
    pub(super) in_flight_peak: u64,
    pub(super) mailbox_peak: u64,
    pub(super) rss_peak_bytes: Option<u64>,
    pub(super) rss_growth_bytes: Option<u64>,
    /// How many times the others' look-ups the busiest connection has.
    pub(super) skew: Option<f64>,
    /// By owner, when the most was resident.
    pub(super) memory_at_peak: Option<Owners>,
    /// Of the service: this process without an embedded broker and an embedded Redis.
    pub(super) cpu_us_per_message: Option<f64>,
    pub(super) idle_cpu_percent: Option<f64>,
    /// Of the process of the load.
    pub(super) load_cpu_percent: Option<f64>,
    #[serde(flatten)]
    pub(super) cost: Cost,
    /// By the original's names.
    pub(super) counters: BTreeMap<String, f64>,
    #[serde(skip)]
    pub(super) of_step: Step,
    #[serde(skip)]
    pub(super) remark: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) p75: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
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

impl Record {
    /// Notifications that are neither replied to nor lost.
    pub(super) fn remaining(&self) -> u64 {
        self.left + self.dead + self.unfinished
    }

    pub(super) fn of(plan: &Plan, outcome: &Outcome) -> Self {
        Self {
            step: plan.step.to_string(),
            mode: plan.mode.name(),
            main: plan.mains,
            redis_threads: plan.redis_threads,
            route: plan.route.to_string(),
            wait: plan.wait.map(|wait| wait.to_string()),
            queue_bound: plan.queue_bound_in_force(),
            multi_get: plan.multi_get,
            has_local_layer: plan.mode == Mode::Ours,
            qps: plan.rate,
            capacity_per_s: plan.our_capacity(),
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
            latency_at_once_ms: Percentiles::of(&outcome.latency_at_once),
            wait_max_ms: plan.wait_max.map(|it| it.as_millis() as u64),
            put_off: outcome.put_off,
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
            load_cpu_percent: outcome.load_cpu_percent,
            cost: outcome.cost.clone(),
            skew: outcome.skew(),
            memory_at_peak: outcome.memory_at_peak,
            counters: outcome.counters.iter().cloned().collect(),
            of_step: plan.step,
            remark: lines::sentence(plan, outcome),
        }
    }
}
