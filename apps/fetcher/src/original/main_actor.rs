//! The main actor of the original: it queries the database on its own thread and delegates the other look-ups.

use std::sync::{Arc, atomic::Ordering};

use freeboard::{Actor, Context, Group, Handler, meter::now_ns};

use super::{
    OriginalParts,
    pending::{Loss, Pending},
    redis_actor::{LookUp, LookUps, RedisActor},
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
    /// Whether the keys of a notification are looked up with one command.
    pub(super) is_multi_get: bool,
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
        let body_bytes = delivery.body().len() as u64;
        // Ordering: Relaxed: a figure for a read-out.
        counters.body_bytes.store(body_bytes, Ordering::Relaxed);
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
        let look_ups = keys.map(|(which, key)| LookUp::new(key, which, pending.clone()));
        if self.is_multi_get {
            let redis = self.redis.route(look_ups[0].key()).member();
            if let Err(refused) = redis.tell_blocking(LookUps(look_ups)) {
                let LookUps(look_ups) = refused.into_inner();
                look_ups
                    .into_iter()
                    .for_each(|it| it.ended(Err(Loss::Failed)));
            }
            return;
        }
        for look_up in look_ups {
            let redis = self.redis.route(look_up.key()).member();
            if let Err(refused) = redis.tell_blocking(look_up) {
                refused.into_inner().ended(Err(Loss::Failed));
            }
        }
    }
}
