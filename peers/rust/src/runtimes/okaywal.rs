//! okaywal: a write-ahead log in segments, each entry synced when it is committed; commits that meet
//! are synced together.

use std::time::Instant;

use anyhow::Result;
use okaywal::{Configuration, LogVoid, WriteAheadLog};

use crate::{
    cpu_time,
    outcome::Outcome,
    streams::{self, Bulk, Mode, PIECE_BYTES, Seal, StreamWork},
};

pub fn run(work: StreamWork, count: u64) -> Result<Outcome> {
    match work {
        StreamWork::Bulk(plan) if plan.seal == Seal::None && plan.mode == Mode::Durable => {
            bulk(plan, count)
        }
        StreamWork::Commit(producers) => commit(producers, count),
        _ => Ok(Outcome::Skipped("it seals nothing, and always syncs")),
    }
}

fn bulk(plan: Bulk, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let log = Configuration::default_for(&path).open(LogVoid)?;
    let record = vec![7; plan.record_bytes];
    let an_entry = (PIECE_BYTES / plan.record_bytes) as u64;
    let (begun, cpu_s) = (Instant::now(), cpu_time::used().as_secs_f64());
    let mut left = count;
    while left > 0 {
        let mut entry = log.begin_entry()?;
        for _ in 0..left.min(an_entry) {
            entry.write_chunk(&record)?;
        }
        entry.commit()?;
        left -= left.min(an_entry);
    }
    let time = begun.elapsed();
    let cpu_s = cpu_time::used().as_secs_f64() - cpu_s;
    log.shutdown()?;
    Ok(streams::bulk_outcome(count, plan.record_bytes, time, cpu_s))
}

fn commit(producers: usize, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let log: WriteAheadLog = Configuration::default_for(&path).open(LogVoid)?;
    streams::commits(producers, count, || {
        let log = log.clone();
        Ok(move |record: &[u8]| {
            let mut entry = log.begin_entry()?;
            entry.write_chunk(record)?;
            entry.commit()?;
            Ok(())
        })
    })
}
