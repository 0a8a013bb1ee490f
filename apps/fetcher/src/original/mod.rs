//! The original mode: the fetcher of 2014 with its faults, for the scene to show.
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
//! A notification that is shed is lost, because it was acknowledged before. Percentiles come from a sample.

mod main_actor;
mod pending;
mod redis_actor;
mod sample;
mod snapshot;

use std::{
    num::NonZeroU16,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use freeboard::{
    ActorRef, Group, GroupError, GroupOptions, Router, SpawnOptions, System,
    cache::{Cache, CacheOptions, CacheStartError},
    flow::LaneConfig,
    net::poller::Poller,
    redis::{ConnectError, Redis, RedisError, RedisOptions},
};
use parking_lot::Mutex;

use crate::{
    broker::{self, Broker, ConsumeError, Consumer},
    choices::{Route, Wait},
    held::{self, Held, KEY_BYTES, bytes_of},
    store::{Directory, SlowStore},
};
use main_actor::{Arrived, OriginalMain};
use pending::Pending;
use redis_actor::{LookUp, RedisActor};
use snapshot::OriginalCounters;
pub use snapshot::OriginalSnapshot;

/// No effective limit: the largest prefetch of a consumer.
const NO_PREFETCH: NonZeroU16 = NonZeroU16::MAX;
/// The limit of commands in flight that stands for no bound.
const UNBOUNDED: usize = 1 << 31;

/// The settings of the original mode.
#[derive(Clone, Debug)]
pub struct OriginalOptions {
    /// Main actors, each with its own thread.
    pub mains: usize,
    /// Redis actors, each with its own thread and connection.
    pub redis_threads: usize,
    /// How a look-up is routed to a redis actor.
    pub route: Route,
    /// The wait strategy of all these threads.
    pub wait: Wait,
    /// The most commands in flight on a connection, or no bound.
    pub queue_bound: Option<usize>,
    /// Look up the keys of a notification with one `MGET` on one connection, not with a `GET` each.
    pub multi_get: bool,
    /// The bound of each priority lane.
    pub mailbox: usize,
    /// The timeout of a look-up.
    pub timeout: Duration,
}

impl Default for OriginalOptions {
    fn default() -> Self {
        Self {
            mains: 6,
            redis_threads: 4,
            route: Route::Hash,
            wait: Wait::Sleeping,
            queue_bound: None,
            multi_get: false,
            mailbox: 4_096,
            timeout: Duration::from_secs(600),
        }
    }
}

/// The parts that the original uses.
#[derive(Clone)]
pub struct OriginalParts {
    /// The source of notifications and the target of replies.
    pub broker: Arc<dyn Broker>,
    /// The server that the redis actors connect to.
    pub redis: RedisOptions,
    /// The settings of the cache.
    pub cache: CacheOptions,
    /// The store of keys that are not cached.
    pub store: Arc<dyn SlowStore>,
    /// The devices of users.
    pub directory: Arc<dyn Directory>,
}

/// The running original. Dropping it stops it.
#[derive(Debug)]
pub struct OriginalFetcher {
    mains: Group<OriginalMain>,
    redis: Group<RedisActor>,
    clients: Vec<Redis>,
    consumers: Mutex<Vec<Consumer>>,
    counters: Arc<OriginalCounters>,
}

/// Starting the original failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginalStartError {
    /// The actors could not be spawned.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The Redis clients could not be created.
    #[error(transparent)]
    Redis(#[from] ConnectError),
    /// The cache could not be created.
    #[error(transparent)]
    Cache(#[from] CacheStartError),
    /// The broker cannot start a consumer.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
}

impl OriginalFetcher {
    /// Spawns its actors and starts consuming notifications.
    ///
    /// # Errors
    /// [`OriginalStartError`].
    pub fn start(
        system: &System,
        poller: &Poller,
        parts: OriginalParts,
        options: &OriginalOptions,
    ) -> Result<Self, OriginalStartError> {
        let counters = Arc::new(OriginalCounters::default());
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
            RedisActor {
                client,
                cache,
                prefix: prefix.clone(),
            }
        })?;
        let broker = parts.broker.clone();
        let (to_redis, counted) = (redis.clone(), counters.clone());
        let group = GroupOptions::new(options.mains)
            .router(Router::RoundRobin)
            .name("fetcher")
            .member(mailbox);
        let parts = Arc::new(parts);
        let is_multi_get = options.multi_get;
        let mains = system.spawn_group(group, move |_| OriginalMain {
            parts: parts.clone(),
            redis: to_redis.clone(),
            is_multi_get,
            counters: counted.clone(),
        })?;
        let fetcher = Self {
            mains,
            redis,
            clients,
            consumers: Mutex::default(),
            counters,
        };
        let mains = fetcher.mains.clone();
        *fetcher.consumers.lock() =
            broker::consume_notifications(&*broker, [NO_PREFETCH; 2], move |priority, it| {
                let main = mains.any().member();
                main.try_tell_lane(priority, Arrived::now(it))
                    .map_err(|refused| refused.into_inner().delivery)
            })?;
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

    /// The memory that it holds.
    #[must_use]
    pub fn held(&self) -> Held {
        let counters = &self.counters;
        let body = counters.body_bytes.load(Ordering::Relaxed);
        let look_ups: u64 = self.redis.members().iter().map(ActorRef::depth).sum();
        let of_clients = self
            .clients
            .iter()
            .map(|it| held::of_client(&it.snapshot()));
        let (commands, of_clients) =
            of_clients.fold((0, 0), |(a, b), (count, bytes)| (a + count, b + bytes));
        let pending = counters.received.get().saturating_sub(self.settled());
        Held {
            mailboxes: bytes_of::<Arrived>(self.queued(), body)
                + bytes_of::<LookUp>(look_ups, KEY_BYTES),
            in_flight: of_clients
                + bytes_of::<LookUp>(commands, KEY_BYTES)
                + bytes_of::<Pending>(pending, body),
            cache: 0,
        }
    }

    /// Notifications that are replied to or lost.
    #[must_use]
    pub fn settled(&self) -> u64 {
        let counters = &self.counters;
        let lost = counters.shed.get() + counters.failed.get() + counters.malformed.get();
        counters.completed.get() + lost
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> OriginalSnapshot {
        let clients: Vec<_> = self.clients.iter().map(Redis::snapshot).collect();
        OriginalSnapshot::of(&self.counters, &self.mains, &self.redis, &clients)
    }
}

impl Drop for OriginalFetcher {
    fn drop(&mut self) {
        // First, so that nothing is offered to terminated actors.
        self.consumers.lock().clear();
        self.mains.stop();
        self.redis.stop();
    }
}
