//! The task that brings a consumer its messages, and takes back what becomes of them.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, future::try_join_all};
use lapin::{
    Channel, Connection,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
    },
    types::{FieldTable, ShortString},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    super::{
        Queue,
        delivery::{Delivery, Settle, Settlement},
        error::Unconfirmed,
        inbox::Inbox,
        ledger::Ledger,
        message::Message,
        offer,
        report::Report,
    },
    Shared,
    publisher::Outgoing,
    session::{self, REPLY_SUCCESS},
};

/// What one visit settles at most, in deliveries: others are looked at in between.
const SETTLED_MAX: usize = 256;

/// Consumes one queue, on one channel after the other.
pub(super) struct Carrier {
    shared: Arc<Shared>,
    queue: Queue,
    prefetch: u16,
    inbox: Inbox,
}

/// What a consumer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Consuming,
    /// Settle what is there.
    Paused,
    Stopped,
}

/// What comes back to the task.
enum Returned {
    /// From the holder of a delivery.
    Settled(u64, Settlement),
    /// From the publisher, for one that was put off or dead-lettered.
    Moved(u64, Move, Result<(), Unconfirmed>),
}

#[derive(Clone, Copy)]
enum Move {
    Retry,
    DeadLetter,
}

/// A delivery that is to be acknowledged, and as what it counts.
type Done = (u64, fn(&mut Ledger));

/// Where deliveries of one channel are given back. When the channel is gone nobody listens any more.
struct Hands {
    returned: mpsc::UnboundedSender<Returned>,
}

impl Settle for Hands {
    fn settle(&self, tag: u64, settlement: Settlement) {
        // Refused when the channel has gone: then it is delivered again anyway.
        let _ = self.returned.send(Returned::Settled(tag, settlement));
    }
}

/// A delivery that the inbox had no room for.
struct Refused {
    delivery: Delivery,
    refusals: u32,
    again: Instant,
}

impl Carrier {
    pub(super) fn new(shared: Arc<Shared>, queue: Queue, prefetch: u16, inbox: Inbox) -> Self {
        Self {
            shared,
            queue,
            prefetch,
            inbox,
        }
    }

    /// Until it is stopped, or the broker is closed.
    pub(super) async fn run(mut self, mut phases: watch::Receiver<Phase>) {
        let mut sessions = self.shared.sessions.clone();
        let mut attempt = 0;
        loop {
            let backoff = self.shared.backoff;
            let connection = tokio::select! {
                biased;
                () = is_at(&mut phases, Phase::Paused) => {
                    // There is nothing that could be settled.
                    return is_at(&mut phases, Phase::Stopped).await;
                }
                connection = session::next(&mut sessions) => connection,
            };
            let Some(connection) = connection else { return };
            let ended = tokio::select! {
                ended = self.carry_on(&connection, &mut phases) => ended,
                () = session::until_lost(&mut sessions, &connection) => Ok(Ended::Lost),
            };
            match ended {
                Ok(Ended::Stopped) => return,
                Ok(Ended::Lost) => attempt = 0,
                Err(_) => {
                    session::pause(&backoff, attempt).await;
                    attempt = attempt.saturating_add(1);
                }
            }
        }
    }

    /// Consumes on a channel of its own.
    async fn carry_on(
        &mut self,
        connection: &Connection,
        phases: &mut watch::Receiver<Phase>,
    ) -> lapin::Result<Ended> {
        let channel = connection.create_channel().await?;
        let ended = self.carry(&channel, phases).await?;
        if let Ended::Stopped = ended {
            // It may be gone; then all is as it should be.
            let _ = channel.close(REPLY_SUCCESS, "stopped".into()).await;
        }
        Ok(ended)
    }

    /// Consumes on one channel.
    async fn carry(
        &mut self,
        channel: &Channel,
        phases: &mut watch::Receiver<Phase>,
    ) -> lapin::Result<Ended> {
        channel
            .basic_qos(self.prefetch, BasicQosOptions::default())
            .await?;
        let mut deliveries = channel
            .basic_consume(
                self.shared.topology.queue(self.queue),
                ShortString::default(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        let (returned, mut from_hands) = mpsc::unbounded_channel();
        let mut desk = Desk::new(self.shared.clone(), self.queue, channel, returned.clone());
        let hands = Arc::new(Hands { returned });
        let mut refused: Option<Refused> = None;
        let mut batch = Vec::new();
        let mut is_paused = false;
        let mut paused = phases.clone();
        loop {
            tokio::select! {
                biased;
                _ = from_hands.recv_many(&mut batch, SETTLED_MAX) => {
                    if desk.take_back(batch.drain(..)).await.is_err() {
                        return Ok(Ended::Lost);
                    }
                }
                () = is_at(phases, Phase::Stopped) => return Ok(Ended::Stopped),
                () = is_at(&mut paused, Phase::Paused), if !is_paused => {
                    // What has come and was not offered goes back with the channel.
                    is_paused = true;
                    channel
                        .basic_cancel(deliveries.tag(), BasicCancelOptions::default())
                        .await?;
                }
                () = until(refused.as_ref()), if refused.is_some() && !is_paused => {
                    if let Some(Refused { delivery, refusals, .. }) = refused.take() {
                        refused = self.offer(delivery, refusals);
                    }
                }
                next = deliveries.next(), if refused.is_none() && !is_paused => {
                    let Some(Ok(next)) = next else { return Ok(Ended::Lost) };
                    let delivery = desk.hand_out(next, hands.clone());
                    refused = self.offer(delivery, 0);
                }
            }
        }
    }

    fn offer(&mut self, delivery: Delivery, refusals: u32) -> Option<Refused> {
        let delivery = self.inbox.offer(delivery).err()?;
        Some(Refused {
            delivery,
            refusals: refusals.saturating_add(1),
            again: Instant::now() + offer::pause(refusals),
        })
    }
}

enum Ended {
    Stopped,
    Lost,
}

/// Once the consumer is to be so far.
async fn is_at(phases: &mut watch::Receiver<Phase>, wanted: Phase) {
    // An owner who has gone has stopped it before.
    let _ = phases.wait_for(|phase| *phase >= wanted).await;
}

async fn until(refused: Option<&Refused>) {
    if let Some(refused) = refused {
        sleep_until(refused.again).await;
    }
}

/// What is unsettled on one channel. When it goes, all of it is on its way back.
struct Desk<'a> {
    shared: Arc<Shared>,
    queue: Queue,
    channel: &'a Channel,
    ledger: Arc<Mutex<Ledger>>,
    returned: mpsc::UnboundedSender<Returned>,
    /// By tag, and so by age.
    unacked: BTreeMap<u64, Message>,
}

impl<'a> Desk<'a> {
    fn new(
        shared: Arc<Shared>,
        queue: Queue,
        channel: &'a Channel,
        returned: mpsc::UnboundedSender<Returned>,
    ) -> Self {
        Self {
            ledger: shared.ledgers[queue.index()].clone(),
            shared,
            queue,
            channel,
            returned,
            unacked: BTreeMap::new(),
        }
    }

    fn hand_out(&mut self, delivery: lapin::message::Delivery, hands: Arc<Hands>) -> Delivery {
        let tag = delivery.delivery_tag;
        let message = super::wire::message(delivery);
        self.unacked.insert(tag, message.clone());
        self.ledger.lock().deliver(1);
        Delivery::new(message, tag, hands)
    }

    async fn take_back(&mut self, batch: impl Iterator<Item = Returned>) -> lapin::Result<()> {
        let mut done: Vec<Done> = Vec::new();
        let mut not_moved = Vec::new();
        for returned in batch {
            match returned {
                Returned::Settled(tag, Settlement::Ack) => done.push((tag, Ledger::ack)),
                Returned::Settled(tag, Settlement::Retry(delay)) => {
                    let exchange = self.shared.topology.retry(delay);
                    let routing_key = self.shared.topology.queue(self.queue);
                    self.move_on(tag, Move::Retry, exchange, routing_key, Message::put_off);
                }
                Returned::Settled(tag, Settlement::DeadLetter(reason)) => {
                    let exchange = ShortString::default();
                    let routing_key = self.shared.topology.queue(Queue::DeadLetters);
                    let dead = |message: Message| message.dead(reason);
                    self.move_on(tag, Move::DeadLetter, exchange, routing_key, dead);
                }
                Returned::Moved(tag, Move::Retry, Ok(())) => done.push((tag, Ledger::retry)),
                Returned::Moved(tag, Move::DeadLetter, Ok(())) => {
                    done.push((tag, Ledger::dead_letter));
                }
                Returned::Moved(tag, _, Err(_)) => not_moved.push(tag),
            }
        }
        self.ack(done).await?;
        for tag in not_moved {
            self.give_back(tag).await?;
        }
        Ok(())
    }

    /// Acknowledges the oldest with one word, as far as no older one is unsettled, and those behind a gap one
    /// by one: none waits for another. All words go with one write.
    async fn ack(&mut self, mut done: Vec<Done>) -> lapin::Result<()> {
        done.sort_unstable_by_key(|(tag, _)| *tag);
        let oldest = self.unacked.keys().zip(&done);
        let together = oldest.take_while(|(tag, (done, _))| *tag == done).count();
        let first = together.saturating_sub(1);
        let acks = done[first..].iter().enumerate().map(|(index, (tag, _))| {
            let multiple = index == 0 && together > 1;
            self.channel.basic_ack(*tag, BasicAckOptions { multiple })
        });
        try_join_all(acks).await?;
        let mut ledger = self.ledger.lock();
        for (tag, count) in done {
            self.unacked.remove(&tag);
            count(&mut ledger);
        }
        Ok(())
    }

    /// It could not be moved: it comes again at once.
    async fn give_back(&mut self, tag: u64) -> lapin::Result<()> {
        let options = BasicNackOptions {
            requeue: true,
            ..Default::default()
        };
        self.channel.basic_nack(tag, options).await?;
        self.unacked.remove(&tag);
        self.ledger.lock().give_back(1);
        Ok(())
    }

    /// Publishes it anew; it stays unacknowledged until that is confirmed.
    fn move_on(
        &self,
        tag: u64,
        kind: Move,
        exchange: ShortString,
        routing_key: ShortString,
        change: impl FnOnce(Message) -> Message,
    ) {
        let Some(message) = self.unacked.get(&tag).cloned() else {
            return;
        };
        let returned = self.returned.clone();
        let report = Report::new(Box::new(move |outcome| {
            // Refused when the channel has gone: then it is delivered again anyway.
            let _ = returned.send(Returned::Moved(tag, kind, outcome));
        }));
        // Refused, it is dropped and comes back as unknown: the publisher has ended.
        let _ = self.shared.outgoing.send(Outgoing {
            exchange,
            routing_key,
            message: change(message),
            report,
            permit: None,
        });
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        self.ledger.lock().give_back(self.unacked.len() as u64);
    }
}
