//! A notification whose look-ups are under way.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use freeboard::{cache::CacheError, meter::now_ns, redis::RedisError};
use parking_lot::Mutex;

use super::{OriginalParts, gauges::Gauges};
use crate::{
    broker::Queue,
    message::{Notification, Reply},
};

/// Both look-ups have it; the later one publishes.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) parts: Arc<OriginalParts>,
    pub(super) gauges: Arc<Gauges>,
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

/// Which key a look-up is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    User,
    App,
}

/// Why a notification is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// What may be in flight to Redis was full.
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
        gauges: Arc<Gauges>,
        notification: Notification,
        device: Option<String>,
        begun_ns: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            parts,
            gauges,
            notification,
            device,
            begun_ns,
            open: AtomicU32::new(2),
            found: Mutex::default(),
        })
    }

    /// A look-up has ended.
    pub(super) fn found(&self, which: Which, value: Result<Option<Bytes>, Loss>) {
        {
            let mut found = self.found.lock();
            match value {
                Ok(Some(value)) => {
                    let key = String::from_utf8_lossy(&value).into_owned();
                    match which {
                        Which::User => found.user_key = key,
                        Which::App => found.app_key = key,
                    }
                }
                Ok(None) => found.failure = found.failure.or(Some(Loss::Failed)),
                Err(loss) => found.failure = found.failure.or(Some(loss)),
            }
        }
        // Ordering: AcqRel, though the lock orders all that is read: one of the two sees the last one.
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
        };
        let (gauges, begun_ns) = (self.gauges.clone(), self.begun_ns);
        let published = self.parts.broker.publish_with(
            Queue::Replies,
            reply.to_body().into(),
            Box::new(move |outcome| match outcome {
                Ok(()) => {
                    gauges.completed.add(1);
                    gauges.lifetime.record(now_ns().saturating_sub(begun_ns));
                }
                Err(_) => gauges.failed.add(1),
            }),
        );
        if published.is_err() {
            self.lose(Loss::Failed);
        }
    }

    fn lose(&self, loss: Loss) {
        match loss {
            Loss::Shed => self.gauges.shed.add(1),
            Loss::Failed => self.gauges.failed.add(1),
        }
    }
}
