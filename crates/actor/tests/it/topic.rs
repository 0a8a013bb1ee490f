//! Topics: each subscriber's policy, order, bounds, and a model of the counts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use crate::common::*;

fn topic(system: &System) -> Topic<u64> {
    system.topic(TopicOptions::new())
}

/// Subscribes a probe that is held, with a full lane of this bound.
fn full_subscriber(
    system: &System,
    topic: &Topic<u64>,
    slow: SlowSubscriber,
) -> (ActorRef<Probe>, Gate, Notes<u64>, Subscription) {
    let (probe, gate, notes) = full(system, bounded(2));
    let subscription = topic.subscribe(&probe.recipient(), slow);
    (probe, gate, notes, subscription.expect("below the bound"))
}

#[test]
fn each_subscriber_gets_each_publishers_messages_in_order() {
    let system = system();
    let topic = topic(&system);
    let (plain, plain_notes) = probe(&system);
    let (mapped, mapped_notes) = probe_with(&system, bounded(4));
    topic
        .subscribe(&plain.recipient(), SlowSubscriber::Wait)
        .expect("free");
    topic
        .subscribe_with(&mapped, SlowSubscriber::Wait, |number| number + 10_000)
        .expect("free");
    let (handler, _) = probe(&system);
    thread::scope(|scope| {
        let topic = &topic;
        scope.spawn(move || (0..500).for_each(|it| assert_eq!(topic.publish(it).delivered, 2)));
        scope.spawn(move || {
            block_on(async {
                for number in 1_000..1_500 {
                    assert_eq!(topic.send(number).await.delivered, 2);
                }
            });
        });
        for number in 2_000..2_500 {
            let topic = topic.clone();
            act(&handler, move |_| {
                assert_eq!(topic.publish(number).delivered, 2)
            });
        }
    });
    finish(&system);
    for (notes, offset) in [(plain_notes, 0), (mapped_notes, 10_000)] {
        for first in [0, 1_000, 2_000] {
            let of_one: Vec<_> = notes.all().into_iter().map(|it| it - offset).collect();
            let of_one = of_one.into_iter().filter(|it| it / 1_000 == first / 1_000);
            assert!(of_one.eq(first..first + 500));
        }
    }
    let snapshot = topic.snapshot();
    assert_eq!((snapshot.published, snapshot.delivered), (1_500, 3_000));
}

#[test]
fn a_slow_subscriber_misses_messages_or_is_unsubscribed_and_others_get_them() {
    let system = system();
    let topic = topic(&system);
    let (_missing, gate, _, shedding) = full_subscriber(&system, &topic, SlowSubscriber::Shed);
    let (_leaving, other_gate, _, leaving) =
        full_subscriber(&system, &topic, SlowSubscriber::Unsubscribe);
    let (fast, notes) = probe(&system);
    let waiting = topic.subscribe(&fast.recipient(), SlowSubscriber::Wait);
    let report = topic.publish(1);
    assert_eq!(
        (report.delivered, report.shed, report.unsubscribed),
        (1, 2, 1)
    );
    let report = topic.publish(2);
    assert_eq!(
        (report.delivered, report.shed, report.unsubscribed),
        (1, 1, 0)
    );
    assert_eq!((shedding.is_active(), shedding.shed()), (true, 2));
    assert_eq!((leaving.is_active(), leaving.shed()), (false, 1));
    assert_eq!(waiting.expect("free").delivered(), 2);
    notes.wait_len(2);
    let snapshot = &system.snapshot().topics[0];
    assert_eq!((snapshot.shed, snapshot.unsubscribed), (3, 1));
    let policies: Vec<_> = snapshot.subscribers.iter().map(|it| &*it.policy).collect();
    assert_eq!(policies, ["shed", "wait"]);
    shedding.unsubscribe();
    assert!(!shedding.is_active());
    assert_eq!(topic.subscribers(), 1);
    gate.open();
    other_gate.open();
    drop(topic);
    assert_eq!(system.snapshot().topics, []);
}

#[test]
fn a_publisher_waits_as_a_thread_a_future_and_a_handler() {
    let system = system();
    let topic = topic(&system);
    let (_probe, gate, notes, _) = full_subscriber(&system, &topic, SlowSubscriber::Wait);
    let wakes = Arc::<Wakes>::default();
    let own = topic.clone();
    let mut sending = Box::pin(async move { own.send(1).await });
    assert!(poll_once(&mut sending, &wakes).is_pending());
    let (publisher, _) = probe(&system);
    let own = topic.clone();
    act(&publisher, move |_| assert_eq!(own.publish(2).delivered, 1));
    suspended(&publisher);
    let own = topic.clone();
    let thread = thread::spawn(move || own.publish(3).delivered);
    eventually("all have begun", || topic.snapshot().published == 3);
    gate.open();
    assert_eq!(block_on(sending).delivered, 1);
    assert_eq!(thread.join().expect("no panic"), 1);
    eventually("all got through", || notes.nonzero().len() == 3);
}

/// The message's clone panics if it is told to.
#[derive(Clone)]
struct Fragile(#[allow(dead_code)] Option<Bomb>);

struct Bomb;

impl Clone for Bomb {
    fn clone(&self) -> Self {
        panic!("on purpose")
    }
}

#[test]
fn subscribers_that_a_publisher_does_not_reach_count_the_message_as_shed() {
    let system = system();
    let topic = system.topic::<Fragile>(TopicOptions::new());
    let (free, _) = probe(&system);
    let (blocked, gate, _) = full(&system, bounded(2));
    let (leaving, _) = probe(&system);
    let subscribe = |actor, slow| topic.subscribe_with(actor, slow, |_| 1_u64).expect("free");
    let subscriptions = [
        subscribe(&free, SlowSubscriber::Shed),
        subscribe(&blocked, SlowSubscriber::Wait),
        subscribe(&free, SlowSubscriber::Wait),
        subscribe(&leaving, SlowSubscriber::Wait),
    ];
    let counts = || {
        let counts = subscriptions.each_ref();
        let counts = counts.map(|it| (it.delivered(), it.shed()));
        let snapshot = topic.snapshot();
        assert_eq!(
            snapshot.delivered,
            counts.iter().map(|it| it.0).sum::<u64>()
        );
        assert_eq!(snapshot.shed, counts.iter().map(|it| it.1).sum::<u64>());
        counts
    };
    let own = topic.clone();
    let mut sending = Box::pin(async move { own.send(Fragile(None)).await });
    assert!(poll_once(&mut sending, &Arc::default()).is_pending());
    subscriptions[3].unsubscribe();
    drop(sending);
    assert_eq!(counts(), [(1, 0), (0, 1), (0, 1), (0, 0)]);

    let publish = || topic.publish(Fragile(Some(Bomb)));
    catch_unwind(AssertUnwindSafe(publish)).expect_err("the clone panics");
    assert_eq!(counts(), [(1, 1), (0, 2), (0, 2), (0, 0)]);
    gate.open();
}

#[test]
fn ended_subscribers_disappear_and_the_bound_holds() {
    let system = system();
    let topic = system.topic::<u64>(TopicOptions::new().subscribers_max(2).name("prices"));
    let [first, second, third] = [(); 3].map(|()| probe(&system).0);
    let subscribe = |it: &ActorRef<Probe>| topic.subscribe(&it.recipient(), SlowSubscriber::Shed);
    let subscription = subscribe(&first).expect("free");
    subscribe(&second).expect("free");
    assert_eq!(subscribe(&third).err(), Some(SubscribeError::TooMany(2)));
    // Without a publish.
    first.stop();
    eventually("it has left", || topic.subscribers() == 1);
    eventually("its handle shows it", || !subscription.is_active());
    assert_eq!(subscribe(&first).err(), Some(SubscribeError::Closed));
    subscribe(&third).expect("free again");
    assert!(render(&system.snapshot()).contains("topic=\"prices\""));
    finish(&system);
    assert_eq!(topic.subscribers(), 0);
    assert_eq!(topic.publish(1), Published::default());
    assert_eq!(subscribe(&second).err(), Some(SubscribeError::Closed));
}

#[test]
fn a_panicking_closure_costs_its_subscriber_alone() {
    let system = system();
    let topic = topic(&system);
    let (fragile, _) = probe(&system);
    let (sound, notes) = probe(&system);
    let map = |number: u64| {
        assert_ne!(number, 2, "on purpose");
        number
    };
    for slow in [SlowSubscriber::Wait, SlowSubscriber::Shed] {
        topic.subscribe_with(&fragile, slow, map).expect("free");
    }
    topic
        .subscribe(&sound.recipient(), SlowSubscriber::Wait)
        .expect("free");
    let reports = (1..=3).map(|number| topic.publish(number));
    let reports: Vec<_> = reports
        .map(|it| (it.delivered, it.shed, it.unsubscribed))
        .collect();
    assert_eq!(reports, [(3, 0, 0), (1, 2, 2), (1, 0, 0)]);
    finish(&system);
    assert_eq!(notes.all(), [1, 2, 3]);
}

/// A step of the random test.
#[derive(Debug, Clone)]
enum Step {
    Publish,
    /// The subscriber handles all it has, and is held again.
    Drain(usize),
    Leave(usize),
    Stop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..4_usize;
    prop_oneof![
        6 => Just(Step::Publish),
        2 => which.clone().prop_map(Step::Drain),
        1 => which.clone().prop_map(Step::Leave),
        1 => which.prop_map(Step::Stop),
    ]
}

/// A subscriber with a lane of two, and what the model knows of it.
struct Modelled {
    probe: ActorRef<Probe>,
    gate: Gate,
    subscription: Subscription,
    slow: SlowSubscriber,
    is_subscribed: bool,
    queued: u64,
    delivered: u64,
    shed: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn counts_are_those_of_a_model(steps in prop::collection::vec(step(), 1..40)) {
        let system = system_of(1);
        let topic = topic(&system);
        let policies = [SlowSubscriber::Shed, SlowSubscriber::Unsubscribe];
        let mut subscribers: Vec<_> = (0..4).map(|index| {
            let (probe, gate, _) = held(&system, bounded(2));
            let slow = policies[index % 2];
            let subscription = topic.subscribe(&probe.recipient(), slow).expect("free");
            let (queued, delivered, shed) = (0, 0, 0);
            Modelled { probe, gate, subscription, slow, is_subscribed: true, queued, delivered, shed }
        }).collect();
        let (mut delivered, mut shed) = (0, 0);
        for step in steps {
            match step {
                Step::Publish => {
                    let before = (delivered, shed);
                    for it in subscribers.iter_mut().filter(|it| it.is_subscribed) {
                        if it.queued < 2 {
                            it.queued += 1;
                            it.delivered += 1;
                            delivered += 1;
                        } else {
                            it.shed += 1;
                            shed += 1;
                            it.is_subscribed = it.slow == SlowSubscriber::Shed;
                        }
                    }
                    let report = topic.publish(1);
                    let counted = (delivered - before.0, shed - before.1);
                    prop_assert_eq!((report.delivered, report.shed), counted);
                }
                Step::Drain(which) if subscribers[which].probe.is_alive() => {
                    let it = &mut subscribers[which];
                    it.gate.open();
                    eventually("it is empty", || it.probe.depth() == 0);
                    it.gate = hold(&it.probe);
                    it.queued = 0;
                }
                Step::Leave(which) => {
                    subscribers[which].subscription.unsubscribe();
                    subscribers[which].is_subscribed = false;
                }
                Step::Stop(which) => {
                    let it = &mut subscribers[which];
                    it.probe.stop();
                    it.gate.open();
                    ended(&it.probe);
                    it.is_subscribed = false;
                }
                Step::Drain(_) => {}
            }
            for it in &subscribers {
                let counts = (it.subscription.delivered(), it.subscription.shed());
                prop_assert_eq!(counts, (it.delivered, it.shed));
                eventually("it has left", || it.subscription.is_active() == it.is_subscribed);
            }
        }
        let snapshot = topic.snapshot();
        prop_assert_eq!((snapshot.delivered, snapshot.shed), (delivered, shed));
        subscribers.iter().for_each(|it| it.gate.open());
    }
}
