//! The streams scene: as many small messages to disk as the machine can take.
//!
//! After an Erlang stream writer of 2013. Its defects are shown by a writer that has them: it drops the message that
//! triggers a flush, writes blocks newest first and side by side, and never writes its last block. The streams keep all
//! messages in order, and each rate says whether messages were accepted or synced.
//!
//! ```text
//!   producers ──▶ stream 1 ──┐
//!   producers ──▶ stream 2 ──┼──▶ one directory       then: read back, compared, verified
//!   ...                      ┘
//! ```

mod args;
mod beam;
mod message;
mod naive;
mod order;
mod original;
mod plan;
mod producer;
mod read_back;
mod run;

use anyhow::Result;
use freeboard::stream::MasterKey;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    figures::{Unit, count, three_figures, times},
    file_system::FileSystem,
    findings,
    outputs::OutputArgs,
    peers::PeerArgs,
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
};
use args::SIZE_MAX;
pub(crate) use args::{MESSAGES_DEFAULT, MESSAGES_MAX, StreamsArgs, WRITERS_MAX};
use beam::DiskLog;
pub(crate) use message::Sizes;
use naive::Naive;
use order::Found;
use original::Original;
use plan::{PlainRun, Plan};

/// The runs, and what they share.
#[derive(Debug)]
pub(crate) struct Prepared {
    plans: Vec<Plan>,
    plain: Option<(PlainRun, PlainRun)>,
    directory: TempDir,
    key: MasterKey,
}

/// What one run measured.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Record {
    Streams(Box<Streams>),
    Naive(Naive),
    Original(Original),
    DiskLog(DiskLog),
}

/// One run of streams.
#[derive(Debug, Serialize)]
pub(crate) struct Streams {
    writers: u32,
    producers: u16,
    producer: String,
    /// Bytes of a message; of a range, the mean.
    size: usize,
    size_min: usize,
    size_max: usize,
    seed: Option<u64>,
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
    #[serde(flatten)]
    found: Found,
    streams: Vec<Share>,
    verified: bool,
    verify_s: f64,
    #[serde(skip)]
    file_system: Option<FileSystem>,
}

/// What one of the streams has taken.
#[derive(Debug, Serialize)]
struct Share {
    messages: u64,
    /// From its start until all was synced in its mode.
    seconds: f64,
    mb_per_s: f64,
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
            Self::Naive(_) | Self::Original(_) | Self::DiskLog(_) => None,
        }
    }

    /// Messages a second, until synced; the original's writer never syncs.
    fn rate(&self) -> Option<f64> {
        match self {
            Self::Streams(it) => Some(it.durable_per_s),
            Self::Naive(it) => Some(it.durable_per_s),
            Self::DiskLog(it) => Some(it.durable_per_s),
            Self::Original(_) => None,
        }
    }

    fn found(&self) -> Found {
        match self {
            Self::Streams(it) => it.found,
            Self::Naive(it) => it.found,
            Self::Original(it) => it.found,
            Self::DiskLog(it) => it.found,
        }
    }
}

impl Streams {
    fn is_sealed(&self) -> bool {
        self.seal != "none"
    }

    /// Whether each message is waited for by a sync, and is not sealed.
    fn is_plain_batch(&self) -> bool {
        self.sync == "batch" && !self.is_sealed()
    }

    /// Whether the producers of each stream append the same.
    fn is_like(&self, other: &Self) -> bool {
        let work = |it: &Self| (it.producers, it.size_min, it.size_max);
        work(self) == work(other) && self.producer == other.producer
    }
}

const WRONG: Measure<Record> = Measure::new(
    "read back",
    Unit::CountOf("messages lost or out of order"),
    |it| match it {
        // Of the peers' runs, the headline shows those that are most like the cure.
        Record::DiskLog(it) if !it.is_plain() => None,
        it => Some(it.found().wrong() as f64),
    },
);
const RATE: Measure<Record> = Measure::new("synced", Unit::PerSecond("messages/s"), Record::rate);
const MEGABYTES: Measure<Record> =
    Measure::new("payload synced", Unit::PerSecond("MB/s"), |it| match it {
        Record::Streams(it) => Some(it.mb_per_s),
        Record::DiskLog(it) => Some(it.mb_per_s),
        Record::Naive(_) | Record::Original(_) => None,
    });
const ACCEPTED: Measure<Record> =
    Measure::new("accepted", Unit::PerSecond("messages/s"), |it| match it {
        Record::Streams(it) => Some(it.accepted_per_s),
        Record::Original(it) => Some(it.accepted_per_s),
        Record::Naive(_) | Record::DiskLog(_) => None,
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
            flushed, and the printed rate was that of accumulating, not the disk's. One stream wrote 185 and 182 MB/s, \
            two 144 to 171 MB/s each, four as much in total as two. A safe writer that syncs each message is slow.",
        legend: "lost: not found when the files were read again; out of order: found after a later message of the same \
            producer. synced: until the last message was synced in its mode; none and interval hand messages to the \
            system and do not wait for the disk. Until synced: from a buffer's first message, while the writers append \
            as fast as they can; most of it is queueing.",
    };
    const REPORT: Calls = Calls {
        about: "many small messages to disk: durable, sealed, in order",
        seconds: 20,
        full: &[
            "--messages 1000000",
            "--writers 1,2,4 --size 8192 --messages 50000 --sync batch",
            "--producers 4 --size 64..1024 --messages 500000 --sync batch",
        ],
        quick: &[
            "--messages 500",
            "--writers 1,2,4 --producers 2 --size 64..1024 --messages 500 --sync batch",
        ],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        Measure::new("messages", Unit::Count, |it| {
            Some(match it {
                Record::Streams(it) => it.messages,
                Record::Naive(it) => it.messages,
                Record::Original(it) => it.messages,
                Record::DiskLog(it) => it.messages,
            } as f64)
        }),
        Measure::new("lost", Unit::Count, |it| Some(it.found().lost as f64)),
        Measure::new("out of order", Unit::Count, |it| {
            Some(it.found().inverted as f64)
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
        Measure::new("processor time", Unit::Seconds, |it| match it {
            Record::Streams(it) => it.cpu_s,
            Record::DiskLog(it) => Some(it.cpu_s),
            Record::Naive(_) | Record::Original(_) => None,
        }),
    ];
    const CHARTS: &'static [Chart<Record>] = &[
        Chart {
            measure: WRONG,
            note: "Messages lost or out of order; the same code counts them for the original's writer and for ours.",
        },
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
                let is_same = match it {
                    Record::Streams(it) => it.is_plain_batch() && it.size == 128,
                    Record::Original(it) => it.size == 128,
                    Record::Naive(_) | Record::DiskLog(_) => false,
                };
                is_same.then(|| "231,941 messages/s of 128 B, not synced".to_owned())
            },
        },
        Published {
            measure: MEGABYTES,
            source: "the original, Erlang, a laptop of 2013",
            figure: |it| {
                let streams = it.streams().filter(|it| it.is_plain_batch())?;
                let figure = match (streams.size, streams.writers) {
                    (8_192, 1) => "185 and 182 MB/s, about 8 KB, not synced",
                    (8_192, 2) => "144 to 171 MB/s each, not synced",
                    (8_192, 4) => "in total as much as two, not synced",
                    _ => return None,
                };
                Some(figure.to_owned())
            },
        },
    ];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn peers(&self) -> PeerArgs {
        self.peers
    }

    fn prepare(&self) -> Result<Prepared> {
        let plans = self.plans()?;
        Ok(Prepared {
            directory: self.directory(&plans)?,
            plain: self.plain_runs(),
            key: self.key()?,
            plans,
        })
    }

    fn play(&self, prepared: Prepared, stage: &mut Stage<'_, Record>) -> Result<()> {
        let Prepared {
            plans,
            plain,
            directory,
            key,
        } = prepared;
        // A Ctrl-C ends a run, and never the process while its files are there.
        let _listening = stage.interrupt.listen(|| {});
        if let Some(warning) = warning(FileSystem::of(directory.path())) {
            stage.console.line(&warning);
        }
        if let Some((original, _)) = &plain
            && !stage.run(|console, interrupt| {
                original::run(original, directory.path(), console, interrupt)
            })?
        {
            return Ok(());
        }
        let goes_on = stage.run_each(&plans, |plan, console, interrupt| {
            run::run(plan, directory.path(), &key, console, interrupt)
        })?;
        if !goes_on {
            return Ok(());
        }
        if let Some((_, naive)) = &plain {
            stage.run(|console, interrupt| {
                naive::run(naive, directory.path(), console, interrupt)
            })?;
        }
        for plan in &plans {
            for &records in beam::records_a_call(plan) {
                stage.beside(beam::NAME, |peers, interrupt| {
                    beam::run(plan, records, directory.path(), peers, interrupt)
                });
            }
        }
        Ok(())
    }

    fn document(&self, runs: &[Run<Record>]) -> Result<Value> {
        let streams = runs.iter().filter(|it| it.record.streams().is_some());
        let streams: Result<Vec<Value>> = streams.map(|it| findings::json(&it.record)).collect();
        let mut document = json!({
            "scene": "streams",
            "file_system": file_system(runs).map(FileSystem::name),
            "runs": streams?,
        });
        for run in runs {
            match &run.record {
                Record::Streams(_) | Record::DiskLog(_) => {}
                Record::Naive(naive) => document["naive"] = findings::json(naive)?,
                Record::Original(original) => document["original"] = findings::json(original)?,
            }
        }
        Ok(document)
    }

    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let is_original = |it: &&Run<_>| matches!(it.record, Record::Original(_));
        Some(Contrast {
            measure: &WRONG,
            failure: runs.iter().find(is_original)?,
            cure: plain_batch(runs)?,
        })
    }

    fn environment(runs: &[Run<Record>]) -> Vec<(&'static str, String)> {
        let found = file_system(runs).map(|it| ("file system", it.text()));
        found.into_iter().collect()
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let found = contrast.failure.record.found();
        let synced = contrast.cure.record.rate().unwrap_or_default();
        let text = |count: u64| three_figures(count as f64);
        format!(
            "Of {} messages, a writer like the original's loses {} and stores {} out of order. A stream loses none, keeps \
             their order, and syncs {} messages/s.",
            text(found.read + found.lost),
            text(found.lost),
            text(found.inverted),
            three_figures(synced)
        )
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let mut remarks = Vec::from_iter(warning(file_system(runs)));
        let sound = runs.iter().filter(|it| it.failure.is_none());
        remarks.extend(sound.filter_map(|run| match &run.record {
            Record::Original(original) => Some(original_remark(original)),
            Record::Naive(naive) => naive_remark(naive, plain_batch(runs)?),
            Record::Streams(_) | Record::DiskLog(_) => None,
        }));
        remarks.extend(seal_remark(runs));
        remarks.extend(writers_remark(runs));
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
        Record::Original(it) => it.file_system,
        Record::DiskLog(_) => None,
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

/// The first sound run in mode batch without a seal.
fn plain_batch(runs: &[Run<Record>]) -> Option<&Run<Record>> {
    runs.iter().find(|run| {
        let streams = run.record.streams();
        run.failure.is_none() && streams.is_some_and(Streams::is_plain_batch)
    })
}

fn original_remark(original: &Original) -> String {
    let Found {
        read,
        lost,
        inverted,
        ..
    } = original.found;
    // Of blocks that do not overlap, all messages but the newest come after a later one.
    let overtaking = match inverted + original.flushes > read {
        true => ", and several blocks were written at the same time",
        false => "",
    };
    format!(
        "The original's writer accepted {} messages and lost {}: the {} that triggered a flush, and those that waited \
         for the next flush at the end. {} came back out of order: blocks are written newest first{overtaking}.",
        count(original.messages),
        count(lost),
        count(original.flushes),
        count(inverted)
    )
}

/// Without a disk a writer does not wait for one.
fn naive_remark(naive: &Naive, ours: &Run<Record>) -> Option<String> {
    let ours = ours.record.streams()?;
    let is_in_memory = naive.file_system.is_some_and(FileSystem::is_in_memory);
    let is_faster = ours.durable_per_s > naive.durable_per_s;
    (is_faster && !is_in_memory).then(|| {
        format!(
            "A writer that syncs each message loses nothing, at {} messages/s. Mode batch syncs {} messages/s, because \
             messages that come during a write are written together: {}.",
            three_figures(naive.durable_per_s),
            three_figures(ours.durable_per_s),
            times(ours.durable_per_s / naive.durable_per_s)
        )
    })
}

/// The best sealed run against the same one without a seal.
fn seal_remark(runs: &[Run<Record>]) -> Option<String> {
    let sound = runs.iter().filter(|it| it.failure.is_none());
    let batch = sound.filter_map(|run| Some((run, run.record.streams()?)));
    let batch = batch.filter(|(_, it)| it.sync == "batch");
    let rate = |it: &Streams| it.durable_per_s;
    let sealed = batch.clone().filter(|(_, it)| it.is_sealed());
    let (run, sealed) = sealed.max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)))?;
    let mut plain = batch
        .filter(|(_, it)| !it.is_sealed() && it.is_like(sealed) && it.writers == sealed.writers);
    let (_, plain) = plain.next()?;
    Some(format!(
        "{}: {} of the unsealed rate.",
        run.title,
        three_figures(rate(sealed) / rate(plain))
    ))
}

/// Streams side by side.
fn writers_remark(runs: &[Run<Record>]) -> Option<String> {
    let streams = runs.iter().filter_map(|it| it.record.streams());
    let plain: Vec<&Streams> = streams.filter(|it| it.is_plain_batch()).collect();
    let alike = |one: &Streams| -> Vec<&Streams> {
        let alike = plain.iter().copied();
        alike.filter(|it| it.is_like(one)).collect()
    };
    let several = plain.iter().map(|it| alike(it)).find(|it| it.len() > 1)?;
    let parts = several.iter().map(|it| {
        let name = if it.writers == 1 { "stream" } else { "streams" };
        format!("{} {name} {} MB/s", it.writers, three_figures(it.mb_per_s))
    });
    let parts: Vec<String> = parts.collect();
    Some(format!(
        "Synced in total, messages of {} B: {}.",
        count(several.first()?.size as u64),
        parts.join(", ")
    ))
}
