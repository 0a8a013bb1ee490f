//! The fetcher as it was in 2014, with what went wrong in it, for the scene to show.
//!
//! ```text
//!   broker, no prefetch ──acknowledged at once──▶ main actors: threads of their own, SQL on them
//!                                                   │ two look-ups, by route
//!                                                   ▼
//!                                                 redis actors: threads of their own, a connection each,
//!                                                   │ what is in flight bounded, or not
//!                                                   ▼ both there
//!                                                 publish
//! ```
//!
//! What is shed here is lost: it was acknowledged before. Percentiles come from a sample.

mod gauges;
mod main_actor;
mod options;
mod pending;
mod redis_actor;
mod sample;
mod snapshot;

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use freeboard::{
    ActorRef, Group, GroupError, GroupOptions, Router, SpawnOptions, System,
    cache::{Cache, CacheOptions, CacheStartError},
    flow::LaneConfig,
    net::poller::Poller,
    redis::{ConnectError, Redis, RedisError, RedisOptions},
};
use parking_lot::Mutex;

use crate::{
    broker::{Broker, ConsumeError, Consumer, Inbox, Queue},
    store::{Directory, SlowStore},
};
use gauges::Gauges;
use main_actor::{Arrived, OriginalMain};
pub use options::OriginalOptions;
use redis_actor::RedisActor;
pub use snapshot::OriginalSnapshot;

/// As good as none: the most that a consumer can ask for.
const NO_PREFETCH: NonZeroU16 = NonZeroU16::MAX;
/// Commands in flight where they are not bounded: more than memory holds.
const UNBOUNDED: usize = 1 << 31;

/// What the original is put together from.
#[derive(Clone)]
pub struct OriginalParts {
    /// Where notifications come from and replies go.
    pub broker: Arc<dyn Broker>,
    /// The server that the redis actors connect to.
    pub redis: RedisOptions,
    /// The cache's times and names.
    pub cache: CacheOptions,
    /// Where keys come from that are not cached.
    pub store: Arc<dyn SlowStore>,
    /// The devices of users.
    pub directory: Arc<dyn Directory>,
}

/// The original, running. Dropping it ends it.
#[derive(Debug)]
pub struct OriginalFetcher {
    mains: Group<OriginalMain>,
    redis: Group<RedisActor>,
    clients: Vec<Redis>,
    consumers: Mutex<Vec<Consumer>>,
    gauges: Arc<Gauges>,
}

/// Why the original did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginalStartError {
    /// The actors could not be spawned.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The clients of Redis could not be made.
    #[error(transparent)]
    Redis(#[from] ConnectError),
    /// The cache could not be made.
    #[error(transparent)]
    Cache(#[from] CacheStartError),
    /// The broker gives no consumer.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
}

impl OriginalFetcher {
    /// Spawns its actors, and takes notifications from then on.
    ///
    /// # Errors
    /// [`OriginalStartError`].
    pub fn start(
        system: &System,
        poller: &Poller,
        parts: OriginalParts,
        options: &OriginalOptions,
    ) -> Result<Self, OriginalStartError> {
        let gauges = Arc::new(Gauges::default());
        let mailbox = SpawnOptions::new()
            .lanes(vec![LaneConfig::bounded(options.mailbox); 2])
            .dispatcher(options.wait.dispatcher());
        let mut clients = Vec::new();
        let mut members = Vec::new();
        for _ in 0..options.redis_threads {
            let client = Redis::connect(
                system,
                poller,
                RedisOptions {
                    connections: 1,
                    credit_commands: options.queue_bound.unwrap_or(UNBOUNDED),
                    credit_bytes: UNBOUNDED,
                    timeout: options.timeout,
                    overdue: options.timeout,
                    ..parts.redis.clone()
                },
            )?;
            let cache = Cache::new(system, &client, parts.cache.clone())?;
            members.push((client.clone(), cache));
            clients.push(client);
        }
        let prefix = parts.cache.prefix.clone();
        let group = GroupOptions::new(options.redis_threads)
            .router(options.route.router())
            .name("redis")
            .member(mailbox.clone());
        let redis = system.spawn_group(group, move |index| {
            let (client, cache) = members[index].clone();
            RedisActor::new(client, cache, prefix.clone())
        })?;
        let broker = parts.broker.clone();
        let (to_redis, counted) = (redis.clone(), gauges.clone());
        let group = GroupOptions::new(options.mains)
            .router(Router::RoundRobin)
            .name("fetcher")
            .member(mailbox);
        let parts = Arc::new(parts);
        let mains = system.spawn_group(group, move |_| {
            OriginalMain::new(parts.clone(), to_redis.clone(), counted.clone())
        })?;
        let fetcher = Self {
            mains,
            redis,
            clients,
            consumers: Mutex::default(),
            gauges,
        };
        for (priority, queue) in [Queue::Priority0, Queue::Priority1].into_iter().enumerate() {
            let mains = fetcher.mains.clone();
            let inbox = Inbox::call(move |delivery| {
                let main = mains.any().member();
                main.try_tell_lane(priority, Arrived::now(delivery))
                    .map_err(|refused| refused.into_inner().delivery)
            });
            let consumer = broker.consume(queue, NO_PREFETCH, inbox)?;
            fetcher.consumers.lock().push(consumer);
        }
        Ok(fetcher)
    }

    /// Blocks this thread until all connections to Redis are up.
    ///
    /// # Errors
    /// [`RedisError::Down`] when the time is over.
    pub fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        let mut clients = self.clients.iter();
        clients.try_for_each(|client| client.wait_up(timeout))
    }

    /// Commands to Redis without a reply.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let clients = self.clients.iter();
        let connections = clients.flat_map(|client| client.snapshot().connections);
        connections.map(|it| it.in_flight + it.waiting).sum()
    }

    /// Notifications in the mailboxes of main actors.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.mains.members().iter().map(ActorRef::depth).sum()
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> OriginalSnapshot {
        let clients: Vec<_> = self.clients.iter().map(Redis::snapshot).collect();
        OriginalSnapshot::of(&self.gauges, &self.mains, &self.redis, &clients)
    }
}

impl Drop for OriginalFetcher {
    fn drop(&mut self) {
        // First, so that nothing is offered to those who have gone.
        self.consumers.lock().clear();
        self.mains.stop();
        self.redis.stop();
    }
}

impl std::fmt::Debug for OriginalParts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OriginalParts")
            .field("redis", &self.redis)
            .finish_non_exhaustive()
    }
}
