//! A plain connection to RabbitMQ, as peers without our broker have it.

use anyhow::{Result, ensure};
use freeboard_fetcher::broker::Queue;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use tokio::runtime::Builder;

/// AMQP's delivery mode of what is to be there after a restart.
const PERSISTENT: u8 = 2;

/// A channel to publish on with confirms, and one for each consumer, all on one connection as ours has them.
pub struct Link {
    connection: Connection,
    publisher: Channel,
    replies: ShortString,
}

impl Link {
    pub async fn open(url: &str) -> Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let publisher = connection.create_channel().await?;
        publisher
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(Self {
            connection,
            publisher,
            replies: name(Queue::Replies),
        })
    }

    /// Takes notifications from a queue.
    pub async fn consume(&self, queue: Queue, prefetch: u16) -> Result<Consumer> {
        let channel = self.connection.create_channel().await?;
        channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let consumer = channel.basic_consume(
            name(queue),
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        Ok(consumer.await?)
    }

    /// Publishes a reply, until it is confirmed.
    pub async fn publish(&self, reply: &[u8]) -> Result<()> {
        let sent = self.publisher.basic_publish(
            ShortString::default(),
            self.replies.clone(),
            BasicPublishOptions::default(),
            reply,
            BasicProperties::default().with_delivery_mode(PERSISTENT),
        );
        let confirmation = sent.await?.await?;
        ensure!(confirmation.is_ack(), "the reply was not taken");
        Ok(())
    }

    /// How many messages are ready in a queue. Blocks.
    pub(super) fn count(url: &str, queue: Queue) -> Result<u64> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let link = Self::open(url).await?;
            let options = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::durable()
            };
            let declared =
                link.publisher
                    .queue_declare(name(queue), options, FieldTable::default());
            Ok(declared.await?.message_count().into())
        })
    }
}

/// As our broker names them.
fn name(queue: Queue) -> ShortString {
    format!("fetcher.{}", queue.name()).into()
}
