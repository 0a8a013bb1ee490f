//! Notifications that wait at a RabbitMQ, and the time until all are replied to.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, ensure};
use freeboard::redis::RedisOptions;
use freeboard_fetcher::broker::{Queue, RabbitBroker, RabbitOptions};
use freeboard_fetcher::load::{self, Account, LoadOptions};
use freeboard_fetcher::store::{DATABASE_DEFAULT, Directory, MariaDbDirectory, MariaDbOptions};
use freeboard_test_servers::{Server, mariadb, rabbitmq, redis};

use super::{Entries, Link, USERS_COUNT, warm};
use crate::cpu_time;
use crate::outcome::Outcome;

/// Notifications a second that are published beforehand. What RabbitMQ has no room for is tried again.
const PUBLISHED_PER_SECOND: f64 = 20_000.0;

/// A RabbitMQ and its queued messages.
pub struct RealBed {
    rabbit: Server,
    count: u64,
}

/// Where look-ups go: Redis and MariaDB, both filled.
pub struct Stores {
    redis: Server,
    mariadb: Server,
}

impl RealBed {
    /// Starts with this number of notifications in its queues.
    pub fn start(count: u64) -> Result<Self> {
        let bed = Self {
            rabbit: rabbitmq()?,
            count,
        };
        let broker = bed.broker()?;
        let account = Account::new(count, PUBLISHED_PER_SECOND);
        let options = LoadOptions {
            users: USERS_COUNT,
            ..LoadOptions::default()
        };
        let never = AtomicBool::new(false);
        load::send(&broker, &account, &options, &never);
        Ok(bed)
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}", self.rabbit.address())
    }

    /// Ours, connected.
    pub fn broker(&self) -> Result<RabbitBroker> {
        Ok(RabbitBroker::connect(RabbitOptions::new(self.url()))?)
    }

    /// Times a service from its start until it has acknowledged all notifications, which is when `serve`
    /// returns, and sees that there are as many replies. The processor time is this process's.
    pub fn time<T>(&self, serve: impl FnOnce() -> Result<T>) -> Result<Outcome> {
        let (began, cpu_before) = (Instant::now(), cpu_time::used());
        let service = serve()?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_seconds = (cpu_time::used() - cpu_before).as_secs_f64();
        drop(service);
        let replies_count = Link::count(&self.url(), Queue::Replies)?;
        ensure!(
            replies_count == self.count,
            "{replies_count} replies to {} notifications",
            self.count
        );
        Ok(Outcome::measured(self.count, seconds)
            .with_field("qps", self.count as f64 / seconds)
            .with_field("cpu_us", cpu_seconds * 1e6 / self.count as f64))
    }
}

impl Stores {
    pub fn start(entries: Entries) -> Result<Self> {
        let redis = redis(&[])?;
        let stores = Self {
            redis,
            mariadb: mariadb()?,
        };
        stores.directory()?.provision(USERS_COUNT)?;
        warm::fill(&stores.redis(), entries, USERS_COUNT)?;
        Ok(stores)
    }

    pub fn redis(&self) -> RedisOptions {
        RedisOptions {
            port: self.redis.address().port(),
            ..RedisOptions::default()
        }
    }

    /// Ours, connected.
    pub fn directory(&self) -> Result<MariaDbDirectory> {
        let url = format!("mysql://root@{}", self.mariadb.address());
        Ok(MariaDbDirectory::connect(MariaDbOptions::new(url))?)
    }

    /// With the database's name.
    pub fn mariadb_url(&self) -> String {
        format!("mysql://root@{}/{DATABASE_DEFAULT}", self.mariadb.address())
    }
}
