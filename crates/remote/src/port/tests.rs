//! Frames that no proxy sends: the port ends their session, and no credit is lost or returned twice.

use std::{sync::Arc, time::Duration};

use freeboard_actor::{System, testing::TestSystem};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    node::{Node, NodeOptions},
    remote_ref::Published,
    simulated::SimulatedNats,
};

const SEEDS: u64 = 5;
const WINDOW: Amount = Amount::new(4, 100);

#[derive(Debug, Serialize, Deserialize)]
struct Text(Vec<u8>);

impl RemoteMessage for Text {
    const NAME: &'static str = "test.text";
    const VERSION: u32 = 1;
    type Reply = ();
}

struct Reader;

impl Actor for Reader {}

impl Handler<Text> for Reader {
    type Reply = ();

    fn handle(&mut self, _: Text, _: &mut Context<Self>) {}
}

/// A node with a published actor, and one that sends frames by hand.
struct Bench {
    system: TestSystem,
    rogue: Node,
    route: u64,
    published: Published,
    heard: Arc<Mutex<Vec<Frame>>>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let system = TestSystem::new(seed);
        let nats = SimulatedNats::new(system.executor(), seed);
        let node = |name: &str, seed| {
            let own = system.build_another(System::builder());
            let options = NodeOptions::new("").name(name).seed(seed);
            let engine = Arc::new(nats.engine(name));
            Node::join_over(&own.expect("valid settings"), engine, options).expect("it joins")
        };
        let receiver = node("receiver", seed * 2 + 1);
        let rogue = node("rogue", seed * 2 + 2);
        let reader = receiver.system().spawn(Reader);
        let window = PublishOptions::new().window(WINDOW.messages, WINDOW.bytes);
        let published = receiver.publish_with::<Text, _>("texts", &reader, window);
        let heard: Arc<Mutex<Vec<Frame>>> = Arc::default();
        let route = rogue.inner.next_id();
        let hears = heard.clone();
        rogue.inner.add_route(route, move |arrived| {
            if let Arrived::Frame(frame) = arrived {
                hears.lock().push(frame);
            }
        });
        // Until the subscription of the name is at the server.
        system.advance(Duration::from_millis(10));
        Self {
            system,
            rogue,
            route,
            published: published.expect("a valid name"),
            heard,
        }
    }

    fn hear(&self, is_it: impl Fn(&Body) -> bool) -> Frame {
        let find = || {
            let heard = self.heard.lock();
            heard.iter().position(|it| is_it(&it.body))
        };
        self.system.run_until(|| find().is_some());
        let index = find().expect("just found");
        self.heard.lock().remove(index)
    }

    /// The session, and what it was granted.
    fn open(&self) -> (Sender<'_>, Amount) {
        let body = Body::Open {
            proxy: self.route,
            opening: self.rogue.inner.next_id(),
            type_name: Text::NAME.to_owned(),
            type_version: Text::VERSION,
        };
        let inner = &self.rogue.inner;
        let frame = wire::encode(&inner.id, self.route, 0, &body);
        let subject = inner.name_subject("texts");
        let sent = inner.engine.publish(&subject, None, frame.into());
        sent.expect("it is connected");
        let opened = self.hear(|it| matches!(it, Body::Opened { .. }));
        let Body::Opened {
            session,
            port,
            limit,
            ..
        } = opened.body
        else {
            unreachable!("as heard");
        };
        let sender = Sender {
            bench: self,
            to: opened.from,
            port,
            session,
        };
        (sender, limit)
    }
}

struct Sender<'a> {
    bench: &'a Bench,
    to: NodeId,
    port: u64,
    session: u64,
}

impl Sender<'_> {
    fn send(&self, body: &Body, bytes: Option<usize>) {
        let inner = &self.bench.rogue.inner;
        let mut frame = wire::encode(&inner.id, self.bench.route, self.port, body);
        if let Some(bytes) = bytes {
            // The length of the vector takes one byte.
            let payload = postcard::to_stdvec(&Text(vec![0; bytes - 1])).expect("plain data");
            assert_eq!(payload.len(), bytes);
            let head = ItemHead {
                wants_reply: false,
                left_us: None,
                request: None,
                trace: None,
                len: bytes as u32,
            };
            frame = wire::append(frame, &head, &payload);
        }
        inner.publish_to(&self.to, frame).expect("it is connected");
    }

    fn data(&self, before: Amount, bytes: usize) {
        let session = self.session;
        let body = Body::Data {
            session,
            before,
            count: 1,
        };
        self.send(&body, Some(bytes));
    }

    fn expect_closed(&self, seed: u64) {
        let is_it =
            |it: &Body| matches!(it, Body::Closed { session, .. } if *session == self.session);
        let closed = self.bench.hear(is_it);
        let Body::Closed { why, .. } = closed.body else {
            unreachable!("as heard");
        };
        assert_eq!(why, Refusal::Unknown, "seed {seed}");
    }
}

#[test]
fn an_item_above_the_limit_of_bytes_ends_its_session_and_no_credit_is_lost() {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed);
        for _ in 0..2 * WINDOW.messages {
            let (sender, limit) = bench.open();
            assert_eq!(limit, WINDOW, "seed {seed}");
            sender.data(Amount::default(), 101);
            sender.expect_closed(seed);
        }
        let (sender, _) = bench.open();
        sender.data(Amount::default(), 100);
        let counters = || bench.published.counters();
        bench.system.run_until(|| counters().received == 1);
    }
}

#[test]
fn a_position_whose_bytes_fall_ends_its_session() {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed);
        let behind = Amount::new(2, 5);
        for turn in 0..3 {
            let (sender, _) = bench.open();
            let session = sender.session;
            sender.data(Amount::default(), 10);
            match turn {
                0 => sender.data(behind, 10),
                1 => {
                    let body = Body::Probe {
                        session,
                        sent: behind,
                        wants: 0,
                    };
                    sender.send(&body, None);
                }
                _ => {
                    bench.published.withdraw();
                    let asked = bench.hear(|it| matches!(it, Body::Grant { reclaim: 1.., .. }));
                    let Body::Grant { reclaim, .. } = asked.body else {
                        unreachable!("as heard");
                    };
                    let body = Body::Reclaimed {
                        session,
                        reclaim,
                        sent: behind,
                        limit: behind,
                    };
                    sender.send(&body, None);
                }
            }
            sender.expect_closed(seed);
        }
        bench.system.run_until(|| !bench.published.is_published());
    }
}
