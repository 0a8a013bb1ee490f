//! The scheduler's families: one series for each worker, and the scheduler's own.

use super::{Exposition, FamilyKind, seconds};
use crate::scheduler::{SchedulerSnapshot, WorkerSnapshot, WorkerState};

pub(super) fn render_workers(text: &mut Exposition, workers: &[WorkerSnapshot]) {
    use FamilyKind::{Counter, Gauge};
    type Field = fn(&WorkerSnapshot) -> u64;
    let families: [(&str, FamilyKind, &str, Field); 7] = [
        (
            "freeboard_worker_online",
            Gauge,
            "Whether the worker takes part: 1 or 0.",
            |worker| u64::from(worker.is_online()),
        ),
        (
            "freeboard_worker_queue_depth",
            Gauge,
            "Runnable actors in the worker's own queue.",
            |worker| worker.queue_depth,
        ),
        (
            "freeboard_worker_runs_total",
            Counter,
            "Runs of an actor.",
            |worker| worker.runs,
        ),
        (
            "freeboard_worker_steals_total",
            Counter,
            "Times the worker took work from another.",
            |worker| worker.steals,
        ),
        (
            "freeboard_worker_wakes_total",
            Counter,
            "Times the worker woke another.",
            |worker| worker.wakes,
        ),
        (
            "freeboard_worker_parks_total",
            Counter,
            "Times the worker went to sleep.",
            |worker| worker.parks,
        ),
        (
            "freeboard_worker_budget_expiries_total",
            Counter,
            "Runs that ended because the budget was spent.",
            |worker| worker.budget_expiries,
        ),
    ];
    let indices: Vec<String> = workers
        .iter()
        .map(|worker| worker.index.to_string())
        .collect();
    for (name, kind, help, field) in families {
        text.family(name, kind, help);
        for (index, worker) in indices.iter().zip(workers) {
            text.sample(name, &[("worker", index)], field(worker) as f64);
        }
    }
    let name = "freeboard_worker_state_seconds_total";
    let help = "Wall time of the worker by what it did.";
    text.family(name, Counter, help);
    for (index, worker) in indices.iter().zip(workers) {
        for state in WorkerState::ALL {
            let labels = [("worker", index.as_str()), ("state", state.name())];
            text.sample(name, &labels, seconds(worker.times.of(state) as f64));
        }
    }
}

pub(super) fn render_scheduler(text: &mut Exposition, scheduler: &SchedulerSnapshot) {
    use FamilyKind::{Counter, Gauge};
    let whole = |count: u64| count as f64;
    let time = |time_ns: u64| seconds(time_ns as f64);
    for (name, kind, help, value) in [
        (
            "freeboard_workers_online",
            Gauge,
            "Workers that take part.",
            whole(scheduler.workers_online),
        ),
        (
            "freeboard_worker_threads",
            Gauge,
            "Worker threads, spare and displaced ones among them.",
            whole(scheduler.threads),
        ),
        (
            "freeboard_worker_threads_spare",
            Gauge,
            "Threads parked to take a blocked worker's place.",
            whole(scheduler.threads_spare),
        ),
        (
            "freeboard_worker_threads_displaced",
            Gauge,
            "Threads in a run that lost their place to a spare.",
            whole(scheduler.threads_displaced),
        ),
        (
            "freeboard_worker_threads_limit",
            Gauge,
            "The most worker threads there may be.",
            whole(scheduler.threads_max),
        ),
        (
            "freeboard_forced_wakes_total",
            Counter,
            "Times the monitor woke a worker.",
            whole(scheduler.forced_wakes),
        ),
        (
            "freeboard_rescues_total",
            Counter,
            "Times a blocked worker's place was given to a spare.",
            whole(scheduler.rescues),
        ),
        (
            "freeboard_reliefs_total",
            Counter,
            "Times a spare was added because all workers computed for long.",
            whole(scheduler.reliefs),
        ),
        (
            "freeboard_rescued_actors_total",
            Counter,
            "Runnable actors taken from the queues of stuck workers.",
            whole(scheduler.rescued_tasks),
        ),
        (
            "freeboard_blocking_calls_total",
            Counter,
            "Calls that announced that they block.",
            whole(scheduler.blocking_calls),
        ),
        (
            "freeboard_spares_exhausted_total",
            Counter,
            "Times all threads allowed were in use.",
            whole(scheduler.spares_exhausted),
        ),
        (
            "freeboard_scheduler_all_blocked",
            Gauge,
            "Whether all threads are blocked while actors wait: 1 or 0.",
            f64::from(u8::from(!scheduler.all_blocked.is_empty())),
        ),
        (
            "freeboard_collapses_total",
            Counter,
            "Times workers slept while there was work for them.",
            whole(scheduler.collapses),
        ),
        (
            "freeboard_collapse_detect_max_seconds",
            Gauge,
            "The longest time from a collapse to its being seen.",
            time(scheduler.collapse_detect_ns_max),
        ),
        (
            "freeboard_wasted_core_seconds_total",
            Counter,
            "Time that workers slept while there was work for them.",
            time(scheduler.wasted_core_ns),
        ),
        (
            "freeboard_long_runs_total",
            Counter,
            "Runs that were longer than the threshold.",
            whole(scheduler.long_runs),
        ),
        (
            "freeboard_long_runs_unreported_total",
            Counter,
            "Long runs that were counted but not reported.",
            whole(scheduler.long_runs_unreported),
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value);
    }
    let name = "freeboard_rescue_delay_seconds";
    let help = "From the start of a blocked run until a spare was at work.";
    text.family(name, FamilyKind::Summary, help);
    if let Some(delay) = &scheduler.rescue_delay {
        text.summary(name, &[], delay);
    }
}
