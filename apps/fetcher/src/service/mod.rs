//! The fetcher in Freeboard mode: it takes notifications, looks up their users and apps, and publishes replies.
//!
//! ```text
//!   broker, two priorities ──prefetch──▶ a main actor, a lane each
//!                                          │ a job for each notification:
//!                                          ├─ the user's key  ─┐  leased cache on Redis; a miss goes to the
//!                                          ├─ the app's key   ─┤  slow store behind a bulkhead
//!                                          ├─ the user's device┘  SQL, many users to a query
//!                                          ▼ once all three are there
//!                                        publish ──confirm──▶ acknowledge
//! ```
//!
//! The prefetches bound the notifications in flight; all others wait at the broker. [`FetcherOptions::deadline`]
//! bounds their time, also if a store never answers. The [`Bulkhead`](crate::store::Bulkhead) and the bound on
//! directory queries limit how many requests such a store holds.
//!
//! [`FetcherOptions::wait_max`] bounds the wait at the broker: a busy fetcher puts off what waited longer, before it takes
//! it.
//!
//! A notification is acknowledged once its reply is confirmed. Until then it is unacknowledged, to be delivered again,
//! or dead-lettered with a reason. So the ledger accounts for every notification, whatever fails
//! ([`Ledger::is_balanced`](crate::broker::Ledger::is_balanced)). A reply may be published twice, but is never lost;
//! its id identifies duplicates.

mod job;
mod main_actor;
mod options;
mod queries;
mod snapshot;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use freeboard::{
    ActorRef, Group, GroupError, GroupOptions, Router, SpawnOptions, Supervision, System,
    cache::CacheSnapshot,
    flow::{LaneConfig, RESTARTS_MAX},
    meter::clock,
    platform::thread,
    redis::RedisSnapshot,
};
use parking_lot::Mutex;

use crate::{
    broker::{self, Broker, ConsumeError, Consumer, Delivery, Queue},
    held::{self, CACHE_ENTRY_BYTES, Held, bytes_of},
};
use job::{Job, Ticket};
use main_actor::{Arrived, LANE_OF_ANSWERS, Main, delay_after, lane_of};
pub use options::{FetcherOptions, OptionsError, Parts};
use snapshot::FetcherCounters;
pub use snapshot::{FetcherSnapshot, RetrySnapshot};

/// The polling interval of [`Fetcher::stop`].
const POLL: Duration = Duration::from_millis(2);

/// The restart delays of a main actor that panicked.
const RESTART_MIN: Duration = Duration::from_millis(10);
const RESTART_MAX: Duration = Duration::from_secs(1);

/// The most outstanding answers of a job: three look-ups, then a confirm. All answers fit into the mailbox.
const ANSWERS_MAX: usize = 3;

/// A running fetcher. Dropping it stops it at once: notifications in flight are delivered to others.
pub struct Fetcher {
    broker: Arc<dyn Broker>,
    mains: Group<Main>,
    consumers: Mutex<Vec<Consumer>>,
    counters: Arc<FetcherCounters>,
    /// By priority; the clones are the notifications in flight.
    under_way: [Ticket; 2],
    options: FetcherOptions,
}

/// Starting a fetcher failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The main actors could not be spawned.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The broker cannot start a consumer.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
}

impl Fetcher {
    /// Spawns the main actors and starts consuming notifications.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        system: &System,
        parts: Parts,
        options: FetcherOptions,
    ) -> Result<Self, StartError> {
        options.validate()?;
        let counters = Arc::<FetcherCounters>::default();
        let broker = parts.broker.clone();
        let (shared, of_members) = (Arc::new(parts), counters.clone());
        let mut lanes = vec![LaneConfig::bounded(options.mailbox); lane_of(1) + 1];
        lanes[LANE_OF_ANSWERS] = LaneConfig::bounded(options.jobs_max() * ANSWERS_MAX);
        let mut member = SpawnOptions::new().lanes(lanes).supervision(supervision());
        if let Some(wait) = &options.wait {
            member = member.dispatcher(wait.dispatcher());
        }
        let group = GroupOptions::new(options.mains)
            .name("fetcher")
            .router(Router::LeastLoaded)
            .member(member);
        let settings = options.clone();
        let mains = system.spawn_group(group, move |_| {
            Main::new(shared.clone(), settings.clone(), of_members.clone())
        })?;
        // If a consumer cannot be started, dropping this stops the actors.
        let fetcher = Self {
            broker: broker.clone(),
            mains,
            consumers: Mutex::default(),
            counters,
            under_way: Default::default(),
            options,
        };
        let mains = fetcher.mains.clone();
        let tickets = fetcher.under_way.each_ref().map(Arc::downgrade);
        let (counters, settings) = (fetcher.counters.clone(), fetcher.options.clone());
        *fetcher.consumers.lock() = broker::consume_notifications(
            &*broker,
            fetcher.options.prefetch,
            move |priority, it| {
                // Without the fetcher's own.
                let in_flight = tickets[priority].strong_count().saturating_sub(1);
                if settings.is_busy(priority, in_flight) && settings.is_late(&it) {
                    counters.retried.wait.add(1);
                    it.defer(delay_after(&settings.backoff, u32::MAX));
                    return Ok(());
                }
                match tickets[priority].upgrade() {
                    Some(ticket) => offer(&mains, priority, Arrived::now(it, ticket)),
                    None => Err(it),
                }
            },
        )?;
        Ok(fetcher)
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> FetcherSnapshot {
        // The lanes of the priorities.
        let lanes = |main: &ActorRef<Main>| main.snapshot().lanes.split_off(lane_of(0));
        let lanes: Vec<_> = self.mains.members().iter().map(lanes).collect();
        self.counters.snapshot_with(&lanes, self.under_way())
    }

    /// Whether all main actors are alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.mains.members().iter().all(ActorRef::is_alive)
    }

    fn under_way(&self) -> u64 {
        let tickets = self.under_way.iter();
        tickets.map(|it| Arc::strong_count(it) as u64 - 1).sum()
    }

    /// Deliveries to this process that the broker has not seen settled.
    fn unacked(&self) -> u64 {
        let queues = Queue::NOTIFICATIONS.into_iter();
        queues.map(|queue| self.broker.ledger(queue).unacked).sum()
    }

    /// Notifications in the mailboxes of main actors.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.mains.members().iter().map(ActorRef::depth).sum()
    }

    /// The memory that it holds, with that of its client of Redis and its cache.
    #[must_use]
    pub fn held(&self, redis: &RedisSnapshot, cache: &CacheSnapshot) -> Held {
        // Ordering: Relaxed: a figure for a read-out.
        let body = self.counters.body_bytes.load(Ordering::Relaxed);
        let (_, of_client) = held::of_client(redis);
        Held {
            mailboxes: bytes_of::<Arrived>(self.queued(), 0),
            in_flight: of_client + bytes_of::<Job>(self.under_way(), 2 * body),
            cache: cache.local_entries * CACHE_ENTRY_BYTES,
        }
    }

    /// Notifications that are replied to or dead-lettered.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.counters.completed.get() + self.counters.dead_lettered.get()
    }

    /// Stops consuming and waits until the notifications in flight are done, at most `timeout`. That takes little
    /// longer than [`FetcherOptions::deadline`], unless the broker does not answer. Deliveries that no main actor
    /// had capacity for go back at once. Returns the number of unfinished notifications: they are delivered to
    /// others once this is dropped. Those of other fetchers on the same broker object count too.
    pub fn stop(&self, timeout: Duration) -> u64 {
        let until = clock::now() + timeout;
        self.consumers.lock().iter().for_each(Consumer::pause);
        // The broker learns of it a little later.
        let left = || self.under_way().max(self.unacked());
        while left() > 0 && clock::now() < until {
            thread::sleep(POLL);
        }
        left()
    }
}

/// A main actor is restarted after every panic: a notification that causes panics is given up after its attempts,
/// and must not stop the others.
fn supervision() -> Supervision {
    Supervision::restart()
        .backoff(RESTART_MIN, RESTART_MAX)
        // More than these delays allow.
        .limit(RESTARTS_MAX, Duration::from_secs(60))
}

/// Offers a notification to the main actor with the shortest queue, round-robin among equals. If it is full, the
/// broker waits.
fn offer(mains: &Group<Main>, priority: usize, arrived: Arrived) -> Result<(), Delivery> {
    let main = mains.any().member();
    main.try_tell_lane(lane_of(priority), arrived)
        .map_err(|refused| refused.into_inner().delivery)
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // First, so that nothing is offered to terminated actors.
        self.consumers.lock().clear();
        self.mains.stop();
    }
}
