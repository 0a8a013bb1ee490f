//! Consumes and records what fetchers publish.

use std::{num::NonZeroU16, sync::Arc};

use super::Account;
use crate::{
    broker::{Broker, ConsumeError, Consumer, Delivery, Inbox, Queue},
    message::{MessageId, Notification, Reply},
};

const PREFETCH: NonZeroU16 = NonZeroU16::new(2_048).expect("it is not 0");

/// Records replies and dead letters until dropped.
#[derive(Debug)]
pub struct Collector {
    _consumers: [Consumer; 2],
}

impl Collector {
    /// Starts consuming.
    ///
    /// # Errors
    /// [`ConsumeError`].
    pub fn start(broker: &dyn Broker, account: &Arc<Account>) -> Result<Self, ConsumeError> {
        Ok(Self {
            _consumers: [
                consume(broker, Queue::Replies, account, saw_reply)?,
                consume(broker, Queue::DeadLetters, account, saw_dead_letter)?,
            ],
        })
    }
}

/// Consumes the notifications left in their queues and records them as left. For the end of a run, after the
/// fetchers have stopped.
///
/// # Errors
/// [`ConsumeError`].
pub fn sweep(broker: &dyn Broker, account: &Arc<Account>) -> Result<[Consumer; 2], ConsumeError> {
    let take = |queue| consume(broker, queue, account, saw_left);
    Ok([take(Queue::Priority0)?, take(Queue::Priority1)?])
}

fn consume(
    broker: &dyn Broker,
    queue: Queue,
    account: &Arc<Account>,
    saw: fn(&Account, &Delivery),
) -> Result<Consumer, ConsumeError> {
    let account = account.clone();
    let inbox: Inbox = Box::new(move |delivery| {
        saw(&account, &delivery);
        delivery.ack();
        Ok(())
    });
    broker.consume(queue, PREFETCH, inbox)
}

fn saw_reply(account: &Account, delivery: &Delivery) {
    if let Ok(reply) = Reply::parse(delivery.body())
        && let MessageId::Number(id) = reply.id
    {
        account.saw_reply(id, reply.redeliveries);
    }
}

fn saw_dead_letter(account: &Account, delivery: &Delivery) {
    if let Some(id) = id_of_notification(delivery) {
        account.saw_dead_letter(id);
    }
}

fn saw_left(account: &Account, delivery: &Delivery) {
    if let Some(id) = id_of_notification(delivery) {
        account.saw_left(id);
    }
}

fn id_of_notification(delivery: &Delivery) -> Option<u64> {
    match Notification::parse(delivery.body()).ok()?.id {
        MessageId::Number(id) => Some(id),
        MessageId::Text(_) => None,
    }
}
