//! A RabbitMQ that refuses or is killed.

use std::{
    collections::HashSet,
    num::NonZeroU16,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use bytes::Bytes;
use freeboard_fetcher::broker::{Broker, Inbox, PublishError, Queue, RabbitBroker, RabbitOptions};
use freeboard_test_servers::{Server, rabbitmq};

use crate::{
    broker_contract::{ManualConsumer, text},
    common::{check_refusals, eventually, installed, publish, say},
};

/// So many messages are published while the server is killed.
const MESSAGES: u64 = 20_000;
/// The number of kills, each after its share of answers.
const KILLS: u64 = 2;
const PREFETCH: NonZeroU16 = NonZeroU16::new(200).expect("not zero");

fn options(server: &Server) -> RabbitOptions {
    RabbitOptions::new(format!("amqp://guest:guest@{}", server.address()))
}

#[test]
fn failed_connects_explain_themselves_in_one_line() {
    let wrong = [
        "",
        "http://localhost",
        "amqps://localhost",
        "amqp://localhost:port",
    ];
    let server = installed(rabbitmq());
    check_refusals("amqp", "guest:guest", &wrong, server, |url| {
        let mut options = RabbitOptions::new(url);
        options.connect_timeout = Duration::from_secs(10);
        RabbitBroker::connect(options).expect_err("it cannot be connected to")
    });
}

/// Publishes all numbers and returns the confirmed ones.
fn publish_all(broker: &RabbitBroker) -> HashSet<u64> {
    let confirmed = Arc::new(Mutex::new(HashSet::new()));
    for number in 0..MESSAGES {
        let mut body = Bytes::from(number.to_string());
        loop {
            let confirmed = confirmed.clone();
            let on_outcome = Box::new(move |outcome: Result<(), _>| {
                if outcome.is_ok() {
                    confirmed.lock().expect("nobody panics").insert(number);
                }
            });
            match broker.publish_with(Queue::Priority0, body, on_outcome) {
                Ok(()) => break,
                Err(refused @ (PublishError::Full(_) | PublishError::Disconnected(_))) => {
                    body = refused.into_body();
                    thread::yield_now();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    eventually(|| broker.ledger(Queue::Priority0).unconfirmed == 0);
    let confirmed = confirmed.lock().expect("nobody panics");
    confirmed.clone()
}

/// Answers each delivery, and acknowledges it once the answer is confirmed.
fn answering(broker: &Arc<RabbitBroker>) -> Inbox {
    let broker = Arc::downgrade(broker);
    Box::new(move |delivery| {
        let Some(broker) = broker.upgrade() else {
            return Ok(());
        };
        let body = delivery.body().clone();
        let on_outcome = Box::new(move |outcome: Result<(), _>| match outcome {
            Ok(()) => delivery.ack(),
            Err(_) => delivery.retry(Duration::ZERO),
        });
        // If refused, the delivery is dropped and so retried.
        let _ = broker.publish_with(Queue::Replies, body, on_outcome);
        Ok(())
    })
}

#[test]
fn killed_under_load_it_loses_nothing_that_was_confirmed() {
    let Some(mut server) = installed(rabbitmq()) else {
        return;
    };
    let broker = Arc::new(RabbitBroker::connect(options(&server)).expect("a connection"));
    let publisher = {
        let broker = broker.clone();
        thread::spawn(move || publish_all(&broker))
    };
    let consumer = broker.consume(Queue::Priority0, PREFETCH, answering(&broker));
    let consumer = consumer.expect("a consumer");
    for kill in 1..=KILLS {
        let share = MESSAGES * kill / (KILLS + 2);
        eventually(|| broker.ledger(Queue::Priority0).acked >= share);
        server.kill();
        eventually(|| !broker.is_connected());
        server.restart().expect("it comes up again");
        eventually(|| broker.is_connected());
    }
    let confirmed = publisher.join().expect("it publishes");
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let replies = {
        let seen = seen.clone();
        let inbox: Inbox = Box::new(move |delivery| {
            let number: u64 = text(&delivery).parse().expect("a number");
            seen.lock().expect("nobody panics").insert(number);
            delivery.ack();
            Ok(())
        });
        broker.consume(Queue::Replies, PREFETCH, inbox)
    };
    let replies = replies.expect("a consumer");
    eventually(|| confirmed.is_subset(&seen.lock().expect("nobody panics")));
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
    }
    say(&format!(
        "{} of {MESSAGES} confirmed, all answered; {:?}",
        confirmed.len(),
        broker.ledger(Queue::Priority0)
    ));
    drop((consumer, replies));
}

#[test]
fn unacknowledged_messages_are_redelivered_after_a_kill() {
    let Some(mut server) = installed(rabbitmq()) else {
        return;
    };
    let broker = RabbitBroker::connect(options(&server)).expect("a connection");
    for number in 0..20 {
        publish(&broker, Queue::Priority1, number.to_string());
    }
    eventually(|| broker.ledger(Queue::Priority1).confirmed == 20);
    let hands = ManualConsumer::new(&broker, Queue::Priority1, 20);
    let held: Vec<_> = (0..20).map(|_| hands.next()).collect();
    let mut kept = Vec::new();
    for (number, delivery) in held.into_iter().enumerate() {
        if number % 2 == 0 {
            delivery.ack();
        } else {
            kept.push(delivery);
        }
    }
    eventually(|| broker.ledger(Queue::Priority1).acked == 10);
    server.kill();
    eventually(|| !broker.is_connected());
    let refused = broker.publish_with(Queue::Priority1, Bytes::new(), Box::new(|_| {}));
    assert!(matches!(refused, Err(PublishError::Disconnected(_))));
    server.restart().expect("it comes up again");
    // A classic queue may have forgotten the last acknowledgements, so the others may be delivered again too.
    let mut missing: HashSet<String> = (0..10).map(|number| (number * 2 + 1).to_string()).collect();
    while !missing.is_empty() {
        let delivery = hands.next();
        missing.remove(&text(&delivery));
        delivery.ack();
    }
    eventually(|| broker.ledger(Queue::Priority1).unacked == 0);
    assert!(broker.ledger(Queue::Priority1).is_balanced());
    drop(kept);
}
