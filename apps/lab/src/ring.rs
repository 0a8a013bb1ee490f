//! The ring scene: how a consumer on its own thread waits for its ring, and what that costs.
//!
//! After the mailbox benchmark of a Java actor framework of 2014.
//!
//! ```text
//!   producer ─┐    ┌─ lane 0 ─┐
//!   producer ─┼──▶ ├─ lane 1 ─┼──▶ consumer (pinned; blocking | sleeping | yielding | busy spin)
//!   producer ─┘    └─ ...     ┘
//! ```

mod args;
mod consumer;
mod lmax;
mod plan;
mod producer;
mod run;

use anyhow::Result;
use serde::Serialize;

use crate::{
    console::Console,
    figures::{Unit, count, counted, three_figures},
    interrupt::Interrupt,
    outputs::OutputArgs,
    peers::PeerArgs,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
};
pub(crate) use args::RingArgs;
use plan::{Plan, Wait};

/// The size of ring that the original measured with.
const RING_ORIGINAL: usize = 1_024;

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    wait: Wait,
    priorities: u32,
    ring: usize,
    producers: u32,
    /// Consumers beside it that received nothing.
    #[serde(skip_serializing_if = "is_zero")]
    idle: u32,
    /// Handled messages.
    messages: u64,
    /// From the producers' start until the last message was handled.
    seconds: f64,
    qps: f64,
    /// Processor time of the whole process.
    cpu_s: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

const RATE: Measure<Record> =
    Measure::new("rate", Unit::PerSecond("messages/s"), |it| Some(it.qps));
/// The Disruptor's runs have no idle consumers, so they do not stand beside failure and cure.
const RATE_BESIDE_IDLE: Measure<Record> =
    Measure::new("rate", Unit::PerSecond("messages/s"), |it| {
        (it.idle > 0).then_some(it.qps)
    });
const COST: Measure<Record> =
    Measure::new("processor time of a message", Unit::Nanoseconds, |it| {
        Some(it.cpu_s? * 1e9 / it.messages.max(1) as f64)
    });

impl Scene for RingArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "ring",
        title: "The ring",
        lead: "A bounded ring between producers and one consumer that waits in four ways.",
        original: "A Java actor framework, 2014, whose mailbox is a ring for each priority: through a ring of \
            1,024, one producer, 10 M messages, it took 468,863 messages a second blocking and 1,252,227 sleeping. A \
            second priority halved the first. Its fetcher then waited by spinning, with more such threads than \
            cores: idle, it used 60 % of a processor, and under load its threads kept each other from running.",
        legend: "the rings are the lanes of a mailbox, which takes any number of senders (a `Producer`, for one \
            sender, is faster); with several priorities: the round with the median ratio of the last rate to the first; \
            LMAX: the last of four rounds; the others let its compiler come to rest.",
    };
    const REPORT: Calls = Calls {
        about: "four ways of waiting for a bounded ring",
        seconds: 8,
        full: &[
            "--messages 4000000 --rounds 3",
            "--messages 50000 --priorities 1 --idle 8 --wait busyspin",
            "--messages 4000000 --priorities 1 --idle 8 --wait blocking",
        ],
        quick: &[
            "--messages 1000",
            "--messages 1000 --priorities 1 --idle 8 --wait busyspin",
            "--messages 1000 --priorities 1 --idle 8 --wait blocking",
        ],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("messages", Unit::Count, |it| Some(it.messages as f64)),
        Measure::new("elapsed", Unit::Seconds, |it| Some(it.seconds)),
        RATE,
        COST,
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: RATE,
            note: "By wait strategy, number of priorities, and idle consumers that wait in the same way.",
        },
        Chart {
            measure: COST,
            note: "Of all threads, while messages come as fast as possible.",
        },
    ];
    const PUBLISHED: &'static [Published<Record>] = &[Published {
        measure: RATE,
        source: "the original, Java, 2014",
        figure: of_original,
    }];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn peers(&self) -> PeerArgs {
        self.peers
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        Ok(self.plans())
    }

    fn play(&self, plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let (console, interrupt) = (stage.console, stage.interrupt);
        for of_wait in plans.chunk_by(|a, b| a.wait == b.wait) {
            let runs = median_round(of_wait, self.rounds(), console, interrupt)?;
            let is_sound = runs.iter().all(|run| run.failure.is_none());
            runs.into_iter().for_each(|run| stage.keep(run));
            if !is_sound || interrupt.has_come() {
                break;
            }
        }
        for plan in &plans {
            if let Some(title) = lmax::title(plan) {
                stage.beside(&title, |peers, interrupt| lmax::run(plan, peers, interrupt));
            }
        }
        Ok(())
    }

    /// More spinning threads than cores keep each other from running.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let find = |wait| {
            let mut found = runs.iter().filter(|it| it.failure.is_none());
            found.find(|it| it.record.wait == wait && it.record.idle > 0)
        };
        let (failure, cure) = (find(Wait::Busyspin)?, find(Wait::Blocking)?);
        let is_same_load = failure.record.idle == cure.record.idle
            && failure.record.priorities == cure.record.priorities;
        is_same_load.then_some(Contrast {
            measure: &RATE_BESIDE_IDLE,
            failure,
            cure,
        })
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let [failure, cure] = contrast.texts();
        format!(
            "Beside {}, a ring passes {failure} if all of them wait by spinning, and {cure} if they \
             wait on a lock.",
            counted(u64::from(contrast.failure.record.idle), "idle consumer")
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let sound = || runs.iter().filter(|it| it.failure.is_none());
        let with_two = |one: &Record| {
            sound().map(|it| &it.record).find(|it| {
                (it.priorities, it.wait, it.idle, it.ring) == (2, one.wait, one.idle, one.ring)
            })
        };
        let ones = sound().map(|it| &it.record).filter(|it| it.priorities == 1);
        let ratios: Vec<String> = ones
            .filter_map(|one| {
                let ratio = three_figures(with_two(one)?.qps / one.qps);
                Some(format!("{} {ratio}", one.wait.name()))
            })
            .collect();
        let mut remarks = Vec::new();
        if !ratios.is_empty() {
            let ratios = ratios.join(", ");
            remarks.push(format!(
                "rate with two priorities over the rate with one: {ratios}; in the original 0.50 (blocking) and 0.82 \
                 (sleeping)."
            ));
        }
        if !runs.is_empty() && sound().count() == runs.len() {
            let messages = runs.iter().map(|it| it.record.messages).sum();
            remarks.push(format!(
                "whole: {} messages came, each once, in the order of its producer and priority.",
                count(messages)
            ));
        }
        remarks
    }
}

/// Performs all plans in each round, and returns one round. The runs of a round follow each other, so they meet the machine
/// at the same speed. One plan: the round with the median rate. Several: the round with the median ratio of the last rate to
/// the first. A failed run ends its round, which is returned.
fn median_round(
    plans: &[Plan],
    rounds: u32,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Vec<Run<Record>>> {
    let mut done: Vec<Vec<Run<Record>>> = Vec::new();
    for _ in 0..rounds {
        let mut round = Vec::new();
        for plan in plans {
            if interrupt.has_come() {
                break;
            }
            round.push(run::run(plan, console, interrupt)?);
            if round.last().is_some_and(|run| run.failure.is_some()) {
                return Ok(round);
            }
        }
        if round.len() < plans.len() && !done.is_empty() {
            break;
        }
        done.push(round);
    }
    let order = |round: &Vec<Run<Record>>| match round.as_slice() {
        [first, .., last] => last.record.qps / first.record.qps,
        [only] => only.record.qps,
        [] => 0.0,
    };
    done.sort_by(|a, b| order(a).total_cmp(&order(b)));
    let middle = done.len().saturating_sub(1) / 2;
    Ok(done.into_iter().nth(middle).unwrap_or_default())
}

/// What the original measured, in messages a second: one producer, 10 M messages.
fn of_original(record: &Record) -> Option<String> {
    if (record.ring, record.producers, record.idle) != (RING_ORIGINAL, 1, 0) {
        return None;
    }
    let rate = match (record.wait, record.priorities) {
        (Wait::Blocking, 1) => 468_863,
        (Wait::Blocking, 2) => 232_398,
        (Wait::Sleeping, 1) => 1_252_227,
        (Wait::Sleeping, 2) => 1_023_022,
        _ => return None,
    };
    Some(format!("{} messages/s", count(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Side;

    fn run(wait: Wait, priorities: u32, idle: u32, qps: f64) -> Run<Record> {
        Run {
            title: format!("{} {priorities} {idle}", wait.name()),
            side: Side::Neither,
            record: Record {
                wait,
                priorities,
                ring: RING_ORIGINAL,
                producers: 1,
                idle,
                messages: 1_000_000,
                seconds: 1e6 / qps,
                qps,
                cpu_s: None,
            },
            parameters: String::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn two_priorities_are_compared_with_one_of_the_same_wait() {
        let runs = [
            run(Wait::Blocking, 1, 0, 1e6),
            run(Wait::Blocking, 2, 0, 5e5),
            run(Wait::Yielding, 1, 0, 2e6),
        ];
        let remarks = RingArgs::remarks(&runs);
        assert!(
            remarks[0].contains("one: blocking 0.500; in"),
            "{remarks:?}"
        );
        assert!(remarks[1].starts_with("whole: 3,000,000"), "{remarks:?}");
        let published = of_original(&runs[1].record);
        assert_eq!(published.as_deref(), Some("232,398 messages/s"));
    }

    #[test]
    fn a_lossy_run_is_neither_praised_nor_compared() {
        let mut spinning = run(Wait::Busyspin, 1, 8, 1e3);
        let blocking = run(Wait::Blocking, 1, 8, 1e6);
        assert!(RingArgs::contrast(&[spinning, blocking]).is_some());
        spinning = run(Wait::Busyspin, 1, 8, 1e3);
        spinning.failure = Some("1 missing".to_owned());
        let runs = [spinning, run(Wait::Blocking, 1, 8, 1e6)];
        assert!(RingArgs::contrast(&runs).is_none());
        assert_eq!(RingArgs::remarks(&runs), Vec::<String>::new());
    }
}
