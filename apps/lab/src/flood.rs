//! The flood scene: a log server behind a flooded mailbox, and the dam that saves it.
//!
//! After an Erlang log server of 2019. Many senders tell lines to one actor. It writes each line to a
//! file and waits for the file's reply. A server that scans its mailbox for the reply walks past all
//! queued lines, and collapses when the queue is long.
//!
//! ```text
//!   sender ─┐                      ┌────────── sink ──▶ file
//!   sender ─┼──▶ (log_dam) ──▶ log_server ◀── reply: slot | mailbox
//!   sender ─┘
//! ```

mod actors;
mod args;
mod beam;
mod drain_watcher;
mod file_process;
mod file_sink;
mod knobs;
mod line;
mod lines;
mod log;
mod log_server;
mod log_sink;
mod monitor;
mod outcome;
mod pace;
mod plan;
mod plots;
mod record;
#[cfg(unix)]
mod remote;
mod run;
mod sender;
mod sink;
mod source;
mod stream_sink;
mod tally;
mod verify;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    figures::{Unit, count},
    interrupt::Interrupt,
    outputs::OutputArgs,
    peers::PeerArgs,
    scene::{self, About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
};
pub(crate) use args::FloodArgs;
use knobs::{DamRule, Receive, SinkKind};
use plan::Plan;
use record::RunRecord;
use sink::Sink;

/// Behind fewer lines the original's server was faster.
const QUEUED_LIKE_ORIGINAL: u64 = 900_000;
const LINES: Unit = Unit::PerSecond("lines/s");
const RATE: Measure<RunRecord> = Measure::new("drained", LINES, |it| Some(it.rate()));
const DEEP: Measure<RunRecord> = Measure::new("deep", LINES, |it| it.drain_rate_deep);

/// Plays the scene, or floods a running server.
pub(crate) fn flood(args: &FloodArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    #[cfg(unix)]
    if let Some(flood) = args.remote()? {
        return remote::flood(args, &flood, interrupt);
    }
    scene::show(args, interrupt)
}

impl Scene for FloodArgs {
    type Record = RunRecord;
    /// The first sink is open: one that cannot be opened is bad usage.
    type Prepared = (Vec<Plan>, Option<Sink>);

    const ABOUT: About = About {
        name: "flood",
        title: "The flood",
        lead: "A log server behind a flooded mailbox, and the dam that saves it.",
        original: "An Erlang log server, 2019: 100 senders told it 10,000 lines each, and it scanned its whole \
            mailbox for the reply to each write. Behind 999,200 queued lines it wrote 68 to 72 lines a second, with \
            one core at 100.9 %. A dam in front of it kept its queue at 9,223 to 9,784 lines, but polled and slept \
            instead of being told, and drained about 7,550 lines a second.",
        legend: "drained: from the first send to the last write, the time included in which a held flood is queued; deep: while more than 90 % of the flood was queued; shallow: less than 1 %; deep / shallow only where \
            all lines were queued first, because senders take part of the cores; longest: the queue's peak; processor: of senders and server, 100 % is \
            one core.",
    };
    const REPORT: Calls = Calls {
        about: "a log server behind a flooded mailbox, and the dam that saves it",
        seconds: 25,
        full: &[""],
        quick: &["--senders 10 --messages 200"],
    };
    const MEASURES: &'static [Measure<RunRecord>] = &[
        Measure::new("lines written", Unit::Count, |it| Some(it.written as f64)),
        Measure::new("lines left", Unit::Count, |it| Some(it.shed as f64)),
        Measure::new("elapsed", Unit::Seconds, |it| Some(it.seconds)),
        RATE,
        DEEP,
        Measure::new("shallow", LINES, |it| it.drain_rate_shallow),
        Measure::new("deep / shallow", Unit::Ratio, |it| {
            let ratio = it.drain_rate_deep? / it.drain_rate_shallow?;
            it.is_held.then_some(ratio)
        }),
        Measure::new("longest, dam", Unit::Count, |it| {
            it.dam.map(|_| it.peak_queue.dam as f64)
        }),
        Measure::new("longest, server", Unit::Count, |it| {
            Some(it.peak_queue.server as f64)
        }),
        Measure::new("processor", Unit::Percent, |it| {
            Some(100.0 * it.cpu_s? / it.seconds.max(1e-9))
        }),
        Measure::new("memory, peak", Unit::Mebibytes, |it| {
            Some(it.rss_peak_bytes? as f64 / f64::from(1 << 20))
        }),
    ];
    const CHARTS: &'static [Chart<RunRecord>] = &[Chart {
        measure: RATE,
        note: "From the first send to the last write.",
    }];
    const PUBLISHED: &'static [Published<RunRecord>] = &[
        Published {
            measure: DEEP,
            source: "the original, Erlang, 2019",
            figure: |it| {
                let is_like = matches!(it.sink, SinkKind::Raw | SinkKind::Buffered)
                    && it.drain_rate_deep.is_some()
                    && it.accepted >= QUEUED_LIKE_ORIGINAL;
                (is_like && it.dam.is_none() && it.receive == Receive::Scan)
                    .then(|| "68 to 72 lines/s behind 999,200 lines".to_owned())
            },
        },
        Published {
            measure: RATE,
            source: "the original's dam, Erlang, 2019",
            figure: |it| {
                matches!(it.dam, Some(DamRule::Poll { .. }))
                    .then(|| "about 7,550 lines/s".to_owned())
            },
        },
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn peers(&self) -> PeerArgs {
        self.peers
    }

    fn prepare(&self) -> Result<(Vec<Plan>, Option<Sink>)> {
        let plans = self.plans()?;
        let sink = plans.first().map(Plan::open_sink).transpose()?;
        Ok((plans, sink.flatten()))
    }

    fn play(
        &self,
        (plans, mut first): (Vec<Plan>, Option<Sink>),
        stage: &mut Stage<'_, RunRecord>,
    ) -> Result<()> {
        for plan in &plans {
            let sink = match first.take() {
                Some(sink) => Some(sink),
                None => plan.open_sink()?,
            };
            if !stage.run(|console, interrupt| run::run(plan, sink, console, interrupt))? {
                break;
            }
        }
        for plan in &plans {
            if let Some(title) = beam::title(plan) {
                stage.beside(&title, |peers, interrupt| beam::run(plan, peers, interrupt));
            }
        }
        Ok(())
    }

    /// A server that scans, behind the flood and behind a dam with credit; else a scan against a slot for each reply.
    fn contrast(runs: &[Run<RunRecord>]) -> Option<Contrast<'_, RunRecord>> {
        let direct = |receive| {
            let mut found = runs
                .iter()
                .filter(|it| it.record.dam.is_none() && it.record.sink != SinkKind::None);
            found.find(|it| it.record.receive == receive)
        };
        let mut dams = runs.iter().filter(|it| it.record.receive == Receive::Scan);
        let dam = dams.find(|it| matches!(it.record.dam, Some(DamRule::Credit { .. })));
        let failure = direct(Receive::Scan)?;
        // The trials write to different sinks.
        let indexed = direct(Receive::Indexed).filter(|it| it.record.sink == failure.record.sink);
        match (dam, indexed) {
            (Some(cure), _) => Some(Contrast {
                measure: &RATE,
                failure,
                cure,
            }),
            (None, cure) => Some(Contrast {
                measure: &DEEP,
                failure,
                cure: cure?,
            }),
        }
    }

    fn claim(contrast: &Contrast<'_, RunRecord>) -> String {
        let [failure, cure] = contrast.texts();
        let queued = count(contrast.failure.record.accepted);
        let cured = match contrast.cure.record.dam {
            Some(_) => "behind a dam that gives it credit",
            None => "when each reply has a slot of its own",
        };
        format!(
            "With {queued} lines queued, a log server writes {failure} if it searches its mailbox for each reply, and \
             {cure} {cured}."
        )
    }

    fn remarks(runs: &[Run<RunRecord>]) -> Vec<String> {
        runs.iter()
            .flat_map(|it| it.record.remarks.clone())
            .collect()
    }
}
