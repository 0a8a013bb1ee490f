//! Records to disk: what is written, where, and how durable it has to be.
//!
//! ```text
//!   bulk     one producer appends records of 128 B (or 4 KiB); all are durable at the end, and on
//!            their way at least once in 8 MiB
//!   commit   1, 16 or 256 producers append one record each, wait until it is durable, and go on
//! ```
//!
//! All write below the same directory. *Fresh* files are new: their extents are reserved and not
//! written; *recycled* ones were written before.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::outcome::Outcome;

/// How a bulk of records is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub record_bytes: usize,
    pub files: Files,
    pub mode: Mode,
    pub seal: Seal,
    /// How many records one call appends.
    pub records_a_call: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    Fresh,
    Recycled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never synced.
    None,
    /// Synced every 50 ms.
    Interval,
    /// Each batch durable before it is acknowledged.
    Durable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    None,
    Blake3ByBatch,
    HmacSha256ByBatch,
    HmacSha256ByRecord,
}

/// What a work of the suite is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamWork {
    Bulk(Bulk),
    /// So many producers, each of which waits for its own record.
    Commit(usize),
    /// Sealing alone, in memory: HMAC-SHA256 a record.
    SealAlone,
}

impl Bulk {
    pub const fn durable() -> Self {
        Self {
            record_bytes: 128,
            files: Files::Fresh,
            mode: Mode::Durable,
            seal: Seal::None,
            records_a_call: 1,
        }
    }
}

/// The largest piece that is written and not yet synced, in bytes.
pub const PIECE_BYTES: usize = 8 << 20;

/// A directory that is removed in the end; on the disk of the checkout, not in memory.
pub fn room() -> Result<(TempDir, PathBuf)> {
    let program = std::env::current_exe().context("where this program is")?;
    let below = program.parent().context("a program is in a directory")?;
    let room = TempDir::with_prefix_in("streams-", below)?;
    let path = room.path().join("log");
    Ok((room, path))
}

/// The figures of a bulk.
pub fn bulk_outcome(records: u64, record_bytes: usize, time: Duration, cpu_s: f64) -> Outcome {
    let seconds = time.as_secs_f64();
    Outcome::measured(records, seconds)
        .with_field("qps", records as f64 / seconds)
        .with_field(
            "mb_per_s",
            records as f64 * record_bytes as f64 / 1e6 / seconds,
        )
        .with_field("cpu_s", cpu_s)
}

/// The figures of single commits: each producer's latencies.
pub fn commit_outcome(mut latencies: Vec<Duration>, time: Duration) -> Outcome {
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |share: f64| latencies[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    Outcome::measured(count as u64, time.as_secs_f64())
        .with_field("qps", count as f64 / time.as_secs_f64())
        .with_field("p50_us", at(0.5))
        .with_field("p99_us", at(0.99))
}

/// Runs `commit` on this many threads until each has made its share of `count`.
pub fn commits<C>(
    producers: usize,
    count: u64,
    mut producer: impl FnMut() -> Result<C>,
) -> Result<Outcome>
where
    C: FnMut(&[u8]) -> Result<()> + Send,
{
    let share = (count / producers as u64).max(1);
    let record = [7; 128];
    let mut each = Vec::new();
    for _ in 0..producers {
        each.push(producer()?);
    }
    let begun = Instant::now();
    let latencies: Result<Vec<Vec<Duration>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = each
            .into_iter()
            .map(|mut commit| {
                scope.spawn(move || -> Result<Vec<Duration>> {
                    let mut latencies = Vec::with_capacity(share as usize);
                    for _ in 0..share {
                        let begun = Instant::now();
                        commit(&record)?;
                        latencies.push(begun.elapsed());
                    }
                    Ok(latencies)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|ended| ended.expect("a producer does not panic"))
            .collect()
    });
    let time = begun.elapsed();
    Ok(commit_outcome(latencies?.concat(), time))
}
