//! The promises of the broker in memory beyond the contract.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use freeboard_fetcher::broker::{Broker, Inbox, MemoryBroker, MemoryOptions, PublishError, Queue};

const MANY: NonZeroU16 = NonZeroU16::new(1_000).expect("not zero");

#[test]
fn a_full_queue_gives_the_body_back_until_one_is_settled() {
    let broker = MemoryBroker::new(MemoryOptions { queue_bound: 2 });
    let publish = |body| broker.publish(Queue::Priority0, Bytes::from_static(body));
    let _confirms = [publish(b"0"), publish(b"1")].map(|confirm| confirm.expect("room"));
    assert!(matches!(publish(b"2"), Err(PublishError::Full(body)) if &*body == b"2"));
    let (sender, deliveries) = std::sync::mpsc::channel();
    let inbox = Inbox::call(move |delivery| {
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
    let broker = MemoryBroker::new(MemoryOptions { queue_bound: 1 });
    let confirm = broker.publish(Queue::DeadLetters, Bytes::new());
    drop(confirm.expect("room"));
    drop(
        broker
            .publish(Queue::Priority0, Bytes::new())
            .expect("room"),
    );
    let inbox = Inbox::call(|delivery| {
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

/// The rate is not asserted, because machines differ; `--nocapture` shows it.
#[test]
#[expect(clippy::print_stdout, reason = "the rate")]
fn two_consumers_on_two_threads_share_the_work() {
    const MESSAGES: u64 = 200_000;
    let broker = MemoryBroker::default();
    for _ in 0..MESSAGES {
        drop(
            broker
                .publish(Queue::Priority0, Bytes::from_static(b"x"))
                .expect("room"),
        );
    }
    let seen = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let _consumers = [(); 2].map(|()| {
        let seen = seen.clone();
        let inbox = Inbox::call(move |delivery| {
            delivery.ack();
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        broker
            .consume(Queue::Priority0, MANY, inbox)
            .expect("a thread")
    });
    while broker.ledger(Queue::Priority0).acked < MESSAGES {
        std::thread::yield_now();
    }
    let rate = MESSAGES as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.0} deliveries a second");
    let ledger = broker.ledger(Queue::Priority0);
    assert_eq!(
        (ledger.delivered, broker.queued(Queue::Priority0)),
        (MESSAGES, 0)
    );
    assert_eq!(ledger.returned + ledger.retried, 0);
}
