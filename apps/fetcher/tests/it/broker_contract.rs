//! The contract of every broker, clause by clause, checked against both. Each clause gets a broker with empty queues.

use std::{
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use freeboard_fetcher::broker::{
    Broker, Consumer, Delivery, Inbox, MemoryBroker, PublishError, Queue,
};
#[cfg(all(unix, feature = "rabbitmq"))]
use freeboard_fetcher::broker::{RabbitBroker, RabbitOptions};
#[cfg(all(unix, feature = "rabbitmq"))]
use freeboard_test_servers::rabbitmq;

#[cfg(all(unix, feature = "rabbitmq"))]
use crate::common::installed;
use crate::common::{LONG, eventually, say};

/// The name of a clause and its check.
type Clause = (&'static str, fn(&dyn Broker));

/// All clauses.
const CLAUSES: &[Clause] = &[
    ("a queue keeps its order", order),
    ("prefetch is never exceeded", prefetch),
    ("acknowledged messages are not delivered again", ack),
    ("unsettled messages stay between acknowledged ones", gaps),
    (
        "a dropped consumer leaves its messages to others",
        redelivery,
    ),
    ("a paused consumer can still settle", pause),
    (
        "a retry comes after its delay, with one more attempt",
        retry,
    ),
    (
        "a deferral comes after its delay, with the same attempts",
        defer,
    ),
    ("a delivery that is dropped unsettled is retried", dropped),
    ("dead letters carry their reason", dead_letters),
    ("each publish is confirmed once", confirms),
    ("priorities do not block each other", priorities),
    (
        "a full inbox is offered deliveries again, in order",
        refusals,
    ),
    (
        "deliveries that a full inbox refuses go back when its consumer pauses",
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
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 50);
    publish(broker, Queue::Priority0, 0..1_000);
    for number in 0..1_000 {
        let delivery = consumer.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 1_000);
}

fn prefetch(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..100);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 7);
    let mut held: Vec<_> = (0..7).map(|_| consumer.next()).collect();
    for _ in 7..100 {
        assert_eq!(broker.ledger(Queue::Priority0).unacked, 7);
        consumer.assert_empty();
        held.remove(3).ack();
        held.push(consumer.next());
    }
    held.into_iter().for_each(|delivery| delivery.ack());
    eventually(|| broker.ledger(Queue::Priority0).acked == 100);
}

fn ack(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..10);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 10);
    for _ in 0..10 {
        consumer.next().ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 10);
    drop(consumer);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 10);
    publish(broker, Queue::Priority0, 10..11);
    assert_eq!(text(&consumer.next()), "10");
}

fn gaps(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..300);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 300);
    let deliveries = (0..300).map(|number| (number, consumer.next()));
    let (held, mut done): (Vec<_>, Vec<_>) =
        deliveries.partition(|(number, _)| *number > 150 && number % 7 == 0);
    let seed = fastrand::u64(..);
    say(&format!("seed {seed}"));
    // The first half in order, so that many of the oldest are settled together; the others in random order.
    fastrand::Rng::with_seed(seed).shuffle(&mut done[150..]);
    let done_count = done.len() as u64;
    done.into_iter().for_each(|(_, delivery)| delivery.ack());
    eventually(|| broker.ledger(Queue::Priority0).acked == done_count);
    drop(consumer);
    let again = ManualConsumer::new(broker, Queue::Priority0, 300);
    for (number, _held) in held {
        let delivery = again.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
    eventually(|| {
        let ledger = broker.ledger(Queue::Priority0);
        ledger.acked == 300 && ledger.unacked == 0
    });
    again.assert_empty();
}

fn redelivery(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..20);
    let gone = ManualConsumer::new(broker, Queue::Priority0, 10);
    let held: Vec<_> = (0..10).map(|_| gone.next()).collect();
    drop(gone);
    eventually(|| broker.ledger(Queue::Priority0).returned == 10);
    // Too late: the consumer is gone.
    held.into_iter().for_each(|delivery| delivery.ack());
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 20);
    for number in 0..20 {
        let delivery = consumer.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 20);
}

fn pause(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..10);
    let paused = ManualConsumer::new(broker, Queue::Priority0, 5);
    let held: Vec<_> = (0..5).map(|_| paused.next()).collect();
    paused.handle.pause();
    held.into_iter().for_each(|delivery| delivery.ack());
    eventually(|| broker.ledger(Queue::Priority0).acked == 5);
    paused.assert_empty();
    drop(paused);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 5);
    for number in 5..10 {
        let delivery = consumer.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 10);
}

fn retry(broker: &dyn Broker) {
    let delay = Duration::from_millis(100);
    let consumer = ManualConsumer::new(broker, Queue::Priority1, 10);
    publish(broker, Queue::Priority1, 0..1);
    for attempts in 0..3 {
        let delivery = consumer.next();
        assert_eq!(
            (delivery.attempts(), text(&delivery).as_str()),
            (attempts, "0")
        );
        let begun = Instant::now();
        delivery.retry(delay);
        // Later messages do not wait for it.
        publish(broker, Queue::Priority1, 1..2);
        let other = consumer.next();
        assert_eq!(text(&other), "1");
        other.ack();
        eventually(|| broker.ledger(Queue::Priority1).delivered == u64::from(attempts + 1) * 2 + 1);
        assert!(begun.elapsed() >= delay);
    }
    consumer.next().ack();
    eventually(|| broker.ledger(Queue::Priority1).acked == 4);
    assert_eq!(broker.ledger(Queue::Priority1).retried, 3);
}

fn defer(broker: &dyn Broker) {
    let consumer = ManualConsumer::new(broker, Queue::Priority1, 1);
    publish(broker, Queue::Priority1, 0..1);
    for deferrals in 0..3 {
        let delivery = consumer.next();
        assert_eq!((delivery.deferrals(), delivery.attempts()), (deferrals, 0));
        let ready = delivery.ready_at().expect("ours have a time");
        let published = delivery.published_at().expect("ours have a time");
        let since = ready.duration_since(published).unwrap_or_default();
        assert!(since >= Duration::from_millis(100) * deferrals, "{since:?}");
        // The brokers' timers count milliseconds.
        assert!(ready <= SystemTime::now() + Duration::from_millis(2));
        let begun = Instant::now();
        delivery.defer(Duration::from_millis(100));
        let delivered = u64::from(deferrals) + 2;
        eventually(|| broker.ledger(Queue::Priority1).delivered == delivered);
        assert!(begun.elapsed() >= Duration::from_millis(100));
    }
    consumer.next().ack();
    eventually(|| broker.ledger(Queue::Priority1).acked == 1);
    assert_eq!(broker.ledger(Queue::Priority1).retried, 3);
}

fn dropped(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..1);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 1);
    drop(consumer.next());
    let delivery = consumer.next();
    assert_eq!(delivery.attempts(), 1);
    delivery.ack();
    eventually(|| broker.ledger(Queue::Priority0).acked == 1);
}

fn dead_letters(broker: &dyn Broker) {
    publish(broker, Queue::Priority0, 0..2);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 2);
    consumer.next().dead_letter("no such user");
    consumer.next().dead_letter(&"ß".repeat(5_000));
    eventually(|| broker.ledger(Queue::Priority0).dead_lettered == 2);
    let dead = ManualConsumer::new(broker, Queue::DeadLetters, 2);
    let delivery = dead.next();
    assert_eq!(
        (text(&delivery).as_str(), delivery.reason()),
        ("0", Some("no such user"))
    );
    delivery.ack();
    let delivery = dead.next();
    assert_eq!(delivery.reason().map(str::len), Some(1_024));
    delivery.ack();
    eventually(|| broker.ledger(Queue::DeadLetters).acked == 2);
}

fn confirms(broker: &dyn Broker) {
    publish(broker, Queue::Replies, 0..2_000);
    let ledger = broker.ledger(Queue::Replies);
    assert_eq!((ledger.published, ledger.confirmed), (2_000, 2_000));
    let consumer = ManualConsumer::new(broker, Queue::Replies, 100);
    for number in 0..2_000 {
        let delivery = consumer.next();
        assert_eq!(text(&delivery), number.to_string());
        delivery.ack();
    }
}

fn priorities(broker: &dyn Broker) {
    let first = ManualConsumer::new(broker, Queue::Priority0, 5);
    let second = ManualConsumer::new(broker, Queue::Priority1, 5);
    publish(broker, Queue::Priority1, 0..10);
    // The second consumer is at its prefetch.
    let held: Vec<_> = (0..5).map(|_| second.next()).collect();
    publish(broker, Queue::Priority0, 0..10);
    for _ in 0..10 {
        first.next().ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 10);
    assert_eq!(broker.ledger(Queue::Priority1).delivered, 5);
    held.into_iter().for_each(|delivery| delivery.ack());
}

fn refusals(broker: &dyn Broker) {
    let (sender, received) = mpsc::channel();
    let mut offers = 0;
    let inbox: Inbox = Box::new(move |delivery| {
        offers += 1;
        if offers % 3 != 0 {
            return Err(delivery);
        }
        sender.send(delivery).expect("it is waited for");
        Ok(())
    });
    let consumer = broker
        .consume(Queue::Priority0, crate::common::prefetch(4), inbox)
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
    let inbox: Inbox = Box::new(Err);
    let consumer = broker
        .consume(Queue::Priority0, crate::common::prefetch(10), inbox)
        .expect("a consumer");
    publish(broker, Queue::Priority0, 0..20);
    eventually(|| broker.ledger(Queue::Priority0).unacked > 0);
    consumer.pause();
    eventually(|| broker.ledger(Queue::Priority0).unacked == 0);
    drop(consumer);
    let consumer = ManualConsumer::new(broker, Queue::Priority0, 20);
    for number in 0..20 {
        let delivery = consumer.next();
        assert_eq!(text(&delivery), number.to_string());
        assert_eq!((delivery.attempts(), delivery.deferrals()), (0, 0));
        delivery.ack();
    }
    eventually(|| broker.ledger(Queue::Priority0).acked == 20);
}

/// A consumer whose deliveries a test takes one by one.
pub(crate) struct ManualConsumer {
    // First, so that deliveries left in the channel are returned, not retried.
    pub(crate) handle: Consumer,
    deliveries: Receiver<Delivery>,
}

impl ManualConsumer {
    /// Starts consuming.
    pub(crate) fn new(broker: &dyn Broker, queue: Queue, prefetch: u16) -> Self {
        let (sender, deliveries) = mpsc::channel();
        let inbox: Inbox =
            Box::new(move |delivery| sender.send(delivery).map_err(|refused| refused.0));
        Self {
            handle: broker
                .consume(queue, crate::common::prefetch(prefetch), inbox)
                .expect("a consumer"),
            deliveries,
        }
    }

    /// The next delivery.
    pub(crate) fn next(&self) -> Delivery {
        self.deliveries.recv_timeout(LONG).expect("a delivery")
    }

    /// Checks that there is no delivery.
    pub(crate) fn assert_empty(&self) {
        assert!(self.deliveries.try_recv().is_err());
    }
}

/// A delivery's body.
pub(crate) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.body().to_vec()).expect("text")
}

fn check(name: &str, clause: fn(&dyn Broker), broker: &dyn Broker) {
    say(name);
    clause(broker);
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
    }
}

#[test]
fn the_memory_broker_keeps_the_contract() {
    for (name, clause) in CLAUSES {
        check(name, *clause, &MemoryBroker::default());
    }
}

#[cfg(all(unix, feature = "rabbitmq"))]
#[test]
fn rabbitmq_keeps_the_contract() {
    let Some(server) = installed(rabbitmq()) else {
        return;
    };
    for (number, (name, clause)) in CLAUSES.iter().enumerate() {
        let mut options = RabbitOptions::new(format!("amqp://guest:guest@{}", server.address()));
        options.name = format!("clause{number}");
        options.retry_delays.truncate(2);
        check(
            name,
            *clause,
            &RabbitBroker::connect(options).expect("a connection"),
        );
    }
}
