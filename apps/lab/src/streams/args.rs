//! The scene's command line, and the runs it asks for.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    BufferSize, MasterKey, RECORD_BYTES_LIMIT, SyncMode,
    format::{ALIGNMENT, Algorithm, SealUnit},
};

use super::{
    message::{NUMBER_BYTES, Sizes},
    plan::{PlainRun, Plan},
    producer::ProducerKind,
};
use crate::{
    figures::mebibytes,
    outputs::OutputArgs,
    parse,
    peers::PeerArgs,
    stream::{KeyArgs, SealArgs},
    usage::Usage,
};

pub(crate) const MESSAGES_MAX: u64 = 1_000_000_000_000;
pub(crate) const WRITERS_MAX: i64 = 64;
pub(crate) const SIZE_MAX: usize = 16 << 20;
pub(crate) const MESSAGES_DEFAULT: u64 = 4_000_000;

/// How many messages the naive writer gets: each costs it a sync.
const MESSAGES_NAIVE: u64 = 2_000;

/// How many bytes of messages the writers with a plain file get: the original's keeps any number of them in memory.
const PLAIN_BYTES_MAX: u64 = 512 << 20;

const PRODUCERS_MAX: i64 = 64;

/// Knobs of `freeboard lab streams`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamsArgs {
    /// Streams side by side, each with producers of its own; of a list, as 1,2,4, each is a run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=WRITERS_MAX))]
    writers: Vec<u32>,

    /// Producers of each stream; of a list, each is a run. The order of each producer's messages is checked
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=PRODUCERS_MAX))]
    producers: Vec<u16>,

    /// What a producer is
    #[arg(long, value_enum, default_value_t)]
    producer: ProducerKind,

    /// Start with one stream, and add one of the others each SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    add_every: Option<Duration>,

    /// Bytes of a message, or a range as 64..8192, over which sizes are spread evenly; of a list, each is a run
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "128"
    )]
    size: Vec<Sizes>,

    /// Seed of the sizes of a range
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Messages of each run, of all writers together
    #[arg(long, value_name = "N", default_value_t = MESSAGES_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..=MESSAGES_MAX))]
    messages: u64,

    /// Bytes of a buffer, or auto: as much as the disk takes in a millisecond
    #[arg(long, value_name = "auto|BYTES", default_value_t = BufferSize::Auto, value_parser = buffer)]
    buffer: BufferSize,

    #[command(flatten)]
    seal: SealArgs,

    #[command(flatten)]
    key: KeyArgs,

    /// Print the original's line for each flush, in place of a line a second
    #[arg(long)]
    flushes: bool,

    /// Write below this directory; what is written is removed afterwards [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

fn buffer(text: &str) -> Result<BufferSize, String> {
    let size = text.parse()?;
    match size {
        BufferSize::Bytes(bytes) if !(ALIGNMENT..=RECORD_BYTES_LIMIT).contains(&bytes) => Err(
            format!("a buffer has {ALIGNMENT} to {RECORD_BYTES_LIMIT} bytes"),
        ),
        _ => Ok(size),
    }
}

impl StreamsArgs {
    /// One run, for the bench tool: size, messages, writers.
    pub(crate) fn single(
        path: &Path,
        is_json: bool,
        seal: SealArgs,
        key: KeyArgs,
        (size, messages, writers): (Sizes, u64, u32),
    ) -> Self {
        Self {
            writers: vec![writers],
            producers: vec![1],
            producer: ProducerKind::Thread,
            add_every: None,
            seed: 1,
            flushes: false,
            peers: PeerArgs { no_peers: true },
            size: vec![size],
            messages,
            buffer: BufferSize::Auto,
            seal: SealArgs {
                seal: Some(seal.seal.unwrap_or_default()),
                ..seal
            },
            key,
            dir: Some(path.to_owned()),
            outputs: OutputArgs::json_on_stdout(is_json),
        }
    }

    /// Whether the modes and seals are to be compared.
    fn is_comparison(&self) -> bool {
        let SealArgs {
            seal,
            seal_unit,
            sync,
        } = &self.seal;
        seal.is_none() && seal_unit.is_none() && sync.is_none()
    }

    /// The streams that are asked for.
    ///
    /// # Errors
    /// [`Usage`] if producers could not be told apart.
    pub(super) fn plans(&self) -> Result<Vec<Plan>> {
        let smallest = self.size.iter().map(|it| it.min).min();
        if smallest.is_some_and(|it| it < NUMBER_BYTES) && self.producers.iter().any(|it| *it > 1) {
            return Err(Usage::new(format!(
                "--size: messages of several producers have at least {NUMBER_BYTES} bytes, which name the producer"
            ))
            .into());
        }
        let interval: SyncMode = "interval:50".parse().expect("a mode");
        let (none, batch) = (Algorithm::None, SealUnit::Batch);
        let ways = if self.is_comparison() {
            vec![
                (none, batch, SyncMode::None),
                (none, batch, interval),
                (none, batch, SyncMode::Batch),
                (Algorithm::Blake3, batch, SyncMode::Batch),
                (Algorithm::HmacSha256, batch, SyncMode::Batch),
                (Algorithm::HmacSha256, SealUnit::Record, SyncMode::Batch),
            ]
        } else {
            vec![(
                self.seal.seal.unwrap_or_default(),
                self.seal.seal_unit.unwrap_or_default(),
                self.seal.sync.unwrap_or_default(),
            )]
        };
        let mut plans = Vec::new();
        for (seal, unit, sync) in ways {
            for &sizes in &self.size {
                for &writers in &self.writers {
                    plans.extend(self.producers.iter().map(|&producers| Plan {
                        writers,
                        producers,
                        producer: self.producer,
                        add_every: self.add_every,
                        sizes: self.seeded(sizes),
                        messages: self.messages,
                        buffer: self.buffer,
                        seal,
                        unit,
                        sync,
                        prints_flushes: self.flushes,
                    }));
                }
            }
        }
        Ok(plans)
    }

    const fn seeded(&self, sizes: Sizes) -> Sizes {
        Sizes {
            seed: self.seed,
            ..sizes
        }
    }

    /// The work of the original's writer and the naive one.
    pub(super) fn plain_runs(&self) -> Option<(PlainRun, PlainRun)> {
        let sizes = self.seeded(*self.size.first()?);
        let plain = |messages| PlainRun::new(sizes, messages, PLAIN_BYTES_MAX, self.flushes);
        let naive = self.messages.min(MESSAGES_NAIVE);
        self.is_comparison()
            .then(|| (plain(self.messages), plain(naive)))
    }

    /// The key: the one that was named, or one for this call alone, which is kept nowhere.
    pub(super) fn key(&self) -> Result<MasterKey> {
        let stream = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        if let Some(key) = self.key.key(&stream)? {
            return Ok(key);
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(std::fs::File::open("/dev/urandom")?, 32),
            &mut bytes,
        )
        .context("cannot draw a key")?;
        Ok(MasterKey::new(&bytes)?)
    }

    /// A new directory on a disk with enough space for the largest run.
    ///
    /// # Errors
    /// [`Usage`] if there is too little space, or the directory cannot be written.
    pub(super) fn directory(&self, plans: &[Plan]) -> Result<tempfile::TempDir> {
        let below = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let made = tempfile::Builder::new()
            .prefix("freeboard-streams-")
            .tempdir_in(&below);
        let directory = made.map_err(|error| {
            Usage::new(format!("cannot write below {}: {error}", below.display()))
        })?;
        let needed = plans.iter().map(Plan::disk_bytes).max().unwrap_or(0);
        if let Some(free) = free_bytes(directory.path())
            && free < needed
        {
            return Err(Usage::new(format!(
                "{} has {} free, and the largest run needs {}: fewer --messages, or another --dir",
                below.display(),
                mebibytes(free),
                mebibytes(needed)
            ))
            .into());
        }
        Ok(directory)
    }
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    space.f_bavail.checked_mul(space.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: StreamsArgs,
    }

    fn titles(line: &str) -> Vec<String> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        let plans = Line::parse_from(words).args.plans();
        plans.expect("plans").iter().map(Plan::title).collect()
    }

    #[test]
    fn sizes_and_writers_are_crossed() {
        assert_eq!(
            titles("--writers 1,2 --size 128,4096 --sync batch"),
            [
                "1 x 128 B, unsealed, sync batch",
                "2 x 128 B, unsealed, sync batch",
                "1 x 4096 B, unsealed, sync batch",
                "2 x 4096 B, unsealed, sync batch",
            ]
        );
        assert_eq!(
            titles("--seal hmac-sha512 --seal-unit record --sync interval:5"),
            ["1 x 128 B, hmac-sha512 by record, sync interval:5"]
        );
        assert_eq!(
            titles("--producers 1,4 --size 64..8192 --sync batch"),
            [
                "1 x 64..8192 B, unsealed, sync batch",
                "1 x 64..8192 B from 4 threads, unsealed, sync batch",
            ]
        );
        assert_eq!(titles("").len(), 6);
    }
}
