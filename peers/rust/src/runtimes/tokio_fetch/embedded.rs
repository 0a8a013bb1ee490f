//! The service on the broker in memory.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use freeboard::meter::Histogram;
use freeboard_fetcher::broker::{Broker, Consumer, Delivery, Queue};
use freeboard_fetcher::message::Notification;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::answer::LookUps;
use crate::fetch::{PREFETCHES, Times};

/// How long a notification that failed is put off.
const PAUSE: Duration = Duration::from_millis(100);

pub struct MemoryService {
    broker: Arc<dyn Broker>,
    look_ups: LookUps,
    wait: Histogram,
    lifetime: Histogram,
}

impl MemoryService {
    pub fn new(broker: Arc<dyn Broker>, look_ups: LookUps) -> Self {
        Self {
            broker,
            look_ups,
            wait: Histogram::new(),
            lifetime: Histogram::new(),
        }
    }

    /// Takes notifications, until the consumers are dropped.
    pub fn start(self: &Arc<Self>, runtime: &Runtime) -> Result<Vec<Consumer>> {
        let consumers = PREFETCHES.map(|(queue, prefetch)| self.consume(runtime, queue, prefetch));
        consumers.into_iter().collect()
    }

    fn consume(
        self: &Arc<Self>,
        runtime: &Runtime,
        queue: Queue,
        prefetch: NonZeroU16,
    ) -> Result<Consumer> {
        let (sender, mut deliveries) = mpsc::channel(prefetch.get().into());
        let service = self.clone();
        runtime.spawn(async move {
            while let Some(delivery) = deliveries.recv().await {
                tokio::spawn(service.clone().handle(delivery));
            }
        });
        let inbox = move |delivery| sender.try_send(delivery).map_err(TrySendError::into_inner);
        Ok(self.broker.consume(queue, prefetch, Box::new(inbox))?)
    }

    async fn handle(self: Arc<Self>, delivery: Delivery) {
        match self.reply_to(&delivery).await {
            Ok(()) => delivery.ack(),
            Err(_) => delivery.retry(PAUSE),
        }
    }

    async fn reply_to(&self, delivery: &Delivery) -> Result<()> {
        let began = Instant::now();
        let notification = Notification::parse(delivery.body())?;
        let waited = notification.waited(delivery.published_at());
        if let Some(waited) = waited {
            self.wait.record_shared(nanoseconds(waited));
        }
        let reply = self.look_ups.answer(notification).await?;
        let (confirm, confirmed) = oneshot::channel();
        let on_outcome = move |outcome| {
            // The service may have ended.
            let _ = confirm.send(outcome);
        };
        self.broker
            .publish_with(Queue::Replies, reply.to_body().into(), Box::new(on_outcome))?;
        confirmed.await??;
        self.lifetime.record_shared(nanoseconds(began.elapsed()));
        Ok(())
    }

    pub fn times(&self) -> Times {
        Times {
            wait: self.wait.summary(),
            lifetime: self.lifetime.summary(),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
