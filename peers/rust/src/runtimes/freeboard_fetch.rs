//! Freeboard's fetcher.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use freeboard::{
    System,
    cache::{Cache, CacheOptions, LocalOptions},
    net::poller::{Policy, Poller},
    redis::{Redis, RedisOptions, Routing},
};
use freeboard_fetcher::broker::Broker;
use freeboard_fetcher::service::{Fetcher, FetcherOptions, Parts};
use freeboard_fetcher::store::{Bulkhead, BulkheadOptions, Directory, MockStore};

use crate::fetch::{
    EmbeddedBed, Entries, PREFETCHES, PREFIX, REDIS_CONNECTIONS, RealBed, STORE_TIME, Stores,
    Times, WORKERS_COUNT,
};
use crate::outcome::Outcome;

/// How long Redis may take to answer, and the system to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether all is acknowledged.
const LOOK: Duration = Duration::from_millis(1);

pub fn embedded(count: u64) -> Result<Outcome> {
    let bed = EmbeddedBed::start(Entries::Leased, count)?;
    let host = Host::start()?;
    let parts = host.parts(bed.broker(), bed.redis(), bed.directory())?;
    let fetcher = host.fetcher(parts)?;
    let outcome = bed.load()?;
    let snapshot = fetcher.snapshot();
    drop(fetcher);
    host.system.shutdown(PATIENCE);
    let times = Times {
        wait: snapshot.wait,
        lifetime: snapshot.lifetime,
    };
    Ok(times.add_to(outcome))
}

pub fn real(count: u64) -> Result<Outcome> {
    let bed = RealBed::start(count)?;
    let stores = Stores::start(Entries::Leased)?;
    let host = Host::start()?;
    let broker = Arc::new(bed.broker()?);
    let directory = Arc::new(stores.directory()?);
    let parts = host.parts(broker.clone(), stores.redis(), directory)?;
    let acked_count = || -> u64 {
        let queues = PREFETCHES.iter();
        queues.map(|(queue, _)| broker.ledger(*queue).acked).sum()
    };
    let outcome = bed.time(|| {
        let fetcher = host.fetcher(parts)?;
        while acked_count() < count {
            thread::sleep(LOOK);
        }
        Ok(fetcher)
    })?;
    host.system.shutdown(PATIENCE);
    Ok(outcome)
}

/// Where its actors live.
struct Host {
    system: System,
    poller: Poller,
}

impl Host {
    fn start() -> Result<Self> {
        let poller = Poller::new(WORKERS_COUNT, Policy::default())?;
        let system = System::builder()
            .workers(WORKERS_COUNT)
            .driver(poller.driver())
            .build()?;
        Ok(Self { system, poller })
    }

    fn parts(
        &self,
        broker: Arc<dyn Broker>,
        redis: RedisOptions,
        directory: Arc<dyn Directory>,
    ) -> Result<Parts> {
        let redis = RedisOptions {
            connections: REDIS_CONNECTIONS,
            routing: Routing::Random,
            ..redis
        };
        let redis = Redis::connect(&self.system, &self.poller, redis)?;
        redis.wait_up(PATIENCE).context("Redis does not answer")?;
        let cache = CacheOptions {
            prefix: PREFIX.to_owned(),
            // As the service does unless told otherwise; the same on tokio keeps keys for a second.
            local: Some(LocalOptions::default()),
            ..CacheOptions::default()
        };
        let store = Arc::new(MockStore::new(STORE_TIME)?);
        Ok(Parts {
            broker,
            cache: Cache::new(&self.system, &redis, cache)?,
            store: Arc::new(Bulkhead::new(store, BulkheadOptions::default())),
            directory,
        })
    }

    /// It takes notifications from then on.
    fn fetcher(&self, parts: Parts) -> Result<Fetcher> {
        let options = FetcherOptions {
            prefetch: PREFETCHES.map(|(_, prefetch)| prefetch),
            ..FetcherOptions::default()
        };
        Ok(Fetcher::start(&self.system, parts, options)?)
    }
}
