//! The task that publishes, on a channel of its own, and hears the confirms.

use freeboard::flow::Backoff;
use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::ShortString,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    super::{error::Unconfirmed, message::Message, report::Report},
    session::{self, Sessions},
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
    backoff: Backoff,
) {
    let mut attempt = 0;
    loop {
        let connection = tokio::select! {
            biased;
            connection = session::next(&mut sessions) => connection,
            // Nothing is kept until then: who published is told now.
            () = refuse_all(&mut outgoing) => None,
        };
        let Some(connection) = connection else { return };
        let ended = tokio::select! {
            ended = publish_on(&connection, &mut outgoing) => ended,
            () = session::until_lost(&mut sessions, &connection) => Ok(Some(())),
        };
        match ended {
            Ok(Some(())) => attempt = 0,
            Ok(None) => return,
            Err(_) => {
                session::pause(&backoff, attempt).await;
                attempt = attempt.saturating_add(1);
            }
        }
    }
}

/// As [`publish_all`], on a channel of its own.
async fn publish_on(
    connection: &Connection,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> lapin::Result<Option<()>> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    Ok(publish_all(&channel, outgoing).await)
}

async fn refuse_all(outgoing: &mut mpsc::UnboundedReceiver<Outgoing>) {
    while outgoing.recv().await.is_some() {}
}

/// Until the channel is lost. `None` when nobody can send any more.
async fn publish_all(
    channel: &Channel,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> Option<()> {
    // What comes while the client writes goes with its next write: waiting for each to be written would cost
    // a write each. They begin in the order in which they are pushed, and so are written in it.
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            heard = under_way.next(), if !under_way.is_empty() => {
                if heard == Some(false) {
                    return Some(());
                }
            }
            next = outgoing.recv() => under_way.push(publish(channel, next?)),
        }
    }
}

/// Until it is confirmed or refused. Whether the channel still lives.
async fn publish(channel: &Channel, outgoing: Outgoing) -> bool {
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
    let confirmation = match sent.await {
        Ok(confirm) => confirm.await,
        Err(_) => return false,
    };
    drop(permit);
    match confirmation {
        Ok(Confirmation::Ack(None)) => report.tell(Ok(())),
        // With a message it came back: there is no such queue.
        Ok(_) => report.tell(Err(Unconfirmed::Refused)),
        Err(_) => return false,
    }
    true
}
