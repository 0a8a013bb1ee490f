//! The scene's command line, and the runs it asks for.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    BufferSize, MasterKey, RECORD_BYTES_LIMIT, SyncMode,
    format::{ALIGNMENT, Algorithm, SealUnit},
};

use super::plan::Plan;
use crate::{
    figures::mebibytes,
    outputs::OutputArgs,
    stream::{KeyArgs, SealArgs},
    usage::Usage,
};

pub(crate) const MESSAGES_MAX: u64 = 1_000_000_000_000;
pub(crate) const WRITERS_MAX: i64 = 64;
pub(crate) const SIZE_MAX: u64 = 16 << 20;
pub(crate) const MESSAGES_DEFAULT: u64 = 4_000_000;

/// How many messages the naive writer gets: each costs it a sync.
const MESSAGES_NAIVE: u64 = 2_000;

/// Knobs of `freeboard lab streams`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamsArgs {
    /// Streams side by side, each with a thread of its own; of a list, as 1,2,4, each is a run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=WRITERS_MAX))]
    writers: Vec<u32>,

    /// Bytes of a message; of a list, each is a run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "128",
          value_parser = clap::value_parser!(u64).range(1..=SIZE_MAX))]
    size: Vec<u64>,

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

    /// Write below this directory; what is written is removed afterwards [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

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
        (size, messages, writers): (u64, u64, u32),
    ) -> Self {
        Self {
            writers: vec![writers],
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

    /// The runs that are asked for.
    pub(super) fn plans(&self) -> Vec<Plan> {
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
            for &size in &self.size {
                for &writers in &self.writers {
                    plans.push(Plan {
                        writers,
                        size: size as usize,
                        messages: self.messages,
                        buffer: self.buffer,
                        seal,
                        unit,
                        sync,
                    });
                }
            }
        }
        plans
    }

    /// How many messages a naive writer is to write beside them.
    pub(super) fn naive(&self) -> Option<u64> {
        self.is_comparison()
            .then_some(self.messages.min(MESSAGES_NAIVE))
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
        plans.iter().map(Plan::title).collect()
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
        assert_eq!(titles("").len(), 6);
    }
}
