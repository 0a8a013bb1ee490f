//! Consume, publish, confirm, acknowledge: what RabbitMQ and its client leave for a service.

use std::sync::Arc;

use anyhow::Result;
use futures_util::StreamExt;
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::BasicAckOptions;

use crate::countdown::Countdown;
use crate::fetch::{Link, PREFETCHES, RealBed};
use crate::finish;
use crate::outcome::Outcome;
use crate::runtimes::tokio_runtime;

pub fn run(count: u64) -> Result<Outcome> {
    let bed = RealBed::start(count)?;
    let runtime = tokio_runtime::start_with_io()?;
    let link = Arc::new(runtime.block_on(Link::open(&bed.url()))?);
    let (finish, waiting) = finish::line();
    let countdown = Countdown::new(count, finish);
    bed.time(|| {
        for (queue, prefetch) in PREFETCHES {
            let deliveries = runtime.block_on(link.consume(queue, prefetch.get()))?;
            runtime.spawn(carry(link.clone(), deliveries, countdown.clone()));
        }
        drop(countdown);
        waiting.wait(count, 0)
    })
}

async fn carry(link: Arc<Link>, mut deliveries: Consumer, countdown: Countdown) {
    // A connection that is lost is missed by who counts.
    while let Some(Ok(delivery)) = deliveries.next().await {
        tokio::spawn(echo(link.clone(), delivery, countdown.clone()));
    }
}

async fn echo(link: Arc<Link>, delivery: Delivery, countdown: Countdown) -> Result<()> {
    link.publish(&delivery.data).await?;
    delivery.ack(BasicAckOptions::default()).await?;
    countdown.one_is_done();
    Ok(())
}
