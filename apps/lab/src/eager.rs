//! The eager scene: when should a busy scheduler poll the network?
//!
//! After a measurement of OTP 17.4's eager check I/O, from its mailing list.
//!
//! ```text
//!   clients (a process of their own) ──▶ sockets ──▶ poller ◀── idle workers wait in it
//!                                                      ▲
//!                              busy workers: eager | drain | dedicated
//! ```

mod ab;
mod answer;
mod args;
mod ask;
mod backend;
mod busy_work;
mod plan;
mod rounds;
mod run;

use anyhow::Result;
use serde::Serialize;

use crate::{
    figures::Unit,
    outputs::OutputArgs,
    real_backends,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    section::Side,
};
pub(crate) use args::EagerArgs;
use plan::{BackendKind, Plan, Workload};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    scene: &'static str,
    poll: &'static str,
    /// The server behind the proxy.
    backend: Option<&'static str>,
    client: &'static str,
    clients: u32,
    requests: u64,
    cpu_us: u64,
    seconds: f64,
    rps: f64,
    errors: u64,
    latency_us: Latency,
    /// The server's processor time, without that of the actors that only compute.
    cpu_us_per_request: Option<f64>,
    counts: Counts,
    check: Check,
    readiness_to_run_us: Readiness,
    max_gap_us: f64,
    #[serde(skip)]
    workload: Workload,
    #[serde(skip)]
    rounds: Rounds,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    /// `ab` does not report it.
    p999: Option<f64>,
}

/// Attempts to poll, and those that found something: by state of the worker and policy.
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

/// The rounds of a run, of which the one with the median p99 is shown.
#[derive(Debug)]
struct Rounds {
    count: u32,
    /// Smallest and largest.
    p99_us: (f64, f64),
    cpu_us: (f64, f64),
}

impl Record {
    fn is_sweep(&self) -> bool {
        matches!(self.workload, Workload::Sweep { .. })
    }

    fn polls_per_second(&self) -> f64 {
        self.check.total as f64 / self.seconds.max(1e-9)
    }

    /// Attempts that found something, in percent.
    fn won(&self) -> f64 {
        let counts = &self.counts;
        let won = counts.idle_lazy + counts.busy_lazy + counts.idle_eager + counts.busy_eager;
        100.0 * won as f64 / counts.attempts.max(1) as f64
    }

    /// Its measure, if this is a run of the sweep.
    fn in_sweep(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| self.is_sweep())
    }

    fn beside_sweep(&self, value: f64) -> Option<f64> {
        (!self.is_sweep()).then_some(value)
    }
}

const P99: Measure<Record> = Measure::new("p99", Unit::Microseconds, |it| Some(it.latency_us.p99));
const WON: Measure<Record> = Measure::new("attempts that found something", Unit::Percent, |it| {
    it.beside_sweep(it.won())
});

impl Scene for EagerArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "eager",
        title: "Eager",
        lead: "When should a busy scheduler poll the network? A server by three policies.",
        original: "Erlang/OTP 17.4: schedulers with work polled the network rarely, and (lazy) not before all \
            events of the last poll were handled; with eager check I/O they poll at once. Under ab -c 60 -n 100000 \
            eager found something in 13.6 % of its attempts and lazy in 6.5 %, for 1.11 times the polls; time and \
            requests a second were within 0.5 %. The author asked whether eager only helps with much computing and \
            little I/O, where it keeps I/O from starving.",
        legend: "drain is the original's lazy. Readiness: from when a socket could be read until its handler ran. \
            Gap: between two polls.",
    };
    const REPORT: Calls = Calls {
        about: "when a busy scheduler polls the network",
        seconds: 28,
        full: &["--scene http,sweep --cpu-us 0,100,1000 --time 0.8"],
        quick: &["--scene http,sweep --cpu-us 0 --requests 200 --time 0.1 --rounds 1 --clients 4"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("rate", Unit::PerSecond("requests/s"), |it| Some(it.rps)),
        Measure::new("p50", Unit::Microseconds, |it| Some(it.latency_us.p50)),
        P99,
        Measure::new("p99.9", Unit::Microseconds, |it| it.latency_us.p999),
        Measure::new("CPU of a request", Unit::Microseconds, |it| {
            it.cpu_us_per_request
        }),
        Measure::new("polls", Unit::Count, |it| Some(it.check.total as f64)),
        Measure::new("attempts won", Unit::Percent, |it| Some(it.won())),
        Measure::new("readiness to run, p99", Unit::Microseconds, |it| {
            Some(it.readiness_to_run_us.p99)
        }),
        Measure::new("longest gap", Unit::Microseconds, |it| Some(it.max_gap_us)),
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: Measure::new(
                "latency beside actors that only compute, p99",
                Unit::Microseconds,
                |it| it.in_sweep(Some(it.latency_us.p99)),
            ),
            note: "By computing time of a request and policy.",
        },
        Chart {
            measure: Measure::new("from readiness to run, p99", Unit::Microseconds, |it| {
                it.in_sweep(Some(it.readiness_to_run_us.p99))
            }),
            note: "How long a busy scheduler leaves a readable socket alone.",
        },
        Chart {
            measure: Measure::new("processor time of a request", Unit::Microseconds, |it| {
                it.in_sweep(it.cpu_us_per_request)
            }),
            note: "Without the actors that only compute.",
        },
        Chart {
            measure: Measure::new("polls of the network", Unit::PerSecond("polls/s"), |it| {
                it.in_sweep(Some(it.polls_per_second()))
            }),
            note: "In the sweep.",
        },
        Chart {
            measure: Measure::new("rate", Unit::PerSecond("requests/s"), |it| {
                it.beside_sweep(it.rps)
            }),
            note: "With no other load.",
        },
        Chart {
            measure: WON,
            note: "As the original counted them.",
        },
    ];
    const PUBLISHED: &'static [Published<Record>] = &[
        Published {
            measure: WON,
            source: "the original, OTP 17.4, 2014, ab -c 60 -n 100000",
            figure: |it| match (it.workload, it.poll) {
                (Workload::Short, "eager") => Some("13.6 % of 30,700,000".to_owned()),
                (Workload::Short, "drain") => Some("6.5 % of 36,110,000".to_owned()),
                _ => None,
            },
        },
        Published {
            measure: WON,
            source: "the original's proxy in front of MySQL, 2014",
            figure: |it| match (it.workload, it.poll) {
                (Workload::Proxy(BackendKind::Mariadb), "eager") => {
                    Some("21 % of 72,090,000".to_owned())
                }
                (Workload::Proxy(BackendKind::Mariadb), "drain") => {
                    Some("20.5 % of 72,170,000".to_owned())
                }
                _ => None,
            },
        },
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        let plans = self.plans();
        let mariadb = Workload::Proxy(BackendKind::Mariadb);
        if plans.iter().any(|plan| plan.workload == mariadb) {
            real_backends::check()?;
        }
        Ok(plans)
    }

    fn play(&self, plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let mut runs = rounds::run(&plans, self, stage.console, stage.interrupt)?;
        answer::tell_sides(&mut runs);
        runs.into_iter().for_each(|run| stage.keep(run));
        Ok(())
    }

    /// At the heaviest computing, where the original's question is.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let failures = runs.iter().filter(|it| it.side == Side::Failure);
        let failure = failures.max_by_key(|it| it.record.cpu_us)?;
        let mut cures = runs.iter().filter(|it| it.side == Side::Cure);
        let cure = cures.find(|it| it.record.cpu_us == failure.record.cpu_us)?;
        Some(Contrast {
            measure: &P99,
            failure,
            cure,
        })
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let [failure, cure] = contrast.texts();
        format!(
            "Beside busy workers and with {} us of computing for each request, 99 % of the requests are answered within \
             {failure} by the policy {}, and within {cure} by the policy {}.",
            contrast.failure.record.cpu_us, contrast.failure.record.poll, contrast.cure.record.poll
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        answer::answer(runs)
    }
}
