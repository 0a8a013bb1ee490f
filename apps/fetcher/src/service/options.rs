//! The settings of a fetcher, and the parts it is built from.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use freeboard::{
    GROUP_MEMBERS_MAX,
    cache::Cache,
    flow::{Backoff, ConfigError},
};

use crate::{
    broker::{Broker, Delivery},
    choices::Wait,
    message,
    store::{Directory, SlowStore},
};

/// The parts that a fetcher uses, each embedded or real.
#[derive(Clone)]
pub struct Parts {
    /// The source of notifications and the target of replies.
    pub broker: Arc<dyn Broker>,
    /// The cache of the keys of users and apps, on Redis.
    pub cache: Cache,
    /// The store of keys that are not cached.
    pub store: Arc<dyn SlowStore>,
    /// The devices of users.
    pub directory: Arc<dyn Directory>,
}

/// The highest bound of a main actor's lane.
const MAILBOX_MAX: usize = 1 << 24;
/// The longest deadline of a notification, in milliseconds: an hour.
const DEADLINE_MS_MAX: usize = 60 * 60 * 1_000;
/// The most users in one query.
const QUESTION_USERS_MAX: usize = 1_024;

/// Settings of a fetcher.
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// The number of main actors; default 2.
    pub mains: usize,
    /// The wait strategy of main actors with threads of their own; default none: they run on the system's workers.
    pub wait: Option<Wait>,
    /// The bound of each priority lane of a main actor, in notifications; default 4,096.
    pub mailbox: usize,
    /// The notifications of each priority in flight at once; default 1,024 and 512.
    pub prefetch: [NonZeroU16; 2],
    /// The most users in one directory query; default 64.
    pub query_users: usize,
    /// The most directory queries of a main actor in flight at once; default 1. Users that arrive meanwhile share
    /// the next query.
    pub queries: usize,
    /// The attempts before a notification is dead-lettered; default 20. A notification that a full fetcher or store
    /// refused was not attempted: it is deferred until it is.
    pub attempts: u32,
    /// The delay before a notification that failed or was refused is delivered again; default from 100 ms, doubling
    /// each time, to 10 s. After a failure the earlier attempts count, after a refusal all earlier deliveries.
    pub backoff: Backoff,
    /// The time from the start of a notification to the confirm of its reply; default 30 s. After it, the attempt
    /// counts as failed, the notification is delivered again later, and late results are ignored. Choose it longer
    /// than [`wait_max`](freeboard::cache::CacheOptions::wait_max) plus a fetch, and shorter than RabbitMQ's
    /// consumer timeout (30 minutes).
    pub deadline: Duration,
    /// The longest wait before a notification reaches this fetcher, since its publication or the end of its last delay;
    /// default none. One that waited longer is put off while at least half of its priority's prefetch, and at least two,
    /// are with main actors: it is delivered again after the longest delay of the back-off, which is no attempt. A fetcher
    /// with more load than it can carry then replies to some notifications in time; without a limit all replies are late.
    /// An idle fetcher puts nothing off, nor does one with a prefetch of 1, or with mailboxes far below the prefetch.
    ///
    /// What is put off comes back, so this helps against a load that ends. A lasting one fills the broker, whose bound
    /// then refuses publishers. Choose it above the difference of the clocks of publishers and fetchers. At RabbitMQ, also
    /// above the time that it takes to accept a deferral, which counts as waiting: 2 ms at rest, 0.2 s where 3,000 are put
    /// off at once. It has no effect on a first delivery whose publisher gives no time, or one more than 30 days ago.
    pub wait_max: Option<Duration>,
}

/// Settings out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A setting is out of range.
    #[error("{name} must be between 1 and {max}")]
    Range {
        /// The name of the setting.
        name: &'static str,
        /// The greatest valid value.
        max: usize,
    },
    /// The back-off is out of range.
    #[error(transparent)]
    Backoff(#[from] ConfigError),
}

impl Default for FetcherOptions {
    fn default() -> Self {
        let milli = 1_000_000;
        Self {
            mains: 2,
            wait: None,
            mailbox: 4_096,
            prefetch: [NonZeroU16::new(1_024), NonZeroU16::new(512)]
                .map(|prefetch| prefetch.unwrap_or(NonZeroU16::MIN)),
            query_users: 64,
            queries: 1,
            attempts: 20,
            backoff: Backoff {
                min_ns: 100 * milli,
                max_ns: 10_000 * milli,
                factor: 2,
            },
            deadline: Duration::from_secs(30),
            wait_max: None,
        }
    }
}

impl FetcherOptions {
    /// The most notifications in flight in one main actor: all may be routed to the same one.
    pub(super) fn jobs_max(&self) -> usize {
        self.prefetch.iter().map(|it| usize::from(it.get())).sum()
    }

    /// Whether `in_flight` is at least half of a priority's prefetch.
    pub(super) fn is_busy(&self, priority: usize, in_flight: usize) -> bool {
        let prefetch = usize::from(self.prefetch[priority].get());
        // One whose settling has just made room for this delivery may still count.
        in_flight >= prefetch.div_ceil(2).max(2)
    }

    /// Whether a delivery has waited longer than [`FetcherOptions::wait_max`].
    pub(super) fn is_late(&self, delivery: &Delivery) -> bool {
        self.wait_max.is_some_and(|most| {
            let waited = delivery.ready_at().and_then(message::since);
            waited.is_some_and(|waited| waited > most)
        })
    }

    pub(super) fn validate(&self) -> Result<(), OptionsError> {
        let milliseconds = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
        for (name, value, max) in [
            ("mains", self.mains, GROUP_MEMBERS_MAX),
            ("mailbox", self.mailbox, MAILBOX_MAX),
            ("query_users", self.query_users, QUESTION_USERS_MAX),
            ("queries", self.queries, MAILBOX_MAX),
            ("attempts", self.attempts as usize, u32::MAX as usize),
            (
                "deadline in ms",
                milliseconds(self.deadline),
                DEADLINE_MS_MAX,
            ),
            (
                "wait_max in ms",
                self.wait_max.map_or(1, milliseconds),
                DEADLINE_MS_MAX,
            ),
        ] {
            if !(1..=max).contains(&value) {
                return Err(OptionsError::Range { name, max });
            }
        }
        self.backoff.validate()?;
        Ok(())
    }
}
