//! A stream on the disk, and a cache on Redis, both busy; the Redis is in this process.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};
use freeboard::{
    System,
    board::Shown,
    cache::{Cache, CacheOptions},
    flow::random,
    net::poller::Poller,
    redis::Redis,
    redis_embedded::{EmbeddedOptions, RedisEmbedded},
    stream::{Retention, StreamOptions, StreamWriter},
};

use super::show;

/// Between two turns of a thread.
const TICK: Duration = Duration::from_millis(50);

/// What is appended in a turn, more by day than by night.
const RECORDS: u64 = 60;
const RECORD_BYTES: usize = 256;
const HALF_DAY_TURNS: u64 = 200;

/// What the stream keeps.
const SEGMENT_BYTES: u64 = 4 << 20;
const KEPT_BYTES: u64 = 32 << 20;

/// Threads that read through the cache, keys they read in a turn, and keys there are.
const READERS: u64 = 3;
const READS: u64 = 2;
const KEYS: u64 = 400;

/// What it takes to fetch what the cache does not have.
const FETCH: Duration = Duration::from_millis(15);

/// Until Redis is up.
const UP: Duration = Duration::from_secs(5);
/// Until its connections are closed.
const END: Duration = Duration::from_secs(1);

/// Ends its threads when it is dropped.
pub(super) struct Stores {
    is_ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    shown: Vec<Option<Shown>>,
    journal: StreamWriter,
    server: RedisEmbedded,
    _directory: tempfile::TempDir,
}

impl Stores {
    pub(super) fn start(system: &System, poller: &Poller, seed: u64) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a folder for a stream")?;
        let retention = Retention {
            bytes: Some(KEPT_BYTES),
            ..Retention::default()
        };
        let stream = StreamOptions::new()
            .segment_bytes(SEGMENT_BYTES)
            .retention(retention)
            .open(directory.path().join("journal"))
            .context("cannot open a stream")?;
        // On the same system: another one would have a monitor of its own, which takes as much time as all of Redis.
        let server = RedisEmbedded::start(system, poller, EmbeddedOptions::default())?;
        let redis = Redis::connect(system, poller, server.client_options())?;
        redis.wait_up(UP)?;
        let options = CacheOptions {
            fresh_time: Duration::from_secs(3),
            stale_time: Duration::from_secs(2),
            ..CacheOptions::default()
        };
        let cache = Cache::new(system, &redis, options)?;
        let (journal, leases) = (stream.clone(), cache.clone());
        let shown = vec![
            show("stream", "journal", move |text| {
                journal.snapshot().render("journal", text);
            }),
            show("redis", "sessions", move |text| {
                redis.snapshot().render("sessions", text);
            }),
            show("cache", "sessions", move |text| {
                leases.snapshot().render("sessions", text);
            }),
        ];
        let is_ending = Arc::new(AtomicBool::new(false));
        let ends = is_ending.clone();
        let journal = stream.clone();
        let mut threads = vec![spawn("journal", move || write(&journal, &ends))?];
        for reader in 0..READERS {
            let (cache, ends) = (cache.clone(), is_ending.clone());
            threads.push(spawn("reader", move || read(&cache, seed + reader, &ends))?);
        }
        Ok(Self {
            is_ending,
            threads,
            shown,
            journal: stream,
            server,
            _directory: directory,
        })
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        // Ordering: Relaxed, it says nothing but stop.
        self.is_ending.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What it panicked with was printed.
            let _ = thread.join();
        }
        self.shown.clear();
        self.server.stop(END);
        // Nobody reads it again: it goes with its folder.
        let _ = self.journal.clone().close();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(format!("board-{name}"))
        .spawn(run)
        .context("cannot start a thread")
}

fn is_over(ends: &AtomicBool) -> bool {
    // Ordering: Relaxed, as above.
    ends.load(Ordering::Relaxed)
}

fn write(stream: &StreamWriter, ends: &AtomicBool) {
    let record = [7; RECORD_BYTES];
    let mut turn = 0_u64;
    while !is_over(ends) {
        turn += 1;
        let is_day = (turn / HALF_DAY_TURNS).is_multiple_of(2);
        let records = if is_day { RECORDS } else { RECORDS / 4 };
        // A full disk ends it; the board shows that it stands still.
        if (0..records).any(|_| stream.append(&record).is_err()) {
            return;
        }
        thread::sleep(TICK);
    }
}

fn read(cache: &Cache, seed: u64, ends: &AtomicBool) {
    let mut turn = 0;
    while !is_over(ends) {
        for _ in 0..READS {
            turn += 1;
            let key = random::number(seed, turn) % KEYS;
            let fetched = cache.get_or_fetch_blocking(key.to_le_bytes(), || {
                thread::sleep(FETCH);
                Ok::<_, Infallible>(Some(vec![1; 100].into()))
            });
            // A refusal is on the cache's gauges.
            drop(fetched);
        }
        thread::sleep(TICK);
    }
}
