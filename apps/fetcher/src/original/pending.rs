//! A notification whose look-ups are in flight.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use freeboard::{cache::CacheError, meter::now_ns, redis::RedisError};
use parking_lot::Mutex;

use super::{OriginalParts, snapshot::OriginalCounters};
use crate::{
    broker::Queue,
    message::{KeyOf, Notification, Reply},
};

/// Shared by both look-ups; the later one publishes.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) parts: Arc<OriginalParts>,
    pub(super) counters: Arc<OriginalCounters>,
    notification: Notification,
    device: Option<String>,
    begun_ns: u64,
    open: AtomicU32,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    user_key: String,
    app_key: String,
    failure: Option<Loss>,
}

/// Why a notification was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Too many commands were in flight to Redis.
    Shed,
    /// Anything else.
    Failed,
}

impl From<&RedisError> for Loss {
    fn from(error: &RedisError) -> Self {
        match error {
            RedisError::QueueFull => Self::Shed,
            _ => Self::Failed,
        }
    }
}

impl From<&CacheError> for Loss {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Redis(error) | CacheError::FetchesFull(error) => error.into(),
            _ => Self::Failed,
        }
    }
}

impl Pending {
    pub(super) fn new(
        parts: Arc<OriginalParts>,
        counters: Arc<OriginalCounters>,
        notification: Notification,
        device: Option<String>,
        begun_ns: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            parts,
            counters,
            notification,
            device,
            begun_ns,
            open: AtomicU32::new(2),
            found: Mutex::default(),
        })
    }

    /// Records the result of a look-up.
    pub(super) fn found(&self, which: KeyOf, value: Result<Option<Bytes>, Loss>) {
        {
            let mut found = self.found.lock();
            match value {
                Ok(Some(value)) => {
                    let key = String::from_utf8_lossy(&value).into_owned();
                    match which {
                        KeyOf::User => found.user_key = key,
                        KeyOf::App => found.app_key = key,
                    }
                }
                Ok(None) => found.failure = found.failure.or(Some(Loss::Failed)),
                Err(loss) => found.failure = found.failure.or(Some(loss)),
            }
        }
        // Ordering: AcqRel pairs with itself: the later look-up sees the result of the earlier one. The lock orders
        // the results as well.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.publish();
        }
    }

    fn publish(&self) {
        let found = std::mem::take(&mut *self.found.lock());
        if let Some(loss) = found.failure {
            return self.lose(loss);
        }
        let notification = &self.notification;
        let reply = Reply {
            id: notification.id.clone(),
            user: notification.user.clone(),
            app: notification.app.clone(),
            user_key: found.user_key,
            app_key: found.app_key,
            device: self.device.clone(),
            payload: notification.payload.clone(),
            redeliveries: 0,
        };
        let (counters, begun_ns) = (self.counters.clone(), self.begun_ns);
        let published = self.parts.broker.publish_with(
            Queue::Replies,
            reply.to_body().into(),
            Box::new(move |outcome| match outcome {
                Ok(()) => {
                    counters.completed.add(1);
                    counters.lifetime.record(now_ns().saturating_sub(begun_ns));
                }
                Err(_) => counters.failed.add(1),
            }),
        );
        if published.is_err() {
            self.lose(Loss::Failed);
        }
    }

    fn lose(&self, loss: Loss) {
        match loss {
            Loss::Shed => self.counters.shed.add(1),
            Loss::Failed => self.counters.failed.add(1),
        }
    }
}
