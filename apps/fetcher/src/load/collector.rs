//! Consumes and records what fetchers publish.

use std::{num::NonZeroU16, sync::Arc};

use super::{Account, Fate};
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
        let take = |queue, fate, id| consume(broker, queue, fate, account, id);
        Ok(Self {
            _consumers: [
                take(Queue::Replies, Fate::Replied, id_of_reply)?,
                take(Queue::DeadLetters, Fate::Dead, id_of_notification)?,
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
    let take = |queue| consume(broker, queue, Fate::Left, account, id_of_notification);
    Ok([take(Queue::Priority0)?, take(Queue::Priority1)?])
}

fn consume(
    broker: &dyn Broker,
    queue: Queue,
    fate: Fate,
    account: &Arc<Account>,
    id: fn(&Delivery) -> Option<MessageId>,
) -> Result<Consumer, ConsumeError> {
    let account = account.clone();
    let inbox: Inbox = Box::new(move |delivery| {
        if let Some(MessageId::Number(id)) = id(&delivery) {
            account.saw(id, fate);
        }
        delivery.ack();
        Ok(())
    });
    broker.consume(queue, PREFETCH, inbox)
}

fn id_of_reply(delivery: &Delivery) -> Option<MessageId> {
    Some(Reply::parse(delivery.body()).ok()?.id)
}

fn id_of_notification(delivery: &Delivery) -> Option<MessageId> {
    Some(Notification::parse(delivery.body()).ok()?.id)
}
