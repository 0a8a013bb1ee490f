//! The task of a consumer: it offers deliveries and settles them.

use std::{collections::BTreeMap, future, sync::Arc, time::Duration};

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
        Queue, Report, Unconfirmed,
        consumer::{Inbox, pause},
        delivery::{DEAD_LETTER_REFUSED_DELAY, Delivery, Message, Settle, Settlement},
        ledger::Ledger,
    },
    Shared,
    publisher::Outgoing,
    session::{self, ChannelRecovery, REPLY_SUCCESS},
};

/// The most deliveries settled at once, so that others are served in between.
const SETTLED_MAX: usize = 256;

/// Consumes one queue, on one channel after another.
pub(super) struct ConsumerTask {
    shared: Arc<Shared>,
    queue: Queue,
    prefetch: u16,
    inbox: Inbox,
}

/// The state that the owner requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Consuming,
    /// Only settle.
    Paused,
    Stopped,
}

/// A message to the task.
enum Returned {
    /// From the holder of a delivery.
    Settled(u64, Settlement),
    /// From the mover, for a delayed or dead-lettered delivery.
    Moved(u64, Settlement, Result<(), Unconfirmed>),
}

/// A delivery to acknowledge, and how the ledger counts it.
type Done = (u64, fn(&mut Ledger));

/// Sends settlements of one channel to its task. After the channel is gone, nobody receives them.
struct ReturnSender {
    returned: mpsc::UnboundedSender<Returned>,
}

impl Settle for ReturnSender {
    fn settle(&self, tag: u64, settlement: Settlement) {
        // Fails when the channel is gone: the delivery then comes again anyway.
        let _ = self.returned.send(Returned::Settled(tag, settlement));
    }
}

/// A delivery that the inbox refused.
struct Refused {
    delivery: Delivery,
    refusals: u32,
    again: Instant,
}

impl ConsumerTask {
    pub(super) fn new(shared: Arc<Shared>, queue: Queue, prefetch: u16, inbox: Inbox) -> Self {
        Self {
            shared,
            queue,
            prefetch,
            inbox,
        }
    }

    /// Runs until it is stopped or the broker is closed.
    pub(super) async fn run(mut self, mut phases: watch::Receiver<Phase>) {
        let mut sessions = self.shared.sessions.clone();
        loop {
            let connection = tokio::select! {
                biased;
                () = is_at(&mut phases, Phase::Paused) => {
                    // There is nothing to settle.
                    return is_at(&mut phases, Phase::Stopped).await;
                }
                connection = session::next(&mut sessions) => connection,
            };
            let Some(connection) = connection else { return };
            tokio::select! {
                () = self.consume_connection(&connection, &mut phases) => return,
                () = session::until_lost(&mut sessions, &connection) => {}
            }
        }
    }

    /// Consumes on one channel after another until stopped.
    async fn consume_connection(
        &mut self,
        connection: &Connection,
        phases: &mut watch::Receiver<Phase>,
    ) {
        let mut recovery = ChannelRecovery::new(self.shared.topology.clone(), self.shared.backoff);
        loop {
            if let Ok(channel) = connection.create_channel().await {
                let ended = self.consume_channel(&channel, phases).await;
                // It may be closed already.
                let _ = channel.close(REPLY_SUCCESS, "ended".into()).await;
                if let Ok(ChannelEnd::Stopped) = ended {
                    return;
                }
            }
            recovery.recover(connection).await;
        }
    }

    /// Consumes on one channel.
    async fn consume_channel(
        &mut self,
        channel: &Channel,
        phases: &mut watch::Receiver<Phase>,
    ) -> lapin::Result<ChannelEnd> {
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
        let (returned, mut returned_items) = mpsc::unbounded_channel();
        let mut unsettled =
            UnsettledDeliveries::new(self.shared.clone(), self.queue, channel, returned.clone());
        let returns = Arc::new(ReturnSender { returned });
        let mut refused: Option<Refused> = None;
        let mut batch = Vec::new();
        let mut paused = phases.clone();
        loop {
            tokio::select! {
                biased;
                _ = returned_items.recv_many(&mut batch, SETTLED_MAX) => {
                    if unsettled.take_back(batch.drain(..)).await.is_err() {
                        return Ok(ChannelEnd::Lost);
                    }
                }
                () = is_at(phases, Phase::Stopped) => return Ok(ChannelEnd::Stopped),
                () = is_at(&mut paused, Phase::Paused), if !unsettled.is_paused => {
                    // Deliveries that were received and not handed out go back with the channel.
                    channel
                        .basic_cancel(deliveries.tag(), BasicCancelOptions::default())
                        .await?;
                    unsettled.pause().await?;
                    if let Some(Refused { delivery, .. }) = refused.take() {
                        delivery.give_back();
                    }
                }
                () = until(unsettled.next_due()) => unsettled.move_due(),
                () = until(refused.as_ref().map(|refused| refused.again)) => {
                    if let Some(Refused { delivery, refusals, .. }) = refused.take() {
                        refused = self.offer(delivery, refusals);
                    }
                }
                next = deliveries.next(), if refused.is_none() && !unsettled.is_paused => {
                    let Some(Ok(next)) = next else { return Ok(ChannelEnd::Lost) };
                    let delivery = unsettled.hand_out(next, returns.clone());
                    refused = self.offer(delivery, 0);
                }
            }
        }
    }

    fn offer(&mut self, delivery: Delivery, refusals: u32) -> Option<Refused> {
        let delivery = (self.inbox)(delivery).err()?;
        Some(Refused {
            delivery,
            refusals: refusals.saturating_add(1),
            again: Instant::now() + pause(refusals),
        })
    }
}

enum ChannelEnd {
    Stopped,
    Lost,
}

/// Waits until the owner requests `wanted`.
async fn is_at(phases: &mut watch::Receiver<Phase>, wanted: Phase) {
    // A dropped owner has stopped it before.
    let _ = phases.wait_for(|phase| *phase >= wanted).await;
}

/// Waits until then; forever without a time.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => future::pending().await,
    }
}

/// The unsettled deliveries of one channel. When the channel goes, all of them are delivered again.
struct UnsettledDeliveries<'a> {
    shared: Arc<Shared>,
    queue: Queue,
    channel: &'a Channel,
    ledger: Arc<Mutex<Ledger>>,
    returned: mpsc::UnboundedSender<Returned>,
    /// By tag, so by age.
    unacked: BTreeMap<u64, Unacked>,
    /// Settlements that could not be moved, by the time of the next try.
    waiting: BTreeMap<(Instant, u64), Settlement>,
    is_paused: bool,
}

struct Unacked {
    message: Message,
    /// The number of failed moves.
    failures: u32,
}

impl<'a> UnsettledDeliveries<'a> {
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
            waiting: BTreeMap::new(),
            is_paused: false,
        }
    }

    fn hand_out(
        &mut self,
        delivery: lapin::message::Delivery,
        returns: Arc<ReturnSender>,
    ) -> Delivery {
        let tag = delivery.delivery_tag;
        let message = super::wire::message(delivery);
        let unacked = Unacked {
            message: message.clone(),
            failures: 0,
        };
        self.unacked.insert(tag, unacked);
        self.ledger.lock().deliver(1);
        Delivery::new(message, tag, returns)
    }

    async fn take_back(&mut self, batch: impl Iterator<Item = Returned>) -> lapin::Result<()> {
        let mut done: Vec<Done> = Vec::new();
        let mut back = Vec::new();
        for returned in batch {
            match returned {
                Returned::Settled(tag, Settlement::Ack) => done.push((tag, Ledger::ack)),
                Returned::Settled(tag, Settlement::GiveBack) => back.push(tag),
                Returned::Settled(tag, settlement) => self.move_on(tag, settlement),
                Returned::Moved(tag, Settlement::DeadLetter(_), Ok(())) => {
                    done.push((tag, Ledger::dead_letter));
                }
                Returned::Moved(tag, _, Ok(())) => done.push((tag, Ledger::retry)),
                Returned::Moved(tag, settlement, Err(unconfirmed)) => {
                    self.ledger.lock().moves_failed += 1;
                    match self.is_paused {
                        true => back.push(tag),
                        false => self.not_moved(tag, settlement, unconfirmed),
                    }
                }
            }
        }
        self.ack(done).await?;
        for tag in back {
            self.give_back(tag).await?;
        }
        Ok(())
    }

    /// A refused dead letter is deferred; everything else is tried again with back-off.
    fn not_moved(&mut self, tag: u64, settlement: Settlement, unconfirmed: Unconfirmed) {
        if let (Settlement::DeadLetter(_), Unconfirmed::Refused) = (&settlement, unconfirmed) {
            return self.move_on(tag, Settlement::Defer(DEAD_LETTER_REFUSED_DELAY));
        }
        let Some(unacked) = self.unacked.get_mut(&tag) else {
            return;
        };
        let jitter_ppm = fastrand::u32(0..=1_000_000);
        let backoff = &self.shared.backoff;
        let delay_ns = backoff.delay_jittered_ns(unacked.failures, jitter_ppm);
        unacked.failures = unacked.failures.saturating_add(1);
        let due = Instant::now() + Duration::from_nanos(delay_ns);
        self.waiting.insert((due, tag), settlement);
    }

    fn next_due(&self) -> Option<Instant> {
        Some(self.waiting.first_key_value()?.0.0)
    }

    fn move_due(&mut self) {
        let now = Instant::now();
        while let Some(waiting) = self.waiting.first_entry()
            && waiting.key().0 <= now
        {
            let ((_, tag), settlement) = waiting.remove_entry();
            self.move_on(tag, settlement);
        }
    }

    /// From now on, deliveries that cannot be moved go back.
    async fn pause(&mut self) -> lapin::Result<()> {
        self.is_paused = true;
        while let Some(((_, tag), _)) = self.waiting.pop_first() {
            self.give_back(tag).await?;
        }
        Ok(())
    }

    /// Acknowledges the oldest deliveries with one frame, as far as no older one is unsettled, and those behind a
    /// gap one by one, so that none waits for another. All frames go out with one write.
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

    /// Returns a delivery at once, if it is still unsettled.
    async fn give_back(&mut self, tag: u64) -> lapin::Result<()> {
        if self.unacked.remove(&tag).is_none() {
            return Ok(());
        }
        self.ledger.lock().give_back(1);
        let options = BasicNackOptions {
            requeue: true,
            ..Default::default()
        };
        self.channel.basic_nack(tag, options).await
    }

    /// Publishes it anew; it stays unacknowledged until that is confirmed.
    fn move_on(&self, tag: u64, settlement: Settlement) {
        let Some(Unacked { message, .. }) = self.unacked.get(&tag) else {
            return;
        };
        let message = message.clone();
        let topology = &self.shared.topology;
        let own = topology.queue(self.queue);
        let (exchange, routing_key, message) = match &settlement {
            Settlement::Retry(delay) => {
                let delay = topology.delay(*delay);
                (topology.waiting(delay), own, message.retried(delay))
            }
            Settlement::Defer(delay) => {
                let delay = topology.delay(*delay);
                (topology.waiting(delay), own, message.deferred(delay))
            }
            Settlement::DeadLetter(reason) => {
                let dead_letters = topology.queue(Queue::DeadLetters);
                let message = message.dead(reason.clone());
                (ShortString::default(), dead_letters, message)
            }
            // These are not published.
            Settlement::Ack | Settlement::GiveBack => return,
        };
        let returned = self.returned.clone();
        let report = Report::new(Box::new(move |outcome| {
            // Fails when the channel is gone: the delivery then comes again anyway.
            let _ = returned.send(Returned::Moved(tag, settlement, outcome));
        }));
        // If the mover has ended, it is dropped and comes back as unknown.
        let _ = self.shared.moves.send(Outgoing {
            exchange,
            routing_key,
            message,
            report,
            permit: None,
        });
    }
}

impl Drop for UnsettledDeliveries<'_> {
    fn drop(&mut self) {
        self.ledger.lock().give_back(self.unacked.len() as u64);
    }
}
