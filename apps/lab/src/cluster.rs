//! The cluster scene: devices as actors in several processes over one NATS server, while a process is killed, paused, cut
//! off, and added.
//!
//! ```text
//!   client ──▶ NATS ──▶ process a: devices of its partitions ──▶ a stream for each partition,
//!                   ──▶ process b                            ──▶ which refuses older epochs
//!                   ──▶ process c                            ──▶
//! ```

mod args;
mod check;
mod client;
mod device;
mod link;
mod node;
mod plots;
mod process;
mod run;

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::{
    figures::{Unit, count, percentile_ms, three_figures},
    outputs::OutputArgs,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
};
pub(crate) use args::ClusterArgs;
use args::Plan;
use client::Asked;
pub(crate) use node::{ClusterNodeArgs, cluster_node};
use run::Event;

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Record {
    processes: u16,
    devices: u32,
    ttl_s: f64,
    offered: u64,
    /// How many reports ended how: `in time`, `late`, `full`, `down`, `lost`, `expired`, `stale`.
    ends: BTreeMap<&'static str, u64>,
    goodput_per_s: f64,
    /// While a process was dead, paused or cut off.
    goodput_in_faults_per_s: f64,
    /// Of those that were answered in time.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// After a process was killed, paused or cut off.
    failover_max_s: f64,
    events: Vec<Event>,
    #[serde(flatten)]
    found: check::Found,
}

impl Record {
    fn new(plan: &Plan, asked: &[Asked], events: &[Event], found: &check::Found) -> Self {
        let end_s = plan.time().as_secs_f64();
        let ends = events.iter().skip(1).map(|it| it.at_s).chain([end_s]);
        let faults: Vec<_> = events
            .iter()
            .zip(ends)
            .filter(|(it, _)| it.deed.is_fault())
            .map(|(it, end_s)| it.at_s..end_s)
            .collect();
        let in_time = || asked.iter().filter(|it| it.error.is_none());
        let is_in_fault = |it: &&Asked| {
            let due_s = it.due.as_secs_f64();
            faults.iter().any(|fault| fault.contains(&due_s))
        };
        let faults_s: f64 = faults.iter().map(|it| it.end - it.start).sum();
        let latencies = plots::latencies(asked.iter());
        let failovers = events.iter().filter(|it| it.deed.is_fault());
        Self {
            processes: plan.nodes,
            devices: plan.devices,
            ttl_s: plan.ttl.as_secs_f64(),
            offered: asked.len() as u64,
            ends: run::ends(asked),
            goodput_per_s: in_time().count() as f64 / end_s,
            goodput_in_faults_per_s: match faults_s {
                0.0 => 0.0,
                faults_s => in_time().filter(is_in_fault).count() as f64 / faults_s,
            },
            p50_ms: percentile_ms(&latencies, 0.5),
            p99_ms: percentile_ms(&latencies, 0.99),
            failover_max_s: failovers.map(|it| it.recovered_s).fold(0.0, f64::max),
            events: events.to_vec(),
            found: found.clone(),
        }
    }

    fn failed(&self) -> u64 {
        self.offered - self.ends.get("in time").copied().unwrap_or_default()
    }
}

const IN_FAULTS: Measure<Record> =
    Measure::new("goodput\nin faults", Unit::PerSecond("answers/s"), |it| {
        Some(it.goodput_in_faults_per_s)
    });

impl Scene for ClusterArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "cluster",
        title: "Cluster",
        lead: "100,000 devices as actors in several processes, of which one is killed, one is paused, one is cut off, and \
            one is added.",
        original: "Several systems have lost or doubled actors that should exist once in a cluster, when nodes failed \
            (goakt 1255, Orleans 9074, kameo 213 and 373, etcd 11457). Two activations of one actor write over each \
            other if a paused node does not know that its lease is over.",
        legend: "A report is answered when it is in the stream of its device's partition. goodput: answers before the \
            deadline, counted from the time at which the report was due. goodput in faults: the same while a process was \
            dead, paused or cut off. failover: from a fault until the last report was due that was not answered in time. \
            two epochs: reports in a stream behind one of a newer epoch, and such that do not count on from the one \
            before. lost: answered, and in no stream.",
    };
    const REPORT: Calls = Calls {
        about: "actors in several processes, which fail",
        seconds: 70,
        full: &[""],
        quick: &["--devices 2000 --rate 500 --calm 1 --fault 2 --ttl 0.5"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("reports", Unit::Count, |it| Some(it.offered as f64)),
        Measure::new("goodput", Unit::PerSecond("answers/s"), |it| {
            Some(it.goodput_per_s)
        }),
        IN_FAULTS,
        Measure::new("failed", Unit::Count, |it| Some(it.failed() as f64)),
        Measure::new("p50", Unit::Milliseconds, |it| it.p50_ms),
        Measure::new("p99", Unit::Milliseconds, |it| it.p99_ms),
        Measure::new("failover", Unit::Seconds, |it| Some(it.failover_max_s)),
        Measure::new("epochs", Unit::Count, |it| Some(it.found.epochs as f64)),
        Measure::new("two\nepochs", Unit::Count, |it| {
            Some(it.found.of_two_epochs as f64)
        }),
        Measure::new("lost", Unit::Count, |it| Some(it.found.lost as f64)),
    ];
    const CHARTS: &'static [Chart<Record>] = &[];
    const PUBLISHED: &'static [Published<Record>] = &[];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        self.plans()
    }

    fn play(&self, plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let console = stage.console.clone();
        let _listening = stage.interrupt.listen(move || {
            console.line("Ctrl-C: nothing more is sent (again: exit at once)");
        });
        stage.run_each(&plans, |plan, console, interrupt| {
            let run = run::run(plan, console, interrupt)?;
            console.line(&line(&run));
            Ok(run)
        })?;
        Ok(())
    }

    /// One process against the most.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let failure = runs.iter().find(|it| it.record.processes == 1)?;
        let several = runs.iter().filter(|it| it.record.processes > 1);
        Some(Contrast {
            measure: &IN_FAULTS,
            failure,
            cure: several.max_by_key(|it| it.record.processes)?,
        })
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let [failure, cure] = contrast.texts();
        format!(
            "While a process is dead, paused or cut off, devices in one process give {failure} in time, and the same \
             devices in {} processes give {cure}.",
            contrast.cure.record.processes
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let several = runs.iter().filter(|it| it.record.processes > 1);
        let mut remarks: Vec<_> = several
            .map(|it| {
                format!(
                    "{}: all devices answered again at most {} s after a fault; leases hold for {} s.",
                    it.title,
                    three_figures(it.record.failover_max_s),
                    it.record.ttl_s
                )
            })
            .collect();
        if runs.iter().all(|it| it.failure.is_none()) {
            let written: u64 = runs.iter().map(|it| it.record.found.written).sum();
            remarks.push(format!(
                "whole: of {} reports in the streams none was written by an older epoch, and each answered one is there \
                 once.",
                count(written)
            ));
        }
        remarks
    }
}

fn line(run: &Run<Record>) -> String {
    let it = &run.record;
    format!(
        "{}: {} answers/s, in faults {}; {} of {} reports failed; failover {} s; {} epochs, {} reports of two epochs, {} \
         lost",
        run.title,
        three_figures(it.goodput_per_s),
        three_figures(it.goodput_in_faults_per_s),
        count(it.failed()),
        count(it.offered),
        three_figures(it.failover_max_s),
        it.found.epochs,
        it.found.of_two_epochs,
        it.found.lost
    )
}
