//! Topics over nodes.

use freeboard_actor::{Actor, Context, Handler, SlowSubscriber, SpawnOptions, System};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_remote::{
    Node, PublishOptions, RemoteMessage, RemoteOptions, RemoteTopic, SubscribingNode,
};
use freeboard_test_servers::eventually;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

use crate::actors::{Open, SEEDS, end, real_nodes, two_nodes};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Price(u64);

impl RemoteMessage for Price {
    const NAME: &'static str = "test.price";
    const VERSION: u32 = 1;
    type Reply = ();
}

type Prices = Arc<Mutex<Vec<u64>>>;

/// Keeps prices; from the begin, or once it is opened.
struct Keeper {
    prices: Prices,
    waits: bool,
}

impl Actor for Keeper {
    fn started(&mut self, cx: &mut Context<Self>) {
        if self.waits {
            cx.pause_handling(0);
        }
    }
}

impl Handler<Price> for Keeper {
    type Reply = ();

    fn handle(&mut self, price: Price, _: &mut Context<Self>) {
        self.prices.lock().expect("no panic").push(price.0);
    }
}

impl Handler<Open> for Keeper {
    type Reply = ();

    fn handle(&mut self, _: Open, cx: &mut Context<Self>) {
        cx.resume_lane(0);
    }
}

/// Subscribes an actor with a mailbox of 4.
fn subscribe(
    system: &System,
    topic: &RemoteTopic<Price>,
    waits: bool,
) -> (Prices, freeboard_actor::ActorRef<Keeper>) {
    let prices = Prices::default();
    let keeper = Keeper {
        prices: prices.clone(),
        waits,
    };
    let spawn = SpawnOptions::new().lanes([LaneConfig::bounded(4), LaneConfig::bounded(4)]);
    let keeper = system.spawn_once(spawn, keeper).expect("valid");
    let to = keeper.recipient::<Price>();
    topic.subscribe(&to, SlowSubscriber::Wait).expect("alive");
    (prices, keeper)
}

fn topic(node: &Node) -> RemoteTopic<Price> {
    let lane = LaneConfig::bounded(16).overload(Overload::Reject);
    let window = PublishOptions::new().window(8, 1_000_000);
    let topic = node.topic_with("prices", RemoteOptions::new().lane(lane), window);
    topic.expect("a valid name")
}

fn of(topic: &RemoteTopic<Price>, name: &str) -> Option<SubscribingNode> {
    topic.nodes().into_iter().find(|it| it.node.name == name)
}

fn is_connected(topic: &RemoteTopic<Price>, name: &str) -> bool {
    of(topic, name).is_some_and(|it| it.is_connected)
}

fn taken(prices: &Prices) -> Vec<u64> {
    prices.lock().expect("no panic").clone()
}

fn received(node: &Node) -> u64 {
    let published = node.snapshot().published;
    published.iter().map(|it| it.counters.received).sum()
}

#[test]
fn subscribers_of_all_nodes_get_what_any_node_publishes() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (at_a, at_b) = (topic(&a), topic(&b));
        let (first, _) = subscribe(b.system(), &at_b, false);
        let (second, _) = subscribe(b.system(), &at_b, false);
        let (doubled, keeper) = subscribe(b.system(), &at_b, false);
        let map = |price: Price| Price(price.0 * 2);
        let mapped = at_b.subscribe_with(&keeper, SlowSubscriber::Wait, map);
        mapped.expect("alive");
        world.until(|| is_connected(&at_a, "b"));
        let mut expected = Vec::new();
        for number in 0..100 {
            let report = at_a.publish(Price(number));
            assert_eq!(
                (report.nodes, report.nodes_shed, report.local.delivered),
                (1, 0, 0)
            );
            expected.push(number);
            world.until(|| taken(&first) == expected && taken(&second) == expected);
        }
        assert_eq!(received(&b), 100, "seed {seed}: one message per node");
        world.until(|| at_b.snapshot().delivered == 400 && taken(&doubled).len() == 200);
        keeper.stop();
        // A node gets its own, once.
        let (third, _) = subscribe(a.system(), &at_a, false);
        world.until(|| is_connected(&at_b, "a"));
        assert_eq!(at_a.publish(Price(1)).local.delivered, 1);
        let report = at_b.publish(Price(2));
        assert_eq!((report.nodes, report.local.delivered), (1, 2));
        world.until(|| taken(&third) == [1, 2] && taken(&first).len() == 102);
        let known = of(&at_a, "b").expect("it subscribes");
        assert_eq!((known.delivered, known.shed), (101, 0), "seed {seed}");
        assert!(b.leave(std::time::Duration::from_secs(5)), "seed {seed}");
        world.until(|| at_a.nodes().is_empty());
    }
}

#[test]
fn what_has_come_before_a_node_leaves_reaches_its_subscribers() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (at_a, at_b) = (topic(&a), topic(&b));
        let (prices, keeper) = subscribe(b.system(), &at_b, true);
        world.until(|| is_connected(&at_a, "b"));
        for number in 0..8 {
            at_a.publish(Price(number));
        }
        world.until(|| received(&b) == 8);
        // Four wait in the mailbox of the subscriber, and the others in front of it.
        keeper.tell_lane(1, Open).expect("alive");
        assert!(b.leave(std::time::Duration::from_secs(5)), "seed {seed}");
        world.until(|| taken(&prices) == [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn a_slow_node_misses_messages_and_does_not_stop_the_others() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let c = world.node("c", seed + 1_000);
        let (at_a, at_b, at_c) = (topic(&a), topic(&b), topic(&c));
        let (quick, _) = subscribe(b.system(), &at_b, false);
        let (slow, keeper) = subscribe(c.system(), &at_c, true);
        world.until(|| is_connected(&at_a, "b") && is_connected(&at_a, "c"));
        let mut shed = 0;
        for number in 0..200 {
            shed += at_a.publish(Price(number)).nodes_shed;
            world.until(|| taken(&quick).len() as u64 == number + 1);
        }
        assert!(taken(&quick).is_sorted(), "seed {seed}");
        let known = |name| of(&at_a, name).expect("it subscribes");
        assert_eq!((known("b").delivered, known("b").shed), (200, 0));
        assert!(shed > 100 && known("c").shed == shed, "seed {seed}: {shed}");
        keeper.tell_lane(1, Open).expect("alive");
        // What was accepted arrives.
        world.until(|| taken(&slow).len() as u64 == 200 - shed);
        assert!(taken(&slow).is_sorted(), "seed {seed}");
        assert_eq!(known("c").delivered, 200 - shed, "seed {seed}");
    }
}

#[test]
fn a_topic_on_a_real_server() {
    let Some((_server, a, b)) = real_nodes() else {
        return;
    };
    let (at_a, at_b) = (topic(&a), topic(&b));
    let (near, _) = subscribe(a.system(), &at_a, false);
    let (far, _) = subscribe(b.system(), &at_b, false);
    eventually("b is found", || is_connected(&at_a, "b"));
    let mut expected = Vec::new();
    for number in 0..50 {
        assert_eq!(at_a.publish(Price(number)).nodes, 1);
        expected.push(number);
        eventually("it comes", || {
            taken(&far) == expected && taken(&near) == expected
        });
    }
    assert_eq!(received(&b), 50);
    end(&[b, a]);
}
