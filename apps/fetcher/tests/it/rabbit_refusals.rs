//! Queues and exchanges that refuse or are deleted while deliveries are in flight.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use freeboard_fetcher::broker::{
    Broker, Consumer, Delivery, Inbox, Queue, RabbitBroker, RabbitOptions,
};
use freeboard_test_servers::{Server, rabbitmq};
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{
        ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use tokio::runtime::Runtime;

use crate::common::{eventually, installed, publish, say};

const PREFETCH: NonZeroU16 = NonZeroU16::new(100).expect("not zero");
const MESSAGES: u64 = 50;
const SECOND: Duration = Duration::from_secs(1);

/// Changes what the broker has declared.
struct Admin {
    runtime: Runtime,
    connection: Connection,
}

impl Admin {
    fn connect(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let connection = Connection::connect(url, ConnectionProperties::default());
        Self {
            connection: runtime.block_on(connection).expect("a connection"),
            runtime,
        }
    }

    /// Uses a channel of its own, because a failing channel is closed.
    fn on_channel<T>(
        &self,
        act: impl AsyncFnOnce(Channel) -> lapin::Result<T>,
    ) -> lapin::Result<T> {
        let channel = self.connection.create_channel();
        self.runtime.block_on(async { act(channel.await?).await })
    }

    fn delete_exchange(&self, name: &str) {
        let options = ExchangeDeleteOptions::default();
        let deleted = self.on_channel(async |it| it.exchange_delete(name.into(), options).await);
        deleted.expect("it is deleted");
    }

    fn has_exchange(&self, name: &str) -> bool {
        let options = ExchangeDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let kind = lapin::ExchangeKind::Fanout;
        self.on_channel(async |it| {
            it.exchange_declare(name.into(), kind, options, FieldTable::default())
                .await
        })
        .is_ok()
    }

    fn delete_queue(&self, name: &str) {
        let options = QueueDeleteOptions::default();
        let deleted = self.on_channel(async |it| it.queue_delete(name.into(), options).await);
        deleted.expect("it is deleted");
    }

    /// Replaces a queue by a full one.
    fn refuse(&self, name: &str) {
        self.delete_queue(name);
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(0));
        let overflow = AMQPValue::LongString("reject-publish".into());
        arguments.insert("x-overflow".into(), overflow);
        self.on_channel(async |it| {
            let name = ShortString::from(name);
            it.queue_declare(name.clone(), QueueDeclareOptions::durable(), arguments)
                .await?;
            if !name.as_str().contains("retry") {
                return Ok(());
            }
            let options = QueueBindOptions::default();
            it.queue_bind(
                name.clone(),
                name,
                "".into(),
                options,
                FieldTable::default(),
            )
            .await
        })
        .expect("it is declared");
    }
}

fn start() -> Option<(Server, String)> {
    let server = installed(rabbitmq())?;
    let url = format!("amqp://guest:guest@{}", server.address());
    Some((server, url))
}

fn consume(broker: &RabbitBroker, settle: impl Fn(Delivery) + Send + 'static) -> Consumer {
    let inbox: Inbox = Box::new(move |delivery| {
        settle(delivery);
        Ok(())
    });
    let consumer = broker.consume(Queue::Priority0, PREFETCH, inbox);
    consumer.expect("a consumer")
}

/// The refusing queues, and what the consumer does with each delivery.
type Case = (&'static [&'static str], fn(Delivery));

#[test]
fn refused_moves_are_kept_or_deferred_and_done_once_there_is_capacity() {
    let Some((_server, url)) = start() else {
        return;
    };
    let admin = Admin::connect(&url);
    let retry = |delivery: Delivery| match delivery.attempts() {
        0 => delivery.retry(SECOND),
        _ => delivery.ack(),
    };
    let give_up = |delivery: Delivery| delivery.dead_letter("hopeless");
    let cases: [Case; 3] = [
        (&["dead"], give_up),
        (&["retry.1000"], retry),
        (&["dead", "retry.1000"], give_up),
    ];
    for (number, (refusing, settle)) in cases.into_iter().enumerate() {
        let mut options = RabbitOptions::new(&url);
        options.name = format!("case{number}");
        let backoff = options.backoff;
        let full: Vec<_> = refusing
            .iter()
            .map(|queue| format!("{}.{queue}", options.name))
            .collect();
        let broker = RabbitBroker::connect(options).expect("a connection");
        full.iter().for_each(|queue| admin.refuse(queue));
        (0..MESSAGES).for_each(|_| publish(&broker, Queue::Priority0, "x"));
        let ledger = || broker.ledger(Queue::Priority0);
        eventually(|| ledger().confirmed == MESSAGES);
        let begun = Instant::now();
        let consumer = consume(&broker, settle);
        // The mean number of tries of each.
        let tries: u32 = 4;
        eventually(|| ledger().moves_failed >= MESSAGES * u64::from(tries));
        let seen = ledger();
        let elapsed = begun.elapsed();
        say(&format!(
            "{refusing:?}: {:.1} deliveries and {:.1} failed moves a second: {seen:?}",
            seen.delivered as f64 / elapsed.as_secs_f64(),
            seen.moves_failed as f64 / elapsed.as_secs_f64(),
        ));
        assert_eq!((seen.returned, seen.acked, seen.dead_lettered), (0, 0, 0));
        let rounds = elapsed.as_secs() + 1;
        assert!(
            seen.delivered <= MESSAGES * rounds,
            "more than once a second"
        );
        let least_ns: u64 = match refusing.contains(&"retry.1000") {
            // Half of each delay is jitter. A queue that refuses both settlements does so at once.
            true => (0..tries - 2)
                .map(|failures| backoff.delay_ns(failures) / 2)
                .sum(),
            false => u64::from(tries - 1) * 1_000_000_000,
        };
        assert!(elapsed >= Duration::from_nanos(least_ns), "{elapsed:?}");
        // The broker declares missing queues again.
        full.iter().for_each(|queue| admin.delete_queue(queue));
        eventually(|| ledger().acked + ledger().dead_lettered == MESSAGES);
        assert!(ledger().is_balanced());
        drop(consumer);
    }
}

#[test]
fn a_retry_exchange_that_is_deleted_is_declared_again_and_replies_stay_known() {
    let Some((_server, url)) = start() else {
        return;
    };
    let admin = Admin::connect(&url);
    let broker = RabbitBroker::connect(RabbitOptions::new(&url)).expect("a connection");
    let is_over = Arc::new(AtomicBool::new(false));
    let consumer = {
        let is_over = is_over.clone();
        consume(&broker, move |delivery| {
            match is_over.load(Ordering::SeqCst) {
                true => delivery.ack(),
                false => delivery.retry(Duration::from_millis(100)),
            }
        })
    };
    (0..MESSAGES).for_each(|_| publish(&broker, Queue::Priority0, "x"));
    let replies = || broker.ledger(Queue::Replies);
    let ledger = || broker.ledger(Queue::Priority0);
    for round in 1..=3 {
        let before = ledger();
        admin.delete_exchange("fetcher.retry.100");
        eventually(|| {
            if replies().unconfirmed < 100 {
                publish(&broker, Queue::Replies, "x");
            }
            // More than may have been in flight to it.
            ledger().retried > before.retried + MESSAGES
        });
        assert!(ledger().moves_failed > before.moves_failed);
        assert!(admin.has_exchange("fetcher.retry.100"));
        say(&format!("round {round}: {:?}", ledger()));
    }
    is_over.store(true, Ordering::SeqCst);
    eventually(|| ledger().acked >= MESSAGES && ledger().unacked == 0);
    eventually(|| replies().unconfirmed == 0);
    let replies = replies();
    assert_eq!((replies.unknown, replies.refused), (0, 0), "{replies:?}");
    assert_eq!(ledger().returned, 0);
    drop(consumer);
}
