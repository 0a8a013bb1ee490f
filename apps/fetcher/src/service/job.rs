//! What is done for one notification.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use freeboard::{cache::CacheError, redis::RedisError};

use super::under_way::Ticket;
use crate::{
    broker::{Delivery, PublishError},
    message::{Notification, Reply},
    store::StoreError,
};

/// A job of one main actor, greater than all before it. Never used twice by it, so that an answer that comes too
/// late is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobId(u64);

/// Numbers of one life: more than a process lives to give.
const LIFE_BITS: u32 = 40;

/// Gives numbers to jobs.
#[derive(Debug)]
pub(super) struct JobIds {
    next: u64,
}

impl JobIds {
    /// Numbers of one life of a main actor: those of another begin `life` elsewhere.
    pub(super) const fn of_life(life: u32) -> Self {
        Self {
            next: (life as u64) << LIFE_BITS,
        }
    }

    pub(super) fn next(&mut self) -> JobId {
        self.next += 1;
        JobId(self.next)
    }
}

#[cfg(test)]
impl JobId {
    pub(super) const fn of_test(number: u64) -> Self {
        Self(number)
    }
}

/// Which of a job's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    User,
    App,
}

impl Which {
    /// The key in the cache and in the slow store.
    pub(super) fn key(self, notification: &Notification) -> String {
        match self {
            Self::User => format!("user:{}", notification.user),
            Self::App => format!("app:{}", notification.app),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::App => "app",
        }
    }
}

/// Why a job cannot be done: by what others do, or for good. Ordered by how much they say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// Nobody had room for it. To come again, and no attempt.
    NoRoom(Passing),
    /// Worth another attempt.
    Passing(Passing, String),
    /// Dead-lettered with this reason.
    Lasting(String),
}

/// A failure that another attempt may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Passing {
    Cache,
    Store,
    Directory,
    Publish,
    /// It was delivered again while it was still under way.
    Broker,
    /// It took too long.
    Deadline,
}

impl Passing {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Deadline as usize + 1;
}

impl Failure {
    pub(super) fn of_cache(error: &CacheError) -> Self {
        match error {
            CacheError::WaitersFull
            | CacheError::FlightsFull
            | CacheError::Redis(RedisError::QueueFull)
            | CacheError::FetchesFull(RedisError::QueueFull) => Self::NoRoom(Passing::Cache),
            error => Self::Passing(Passing::Cache, error.to_string()),
        }
    }

    pub(super) fn of_store(by: Passing, error: &StoreError) -> Self {
        match error {
            StoreError::Full => Self::NoRoom(by),
            error => Self::Passing(by, error.to_string()),
        }
    }

    pub(super) fn of_publish(error: &PublishError) -> Self {
        match error {
            PublishError::Full(_) => Self::NoRoom(Passing::Publish),
            error => Self::Passing(Passing::Publish, error.to_string()),
        }
    }
}

/// What somebody waits for; gone with whoever waits.
#[derive(Debug, Default)]
pub(super) struct Wanted(Arc<()>);

/// Whether somebody still waits.
pub(super) struct Interest(Weak<()>);

impl Wanted {
    pub(super) fn interest(&self) -> Interest {
        Interest(Arc::downgrade(&self.0))
    }
}

impl Interest {
    pub(super) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A notification that is under way, and what is known of it so far.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) delivery: Delivery,
    /// Dropped after the delivery was settled.
    _ticket: Ticket,
    pub(super) notification: Notification,
    pub(super) begun_ns: u64,
    pub(super) answers: Wanted,
    keys: [Option<String>; 2],
    device: Option<String>,
    /// Look-ups that have no answer yet.
    open: u32,
    failure: Option<Failure>,
}

/// Look-ups of a job: two keys and a device.
const LOOK_UPS: u32 = 3;

impl Job {
    pub(super) fn new(
        delivery: Delivery,
        ticket: Ticket,
        notification: Notification,
        begun_ns: u64,
    ) -> Self {
        Self {
            delivery,
            _ticket: ticket,
            notification,
            begun_ns,
            answers: Wanted::default(),
            keys: [None, None],
            device: None,
            open: LOOK_UPS,
            failure: None,
        }
    }

    /// A key, or that there is none. Whether all look-ups are answered now.
    pub(super) fn found(&mut self, which: Which, value: Option<&Bytes>) -> bool {
        match value.map(|value| std::str::from_utf8(value)) {
            Some(Ok(key)) => self.keys[which as usize] = Some(key.to_owned()),
            Some(Err(_)) => self.fail(Failure::Lasting(format!(
                "the {}'s key is not UTF-8",
                which.name()
            ))),
            None => self.fail(Failure::Lasting(format!("the {} has no key", which.name()))),
        }
        self.answered()
    }

    /// The user's device, if there is one. As [`Job::found`].
    pub(super) fn has_device(&mut self, device: Option<String>) -> bool {
        self.device = device;
        self.answered()
    }

    /// A look-up has failed. As [`Job::found`].
    pub(super) fn failed(&mut self, failure: Failure) -> bool {
        self.fail(failure);
        self.answered()
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = self.failure.take().max(Some(failure));
    }

    fn answered(&mut self) -> bool {
        self.open -= 1;
        self.open == 0
    }

    /// The reply, once all look-ups are answered.
    pub(super) fn reply(&mut self) -> Result<Reply, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let [user_key, app_key] = &mut self.keys;
        let key = |key: &mut Option<String>| key.take().unwrap_or_default();
        Ok(Reply {
            id: self.notification.id.clone(),
            user: self.notification.user.clone(),
            app: self.notification.app.clone(),
            user_key: key(user_key),
            app_key: key(app_key),
            device: self.device.take(),
            payload: std::mem::take(&mut self.notification.payload),
        })
    }
}
