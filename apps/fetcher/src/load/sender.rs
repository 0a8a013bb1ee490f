//! Publishes notifications when they are due, independent of earlier ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use freeboard::meter::Counter;
use parking_lot::Mutex;

use super::Account;
use crate::{
    broker::{Broker, Queue},
    message::{MessageId, Notification},
};

/// The interval between two batches.
const TICK: Duration = Duration::from_millis(1);

/// The settings of the load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The number of users; each notification is for a random one.
    pub users: u64,
    /// One of so many notifications has priority 0.
    pub urgent_every: u64,
    /// Bytes of payload.
    pub payload: usize,
    /// The seed of the random users.
    pub seed: u64,
    /// The most notifications that are published and not accounted for, to measure a capacity; no bound unless set.
    pub under_way_max: Option<u64>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            users: 100_000,
            urgent_every: 5,
            payload: 64,
            seed: 1,
            under_way_max: None,
        }
    }
}

/// Publishes all notifications of an account, for one app, and returns once the broker has confirmed each. Refused
/// and unconfirmed ones are published again. Returns the number published, also if `stop` ended it.
pub fn send(
    broker: &dyn Broker,
    account: &Account,
    options: &LoadOptions,
    stop: &AtomicBool,
) -> u64 {
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let payload = "x".repeat(options.payload);
    let confirmed = Arc::new(Counter::new());
    let again: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut refused = Vec::new();
    let mut next = 0;
    // Ordering: Relaxed: the flag carries no data.
    while !stop.load(Ordering::Relaxed) && confirmed.get() < account.len() {
        let now = Instant::now();
        let mut batch = std::mem::take(&mut refused);
        batch.append(&mut again.lock());
        let end = match options.under_way_max {
            Some(most) => account.accounted().saturating_add(most).min(account.len()),
            None => account.len(),
        };
        while next < end && account.due(next) <= now {
            batch.push(next);
            next += 1;
        }
        for id in batch {
            // After one refusal the rest of the batch waits: the broker is full or disconnected.
            if !refused.is_empty() {
                refused.push(id);
                continue;
            }
            let user = chance.u64(0..options.users);
            let notification = Notification {
                id: MessageId::Number(id),
                user: format!("user-{user}"),
                app: "app-0".to_owned(),
                due_us: Some(account.due_us(id)),
                payload: payload.clone(),
            };
            let queue = match id % options.urgent_every {
                0 => Queue::Priority0,
                _ => Queue::Priority1,
            };
            let (confirmed, again) = (confirmed.clone(), again.clone());
            let published = broker.publish_with(
                queue,
                notification.to_body().into(),
                Box::new(move |outcome| match outcome {
                    Ok(()) => confirmed.add(1),
                    Err(_) => again.lock().push(id),
                }),
            );
            if published.is_err() {
                refused.push(id);
            }
        }
        thread::sleep(TICK);
    }
    // A notification that was never accepted was never sent.
    next - (refused.len() + again.lock().len()) as u64
}
