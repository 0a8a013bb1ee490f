//! A task that publishes, on a channel of its own, and hears the confirms.

use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::ShortString,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    super::{Report, Unconfirmed, delivery::Message},
    session::{self, ChannelRecovery, REPLY_SUCCESS, Sessions},
    wire,
};

/// A message on its way to RabbitMQ. Dropped, it is reported as unknown.
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) message: Message,
    pub(super) report: Report,
    /// Its place among what may be unconfirmed; none for what a consumer puts off or dead-letters, which
    /// its prefetch bounds.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Publishes what comes until nobody can send any more, or the broker is closed.
pub(super) async fn run(
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    mut sessions: Sessions,
    recovery: ChannelRecovery,
) {
    loop {
        let connection = tokio::select! {
            biased;
            connection = session::next(&mut sessions) => connection,
            // Nothing is kept until then: who published is told now.
            () = refuse_all(&mut outgoing) => None,
        };
        let Some(connection) = connection else { return };
        tokio::select! {
            () = publish_on(&connection, &mut outgoing, recovery.clone()) => return,
            () = session::until_lost(&mut sessions, &connection) => {}
        }
    }
}

async fn refuse_all(outgoing: &mut mpsc::UnboundedReceiver<Outgoing>) {
    while outgoing.recv().await.is_some() {}
}

/// On one channel after the other, until nobody can send any more.
async fn publish_on(
    connection: &Connection,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
    mut recovery: ChannelRecovery,
) {
    loop {
        if let Ok(channel) = confirming(connection).await {
            if publish_all(&channel, outgoing).await.is_none() {
                return;
            }
            // It may be closed already.
            let _ = channel.close(REPLY_SUCCESS, "ended".into()).await;
        }
        recovery.recover(connection).await;
    }
}

async fn confirming(connection: &Connection) -> lapin::Result<Channel> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    Ok(channel)
}

/// Until the channel is closed, or a queue is missing. `None` when nobody can send any more.
async fn publish_all(
    channel: &Channel,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> Option<()> {
    // What comes while the client writes goes with its next write: waiting for each to be written would cost
    // a write each. They begin in the order in which they are pushed, and so are written in it.
    let mut under_way = FuturesUnordered::new();
    let mut is_ending = false;
    loop {
        tokio::select! {
            heard = under_way.next(), if !under_way.is_empty() => match heard {
                Some(Heard::Closed) => return Some(()),
                // Once all others are heard of.
                Some(Heard::Unroutable) => is_ending = true,
                Some(Heard::Settled) | None => {}
            },
            next = outgoing.recv(), if !is_ending => under_way.push(publish(channel, next?)),
            else => return Some(()),
        }
    }
}

/// What the channel says of a message.
enum Heard {
    /// Whether it has it.
    Settled,
    /// That there is no such queue.
    Unroutable,
    /// Nothing any more.
    Closed,
}

/// Until it is confirmed or refused.
async fn publish(channel: &Channel, outgoing: Outgoing) -> Heard {
    let Outgoing {
        exchange,
        routing_key,
        message,
        report,
        permit,
    } = outgoing;
    let options = BasicPublishOptions {
        mandatory: true,
        ..Default::default()
    };
    let properties = wire::properties(&message);
    let sent = channel.basic_publish(exchange, routing_key, options, &message.body, properties);
    let Ok(confirm) = sent.await else {
        return Heard::Closed;
    };
    let confirmation = confirm.await;
    drop(permit);
    let (outcome, heard) = match confirmation {
        Ok(Confirmation::Ack(None)) => (Ok(()), Heard::Settled),
        // With a message it came back.
        Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_))) => {
            (Err(Unconfirmed::Refused), Heard::Unroutable)
        }
        Ok(_) => (Err(Unconfirmed::Refused), Heard::Settled),
        Err(_) => return Heard::Closed,
    };
    report.tell(outcome);
    heard
}
