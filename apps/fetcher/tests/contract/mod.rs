//! What every broker keeps to, clause by clause. Each clause takes a broker whose queues are empty.

#![allow(dead_code, reason = "not each test uses all of it")]

mod hands;

use std::{num::NonZeroU16, sync::mpsc, time::Duration};

use bytes::Bytes;
use freeboard_fetcher::broker::{Broker, Inbox, PublishError, Queue};
pub(crate) use hands::{Hands, LONG, say, text, until};

/// A clause's name, and its check.
pub(crate) type Clause = (&'static str, fn(&dyn Broker));

/// All of them.
pub(crate) const CLAUSES: &[Clause] = &[
    ("a queue keeps its order", order),
    ("prefetch is never exceeded", prefetch),
    ("what is acknowledged does not come again", ack),
    (
        "what is held stays, whatever is acknowledged around it",
        gaps,
    ),
    (
        "a consumer that goes leaves its messages to others",
        redelivery,
    ),
    ("a consumer that pauses can still settle", pause),
    (
        "what is put off comes after its delay, with one attempt more",
        retry,
    ),
    (
        "what is deferred comes after its delay, with no attempt more",
        defer,
    ),
    ("what is dropped unsaid is put off", dropped),
    ("dead letters carry their reason", dead_letters),
    ("each publish is confirmed once", confirms),
    ("priorities do not block each other", priorities),
    ("an inbox without room is asked again, in order", refusals),
    (
        "what an inbox has no room for goes back when its consumer pauses",
        parked,
    ),
];

fn publish(broker: &dyn Broker, queue: Queue, numbers: std::ops::Range<usize>) {
    let (sender, outcomes) = mpsc::channel();
    let count = numbers.len();
    for number in numbers {
        let sender = sender.clone();
        let mut body = Bytes::from(number.to_string());
        let outcome = move |outcome| sender.send(outcome).expect("it is waited for");
        while let Err(refused) = broker.publish_with(queue, body, Box::new(outcome.clone())) {
            assert!(matches!(refused, PublishError::Full(_)), "{refused}");
            body = refused.into_body();
            std::thread::yield_now();
        }
    }
    for _ in 0..count {
        let outcome = outcomes.recv_timeout(LONG).expect("an outcome");
        assert_eq!(outcome, Ok(()));
    }
}

fn order(broker: &dyn Broker) {
    let hands = Hands::new(broker, Queue::Priority0, 50);
    publish(broker, Queue::Priority0, 0..1_000);
    for number in 0..1_000 {
        let delivery = hands.next();
        assert_eq!(text(&delivery), number.to_string());
        assert!(!delivery.is_redelivered());
        delivery.ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 1_000);
}

fn prefetch(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..100);
    let hands = Hands::new(broker, Queue::Priority0, 7);
    let mut held: Vec<_> = (0..7).map(|_| hands.next()).collect();
    for _ in 7..100 {
        assert_eq!(broker.ledger(Queue::Priority0).unacked, 7);
        hands.assert_empty();
        held.remove(3).ack();
        held.push(hands.next());
    }
    held.into_iter().for_each(|delivery| delivery.ack());
    until(|| broker.ledger(Queue::Priority0).acked == 100);
}

fn ack(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..10);
    let hands = Hands::new(broker, Queue::Priority0, 10);
    for _ in 0..10 {
        hands.next().ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 10);
    drop(hands);
    let hands = Hands::new(broker, Queue::Priority0, 10);
    publish(broker, Queue::Priority0, 10..11);
    assert_eq!(text(&hands.next()), "10");
}

fn gaps(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..300);
    let hands = Hands::new(broker, Queue::Priority0, 300);
    let deliveries = (0..300).map(|number| (number, hands.next()));
    let (held, mut done): (Vec<_>, Vec<_>) =
        deliveries.partition(|(number, _)| *number > 150 && number % 7 == 0);
    let seed = fastrand::u64(..);
    say(&format!("seed {seed}"));
    // The first half in order, so that many are the oldest together; the others in none.
    fastrand::Rng::with_seed(seed).shuffle(&mut done[150..]);
    let done_count = done.len() as u64;
    done.into_iter().for_each(|(_, delivery)| delivery.ack());
    until(|| broker.ledger(Queue::Priority0).acked == done_count);
    drop(hands);
    let again = Hands::new(broker, Queue::Priority0, 300);
    for (number, _held) in held {
        let delivery = again.next();
        assert_eq!(text(&delivery), number.to_string());
        assert!(delivery.is_redelivered());
        delivery.ack();
    }
    until(|| {
        let ledger = broker.ledger(Queue::Priority0);
        ledger.acked == 300 && ledger.unacked == 0
    });
    again.assert_empty();
}

fn redelivery(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..20);
    let gone = Hands::new(broker, Queue::Priority0, 10);
    let held: Vec<_> = (0..10).map(|_| gone.next()).collect();
    drop(gone);
    until(|| broker.ledger(Queue::Priority0).returned == 10);
    // Too late: these are nobody's any more.
    held.into_iter().for_each(|delivery| delivery.ack());
    let hands = Hands::new(broker, Queue::Priority0, 20);
    for number in 0..20 {
        let delivery = hands.next();
        assert_eq!(text(&delivery), number.to_string());
        assert_eq!(delivery.is_redelivered(), number < 10);
        delivery.ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 20);
}

fn pause(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..10);
    let paused = Hands::new(broker, Queue::Priority0, 5);
    let held: Vec<_> = (0..5).map(|_| paused.next()).collect();
    paused.consumer.pause();
    held.into_iter().for_each(|delivery| delivery.ack());
    until(|| broker.ledger(Queue::Priority0).acked == 5);
    paused.assert_empty();
    drop(paused);
    let hands = Hands::new(broker, Queue::Priority0, 5);
    for number in 5..10 {
        let delivery = hands.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 10);
}

fn retry(broker: &dyn Broker) {
    let delay = Duration::from_millis(100);
    let hands = Hands::new(broker, Queue::Priority1, 10);
    publish(broker, Queue::Priority1, 0..1);
    for attempts in 0..3 {
        let delivery = hands.next();
        assert_eq!(
            (delivery.attempts(), text(&delivery).as_str()),
            (attempts, "0")
        );
        let begun = std::time::Instant::now();
        delivery.retry(delay);
        // What comes later is not held up by it.
        publish(broker, Queue::Priority1, 1..2);
        let other = hands.next();
        assert_eq!(text(&other), "1");
        other.ack();
        until(|| broker.ledger(Queue::Priority1).delivered == u64::from(attempts + 1) * 2 + 1);
        assert!(begun.elapsed() >= delay);
    }
    hands.next().ack();
    until(|| broker.ledger(Queue::Priority1).acked == 4);
    assert_eq!(broker.ledger(Queue::Priority1).retried, 3);
}

fn defer(broker: &dyn Broker) {
    let hands = Hands::new(broker, Queue::Priority1, 1);
    publish(broker, Queue::Priority1, 0..1);
    for deferrals in 0..3 {
        let delivery = hands.next();
        assert_eq!((delivery.deferrals(), delivery.attempts()), (deferrals, 0));
        let begun = std::time::Instant::now();
        delivery.defer(Duration::from_millis(100));
        let delivered = u64::from(deferrals) + 2;
        until(|| broker.ledger(Queue::Priority1).delivered == delivered);
        assert!(begun.elapsed() >= Duration::from_millis(100));
    }
    hands.next().ack();
    until(|| broker.ledger(Queue::Priority1).acked == 1);
    assert_eq!(broker.ledger(Queue::Priority1).retried, 3);
}

fn dropped(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..1);
    let hands = Hands::new(broker, Queue::Priority0, 1);
    drop(hands.next());
    let delivery = hands.next();
    assert_eq!(delivery.attempts(), 1);
    delivery.ack();
    until(|| broker.ledger(Queue::Priority0).acked == 1);
}

fn dead_letters(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..2);
    let hands = Hands::new(broker, Queue::Priority0, 2);
    hands.next().dead_letter("no such user");
    hands.next().dead_letter(&"ß".repeat(5_000));
    until(|| broker.ledger(Queue::Priority0).dead_lettered == 2);
    let dead = Hands::new(broker, Queue::DeadLetters, 2);
    let delivery = dead.next();
    assert_eq!(
        (text(&delivery).as_str(), delivery.reason()),
        ("0", Some("no such user"))
    );
    delivery.ack();
    let delivery = dead.next();
    assert_eq!(delivery.reason().map(str::len), Some(1_024));
    delivery.ack();
    until(|| broker.ledger(Queue::DeadLetters).acked == 2);
}

fn confirms(broker: &dyn Broker) {
    publish(broker, Queue::Replies, 0..2_000);
    let ledger = broker.ledger(Queue::Replies);
    assert_eq!((ledger.published, ledger.confirmed), (2_000, 2_000));
    let hands = Hands::new(broker, Queue::Replies, 100);
    for number in 0..2_000 {
        let delivery = hands.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
}

fn priorities(broker: &dyn Broker) {
    let first = Hands::new(broker, Queue::Priority0, 5);
    let second = Hands::new(broker, Queue::Priority1, 5);
    publish(broker, Queue::Priority1, 0..10);
    // The second has its hands full.
    let held: Vec<_> = (0..5).map(|_| second.next()).collect();
    publish(broker, Queue::Priority0, 0..10);
    for _ in 0..10 {
        first.next().ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 10);
    assert_eq!(broker.ledger(Queue::Priority1).delivered, 5);
    held.into_iter().for_each(|delivery| delivery.ack());
}

fn refusals(broker: &dyn Broker) {
    let (sender, received) = mpsc::channel();
    let mut offers = 0;
    let inbox = Inbox::call(move |delivery| {
        offers += 1;
        if offers % 3 != 0 {
            return Err(delivery);
        }
        sender.send(delivery).expect("it is waited for");
        Ok(())
    });
    let prefetch = NonZeroU16::new(4).expect("four");
    let consumer = broker
        .consume(Queue::Priority0, prefetch, inbox)
        .expect("a consumer");
    publish(broker, Queue::Priority0, 0..20);
    for number in 0..20 {
        let delivery = received.recv_timeout(LONG).expect("a delivery");
        assert_eq!(text(&delivery), number.to_string());
        assert_eq!(delivery.attempts(), 0);
        delivery.ack();
    }
    drop(consumer);
}

fn parked(broker: &dyn Broker) {
    let inbox = Inbox::call(Err);
    let prefetch = NonZeroU16::new(10).expect("ten");
    let consumer = broker
        .consume(Queue::Priority0, prefetch, inbox)
        .expect("a consumer");
    publish(broker, Queue::Priority0, 0..20);
    until(|| broker.ledger(Queue::Priority0).unacked > 0);
    consumer.pause();
    until(|| broker.ledger(Queue::Priority0).unacked == 0);
    drop(consumer);
    let hands = Hands::new(broker, Queue::Priority0, 20);
    for number in 0..20 {
        let delivery = hands.next();
        assert_eq!(text(&delivery), number.to_string());
        assert_eq!((delivery.attempts(), delivery.deferrals()), (0, 0));
        delivery.ack();
    }
    until(|| broker.ledger(Queue::Priority0).acked == 20);
}
