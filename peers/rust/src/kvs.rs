//! The kvs suite: durable stores. A SET is answered when the disk has it.
//!
//! ```text
//!   redis-benchmark, 1 | 16 | 256 connections ──▶ apps/kvs in this process, or Redis with `appendfsync always`
//!   1 | 16 | 256 threads ─────────────────────▶ fjall in this process: insert, then persist
//! ```
//!
//! A client waits for each reply before it sends the next command. The values have 128 B.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use freeboard::prelude::System;
use freeboard_kvs::{Kvs, KvsOptions};
use tokio::net::TcpListener;

use crate::outcome::Outcome;
use crate::redis_load::{Flood, KEYS_COUNT, Key, Verb};
use crate::runtimes::redis_benchmark::benchmark;
use crate::streams;

const VALUE_BYTES: usize = 128;
/// SETs on random keys after which nearly all keys have a value.
const FILL_COUNT: u64 = 10 * KEYS_COUNT;
/// fjall makes this share of the SETs, to be read as a rate.
const FJALL_SHARE: u64 = 8;
/// A prime, so that the steps come by all keys.
const KEY_STEP: u64 = 7_919;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Freeboard,
    Redis,
    Fjall,
}

/// One work of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsWork {
    pub verb: Verb,
    pub clients: usize,
}

pub fn run(store: Store, work: KvsWork, count: u64) -> Result<Outcome> {
    match store {
        Store::Freeboard => freeboard(work, count),
        Store::Redis => redis(work, count),
        Store::Fjall => fjall(work, count),
    }
}

fn freeboard(work: KvsWork, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let system = System::builder().build()?;
    // Four ranges of keys, as by default, but of the keys of redis-benchmark.
    let first_key =
        |part| Bytes::copy_from_slice(Key::new(part * KEYS_COUNT / 4).as_str().as_bytes());
    let options = KvsOptions {
        splits: (1..4).map(first_key).collect(),
        ..KvsOptions::default()
    };
    let store = Arc::new(Kvs::open(&system, &path, &options)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    runtime.spawn(freeboard_kvs::serve(listener, store));
    load(address, work, count)
}

fn redis(work: KvsWork, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    fs::create_dir(&path)?;
    let folder = path.to_str().context("the folder's name is text")?;
    let options = [
        "--dir",
        folder,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let server = freeboard_test_servers::redis(&options)?;
    load(server.address(), work, count)
}

fn load(address: SocketAddr, work: KvsWork, count: u64) -> Result<Outcome> {
    let flood = |verb, depth| Flood {
        verb,
        depth,
        value_bytes: VALUE_BYTES,
    };
    if work.verb == Verb::Get {
        benchmark(address, flood(Verb::Set, 64), 16, FILL_COUNT)?;
    }
    benchmark(address, flood(work.verb, 1), work.clients, count)
}

fn fjall(work: KvsWork, count: u64) -> Result<Outcome> {
    let (_room, path) = streams::room()?;
    let database = Database::builder(&path).open()?;
    let values = database.keyspace("values", KeyspaceCreateOptions::default)?;
    let next = Arc::new(AtomicU64::new(0));
    match work.verb {
        Verb::Set => streams::commits(work.clients, count / FJALL_SHARE, || {
            let (database, values, next) = (database.clone(), values.clone(), next.clone());
            Ok(move |value: &[u8]| {
                let key = Key::new(next.fetch_add(KEY_STEP, Ordering::Relaxed));
                values.insert(key.as_str(), value)?;
                database.persist(PersistMode::SyncAll)?;
                Ok(())
            })
        }),
        Verb::Get => {
            for number in 0..KEYS_COUNT {
                values.insert(Key::new(number).as_str(), [7; VALUE_BYTES])?;
            }
            streams::commits(work.clients, count, || {
                let (values, next) = (values.clone(), next.clone());
                Ok(move |_: &[u8]| {
                    let key = Key::new(next.fetch_add(KEY_STEP, Ordering::Relaxed));
                    values.get(key.as_str())?.context("the key has no value")?;
                    Ok(())
                })
            })
        }
    }
}
