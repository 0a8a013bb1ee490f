//! The queues and exchanges at RabbitMQ.
//!
//! ```text
//!   default exchange ──▶ NAME.priority0 | NAME.priority1 | NAME.replies | NAME.dead      (classic, durable)
//!   NAME.retry.MS (fanout) ──▶ NAME.retry.MS (quorum, TTL of MS) ──▶ default exchange, with the routing
//!                                key that it came with: the queue that it came from
//! ```
//!
//! Each delay has its own waiting queue, because a queue expires messages only at its head: a short delay would
//! wait behind a long one. The waiting queues are quorum queues, because only these dead-letter at least once; a
//! classic queue forgets an expired message before its target has it.

use std::time::Duration;

use lapin::{
    Channel, Connection, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{super::Queue, session::REPLY_SUCCESS};

/// The names of all queues and exchanges under one prefix.
#[derive(Debug)]
pub(super) struct Topology {
    name: String,
    /// Ascending, not empty.
    delays: Vec<Duration>,
}

impl Topology {
    pub(super) fn new(name: String, delays: Vec<Duration>) -> Self {
        Self { name, delays }
    }

    pub(super) fn queue(&self, queue: Queue) -> ShortString {
        format!("{}.{}", self.name, queue.name()).into()
    }

    /// The shortest delay of an exchange that is as long as this one, or the longest there is.
    pub(super) fn delay(&self, delay: Duration) -> Duration {
        let index = self.delays.partition_point(|shorter| *shorter < delay);
        self.delays[index.min(self.delays.len() - 1)]
    }

    /// The exchange for one of the delays.
    pub(super) fn waiting(&self, delay: Duration) -> ShortString {
        format!("{}.retry.{}", self.name, delay.as_millis()).into()
    }

    /// Declares missing queues and exchanges on a channel of its own.
    pub(super) async fn declare(&self, connection: &Connection) -> lapin::Result<()> {
        let channel = connection.create_channel().await?;
        self.declare_on(&channel).await?;
        channel.close(REPLY_SUCCESS, "declared".into()).await
    }

    async fn declare_on(&self, channel: &Channel) -> lapin::Result<()> {
        for queue in Queue::ALL {
            let name = self.queue(queue);
            channel
                .queue_declare(name, QueueDeclareOptions::durable(), FieldTable::default())
                .await?;
        }
        for delay in &self.delays {
            self.declare_waiting(channel, *delay).await?;
        }
        Ok(())
    }

    async fn declare_waiting(&self, channel: &Channel, delay: Duration) -> lapin::Result<()> {
        let name = self.waiting(delay);
        let exchange = ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        };
        channel
            .exchange_declare(
                name.clone(),
                ExchangeKind::Fanout,
                exchange,
                FieldTable::default(),
            )
            .await?;
        let mut arguments = FieldTable::default();
        for (argument, value) in [
            ("x-queue-type", "quorum"),
            ("x-overflow", "reject-publish"),
            ("x-dead-letter-strategy", "at-least-once"),
            ("x-dead-letter-exchange", ""),
        ] {
            arguments.insert(argument.into(), AMQPValue::LongString(value.into()));
        }
        let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(delay_ms));
        channel
            .queue_declare(name.clone(), QueueDeclareOptions::durable(), arguments)
            .await?;
        channel
            .queue_bind(
                name.clone(),
                name,
                ShortString::default(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
    }
}
