//! The balance scene: long native calls against a fair scheduler.
//!
//! After a benchmark of 2013, `wait:run(N, W, R, BW)`, made to catch a scheduler that leaves workers
//! asleep while there is work. Many processes, all born on one worker and released together, call
//! native code that does not yield, again and again.
//!
//! ```text
//!   nest ──release──▶ process ─┐            ┌─ worker 0: MD5, loop ─┐
//!                     process ─┼─ queues ───┼─ worker 1: MD5, loop ─┼──▶ itself, R times
//!                     process ─┘            └─ ...                  ┘
//! ```

mod args;
mod beam;
mod daytime;
mod lines;
mod native;
mod nest;
mod outcome;
mod plan;
mod plots;
mod process;
mod record;
mod run;
mod tally;
mod watch;

use anyhow::Result;
use serde_json::Value;

use crate::{
    figures::{Unit, three_figures},
    findings,
    outputs::OutputArgs,
    peers::PeerArgs,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    table::unseen,
};
pub(crate) use args::BalanceArgs;
use plan::{Place, Plan, YieldKind};
use record::{Elapsed, Record};

const UNFAIRNESS: Measure<Record> = Measure::new("max / min", Unit::Ratio, |it| it.max_over_min);

/// Of runs that compute, with nothing broken and no runs before.
const OF_PLAIN: Measure<Record> =
    Measure::new("the last process over the first", Unit::Ratio, |it| {
        it.max_over_min.filter(|_| it.is_plain)
    });

const fn elapsed(name: &'static str, value: fn(&Record) -> Option<f64>) -> Measure<Record> {
    Measure::new(name, Unit::Seconds, value)
}

impl Scene for BalanceArgs {
    type Record = Record;
    type Prepared = Plan;

    const ABOUT: About = About {
        name: "balance",
        title: "Balance",
        lead: "Long native calls against a fair scheduler, and workers asleep beside work.",
        original: "Erlang, 2013: many processes, all born on one scheduler, computed MD5 in native code that does \
            not yield. The first of them was through after 2.62 s and the last after 126.17 s (R15B01; in R16B 2.69 \
            and 139.57 s): 50 times as long for the same work. After some runs schedulers collapsed: one stayed at \
            100 %, the others at 18 to 20 %, asleep while there was work, until the node was restarted.",
        legend: "elapsed: from the release of all processes to the end of each. Ideal: the processor time used, \
            spread evenly over the workers on-line (no more than the cores). BEAM: the native call of \
            `never yield` does not compute but waits as long as MD5 takes, and blocking calls are not declared; a program \
            for the BEAM would use dirty schedulers.",
    };
    const REPORT: Calls = Calls {
        about: "long native calls, lost wake-ups and blocked workers",
        seconds: 28,
        full: &[
            "--yield never --procs 400 --repeats 10",
            "--procs 400 --repeats 10",
            "--iterations 8 --pause 0.1 --schedulers 4 --online 2 --procs 40 --repeats 10",
            "--fault drop-wakes --procs 400 --repeats 5",
            "--native sleep --procs 100 --repeats 5",
        ],
        quick: &[
            "--yield never --procs 20 --repeats 5 --bytes 65536",
            "--procs 20 --repeats 5 --bytes 65536",
            "--iterations 2 --pause 0.01 --schedulers 4 --online 2 --procs 20 --repeats 5 --bytes 65536",
            "--fault drop-wakes --procs 20 --repeats 5 --bytes 65536",
            "--native sleep --procs 10 --repeats 2",
        ],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        elapsed("elapsed, min", |it| Some(it.elapsed_s?.min)),
        elapsed("elapsed, median", |it| Some(it.elapsed_s?.median)),
        elapsed("elapsed, max", |it| Some(it.elapsed_s?.max)),
        UNFAIRNESS,
        elapsed("makespan", |it| Some(it.makespan_s)),
        elapsed("processor time", |it| it.cpu_s),
        Measure::new("makespan / ideal", Unit::Ratio, |it| it.makespan_over_ideal),
        Measure::new("native calls", Unit::Count, |it| Some(it.calls() as f64)),
        Measure::new("rescues", Unit::Count, |it| Some(it.rescues.count as f64)),
        Measure::new("rescue delay, p99", Unit::Milliseconds, |it| {
            Some(it.rescues.delay_us_p99? / 1e3)
        }),
        Measure::new("collapses", Unit::Count, |it| {
            Some(it.collapses.count as f64)
        }),
        Measure::new("seen after, max", Unit::Milliseconds, |it| {
            it.collapses.detect_ms_max
        }),
        Measure::new("asleep beside work", Unit::Milliseconds, |it| {
            Some(it.collapses.wasted_core_us as f64 / 1e3)
        }),
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: OF_PLAIN,
            note: "How many times as long the same work took.",
        },
        Chart {
            measure: Measure::new("calls that block, if workers waited", Unit::Seconds, |it| {
                it.waited_s
            }),
            note: "Computed: the time of all calls over the number of workers.",
        },
        Chart {
            measure: Measure::new("calls that block, here", Unit::Seconds, |it| {
                it.waited_s.and(Some(it.makespan_s))
            }),
            note: "A blocked worker's slot goes to a spare thread.",
        },
    ];
    const PUBLISHED: &'static [Published<Record>] = &[Published {
        measure: UNFAIRNESS,
        source: "the original, Erlang R15B01 and R16B, 2013",
        figure: |it| (it.is_plain && it.place == Place::One).then(|| "48 x and 52 x".to_owned()),
    }];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn peers(&self) -> PeerArgs {
        self.peers
    }

    fn prepare(&self) -> Result<Plan> {
        Ok(self.plan()?)
    }

    fn play(&self, plan: Plan, stage: &mut Stage<'_, Record>) -> Result<()> {
        stage.run(|console, interrupt| run::run(&plan, console, interrupt))?;
        if let Some(title) = beam::title(&plan) {
            stage.beside(&title, |peers, interrupt| {
                beam::run(&plan, peers, interrupt)
            });
        }
        Ok(())
    }

    fn document(&self, runs: &[Run<Record>]) -> Result<Value> {
        // A call has one run, or none if it was interrupted before.
        runs.first()
            .map_or(Ok(Value::Null), |it| findings::json(&it.record))
    }

    /// All calls of a process in one run, against a yield after each.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let find = |yields| {
            let mut plain = runs
                .iter()
                .filter(|it| it.record.is_plain && it.failure.is_none());
            plain.find(|it| it.record.yields == yields)
        };
        let (failure, cure) = (find(YieldKind::Never)?, find(YieldKind::Each)?);
        let work = |it: &Record| (it.procs, it.repeats, it.bytes, it.schedulers);
        (work(&failure.record) == work(&cure.record)).then_some(Contrast {
            measure: &OF_PLAIN,
            failure,
            cure,
        })
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let times = |run: &Run<Record>| {
            let of = |it: Elapsed| {
                let [min, max] = [it.min, it.max].map(three_figures);
                format!("{min} and {max} s")
            };
            run.record.elapsed_s.map_or_else(unseen, of)
        };
        let [failure, cure] = contrast.texts();
        format!(
            "Of {} processes with the same work, the first and the last end after {} ({failure}) if none gives way before \
             its last native call, and after {} ({cure}) if each gives way after every call.",
            contrast.failure.record.procs,
            times(contrast.failure),
            times(contrast.cure)
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let of_run = |run: &Run<Record>| {
            let title = run.title.clone();
            let remarks = run.record.remarks.clone().into_iter();
            remarks.map(move |it| format!("{title}: {it}"))
        };
        runs.iter().flat_map(of_run).collect()
    }
}
