//! The simplest baseline: a buffered file behind a mutex, and `fdatasync`.

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    cpu_time,
    outcome::Outcome,
    streams::{self, Bulk, Mode, PIECE_BYTES, Seal, StreamWork},
};

const INTERVAL: Duration = Duration::from_millis(50);

pub fn run(work: StreamWork, count: u64) -> Result<Outcome> {
    match work {
        StreamWork::Bulk(plan) if plan.seal == Seal::None => bulk(plan, count),
        StreamWork::Commit(producers) => commit(producers, count),
        _ => Ok(Outcome::Skipped("it seals nothing")),
    }
}

fn bulk(plan: Bulk, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let file = Mutex::new(BufWriter::with_capacity(PIECE_BYTES, File::create(path)?));
    let record = vec![7; plan.record_bytes];
    let (begun, cpu_s) = (Instant::now(), cpu_time::used().as_secs_f64());
    let (mut unsynced, mut synced) = (0, begun);
    for _ in 0..count {
        let mut file = file.lock().expect("nobody panics");
        file.write_all(&record)?;
        unsynced += record.len();
        let is_due = match plan.mode {
            Mode::None => false,
            Mode::Interval => unsynced % (1 << 20) < record.len() && synced.elapsed() >= INTERVAL,
            Mode::Durable => unsynced >= PIECE_BYTES,
        };
        if is_due {
            file.flush()?;
            file.get_ref().sync_data()?;
            (unsynced, synced) = (0, Instant::now());
        }
    }
    let mut file = file.into_inner()?;
    file.flush()?;
    if plan.mode != Mode::None {
        file.get_ref().sync_data()?;
    }
    let time = begun.elapsed();
    let cpu_s = cpu_time::used().as_secs_f64() - cpu_s;
    Ok(streams::bulk_outcome(count, plan.record_bytes, time, cpu_s))
}

fn commit(producers: usize, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let file = Arc::new(Mutex::new(BufWriter::new(File::create(path)?)));
    streams::commits(producers, count, || {
        let file = file.clone();
        Ok(move |record: &[u8]| {
            let mut file = file.lock().expect("nobody panics");
            file.write_all(record)?;
            file.flush()?;
            file.get_ref().sync_data()?;
            Ok(())
        })
    })
}
