//! The service on RabbitMQ.

use std::sync::Arc;

use anyhow::Result;
use freeboard_fetcher::message::Notification;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicNackOptions};

use super::answer::LookUps;
use crate::countdown::Countdown;
use crate::fetch::{Link, PREFETCHES};

pub struct RabbitService {
    link: Link,
    look_ups: LookUps,
    countdown: Countdown,
}

impl RabbitService {
    /// `countdown` counts what is acknowledged.
    pub async fn connect(url: &str, look_ups: LookUps, countdown: Countdown) -> Result<Self> {
        Ok(Self {
            link: Link::open(url).await?,
            look_ups,
            countdown,
        })
    }

    /// Takes notifications, until the connection ends.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        for (queue, prefetch) in PREFETCHES {
            let mut deliveries = self.link.consume(queue, prefetch.get()).await?;
            let service = self.clone();
            tokio::spawn(async move {
                // A connection that is lost is missed by who counts.
                while let Some(Ok(delivery)) = deliveries.next().await {
                    tokio::spawn(service.clone().handle(delivery));
                }
            });
        }
        Ok(())
    }

    async fn handle(self: Arc<Self>, delivery: Delivery) -> lapin::Result<()> {
        if self.reply_to(&delivery.data).await.is_ok() {
            delivery.ack(BasicAckOptions::default()).await?;
            self.countdown.one_is_done();
            return Ok(());
        }
        let again = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        delivery.nack(again).await?;
        Ok(())
    }

    async fn reply_to(&self, body: &[u8]) -> Result<()> {
        let notification = Notification::parse(body)?;
        let reply = self.look_ups.answer(notification).await?;
        self.link.publish(&reply.to_body()).await
    }
}
