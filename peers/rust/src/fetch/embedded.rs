//! Load at a constant rate, with everything in this process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use freeboard::redis::RedisOptions;
use freeboard_fetcher::broker::{Broker, MemoryBroker};
use freeboard_fetcher::embedded::EmbeddedRedis;
use freeboard_fetcher::load::{self, Account, Collector, Fate, LoadOptions};
use freeboard_fetcher::store::{Directory, MemoryDirectory};

use super::times::milliseconds;
use super::{Entries, USERS_COUNT, warm};
use crate::outcome::Outcome;
use crate::{cpu_time, memory};

/// Notifications a second.
const RATE: f64 = 20_000.0;
/// How long the last replies may take; those that take longer are lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether all have come.
const LOOK: Duration = Duration::from_millis(2);

/// What a service needs, in this process.
pub struct EmbeddedBed {
    broker: Arc<MemoryBroker>,
    redis: EmbeddedRedis,
    directory: Arc<MemoryDirectory>,
    count: u64,
}

impl EmbeddedBed {
    /// Starts with Redis and the directory filled for this number of notifications.
    pub fn start(entries: Entries, count: u64) -> Result<Self> {
        let redis = EmbeddedRedis::start(Default::default())?;
        let directory = MemoryDirectory::default();
        directory.provision(USERS_COUNT)?;
        warm::fill(&redis.options(), entries, USERS_COUNT)?;
        Ok(Self {
            broker: Arc::default(),
            redis,
            directory: Arc::new(directory),
            count,
        })
    }

    pub fn broker(&self) -> Arc<dyn Broker> {
        self.broker.clone()
    }

    pub fn redis(&self) -> RedisOptions {
        self.redis.options()
    }

    pub fn directory(&self) -> Arc<dyn Directory> {
        self.directory.clone()
    }

    /// Sends the load to a service that runs. The processor time and the memory are those of the whole
    /// process: load, broker, Redis and directory too.
    pub fn load(&self) -> Result<Outcome> {
        memory::forget_peak()?;
        let account = Arc::new(Account::new(self.count, RATE));
        let _collector = Collector::start(&*self.broker, &account)?;
        let options = LoadOptions {
            users: USERS_COUNT,
            ..LoadOptions::default()
        };
        let (began, cpu_before) = (Instant::now(), cpu_time::used());
        let never = AtomicBool::new(false);
        load::send(&*self.broker, &account, &options, &never);
        let until = Instant::now() + PATIENCE;
        while account.seen(Fate::Replied) < self.count && Instant::now() < until {
            thread::sleep(LOOK);
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu_seconds = (cpu_time::used() - cpu_before).as_secs_f64();
        let lost_count = self.count - account.seen(Fate::Replied);
        ensure!(lost_count < self.count, "the service replied to nothing");
        let reply = account.latency().summary();
        Ok(Outcome::measured(self.count, seconds)
            .with_field("qps", self.count as f64 / seconds)
            .with_field("reply_p50_ms", milliseconds(reply.p50))
            .with_field("reply_p99_ms", milliseconds(reply.p99))
            .with_field("reply_p999_ms", milliseconds(reply.p999))
            .with_field("cpu_us", cpu_seconds * 1e6 / self.count as f64)
            .with_field("rss_peak_mb", memory::peak_bytes()? as f64 / 1e6)
            .with_field("lost", lost_count as f64))
    }
}
