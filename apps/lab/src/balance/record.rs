//! What a run measured; serialized, it is the JSON.

use freeboard::meter::{BalanceClass, HistogramSummary};
use serde::Serialize;

use super::{
    lines,
    outcome::Outcome,
    plan::{FaultKind, NativeKind, Place, Plan, YieldKind},
};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(super) scene: &'static str,
    pub(super) procs: u32,
    pub(super) bytes: usize,
    pub(super) repeats: u32,
    pub(super) spin: u64,
    pub(super) place: Place,
    #[serde(rename = "yield")]
    pub(super) yields: YieldKind,
    pub(super) native: NativeKind,
    pub(super) fault: Option<FaultKind>,
    pub(super) schedulers: usize,
    /// From the middle of the run or the iterations on, if that was asked for.
    pub(super) online: Option<usize>,
    pub(super) iterations: u32,
    /// Of the processes that did all their repetitions; `None` if there is none.
    pub(super) elapsed_s: Option<Elapsed>,
    /// Of each of these processes.
    pub(super) elapsed_each_s: Vec<f64>,
    pub(super) max_over_min: Option<f64>,
    pub(super) makespan_s: f64,
    pub(super) cpu_s: Option<f64>,
    pub(super) makespan_over_ideal: Option<f64>,
    /// Share of its time on-line that each worker ran processes, 0 to 1.
    pub(super) utilisation: Vec<f64>,
    pub(super) samples: Vec<SampleRecord>,
    /// Of each worker.
    pub(super) native_calls: Vec<u64>,
    /// In each native call.
    pub(super) native_us: NativeTime,
    pub(super) intervals: Vec<IntervalRecord>,
    pub(super) rescues: Rescues,
    pub(super) collapses: Collapses,
    /// Whether it computes, with nothing broken.
    #[serde(skip)]
    pub(super) is_plain: bool,
    /// Seconds of blocking calls, if workers waited for them.
    #[serde(skip)]
    pub(super) waited_s: Option<f64>,
    #[serde(skip)]
    pub(super) remarks: Vec<String>,
}

impl Record {
    /// The parameters, and the seconds of each process that did all its repetitions.
    pub(super) fn of_plan(plan: &Plan, elapsed_each_s: Vec<f64>) -> Self {
        let elapsed = Elapsed::of(&elapsed_each_s);
        Self {
            scene: "balance",
            procs: plan.procs,
            bytes: plan.bytes,
            repeats: plan.repeats,
            spin: plan.spin,
            place: plan.place,
            yields: plan.yields,
            native: plan.native,
            fault: plan.fault,
            schedulers: plan.schedulers,
            online: plan.online,
            iterations: plan.iterations,
            elapsed_s: elapsed,
            elapsed_each_s,
            max_over_min: elapsed.map(Elapsed::max_over_min),
            makespan_s: elapsed.map_or(0.0, |it| it.max),
            cpu_s: None,
            makespan_over_ideal: None,
            utilisation: Vec::new(),
            samples: Vec::new(),
            native_calls: Vec::new(),
            native_us: NativeTime::default(),
            intervals: Vec::new(),
            rescues: Rescues::default(),
            collapses: Collapses::default(),
            is_plain: plan.is_plain(),
            waited_s: None,
            remarks: Vec::new(),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.native_calls.iter().sum()
    }
}

/// Microseconds in a native call.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NativeTime {
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
}

impl NativeTime {
    fn of(times: &HistogramSummary) -> Self {
        let us = |ns: f64| (times.count > 0).then_some(ns / 1e3);
        Self {
            mean: us(times.mean),
            p50: us(times.p50 as f64),
            p99: us(times.p99 as f64),
            max: us(times.max as f64),
        }
    }
}

/// From the release to the end of a process, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Elapsed {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Elapsed {
    /// `None` of no times at all.
    pub(crate) fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: sorted[sorted.len() / 2],
            max: *sorted.last()?,
        })
    }

    /// How unfair it was.
    pub(crate) fn max_over_min(self) -> f64 {
        // A process that took no time that the clock can tell would make it infinite.
        self.max / self.min.max(1e-9)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct SampleRecord {
    /// ISO 8601, UTC, with milliseconds.
    pub(super) time: String,
    pub(super) class: BalanceClass,
    pub(super) ratio: f64,
    /// Of the workers that were on-line.
    pub(super) queues: Vec<u64>,
    /// Workers with an empty queue that did nothing.
    pub(super) idle: Vec<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct IntervalRecord {
    pub(super) seconds: f64,
    pub(super) native_calls: Vec<u64>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Rescues {
    pub(super) count: u64,
    pub(super) delay_us_p99: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Collapses {
    pub(super) count: u64,
    pub(super) detect_ms_max: Option<f64>,
    pub(super) wasted_core_us: u64,
}

/// The run as JSON.
pub(crate) fn record(outcome: &Outcome) -> Record {
    let plan = &outcome.plan;
    let scheduler = &outcome.scheduler;
    Record {
        makespan_s: outcome.makespan,
        cpu_s: outcome.processor_seconds,
        makespan_over_ideal: outcome.makespan_over_ideal(),
        utilisation: outcome.utilisation(),
        samples: outcome
            .seen
            .samples
            .iter()
            .map(|sample| SampleRecord {
                time: sample.time.clone(),
                class: sample.balance.class,
                ratio: sample.balance.ratio(),
                queues: sample.balance.queues.clone(),
                idle: sample.balance.empty_idle.clone(),
            })
            .collect(),
        native_calls: outcome.calls_by_worker.clone(),
        native_us: NativeTime::of(&outcome.native_times),
        intervals: outcome
            .seen
            .intervals
            .iter()
            .map(|interval| IntervalRecord {
                seconds: interval.length.as_secs_f64(),
                native_calls: interval.calls.clone(),
            })
            .collect(),
        rescues: Rescues {
            count: scheduler.rescues,
            delay_us_p99: outcome.rescue_delay_p99_ns().map(|ns| ns as f64 / 1e3),
        },
        collapses: Collapses {
            count: scheduler.collapses,
            detect_ms_max: (scheduler.collapses > 0)
                .then_some(scheduler.collapse_detect_ns_max as f64 / 1e6),
            wasted_core_us: scheduler.wasted_core_ns / 1_000,
        },
        waited_s: (plan.native == NativeKind::Sleep).then(|| outcome.waited()),
        remarks: lines::remarks(outcome),
        ..Record::of_plan(plan, outcome.elapsed.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_ends() {
        let elapsed = Elapsed::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((elapsed.min, elapsed.median, elapsed.max), (1.0, 2.0, 3.0));
        assert!((elapsed.max_over_min() - 3.0).abs() < 1e-9);
        assert_eq!(Elapsed::of(&[]), None);
        let instant = Elapsed::of(&[0.0]).unwrap();
        assert!(instant.max_over_min().is_finite());
    }
}
