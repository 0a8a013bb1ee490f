//! The eager scene: when should a busy scheduler poll the network?
//!
//! After a measurement of OTP 17.4's eager check I/O, from its mailing list. Without that check, which is `lazy` here,
//! sockets starve while all schedulers compute.
//!
//! ```text
//!   clients (a process of their own) ──▶ sockets ──▶ poller ◀── idle workers wait in it
//!                                                      ▲
//!                              busy workers: eager | drain | dedicated | lazy
//! ```

mod ab;
mod answer;
mod args;
mod ask;
mod backend;
mod beside;
mod busy_work;
mod counts;
mod plan;
mod rounds;
mod run;

use anyhow::Result;
use freeboard::meter::PollerSnapshot;
use serde::Serialize;

use crate::{
    figures::Unit,
    outputs::OutputArgs,
    peers::PeerArgs,
    real_backends,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    section::Side,
};
pub(crate) use args::EagerArgs;
use ask::Asked;
use plan::{BackendKind, Plan, Workload};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    scene: &'static str,
    poll: String,
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
    counts: Option<Counts>,
    check: Option<Check>,
    readiness_to_run_us: Option<Readiness>,
    max_gap_us: Option<f64>,
    #[serde(skip)]
    workload: Workload,
    /// Whether it is compared with the failure and the cure.
    #[serde(skip)]
    is_compared: bool,
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

impl Counts {
    fn of(poller: &PollerSnapshot) -> Self {
        let polls = poller.polls();
        Self {
            attempts: polls.attempts,
            idle_lazy: polls.won_idle_lazy,
            busy_lazy: polls.won_busy_lazy,
            idle_eager: polls.won_idle_eager,
            busy_eager: polls.won_busy_eager,
        }
    }
}

#[derive(Debug, Serialize)]
struct Check {
    total: u64,
    nonwait: u64,
    wait: u64,
}

impl Check {
    fn of(poller: &PollerSnapshot) -> Self {
        let polls = poller.polls();
        Self {
            total: polls.nonwait + polls.wait,
            nonwait: polls.nonwait,
            wait: polls.wait,
        }
    }
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
    /// A run without the counters of our poller.
    fn new(plan: &Plan, poll: &str, asked: &Asked, processor_seconds: Option<f64>) -> Self {
        let cpu_us = processor_seconds.map(|it| it * 1e6 / asked.answered.max(1) as f64);
        Self {
            scene: plan.workload.scene(),
            poll: poll.to_owned(),
            backend: match plan.workload {
                Workload::Proxy(backend) => Some(backend.name()),
                _ => None,
            },
            client: asked.client.name(),
            clients: plan.clients,
            requests: plan.requests,
            cpu_us: plan.cpu_us,
            seconds: asked.seconds,
            rps: asked.answered as f64 / asked.seconds.max(1e-9),
            errors: asked.errors,
            latency_us: Latency {
                p50: asked.p50_us,
                p99: asked.p99_us,
                p999: asked.p999_us,
            },
            cpu_us_per_request: cpu_us,
            counts: None,
            check: None,
            readiness_to_run_us: None,
            max_gap_us: None,
            workload: plan.workload,
            is_compared: false,
            rounds: Rounds {
                count: 1,
                p99_us: (asked.p99_us, asked.p99_us),
                cpu_us: (cpu_us.unwrap_or(0.0), cpu_us.unwrap_or(0.0)),
            },
        }
    }

    fn is_sweep(&self) -> bool {
        matches!(self.workload, Workload::Sweep { .. })
    }

    fn polls_per_second(&self) -> Option<f64> {
        let polls = self.check.as_ref()?.total;
        Some(polls as f64 / self.seconds.max(1e-9))
    }

    /// Attempts that found something, in percent.
    fn won(&self) -> Option<f64> {
        let counts = self.counts.as_ref()?;
        let won = counts.idle_lazy + counts.busy_lazy + counts.idle_eager + counts.busy_eager;
        Some(100.0 * won as f64 / counts.attempts.max(1) as f64)
    }

    /// From readiness to run.
    fn ready_us(&self) -> Option<f64> {
        self.readiness_to_run_us.as_ref().map(|it| it.p99)
    }

    /// Its measure, if this is a run of the sweep.
    fn in_sweep(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| self.is_sweep())
    }

    fn beside_sweep(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| !self.is_sweep())
    }
}

/// At the heaviest computing that shows a difference: there is the original's question.
const STARVED: Measure<Record> = Measure::new(
    "p99 beside actors that only compute",
    Unit::Milliseconds,
    |it| it.is_compared.then_some(it.latency_us.p99 / 1e3),
);
const WON: Measure<Record> = Measure::new("attempts that found something", Unit::Percent, |it| {
    it.beside_sweep(it.won())
});

impl Scene for EagerArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "eager",
        title: "Eager",
        lead: "When should a busy scheduler poll the network? A server by four policies.",
        original: "Erlang/OTP 17.4: schedulers with work polled the network rarely, and (lazy) not before all \
            events of the last poll were handled; with eager check I/O they poll at once. Under ab -c 60 -n 100000 \
            eager found something in 13.6 % of its attempts and lazy in 6.5 %, for 1.11 times the polls; time and \
            requests a second were within 0.5 %. The author asked whether eager only helps with much computing and \
            little I/O, where it keeps I/O from starving.",
        legend: "lazy is the original's rule without eager check I/O: a busy worker polls after twice its budget of \
            messages, however long they take, and only when all events of the last poll were handled. drain polls as \
            often as eager, but also only then. Readiness: from the poll that found a socket ready until its handler ran. \
            Gap: between two polls. The processor time of the BEAM includes that of schedulers that spin for want of work.",
    };
    const REPORT: Calls = Calls {
        about: "when a busy scheduler polls the network",
        seconds: 32,
        full: &["--cpu-us 0,100,1000 --requests 5000 --time 0.5"],
        quick: &["--cpu-us 0 --requests 200 --time 0.1 --rounds 1 --clients 4 --backend echo"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("rate", Unit::PerSecond("requests/s"), |it| Some(it.rps)),
        Measure::new("p50", Unit::Microseconds, |it| Some(it.latency_us.p50)),
        Measure::new("p99", Unit::Microseconds, |it| Some(it.latency_us.p99)),
        Measure::new("p99.9", Unit::Microseconds, |it| {
            // Of fewer requests it is the slowest one.
            it.latency_us.p999.filter(|_| it.requests >= 1_000)
        }),
        Measure::new("CPU of a request", Unit::Microseconds, |it| {
            it.cpu_us_per_request
        }),
        Measure::new("polls", Unit::Count, |it| {
            Some(it.check.as_ref()?.total as f64)
        }),
        Measure::new("attempts won", Unit::Percent, Record::won),
        Measure::new("readiness to run, p99", Unit::Microseconds, |it| {
            it.ready_us()
        }),
        Measure::new("longest gap", Unit::Microseconds, |it| it.max_gap_us),
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
                it.in_sweep(it.ready_us())
            }),
            note: "How long the handler of a socket waits after the poll that found the socket ready.",
        },
        Chart {
            measure: Measure::new("processor time of a request", Unit::Microseconds, |it| {
                it.in_sweep(it.cpu_us_per_request)
            }),
            note: "Without the actors that only compute.",
        },
        Chart {
            measure: Measure::new("polls of the network", Unit::PerSecond("polls/s"), |it| {
                it.in_sweep(it.polls_per_second())
            }),
            note: "In the sweep.",
        },
        Chart {
            measure: Measure::new("rate", Unit::PerSecond("requests/s"), |it| {
                it.beside_sweep(Some(it.rps))
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
            figure: |it| match (it.workload, it.poll.as_str()) {
                (Workload::Short, "eager") => Some("13.6 % of 30,700,000".to_owned()),
                (Workload::Short, "lazy") => Some("6.5 % of 36,110,000".to_owned()),
                _ => None,
            },
        },
        Published {
            measure: WON,
            source: "the original's proxy in front of MySQL, 2014",
            figure: |it| match (it.workload, it.poll.as_str()) {
                (Workload::Proxy(BackendKind::Mariadb), "eager") => {
                    Some("21 % of 72,090,000".to_owned())
                }
                (Workload::Proxy(BackendKind::Mariadb), "lazy") => {
                    Some("20.5 % of 72,170,000".to_owned())
                }
                _ => None,
            },
        },
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn peers(&self) -> PeerArgs {
        self.peers
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        let plans = self.plans();
        let mariadb = Workload::Proxy(BackendKind::Mariadb);
        if plans.iter().any(|plan| plan.workload == mariadb) {
            real_backends::check()?;
        }
        Ok(plans)
    }

    fn play(&self, mut plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let mut backend = None;
        let (console, interrupt) = (stage.console, stage.interrupt);
        let mut runs = rounds::run(&mut plans, &mut backend, self, console, interrupt)?;
        let compared_us = answer::tell_sides(&mut runs);
        runs.into_iter().for_each(|run| stage.keep(run));
        beside::play(&plans, backend.as_ref(), compared_us, stage);
        Ok(())
    }

    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let at = |side| {
            let mut found = runs.iter().filter(|it| it.record.is_compared);
            found.find(|it| it.side == side)
        };
        Some(Contrast {
            measure: &STARVED,
            failure: at(Side::Failure)?,
            cure: at(Side::Cure)?,
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
