//! The thread that brings a consumer its messages.

use std::{collections::VecDeque, sync::Arc};

use super::super::{
    delivery::{Delivery, Settle, Settlement},
    inbox::Inbox,
    offer,
};
use super::queue::MemoryQueue;

/// Takes for one consumer and offers to its inbox, until it pauses or leaves.
#[derive(Debug)]
pub(super) struct Courier {
    hands: Arc<Hands>,
}

/// Where a consumer's deliveries are given back.
#[derive(Debug)]
struct Hands {
    queue: Arc<MemoryQueue>,
    dead_letters: Arc<MemoryQueue>,
    consumer: u64,
}

impl Courier {
    pub(super) fn new(
        queue: Arc<MemoryQueue>,
        dead_letters: Arc<MemoryQueue>,
        consumer: u64,
    ) -> Self {
        Self {
            hands: Arc::new(Hands {
                queue,
                dead_letters,
                consumer,
            }),
        }
    }

    pub(super) fn run(self, mut inbox: Inbox) {
        let Hands {
            queue, consumer, ..
        } = &*self.hands;
        let mut taken = VecDeque::new();
        while queue.take(*consumer, &mut taken).is_some() {
            while let Some((tag, message)) = taken.pop_front() {
                let mut delivery = Delivery::new(message, tag, self.hands.clone());
                let mut refusals = 0;
                loop {
                    if !queue.is_open(*consumer) {
                        // The last first, so that they are in order again.
                        for (tag, message) in taken.drain(..).rev() {
                            Delivery::new(message, tag, self.hands.clone()).give_back();
                        }
                        return delivery.give_back();
                    }
                    match inbox.offer(delivery) {
                        Ok(()) => break,
                        Err(refused) => delivery = refused,
                    }
                    queue.pause(*consumer, offer::pause(refusals));
                    refusals = refusals.saturating_add(1);
                }
            }
        }
    }
}

impl Settle for Hands {
    fn settle(&self, tag: u64, settlement: Settlement) {
        self.queue
            .settle(self.consumer, tag, settlement, &self.dead_letters);
    }
}
