//! fjall: a storage engine whose journal is persisted with `fsync`; keys are the records' numbers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::{
    cpu_time,
    outcome::Outcome,
    streams::{self, Bulk, Mode, Seal, StreamWork},
};

/// The records of a batch: 8 MiB of 128 B, and less of larger ones.
const BATCH_RECORDS: u64 = 65_536;

/// Its bulk does this share of the work, to be read as a rate.
const SHARE: u64 = 8;

pub fn run(work: StreamWork, count: u64) -> Result<Outcome> {
    match work {
        StreamWork::Bulk(plan) if plan.seal == Seal::None && plan.mode == Mode::Durable => {
            bulk(plan, count / SHARE)
        }
        StreamWork::Commit(producers) => commit(producers, count),
        _ => Ok(Outcome::Skipped("it seals nothing; measured synced only")),
    }
}

fn bulk(plan: Bulk, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let database = Database::builder(&path).open()?;
    let records: Keyspace = database.keyspace("records", KeyspaceCreateOptions::default)?;
    let record = vec![7; plan.record_bytes];
    let (begun, cpu_s) = (Instant::now(), cpu_time::used().as_secs_f64());
    let mut next = 0u64;
    while next < count {
        let mut batch = database.batch();
        for number in next..(next + BATCH_RECORDS).min(count) {
            batch.insert(&records, number.to_be_bytes(), record.as_slice());
        }
        batch.commit()?;
        database.persist(PersistMode::SyncAll)?;
        next += BATCH_RECORDS;
    }
    let time = begun.elapsed();
    let cpu_s = cpu_time::used().as_secs_f64() - cpu_s;
    Ok(streams::bulk_outcome(count, plan.record_bytes, time, cpu_s))
}

fn commit(producers: usize, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let database = Database::builder(&path).open()?;
    let records: Keyspace = database.keyspace("records", KeyspaceCreateOptions::default)?;
    let next = Arc::new(AtomicU64::new(0));
    streams::commits(producers, count, || {
        let (database, records, next) = (database.clone(), records.clone(), next.clone());
        Ok(move |record: &[u8]| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            records.insert(number.to_be_bytes(), record)?;
            database.persist(PersistMode::SyncAll)?;
            Ok(())
        })
    })
}
