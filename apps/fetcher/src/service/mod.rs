//! The fetcher: notifications in, what is known of their users and apps looked up, replies out.
//!
//! ```text
//!   broker, two priorities ──prefetch──▶ a main actor, a lane each
//!                                          │ a job for each notification:
//!                                          ├─ the user's key  ─┐  leased cache on Redis; a miss goes to the
//!                                          ├─ the app's key   ─┤  slow store behind a bulkhead
//!                                          ├─ the user's device┘  SQL, many users to a question
//!                                          ▼ once all three are there
//!                                        publish ──confirm──▶ acknowledge
//! ```
//!
//! What is under way is bounded by the prefetches: what is beyond waits at the broker. It is bounded in time by
//! [`FetcherOptions::deadline`], also where a store never answers; what such a store holds is bounded by its
//! [`Bulkhead`](crate::store::Bulkhead) and by the directory's questions. A notification is
//! acknowledged once its reply is confirmed; until then it is unacknowledged, put off to come again, or
//! dead-lettered with a reason: in = acked + unacked + retrying + dead-lettered, whoever dies
//! ([`Ledger::is_balanced`](crate::broker::Ledger::is_balanced)). So a reply may be published twice, never
//! not at all; its id tells.

mod gauges;
mod job;
mod main_actor;
mod options;
mod parts;
mod questions;
mod snapshot;
mod under_way;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, Group, GroupError, GroupOptions, Router, SpawnOptions, Supervision, System,
    flow::{LaneConfig, RESTARTS_MAX},
};
use parking_lot::Mutex;

use crate::broker::{Broker, ConsumeError, Consumer, Delivery, Inbox, Queue};
use gauges::Gauges;
use main_actor::{Arrived, LANE_OF_ANSWERS, Main, lane_of};
pub use options::{FetcherOptions, OptionsError};
pub use parts::Parts;
pub use snapshot::{FetcherSnapshot, RetrySnapshot};
use under_way::UnderWay;

/// Between two looks at what is left, at the end.
const LOOK: Duration = Duration::from_millis(2);

/// Pauses before a main actor that has panicked comes again.
const RESTART_MIN: Duration = Duration::from_millis(10);
const RESTART_MAX: Duration = Duration::from_secs(1);

/// What a job has under way at most: three look-ups, then a confirm; the answers to all fit in a main actor's
/// mailbox.
const ANSWERS_MAX: usize = 3;

/// A running fetcher. Dropping it ends it at once: what is under way comes again, to others.
pub struct Fetcher {
    broker: Arc<dyn Broker>,
    mains: Group<Main>,
    consumers: Mutex<Vec<Consumer>>,
    gauges: Arc<[Gauges]>,
    under_way: UnderWay,
    options: FetcherOptions,
}

/// Why a fetcher did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The main actors could not be spawned.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The broker gives no consumer.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
}

impl Fetcher {
    /// Spawns the main actors, and takes notifications from then on.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        system: &System,
        parts: Parts,
        options: FetcherOptions,
    ) -> Result<Self, StartError> {
        options.validate()?;
        let gauges: Arc<[Gauges]> = (0..options.mains).map(|_| Gauges::default()).collect();
        let broker = parts.broker.clone();
        let (shared, of_members) = (Arc::new(parts), gauges.clone());
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
        let mains = system.spawn_group(group, move |index| {
            Main::new(shared.clone(), settings.clone(), of_members.clone(), index)
        })?;
        // Ends the actors again, if a consumer is not to be had.
        let fetcher = Self {
            broker: broker.clone(),
            mains,
            consumers: Mutex::default(),
            gauges,
            under_way: UnderWay::default(),
            options,
        };
        for (priority, queue) in [Queue::Priority0, Queue::Priority1].into_iter().enumerate() {
            let mains = fetcher.mains.clone();
            let under_way = fetcher.under_way.clone();
            let inbox = Inbox::call(move |delivery| {
                let arrived = Arrived::now(delivery, under_way.ticket());
                offer(&mains, priority, arrived)
            });
            let prefetch = fetcher.options.prefetch[priority];
            let consumer = broker.consume(queue, prefetch, inbox)?;
            fetcher.consumers.lock().push(consumer);
        }
        Ok(fetcher)
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> FetcherSnapshot {
        // Those of its priorities.
        let lanes = |main: &ActorRef<Main>| main.snapshot().lanes.split_off(lane_of(0));
        let lanes: Vec<_> = self.mains.members().iter().map(lanes).collect();
        FetcherSnapshot::of(&self.gauges, &lanes, self.under_way.get())
    }

    /// Whether all its main actors are alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.mains.members().iter().all(ActorRef::is_alive)
    }

    /// Deliveries that the broker has not seen settled, of this process.
    fn unacked(&self) -> u64 {
        let queues = [Queue::Priority0, Queue::Priority1].into_iter();
        queues.map(|queue| self.broker.ledger(queue).unacked).sum()
    }

    /// Notifications in the mailboxes of main actors.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.mains.members().iter().map(ActorRef::depth).sum()
    }

    /// Takes nothing more, and lets what is under way come to its end, for so long at most; that is soon after
    /// [`FetcherOptions::deadline`] at the latest, unless the broker does not answer. What no main actor had room
    /// for goes back at once. Returns how many notifications were not done by then: they come again, to others,
    /// once this is dropped. Those of other fetchers on the same broker object count.
    pub fn stop(&self, timeout: Duration) -> u64 {
        let until = Instant::now() + timeout;
        self.consumers.lock().iter().for_each(Consumer::pause);
        // The broker is told a little later.
        let left = || self.under_way.get().max(self.unacked());
        while left() > 0 && Instant::now() < until {
            thread::sleep(LOOK);
        }
        left()
    }
}

/// A main actor comes again however often it panics: the notification that it does not survive is given up after
/// its attempts, and the others are not to wait for ever.
fn supervision() -> Supervision {
    Supervision::restart()
        .backoff(RESTART_MIN, RESTART_MAX)
        // More than these pauses allow.
        .limit(RESTARTS_MAX, Duration::from_secs(60))
}

/// To the main actor with the least in its mailbox, in turn among equals. When that one is full the broker waits.
fn offer(mains: &Group<Main>, priority: usize, arrived: Arrived) -> Result<(), Delivery> {
    let main = mains.any().member();
    main.try_tell_lane(lane_of(priority), arrived)
        .map_err(|refused| refused.into_inner().delivery)
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // First, so that nothing is offered to those who have gone.
        self.consumers.lock().clear();
        self.mains.stop();
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Fetcher")
            .field("mains", &self.mains)
            .finish_non_exhaustive()
    }
}
