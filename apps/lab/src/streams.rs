//! The streams scene: as many small messages to disk as the machine can take.
//!
//! After an Erlang stream writer of 2013, without its defects: the message that triggers a flush is kept, records are
//! framed and in order, and each rate says whether messages were accepted or synced.
//!
//! ```text
//!   writer 1 ──▶ stream 1 ──┐
//!   writer 2 ──▶ stream 2 ──┼──▶ one directory       then: read back, compared, verified
//!   ...                     ┘
//! ```

mod args;
mod message;
mod naive;
mod plan;
mod read_back;
mod run;

use anyhow::Result;
use freeboard::stream::MasterKey;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    figures::{Unit, count, three_figures},
    file_system::FileSystem,
    findings,
    outputs::OutputArgs,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    section::Side,
};
pub(crate) use args::{MESSAGES_DEFAULT, MESSAGES_MAX, SIZE_MAX, StreamsArgs, WRITERS_MAX};
use naive::Naive;
use plan::Plan;

/// The runs, and what they share.
#[derive(Debug)]
pub(crate) struct Prepared {
    plans: Vec<Plan>,
    directory: TempDir,
    key: MasterKey,
}

/// What one run measured.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Record {
    Streams(Box<Streams>),
    Naive(Naive),
}

/// One run of streams.
#[derive(Debug, Serialize)]
pub(crate) struct Streams {
    writers: u32,
    size: usize,
    seal: &'static str,
    seal_unit: &'static str,
    sync: String,
    buffer: String,
    messages: u64,
    /// Until all were synced in their mode.
    seconds: f64,
    accepted_per_s: f64,
    written_per_s: f64,
    durable_per_s: f64,
    mb_per_s: f64,
    flush_bytes: u64,
    flushes: u64,
    disk_bytes: u64,
    direct: Option<bool>,
    ack_us: Acknowledge,
    cpu_s: Option<f64>,
    verified: bool,
    verify_s: f64,
    #[serde(skip)]
    file_system: Option<FileSystem>,
}

/// Microseconds from a buffer's first message until it was synced.
#[derive(Debug, Serialize)]
struct Acknowledge {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Record {
    fn streams(&self) -> Option<&Streams> {
        match self {
            Self::Streams(streams) => Some(streams),
            Self::Naive(_) => None,
        }
    }

    /// Messages a second, until synced.
    fn rate(&self) -> f64 {
        match self {
            Self::Streams(it) => it.durable_per_s,
            Self::Naive(it) => it.durable_per_s,
        }
    }
}

impl Streams {
    fn is_sealed(&self) -> bool {
        self.seal != "none"
    }
}

const RATE: Measure<Record> = Measure::new("synced", Unit::PerSecond("messages/s"), |it| {
    Some(it.rate())
});
const MEGABYTES: Measure<Record> = Measure::new("payload synced", Unit::PerSecond("MB/s"), |it| {
    Some(it.streams()?.mb_per_s)
});
const ACCEPTED: Measure<Record> = Measure::new("accepted", Unit::PerSecond("messages/s"), |it| {
    Some(it.streams()?.accepted_per_s)
});
const ACKNOWLEDGED: Measure<Record> = Measure::new("until synced, p99", Unit::Microseconds, |it| {
    Some(it.streams()?.ack_us.p99)
});

impl Scene for StreamsArgs {
    type Record = Record;
    type Prepared = Prepared;

    const ABOUT: About = About {
        name: "streams",
        title: "Streams",
        lead: "As many small messages to disk as the machine can take: sealed, durable streams.",
        original: "An Erlang stream writer, 2013: 231,941 messages of 128 B a second accumulated, 200 MB/s flushed. \
            But the message that triggered a flush was lost, blocks were written with the newest message first, and \
            asynchronous blocks overtook each other. Nothing was framed or synced, the last buffer was never \
            flushed, and the printed rate was that of accumulating, not the disk's. A safe writer that syncs each \
            message is slow.",
        legend: "synced: until the last message was synced in its mode; none and interval hand messages to the \
            system and do not wait for the disk. Until synced: from a buffer's first message, while the writers append \
            as fast as they can; most of it is queueing.",
    };
    const REPORT: Calls = Calls {
        about: "many small messages to disk: durable, sealed, in order",
        seconds: 15,
        full: &["--messages 1000000"],
        quick: &["--messages 500"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("messages", Unit::Count, |it| {
            Some(match it {
                Record::Streams(it) => it.messages,
                Record::Naive(it) => it.messages,
            } as f64)
        }),
        ACCEPTED,
        RATE,
        MEGABYTES,
        Measure::new("flush", Unit::Kibibytes, |it| {
            Some(it.streams()?.flush_bytes as f64 / 1024.0)
        }),
        Measure::new("until synced, p50", Unit::Microseconds, |it| {
            Some(it.streams()?.ack_us.p50)
        }),
        ACKNOWLEDGED,
        Measure::new("max", Unit::Microseconds, |it| {
            Some(it.streams()?.ack_us.max)
        }),
        Measure::new("processor time", Unit::Seconds, |it| it.streams()?.cpu_s),
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: RATE,
            note: "Modes none and interval hand messages over; batch and naive wait for the sync.",
        },
        Chart {
            measure: MEGABYTES,
            note: "Until the last message was synced in its mode.",
        },
        Chart {
            measure: ACKNOWLEDGED,
            note: "Of each buffer's first message, while writers append as fast as they can: mostly queueing.",
        },
    ];
    const PUBLISHED: &'static [Published<Record>] = &[
        Published {
            measure: ACCEPTED,
            source: "the original, Erlang, a laptop of 2013",
            figure: |it| {
                is_plain_batch(it).then(|| "231,941 messages/s of 128 B, not synced".to_owned())
            },
        },
        Published {
            measure: MEGABYTES,
            source: "the original, Erlang, a laptop of 2013",
            figure: |it| is_plain_batch(it).then(|| "200 MB/s, not synced".to_owned()),
        },
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn prepare(&self) -> Result<Prepared> {
        let plans = self.plans();
        Ok(Prepared {
            directory: self.directory(&plans)?,
            key: self.key()?,
            plans,
        })
    }

    fn play(&self, prepared: Prepared, stage: &mut Stage<'_, Record>) -> Result<()> {
        let Prepared {
            plans,
            directory,
            key,
        } = prepared;
        if let Some(warning) = warning(FileSystem::of(directory.path())) {
            stage.console.line(&warning);
        }
        for plan in &plans {
            let goes_on = stage.run(|console, interrupt| {
                run::run(plan, directory.path(), &key, console, interrupt)
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        if let Some(messages) = self.naive() {
            stage.run(|console, _| naive::run(directory.path(), messages, console))?;
        }
        Ok(())
    }

    fn document(&self, runs: &[Run<Record>]) -> Result<Value> {
        let (streams, naive): (Vec<_>, Vec<_>) =
            runs.iter().partition(|it| it.record.streams().is_some());
        let streams: Result<Vec<Value>> = streams
            .into_iter()
            .map(|it| findings::json(&it.record))
            .collect();
        let mut document = json!({
            "scene": "streams",
            "file_system": file_system(runs).map(FileSystem::name),
            "runs": streams?,
        });
        if let Some(naive) = naive.first() {
            document["naive"] = findings::json(&naive.record)?;
        }
        Ok(document)
    }

    /// Without a disk a naive writer does not wait for one.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let is_in_memory = file_system(runs).is_some_and(FileSystem::is_in_memory);
        let failure = runs.iter().find(|it| it.side == Side::Failure)?;
        (!is_in_memory).then_some(Contrast {
            measure: &RATE,
            failure,
            cure: best_synced(runs, false)?,
        })
    }

    fn environment(runs: &[Run<Record>]) -> Vec<(&'static str, String)> {
        let found = file_system(runs).map(|it| ("file system", it.text()));
        found.into_iter().collect()
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let [failure, cure] = contrast.texts();
        format!(
            "One write and one sync for each message make {failure} durable, and group commit makes {cure} durable."
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let mut remarks = Vec::from_iter(warning(file_system(runs)));
        if let (Some(best), Some(sealed)) = (best_synced(runs, false), best_synced(runs, true)) {
            remarks.push(format!(
                "{}: {} of the unsealed rate.",
                sealed.title,
                three_figures(sealed.record.rate() / best.record.rate())
            ));
        }
        let streams = || runs.iter().filter_map(|it| it.record.streams());
        if streams().any(|it| it.sync == "batch" && it.direct == Some(false)) {
            remarks.push(
                "This file system has no direct I/O: each batch went through the page cache and was synced."
                    .to_owned(),
            );
        }
        if streams().next().is_some() && runs.iter().all(|it| it.failure.is_none()) {
            let messages = streams().map(|it| it.messages).sum();
            remarks.push(format!(
                "whole: {} messages were read back, each once, in order, with the bytes they were written with, and \
                 every byte of the files was verified.",
                count(messages)
            ));
        }
        remarks
    }
}

/// Where the messages were written.
fn file_system(runs: &[Run<Record>]) -> Option<FileSystem> {
    runs.iter().find_map(|it| match &it.record {
        Record::Streams(it) => it.file_system,
        Record::Naive(it) => it.file_system,
    })
}

/// Whether messages outlast the power, if they do not.
fn warning(file_system: Option<FileSystem>) -> Option<String> {
    let file_system = file_system.filter(|it| it.is_in_memory())?;
    let name = file_system.name();
    Some(format!(
        "Nothing here is durable: {name} keeps its files in memory."
    ))
}

/// The sound run in mode batch with the best rate, of those that are sealed or of those that are not.
fn best_synced(runs: &[Run<Record>], is_sealed: bool) -> Option<&Run<Record>> {
    let found = runs.iter().filter(|run| {
        let streams = run.record.streams();
        run.failure.is_none()
            && streams.is_some_and(|it| it.sync == "batch" && it.is_sealed() == is_sealed)
    });
    found.max_by(|a, b| a.record.rate().total_cmp(&b.record.rate()))
}

fn is_plain_batch(record: &Record) -> bool {
    let streams = record.streams();
    streams.is_some_and(|it| it.sync == "batch" && !it.is_sealed() && it.size == 128)
}
