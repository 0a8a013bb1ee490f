//! A task that publishes on a channel of its own and awaits the confirms.

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

/// A message to publish. Dropped, it is reported as unknown.
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) message: Message,
    pub(super) report: Report,
    /// Its permit among the unconfirmed messages; none for moved messages, which the prefetch bounds.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Publishes until all senders are gone or the broker is closed.
pub(super) async fn run(
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    mut sessions: Sessions,
    recovery: ChannelRecovery,
) {
    loop {
        let connection = tokio::select! {
            biased;
            connection = session::next(&mut sessions) => connection,
            // Without a connection, messages are dropped and so reported at once.
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

/// Publishes on one channel after another until all senders are gone.
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

/// Publishes until the channel is closed or a queue is missing. `None` when all senders are gone.
async fn publish_all(
    channel: &Channel,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> Option<()> {
    // Publishes are concurrent: messages that arrive while the client writes go with its next write, and waiting
    // for each would cost a write each. The futures start in the order in which they are pushed, so messages are
    // written in that order.
    let mut under_way = FuturesUnordered::new();
    let mut is_ending = false;
    loop {
        tokio::select! {
            heard = under_way.next(), if !under_way.is_empty() => match heard {
                Some(Heard::Closed) => return Some(()),
                // Ends once all others are settled.
                Some(Heard::Unroutable) => is_ending = true,
                Some(Heard::Settled) | None => {}
            },
            next = outgoing.recv(), if !is_ending => under_way.push(publish(channel, next?)),
            else => return Some(()),
        }
    }
}

/// The result of publishing a message.
enum Heard {
    /// Confirmed or refused.
    Settled,
    /// The queue is missing.
    Unroutable,
    /// The channel is closed.
    Closed,
}

/// Publishes one message and awaits its confirm.
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
        // A returned message was not routed.
        Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_))) => {
            (Err(Unconfirmed::Refused), Heard::Unroutable)
        }
        Ok(_) => (Err(Unconfirmed::Refused), Heard::Settled),
        Err(_) => return Heard::Closed,
    };
    report.tell(outcome);
    heard
}
