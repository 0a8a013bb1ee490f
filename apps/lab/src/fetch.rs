//! The fetch scene: a push-notification fetcher, tuned in eleven steps.
//!
//! After a Java service of 2014 and the log of its tuning.
//!
//! ```text
//!   sender, open loop ──▶ broker ──▶ fetcher, original | Freeboard mode ──▶ broker ──▶ account of every id
//!                                      │ cache   │ slow store   │ directory
//!                                      Redis     100 ms asleep   SQL           each embedded, or real
//! ```

mod args;
mod backends;
mod cost;
mod fill;
mod lines;
mod load;
mod outcome;
mod owners;
mod plan;
mod record;
mod run;
mod step;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;

use crate::{
    figures::{Unit, count, counted, three_figures},
    outputs::OutputArgs,
    processor, real_backends,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    section::Side,
};
use args::BackendChoice;
pub(crate) use args::FetchArgs;
use backends::Backends;
pub(crate) use load::{FetchLoadArgs, fetch_load};
use plan::{Mode, Plan};
use record::Record;
use step::Rate;

const MS: Unit = Unit::Milliseconds;
const REPLY: Measure<Record> = Measure::new("reply", MS, |it| Some(it.latency_ms.p99));
const WAIT: Measure<Record> = Measure::new("wait", MS, |it| Some(it.wait_ms.p99));
const LIFETIME: Measure<Record> = Measure::new("lifetime", MS, |it| Some(it.lifetime_ms.p99));
const IN_QUEUE: Measure<Record> = Measure::new("in queue", MS, |it| Some(it.in_queue_ms.p99));
const FROM_SEND: Measure<Record> = Measure::new("send", MS, |it| Some(it.from_send_ms.p99));
const FROM_TELL: Measure<Record> = Measure::new("tell", MS, |it| Some(it.from_tell_ms.p99));
const LOST: Measure<Record> = Measure::new("lost", Unit::Count, |it| Some(it.lost as f64));
const CPU: Measure<Record> = Measure::new("CPU of a notification", Unit::Microseconds, |it| {
    it.cpu_us_per_message
});

/// Published percentiles, beside the runs in original mode.
macro_rules! of_original {
    ($measure:ident, $field:ident) => {
        Published {
            measure: $measure,
            source: "the original, Java, 2014",
            figure: |it| {
                let ms = it.of_step.of_original().$field?;
                it.is_original().then(|| format!("{} ms", count(ms as u64)))
            },
        }
    };
}

impl Scene for FetchArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "fetch",
        title: "Fetch",
        lead: "A push-notification fetcher, tuned in eleven steps: notifications from a broker, two keys from a leased \
            cache on Redis, a device from SQL, a reply to the broker.",
        original: "A Java service, 2014: actors with a thread and a ring each, a pipelined Redis client, a leased \
            cache. At 10,000 notifications a second memory went to 15 GB: the client's queue of commands in flight \
            had no bound, and ten threads of the service spun beside those that were to read its replies. Bounded, it shed 761,222 look-ups, and their \
            notifications were lost. One hot key gave one of n actors n + 1 times the others' work; and idle it used \
            60 % of a processor.",
        legend: "times are 99th percentiles; wait: from when a notification was due to its start; lifetime: from there \
            to the confirm of its reply; once: the reply to notifications that were delivered only once; put off: \
            deliveries that waited too long and came again later; send: from the write of a look-up to its answer; in \
            flight: the largest number of look-ups without an answer; busiest: the look-ups of the busiest connection \
            over the mean of the others'; shed: look-ups refused because too much was in flight (lost in original mode, tried again in Freeboard mode); left: not done when the fetcher \
            ended, and still there; CPU: of the service, in percent of a core; load: its threads that ran or could have \
            run, on average; broker and Redis: the embedded ones are threads of this process and not counted as the \
            service's; the load is a process of its own.",
    };
    const REPORT: Calls = Calls {
        about: "a push-notification fetcher, in original mode and in Freeboard mode",
        seconds: 35,
        full: &[
            "--step 3,5,6,end --time 2 --keys 200000",
            "--step 9 --mode original --redis-threads 2,3,4,5 --route hash,random --time 0.4 --keys 50000",
        ],
        quick: &["--step 1 --scale 0.02 --time 0.3"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("sent", Unit::PerSecond("/s"), |it| {
            Some(it.sent as f64 / it.seconds.max(1e-9))
        }),
        Measure::new("done", Unit::PerSecond("/s"), |it| Some(it.completed_per_s)),
        WAIT,
        LIFETIME,
        REPLY,
        Measure::new("once", MS, |it| Some(it.latency_at_once_ms.p99)),
        Measure::new("put off", Unit::Count, |it| Some(it.put_off as f64)),
        IN_QUEUE,
        FROM_SEND,
        FROM_TELL,
        Measure::new("in flight", Unit::Count, |it| {
            Some(it.in_flight_peak as f64)
        }),
        Measure::new("busiest", Unit::Ratio, |it| it.skew),
        Measure::new("shed", Unit::Count, |it| Some(it.shed as f64)),
        Measure::new("left", Unit::Count, |it| Some(it.remaining() as f64)),
        LOST,
        Measure::new("memory", Unit::Mebibytes, |it| {
            Some(it.rss_peak_bytes? as f64 / f64::from(1 << 20))
        }),
        CPU,
        Measure::new("CPU", Unit::Percent, |it| it.cost.cpu_percent),
        Measure::new("load", Unit::Ratio, |it| it.cost.load),
        Measure::new("broker CPU", Unit::Percent, |it| it.cost.broker_cpu_percent),
        Measure::new("Redis CPU", Unit::Percent, |it| it.cost.redis_cpu_percent),
        Measure::new("idle CPU", Unit::Percent, |it| it.idle_cpu_percent),
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: REPLY,
            note: "99th percentile from when a notification was due; lost ones have none.",
        },
        Chart {
            measure: Measure::new("commands in flight to Redis", Unit::Count, |it| {
                Some(it.in_flight_peak as f64)
            }),
            note: "The peak.",
        },
        Chart {
            measure: LOST,
            note: "Acknowledged, and never replied to.",
        },
        Chart {
            measure: CPU,
            note: "Of the service, without broker, Redis and load.",
        },
    ];
    const PUBLISHED: &'static [Published<Record>] = &[
        of_original!(WAIT, wait),
        of_original!(LIFETIME, lifetime),
        of_original!(IN_QUEUE, in_queue),
        of_original!(FROM_SEND, from_send),
        of_original!(FROM_TELL, from_tell),
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        self.check()?;
        if self.backend == BackendChoice::Real {
            real_backends::check()?;
        }
        Ok(self.plans())
    }

    fn play(&self, plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let users = plans.iter().map(|plan| plan.users).max().unwrap_or(0);
        let backends = Backends::start(self.backend, users, stage.console)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        // Ordering: Relaxed: it says nothing but stop.
        let _listening = stage
            .interrupt
            .listen(move || stopping.store(true, Ordering::Relaxed));
        let (mut step, mut between, mut ours) = (None, None, None);
        for mut plan in plans {
            plan.rate = match (plan.offered, between) {
                (Rate::PerSecond(rate), _) => rate,
                (Rate::BetweenCapacities, Some(rate)) => rate,
                (Rate::BetweenCapacities, None) => {
                    let mut product = 1.0;
                    for of in self.plans_of_capacity() {
                        product *= run::capacity(&of, &backends, stage.console, &stop)?;
                    }
                    *between.insert(product.sqrt())
                }
                (Rate::TimesOurs(times), _) => {
                    let of = plan.of_our_capacity();
                    let capacity = match ours {
                        Some(capacity) => capacity,
                        None => *ours.insert(run::capacity(&of, &backends, stage.console, &stop)?),
                    };
                    times * capacity
                }
            };
            plan.check()?;
            let goes_on = stage.run(|console, _| {
                if step.replace(plan.step) != Some(plan.step) {
                    console.line(&lines::opening(plan.step));
                }
                let run = run::run(&plan, &backends, console, &stop)?;
                if self.counters {
                    lines::counters(&run.record.counters)
                        .iter()
                        .for_each(|line| console.line(line));
                }
                console.line(&format!("  {}", run.record.remark));
                Ok(run)
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The original's slowest replies, and the fastest of a run with the same load that cures them.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let p99 = |it: &&Run<Record>| it.record.latency_ms.p99;
        let by_p99 = |a: &&Run<Record>, b: &&Run<Record>| p99(a).total_cmp(&p99(b));
        let cure = |failure: &Run<Record>| {
            let same = |it: &&Run<Record>| {
                let is_same_step = it.record.of_step == failure.record.of_step;
                it.record.qps == failure.record.qps
                    && it.side == Side::Cure
                    && (it.record.is_original() || is_same_step)
            };
            runs.iter().filter(same).min_by(by_p99)
        };
        let of_original = runs.iter().filter(|it| it.record.is_original());
        let compared = of_original.filter(|it| it.side != Side::Cure && cure(it).is_some());
        let failure = compared.max_by(by_p99)?;
        Some(Contrast {
            measure: &REPLY,
            failure,
            cure: cure(failure)?,
        })
    }

    fn claim(contrast: &Contrast<'_, Self::Record>) -> String {
        let [failure, cure] = contrast.texts();
        let service = |it: &Record| match &it.wait {
            Some(wait) => format!(
                "{} + {} threads that wait by {wait}",
                it.main, it.redis_threads
            ),
            None => "Freeboard's service".to_owned(),
        };
        format!(
            "At {} notifications/s on {}, 99 % of the replies come within {failure} from {}, and within {cure} from {}.",
            three_figures(contrast.failure.record.qps),
            counted(processor::cores() as u64, "core"),
            service(&contrast.failure.record),
            service(&contrast.cure.record)
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let mut remarks = Vec::new();
        for mode in [Mode::Original, Mode::Ours] {
            let of = || runs.iter().filter(|it| it.record.mode == mode.name());
            let sum = |value: fn(&Record) -> u64| count(of().map(|it| value(&it.record)).sum());
            if of().next().is_some() {
                remarks.push(format!(
                    "{}: of {} notifications {} were lost, and {} were not done when the fetcher ended.",
                    mode.title(),
                    sum(|it| it.sent),
                    sum(|it| it.lost),
                    sum(Record::remaining)
                ));
            }
        }
        remarks.extend(runs.iter().map(|it| format!("{}.", it.record.remark)));
        remarks
    }
}

impl Record {
    fn is_original(&self) -> bool {
        self.mode == Mode::Original.name()
    }
}
