//! The state of one notification in flight.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use freeboard::{cache::CacheError, redis::RedisError};

use crate::{
    broker::{Delivery, PublishError},
    message::{KeyOf, Notification, Reply},
    store::StoreError,
};

/// The id of a job, greater than all before it. Ids are never reused, so a late answer matches no job.
pub(super) type JobId = u64;

/// Why a job failed. Greater values say more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// A full component refused it. It is delivered again, and this counts as no attempt.
    NoRoom(Passing),
    /// Another attempt may succeed.
    Passing(Passing, String),
    /// Dead-lettered with this reason.
    Lasting(String),
}

/// The component that failed temporarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Passing {
    Cache,
    Store,
    Directory,
    Publish,
    /// The broker delivered more than the prefetch after a reconnect.
    Broker,
    /// The deadline passed.
    Deadline,
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

/// Something that is awaited until this is dropped.
pub(super) type Wanted = Arc<()>;

/// Tells whether the result is still awaited.
pub(super) type Interest = Weak<()>;

/// A notification in flight and the results so far.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) delivery: Delivery,
    /// Dropped after the delivery is settled.
    _ticket: Ticket,
    pub(super) notification: Notification,
    pub(super) begun_ns: u64,
    pub(super) answers: Wanted,
    keys: [Option<String>; 2],
    device: Option<String>,
    /// Look-ups without an answer.
    open: u32,
    failure: Option<Failure>,
}

/// The look-ups of a job: two keys and a device.
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

    /// Stores a key, or fails the job if there is none. Whether all look-ups are answered.
    pub(super) fn found(&mut self, which: KeyOf, value: Option<&Bytes>) -> bool {
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

    /// Stores the user's device, if any. Returns as [`Job::found`].
    pub(super) fn has_device(&mut self, device: Option<String>) -> bool {
        self.device = device;
        self.answered()
    }

    /// Records a failed look-up. Returns as [`Job::found`].
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
            redeliveries: self.delivery.redeliveries(),
        })
    }
}

/// Counts a notification as in flight until it is dropped. The number in flight is one less than the handles.
pub(super) type Ticket = Arc<()>;
