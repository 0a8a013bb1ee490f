//! The main actor of the original: it queries the database on its own thread and delegates the other look-ups.

use std::sync::Arc;

use freeboard::{Actor, Context, Group, Handler, meter::now_ns};

use super::{
    OriginalParts,
    pending::{Loss, Pending},
    redis_actor::{LookUp, RedisActor},
    snapshot::OriginalCounters,
};
use crate::{
    broker::Delivery,
    message::{KeyOf, Notification},
};

/// A notification that was delivered.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) delivery: Delivery,
    at_ns: u64,
}

impl Arrived {
    pub(super) fn now(delivery: Delivery) -> Self {
        Self {
            delivery,
            at_ns: now_ns(),
        }
    }
}

/// One of the main actors.
#[derive(Debug)]
pub(super) struct OriginalMain {
    pub(super) parts: Arc<OriginalParts>,
    pub(super) redis: Group<RedisActor>,
    pub(super) counters: Arc<OriginalCounters>,
}

impl Actor for OriginalMain {}

impl Handler<Arrived> for OriginalMain {
    type Reply = ();

    fn handle(&mut self, arrived: Arrived, _: &mut Context<Self>) {
        let begun_ns = now_ns();
        let delivery = arrived.delivery;
        let counters = &self.counters;
        counters.received.add(1);
        counters
            .in_queue
            .record(begun_ns.saturating_sub(arrived.at_ns));
        let notification = Notification::parse(delivery.body());
        let published_at = delivery.published_at();
        delivery.ack();
        let Ok(notification) = notification else {
            counters.malformed.add(1);
            return;
        };
        if let Some(waited) = notification.waited(published_at) {
            let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            counters.wait.record(waited_ns);
        }
        let Ok(device) = self.parts.directory.look_up_blocking(&notification.user) else {
            counters.failed.add(1);
            return;
        };
        let keys = KeyOf::ALL.map(|which| (which, notification.key(which)));
        let pending = Pending::new(
            self.parts.clone(),
            counters.clone(),
            notification,
            device,
            begun_ns,
        );
        for (which, key) in keys {
            let redis = self.redis.route(&key).member();
            let look_up = LookUp::new(key, which, pending.clone());
            if let Err(refused) = redis.tell_blocking(look_up) {
                refused.into_inner().ended(Err(Loss::Failed));
            }
        }
    }
}
