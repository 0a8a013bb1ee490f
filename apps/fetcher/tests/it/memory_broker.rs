//! The promises of the broker in memory beyond the contract.

use std::{num::NonZeroU16, time::Duration};

use bytes::Bytes;
use freeboard_fetcher::broker::{Broker, Inbox, MemoryBroker, PublishError, Queue};

use crate::common::publish;

const MANY: NonZeroU16 = NonZeroU16::new(1_000).expect("not zero");

#[test]
fn a_full_queue_gives_the_body_back_until_one_is_settled() {
    let broker = MemoryBroker::new(2);
    let publish = |body| {
        let body = Bytes::from_static(body);
        broker.publish_with(Queue::Priority0, body, Box::new(|_| {}))
    };
    assert!(publish(b"0").is_ok() && publish(b"1").is_ok());
    assert!(matches!(publish(b"2"), Err(PublishError::Full(body)) if &*body == b"2"));
    let (sender, deliveries) = std::sync::mpsc::channel();
    let inbox: Inbox = Box::new(move |delivery| {
        sender.send(delivery).expect("it is waited for");
        Ok(())
    });
    let _consumer = broker
        .consume(Queue::Priority0, MANY, inbox)
        .expect("a thread");
    let first = deliveries.recv().expect("a delivery");
    // An unsettled message still counts.
    assert!(publish(b"2").is_err());
    first.ack();
    assert!(publish(b"2").is_ok());
}

#[test]
fn refused_dead_letters_are_deferred_and_nothing_is_lost() {
    let broker = MemoryBroker::new(1);
    publish(&broker, Queue::DeadLetters, "");
    publish(&broker, Queue::Priority0, "");
    let inbox: Inbox = Box::new(|delivery| {
        delivery.dead_letter("no room for it");
        Ok(())
    });
    let _consumer = broker
        .consume(Queue::Priority0, MANY, inbox)
        .expect("a thread");
    while broker.ledger(Queue::Priority0).retried == 0 {
        std::thread::yield_now();
    }
    assert_eq!(broker.ledger(Queue::Priority0).dead_lettered, 0);
    assert!(broker.ledger(Queue::Priority0).is_balanced());
}

#[test]
fn two_consumers_on_two_threads_share_the_work() {
    const MESSAGES: u64 = 200_000;
    let broker = MemoryBroker::default();
    for _ in 0..MESSAGES {
        publish(&broker, Queue::Priority0, "x");
    }
    let _consumers = [(); 2].map(|()| {
        let inbox: Inbox = Box::new(|delivery| {
            delivery.ack();
            Ok(())
        });
        broker
            .consume(Queue::Priority0, MANY, inbox)
            .expect("a thread")
    });
    while broker.ledger(Queue::Priority0).acked < MESSAGES {
        std::thread::yield_now();
    }
    let ledger = broker.ledger(Queue::Priority0);
    assert_eq!(
        (ledger.delivered, broker.queued(Queue::Priority0)),
        (MESSAGES, 0)
    );
    assert_eq!(ledger.returned + ledger.retried, 0);
}

#[test]
fn every_deferred_message_is_delivered_again_whatever_the_order_of_delays() {
    const MESSAGES: u64 = 300;
    let broker = MemoryBroker::default();
    let consumer = |prefetch: u16| {
        let inbox: Inbox = Box::new(|delivery| {
            let number: u64 = String::from_utf8_lossy(delivery.body())
                .parse()
                .expect("a number");
            match delivery.deferrals() {
                // Later messages are due earlier; some at the same time.
                0 => delivery.defer(Duration::from_millis((MESSAGES - number) / 20)),
                1 => delivery.retry(Duration::from_millis(number % 3)),
                _ => unreachable!("it is deferred once"),
            }
            Ok(())
        });
        let prefetch = NonZeroU16::new(prefetch).expect("not zero");
        broker.consume(Queue::Priority0, prefetch, inbox)
    };
    let consumers = [1, 2, 7].map(|prefetch| consumer(prefetch).expect("a thread"));
    consumers[2].pause();
    for number in 0..MESSAGES {
        publish(&broker, Queue::Priority0, number.to_string());
    }
    // Each is deferred once, then retried again and again.
    while broker.ledger(Queue::Priority0).retried < 5 * MESSAGES {
        std::thread::yield_now();
    }
    assert!(broker.ledger(Queue::Priority0).is_balanced());
}
