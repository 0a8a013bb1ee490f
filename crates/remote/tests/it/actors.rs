//! Actors of two nodes that send to each other: on a simulated NATS in virtual time, over many seeds, and on a real one.

use std::{
    collections::VecDeque,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Context, Deferred, DeferredHandler, Handler, SpawnOptions, System,
    testing::TestSystem,
};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_remote::{
    DownReason, Node, NodeChange, NodeError, NodeOptions, PublishOptions, RemoteAskError,
    RemoteExit, RemoteMessage, RemoteOptions, RemoteRef, RemoteTellError, RemoteTerminated,
    engine::Engine, simulated::SimulatedNats,
};
use freeboard_test_servers::{JetStream, LONG, Server, eventually, if_installed, nats};
use serde::{Deserialize, Serialize};

pub(crate) const SEEDS: u64 = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Add(pub(crate) u64);

impl RemoteMessage for Add {
    const NAME: &'static str = "test.add";
    const VERSION: u32 = 1;
    type Reply = u64;

    fn coalesce_key(&self) -> Option<u64> {
        Some(self.0 % 10)
    }
}

/// The same name in another version.
#[derive(Debug, Serialize, Deserialize)]
struct NewAdd(u64, u64);

impl RemoteMessage for NewAdd {
    const NAME: &'static str = "test.add";
    const VERSION: u32 = 2;
    type Reply = u64;
}

#[derive(Debug, Serialize, Deserialize)]
struct Other(Vec<u8>);

impl RemoteMessage for Other {
    const NAME: &'static str = "test.other";
    const VERSION: u32 = 1;
    type Reply = Vec<u8>;
}

/// Adds numbers, and keeps them. It replies when the test lets it.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<SeenInner>);

#[derive(Default)]
struct SeenInner {
    numbers: Mutex<Vec<u64>>,
    held: Mutex<VecDeque<Deferred<u64>>>,
    holds: AtomicU64,
}

impl Seen {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.0.numbers.lock().expect("no panic").clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.numbers.lock().expect("no panic").len()
    }

    /// The replies to the next asks wait.
    fn hold(&self, asks: u64) {
        self.0.holds.store(asks, Ordering::SeqCst);
    }

    fn held(&self) -> usize {
        self.0.held.lock().expect("no panic").len()
    }

    fn release(&self) {
        self.0.holds.store(0, Ordering::SeqCst);
        let held: Vec<_> = self.0.held.lock().expect("no panic").drain(..).collect();
        for reply in held {
            reply.reply(0);
        }
    }
}

#[derive(Default)]
pub(crate) struct Adder {
    seen: Seen,
    sum: u64,
}

impl Adder {
    pub(crate) fn new(seen: &Seen) -> Self {
        Self {
            seen: seen.clone(),
            sum: 0,
        }
    }
}

impl Actor for Adder {}

impl DeferredHandler<Add> for Adder {
    type Reply = u64;

    fn handle(&mut self, add: Add, reply: Deferred<u64>, _: &mut Context<Self>) {
        self.sum += add.0;
        self.seen.0.numbers.lock().expect("no panic").push(add.0);
        let holds = &self.seen.0.holds;
        let take = |left: u64| left.checked_sub(1);
        let is_held = holds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        if is_held.is_ok() {
            self.seen.0.held.lock().expect("no panic").push_back(reply);
        } else {
            reply.reply(self.sum);
        }
    }
}

impl Handler<Other> for Adder {
    type Reply = Vec<u8>;

    fn handle(&mut self, other: Other, _: &mut Context<Self>) -> Vec<u8> {
        other.0
    }
}

/// Takes numbers only after the gate is open: its mailbox fills up.
pub(crate) struct Slow {
    seen: Seen,
    waits: bool,
}

pub(crate) struct Open;

impl Actor for Slow {
    fn started(&mut self, cx: &mut Context<Self>) {
        if self.waits {
            cx.pause_handling(1);
        }
    }
}

impl Handler<Add> for Slow {
    type Reply = u64;

    fn handle(&mut self, add: Add, _: &mut Context<Self>) -> u64 {
        self.seen.0.numbers.lock().expect("no panic").push(add.0);
        add.0
    }
}

impl Handler<Open> for Slow {
    type Reply = ();

    fn handle(&mut self, _: Open, cx: &mut Context<Self>) {
        cx.resume_lane(1);
    }
}

/// Notes what it is told.
struct Watcher<T>(Arc<Mutex<Vec<T>>>);

impl<T: Send + 'static> Actor for Watcher<T> {}

impl<T: Send + 'static> Handler<T> for Watcher<T> {
    type Reply = ();

    fn handle(&mut self, told: T, _: &mut Context<Self>) {
        self.0.lock().expect("no panic").push(told);
    }
}

/// Nodes of one simulation.
pub(crate) struct Simulated {
    pub(crate) system: TestSystem,
    pub(crate) nats: SimulatedNats,
}

impl Simulated {
    pub(crate) fn new(seed: u64) -> Self {
        let system = TestSystem::new(seed);
        let nats = SimulatedNats::new(system.executor(), seed);
        Self { system, nats }
    }

    pub(crate) fn engine(&self, name: &str) -> Arc<dyn Engine> {
        Arc::new(self.nats.engine(name))
    }

    pub(crate) fn another(&self) -> System {
        let builder = System::builder();
        self.system.build_another(builder).expect("valid settings")
    }

    fn try_node(&self, name: &str, seed: u64) -> Result<Node, NodeError> {
        let options = NodeOptions::new("").name(name).seed(seed);
        Node::join_over(&self.another(), self.engine(name), options)
    }

    pub(crate) fn node(&self, name: &str, seed: u64) -> Node {
        self.try_node(name, seed).expect("it joins")
    }

    pub(crate) fn adder(
        &self,
        node: &Node,
        name: &str,
        options: PublishOptions,
    ) -> (Seen, ActorRef<Adder>) {
        let seen = Seen::default();
        let adder = node.system().spawn(Adder::new(&seen));
        node.publish_with::<Add, _>(name, &adder, options)
            .expect("published");
        (seen, adder)
    }

    pub(crate) fn until(&self, condition: impl FnMut() -> bool) {
        self.system.run_until(condition);
    }

    pub(crate) fn connected<M: RemoteMessage>(&self, to: &RemoteRef<M>) {
        self.until(|| to.is_connected());
    }
}

/// Two nodes: `a` has an adder, `b` sends to it.
pub(crate) fn two_nodes(seed: u64) -> (Simulated, Node, Node) {
    let world = Simulated::new(seed);
    let a = world.node("a", seed * 2 + 1);
    let b = world.node("b", seed * 2 + 2);
    (world, a, b)
}

#[test]
fn tells_come_in_order_and_asks_have_their_replies() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums/one", PublishOptions::new());
        let adder = b.remote::<Add>("sums/one").expect("a valid name");
        for number in 0..500 {
            adder.tell(Add(number)).expect("accepted");
        }
        let sum = adder.ask(Add(1)).wait();
        assert_eq!(sum, Ok(124_751), "seed {seed}");
        let expected: Vec<_> = (0..500).chain([1]).collect();
        assert_eq!(seen.numbers(), expected, "seed {seed}");
        assert_eq!(adder.node().as_ref(), Some(a.id()));
        // Several in one frame, and one at a time.
        for _ in 0..10 {
            adder
                .ask(Add(0))
                .timeout(Duration::from_secs(1))
                .wait()
                .expect("a reply");
        }
    }
}

#[test]
fn a_name_that_nobody_publishes_and_other_types_are_refused() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        world.adder(&a, "sums", PublishOptions::new());
        let nobody = b.remote::<Add>("nobody").expect("a valid name");
        let error = nobody.ask(Add(1)).wait();
        assert!(
            matches!(error, Err(RemoteAskError::Unknown(_))),
            "{error:?}"
        );
        let told = nobody.tell(Add(2));
        assert!(matches!(told, Err(RemoteTellError::Unknown(Add(2), _))));
        let other = b.remote::<Other>("sums").expect("a valid name");
        let error = other.ask(Other(vec![1])).wait();
        let Err(RemoteAskError::Unknown(text)) = error else {
            panic!("{error:?}");
        };
        assert!(text.contains("test.add"), "{text}");
        let newer = b.remote::<NewAdd>("sums").expect("a valid name");
        let error = newer.ask(NewAdd(1, 2)).wait();
        let Err(RemoteAskError::Unknown(text)) = error else {
            panic!("{error:?}");
        };
        assert!(text.contains("version 1"), "{text}");
        // Published later, it is found.
        world.adder(&a, "nobody", PublishOptions::new());
        world.connected(&nobody);
        assert_eq!(nobody.ask(Add(5)).wait(), Ok(5));
        for bad in ["", "a b", "a..b", "a.b", "*", ">", "a/", &"x".repeat(65)] {
            assert!(
                matches!(b.remote::<Add>(bad), Err(NodeError::Name(_))),
                "{bad:?}"
            );
        }
        let options = NodeOptions::new("").name("c").prefix("a/name");
        let nested = Node::join_over(&world.another(), world.engine("c"), options);
        assert!(matches!(nested, Err(NodeError::Option(_))), "{nested:?}");
        let again = a.publish::<Add, _>("sums", &world.adder(&a, "x", PublishOptions::new()).1);
        assert!(matches!(again, Err(NodeError::Published(_))));
    }
}

/// An actor with this bound that takes nothing until it is opened.
pub(crate) fn slow(node: &Node, bound: usize) -> (Seen, ActorRef<Slow>) {
    slow_with(node, bound, bound as u64)
}

fn slow_with(node: &Node, bound: usize, window: u64) -> (Seen, ActorRef<Slow>) {
    let seen = Seen::default();
    let actor = Slow {
        seen: seen.clone(),
        waits: true,
    };
    let lanes = [LaneConfig::bounded(16), LaneConfig::bounded(bound)];
    let options = SpawnOptions::new().lanes(lanes);
    let slow = node.system().spawn_once(options, actor).expect("valid");
    let window = PublishOptions::new().lane(1).window(window, 1_000_000);
    node.publish_with::<Add, _>("slow", &slow, window)
        .expect("published");
    (seen, slow)
}

#[test]
fn the_bound_of_the_far_mailbox_is_hard_and_each_policy_acts_at_the_sender() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = slow(&a, 64);
        let lane = LaneConfig::bounded(32);
        let with = |lane| b.remote_with::<Add>("slow", RemoteOptions::new().lane(lane));
        let rejecting = with(lane.overload(Overload::Reject)).expect("valid");
        world.connected(&rejecting);
        // 64 are granted, one is held by the proxy, 32 wait in the lane.
        let mut accepted = 0;
        for number in 0..1_000 {
            match rejecting.tell(Add(number)) {
                Ok(()) => accepted += 1,
                Err(RemoteTellError::Full(Add(back))) => assert_eq!(back, number),
                Err(error) => panic!("{error:?}"),
            }
            world.system.advance(Duration::from_micros(50));
            assert!(actor.depth() <= 64, "seed {seed}");
        }
        assert_eq!(accepted, 64 + 1 + 32, "seed {seed}");
        let late = rejecting.ask(Add(7)).timeout(Duration::from_secs(1)).wait();
        assert_eq!(late, Err(RemoteAskError::Full));
        actor.tell(Open).expect("alive");
        world.until(|| seen.len() == accepted);
        assert!(seen.numbers().is_sorted(), "seed {seed}");
    }
}

#[test]
fn a_window_is_reduced_to_the_bound_of_the_lane() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = slow_with(&a, 8, 1_000);
        let to = b.remote::<Add>("slow").expect("a valid name");
        world.connected(&to);
        for number in 0..20 {
            to.tell(Add(number)).expect("accepted");
            world.system.advance(Duration::from_millis(5));
        }
        let own = a.snapshot();
        assert_eq!(actor.depth(), 8, "seed {seed}");
        assert_eq!(own.published[0].counters.received, 8, "seed {seed}");
        actor.tell(Open).expect("alive");
        world.until(|| seen.len() == 20);
    }
}

/// Local senders fill the lane, so the port is muted. Each of the messages that are granted comes in a frame of its own.
#[test]
fn a_muted_port_has_capacity_for_each_message_that_it_has_granted() {
    const MESSAGES: u64 = 5_000;
    let seed = 3;
    let (world, a, b) = two_nodes(seed);
    let (seen, actor) = slow(&a, MESSAGES as usize);
    let to = b.remote::<Add>("slow").expect("a valid name");
    world.connected(&to);
    for number in 0..MESSAGES {
        actor.tell_lane(1, Add(number)).expect("it has capacity");
    }
    for number in 0..MESSAGES {
        to.tell(Add(number)).expect("accepted");
        world.system.run_until_idle();
    }
    world.system.advance(Duration::from_secs(1));
    assert_eq!(b.snapshot().references[0].counters.frames, MESSAGES);
    actor.tell(Open).expect("alive");
    world.until(|| seen.len() as u64 == 2 * MESSAGES);
    let counters = a.snapshot().published[0].counters;
    assert_eq!((counters.stale, counters.lost), (0, 0), "seed {seed}");
}

#[test]
fn the_oldest_message_that_waits_at_the_sender_makes_room() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = slow(&a, 8);
        let lane = LaneConfig::bounded(4).overload(Overload::DropOldest);
        let options = RemoteOptions::new().lane(lane);
        let to = b.remote_with::<Add>("slow", options).expect("valid");
        world.connected(&to);
        for number in 0..100 {
            to.tell(Add(number)).expect("never refused");
            world.system.advance(Duration::from_millis(5));
        }
        actor.tell(Open).expect("alive");
        world.until(|| seen.len() == 8 + 1 + 4);
        let expected: Vec<_> = (0..9).chain(96..100).collect();
        assert_eq!(seen.numbers(), expected, "seed {seed}");
        // A message whose deadline passes while it waits is not handled.
        world.system.advance(Duration::from_secs(1));
        assert_eq!(seen.len(), 13);
    }
}

#[test]
fn unused_credit_of_one_sender_goes_to_another() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let c = world.node("c", seed + 1_000);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new().window(4, 1_000_000));
        let idle = b.remote::<Add>("sums").expect("a valid name");
        assert_eq!(idle.ask(Add(1)).wait(), Ok(1));
        world.until(|| idle.credit() == 3);
        // The first sender has all of the window. The second one gets what the first does not use.
        let busy = c.remote::<Add>("sums").expect("a valid name");
        for _ in 0..50 {
            busy.ask(Add(1))
                .timeout(Duration::from_secs(5))
                .wait()
                .expect("a reply");
        }
        assert!(idle.credit() <= 4);
        for _ in 0..10 {
            idle.ask(Add(1))
                .timeout(Duration::from_secs(5))
                .wait()
                .expect("a reply");
        }
        assert_eq!(seen.len(), 61, "seed {seed}");
    }
}

/// The port still has the session of the broken connection.
#[test]
fn a_sender_that_connects_again_is_not_refused_at_the_limit_of_senders() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new().sessions_max(1));
        let adder = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&adder);
        for number in 1..=3 {
            world.nats.lose_connection("b");
            world.until(|| !adder.is_connected());
            let reply = adder.ask(Add(1)).timeout(Duration::from_secs(10)).wait();
            assert_eq!(reply, Ok(number), "seed {seed}");
        }
        let other = b.remote::<Add>("sums").expect("a valid name");
        let error = other.ask(Add(1)).wait();
        assert!(
            matches!(error, Err(RemoteAskError::Unknown(_))),
            "seed {seed}: {error:?}"
        );
        assert_eq!(seen.len(), 3, "seed {seed}");
    }
}

#[test]
fn deadlines_travel_and_expired_messages_are_not_handled() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = slow(&a, 64);
        let to = b.remote::<Add>("slow").expect("a valid name");
        world.connected(&to);
        let late = to.ask(Add(1)).timeout(Duration::from_millis(30)).wait();
        assert_eq!(late, Err(RemoteAskError::Expired));
        // The receiver counts from the arrival.
        world.system.advance(Duration::from_millis(5));
        actor.tell(Open).expect("alive");
        assert_eq!(to.ask(Add(2)).timeout(Duration::from_secs(1)).wait(), Ok(2));
        assert_eq!(seen.numbers(), [2], "seed {seed}");
        let lane = &actor.snapshot().lanes[1];
        assert!(
            lane.shed
                .iter()
                .any(|it| it.reason == "expired" || it.reason == "unwanted"),
            "{lane:?}"
        );
    }
}

#[test]
fn an_ask_without_an_answer_is_lost_and_a_repeated_one_runs_once() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&to);
        seen.hold(2);
        let watched = Arc::new(Mutex::new(Vec::new()));
        let watcher = b.system().spawn(Watcher(watched.clone()));
        to.watch(watcher.recipient::<RemoteTerminated>());
        {
            let plain = to.ask(Add(1)).into_future_in(&world);
            let again = to.ask(Add(2)).retry(3).into_future_in(&world);
            world.until(|| seen.held() == 2);
            world.nats.lose_connection("b");
            world.until(|| plain.lock().expect("no panic").is_some());
            let lost = plain.lock().expect("no panic").take();
            assert!(
                matches!(lost, Some(Err(RemoteAskError::Lost(_)))),
                "{lost:?}"
            );
            world.connected(&to);
            seen.release();
            world.until(|| again.lock().expect("no panic").is_some());
            assert_eq!(
                again.lock().expect("no panic").take(),
                Some(Ok(0)),
                "seed {seed}"
            );
        }
        let mut numbers = seen.numbers();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2], "seed {seed}: each ran once");
        let watched = watched.lock().expect("no panic");
        assert_eq!(watched[0].reason, RemoteExit::Disconnected);
    }
}

/// The first attempt is handled. Then the name is withdrawn, so there is no second one.
#[test]
fn an_ask_that_cannot_be_sent_again_is_lost() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&to);
        seen.hold(1);
        let again = to.ask(Add(1)).retry(3).into_future_in(&world);
        world.until(|| seen.held() == 1);
        world.nats.partition("b");
        actor.stop();
        world.until(|| !actor.is_alive());
        world.nats.heal("b");
        world.until(|| again.lock().expect("no panic").is_some());
        let outcome = again.lock().expect("no panic").take();
        assert!(
            matches!(outcome, Some(Err(RemoteAskError::Lost(_)))),
            "seed {seed}: {outcome:?}"
        );
        assert_eq!(seen.numbers(), [1]);
        let counters = to.counters();
        assert_eq!((counters.lost, counters.undelivered), (1, 0), "seed {seed}");
    }
}

/// Its code panics when 13 is received, and when 14 is sent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Fussy(#[serde(deserialize_with = "refuse_13")] u64);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FussyReply(#[serde(serialize_with = "refuse_14")] u64);

fn refuse_13<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if number == 13 {
        resume_unwind(Box::new("as planned"));
    }
    Ok(number)
}

fn refuse_14<S: serde::Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    if *number == 14 {
        resume_unwind(Box::new("as planned"));
    }
    number.serialize(to)
}

impl RemoteMessage for Fussy {
    const NAME: &'static str = "test.fussy";
    const VERSION: u32 = 1;
    type Reply = FussyReply;
}

impl Handler<Fussy> for Adder {
    type Reply = FussyReply;

    fn handle(&mut self, fussy: Fussy, _: &mut Context<Self>) -> FussyReply {
        FussyReply(fussy.0)
    }
}

#[test]
fn a_message_whose_own_code_panics_is_an_error_and_the_name_lives_on() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let adder = a.system().spawn(Adder::default());
        let window = PublishOptions::new().window(2, u64::MAX);
        a.publish_with::<Fussy, _>("fussy", &adder, window)
            .expect("published");
        let to = b.remote::<Fussy>("fussy").expect("a valid name");
        world.connected(&to);
        for number in [13, 14, 15, 14, 13, 16] {
            let outcome = to.ask(Fussy(number)).wait();
            match number {
                13 | 14 => assert!(
                    matches!(outcome, Err(RemoteAskError::Encoding(_))),
                    "seed {seed}: {outcome:?}"
                ),
                _ => assert_eq!(outcome, Ok(FussyReply(number)), "seed {seed}"),
            }
        }
    }
}

/// Publishes when its system ends.
struct Late(Node, ActorRef<Adder>, Arc<Mutex<Option<bool>>>);

impl Actor for Late {
    fn stopped(&mut self, _: &mut Context<Self>) {
        let published = self.0.publish::<Add, _>("late", &self.1);
        *self.2.lock().expect("no panic") = Some(published.is_ok());
    }
}

#[test]
fn a_node_whose_system_ends_publishes_nothing() {
    let (_world, a, _b) = two_nodes(1);
    let adder = a.system().spawn(Adder::default());
    let published = Arc::new(Mutex::new(None));
    let late = a.system().spawn(Late(a.clone(), adder, published.clone()));
    a.system().shutdown(LONG);
    assert!(!late.is_alive());
    assert_eq!(*published.lock().expect("no panic"), Some(false));
    assert!(a.snapshot().published.is_empty());
}

#[test]
fn a_lane_that_the_actor_lacks_is_refused() {
    let (_world, a, _b) = two_nodes(1);
    let adder = a.system().spawn(Adder::default());
    let refused = a.publish_with::<Add, _>("sums", &adder, PublishOptions::new().lane(7));
    assert!(
        matches!(refused, Err(NodeError::Option(_))),
        "{:?}",
        refused.err()
    );
}

/// Futures that run as steps of the simulation.
trait InSimulation<M: RemoteMessage> {
    fn into_future_in(self, world: &Simulated) -> Outcome<M>;
}

type Outcome<M> = Arc<Mutex<Option<Result<<M as RemoteMessage>::Reply, RemoteAskError>>>>;

impl<M: RemoteMessage> InSimulation<M> for freeboard_remote::RemoteAsk<M> {
    fn into_future_in(self, world: &Simulated) -> Outcome<M> {
        let outcome = Arc::new(Mutex::new(None));
        let (kept, future) = (outcome.clone(), self.into_future());
        let running = async move {
            let result = future.await;
            *kept.lock().expect("no panic") = Some(result);
        };
        world.system.executor().spawn(running, || {});
        outcome
    }
}

#[test]
fn the_end_of_an_actor_and_of_a_node_are_told() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (_, adder) = world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        let ends = Arc::new(Mutex::new(Vec::new()));
        let nodes = Arc::new(Mutex::new(Vec::new()));
        let watcher = b.system().spawn(Watcher(ends.clone()));
        b.watch(
            b.system()
                .spawn(Watcher(nodes.clone()))
                .recipient::<NodeChange>(),
        );
        world.connected(&to);
        to.watch(watcher.recipient::<RemoteTerminated>());
        world.until(|| b.nodes().len() == 2);
        adder.stop();
        world.until(|| !ends.lock().expect("no panic").is_empty());
        let end: RemoteTerminated = ends.lock().expect("no panic")[0].clone();
        assert_eq!(
            (end.reason, end.node.as_ref()),
            (RemoteExit::Terminated, Some(a.id()))
        );
        // A node that falls silent is down; it comes back when it is heard again.
        world.nats.partition("a");
        world.until(|| b.nodes().len() == 1);
        world.nats.heal("a");
        world.until(|| b.nodes().len() == 2);
        let c = world.node("c", seed + 500);
        world.until(|| b.nodes().len() == 3);
        assert!(c.leave(Duration::from_secs(5)), "seed {seed}");
        let reasons = || -> Vec<_> {
            let nodes = nodes.lock().expect("no panic");
            let down = nodes.iter().filter_map(|it| match it {
                NodeChange::Down { reason, .. } => Some(*reason),
                _ => None,
            });
            down.collect()
        };
        world.until(|| reasons().len() == 2);
        assert_eq!(
            reasons(),
            [DownReason::NoHeartbeat, DownReason::Left],
            "seed {seed}"
        );
    }
}

#[test]
fn dropped_references_and_ended_actors_leave_only_their_counts() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, adder) = world.adder(&a, "sums", PublishOptions::new());
        let before = b.system().actors_alive();
        for number in 0..20 {
            let to = b.remote::<Add>("sums").expect("a valid name");
            to.tell(Add(number)).expect("accepted");
        }
        world.until(|| b.system().actors_alive() == before);
        // What was accepted is sent first.
        world.until(|| seen.len() == 20);
        let of = |node: &Node, name: &str| {
            let references = node.snapshot().references;
            references.into_iter().find(|it| it.name == name)
        };
        // The counts of those that have ended are kept when the next one is made.
        let told: Arc<Mutex<Vec<RemoteTerminated>>> = Arc::default();
        let watcher = b.system().spawn(Watcher(told.clone()));
        let watched = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&watched);
        watched.watch(watcher.recipient::<RemoteTerminated>());
        assert_eq!(of(&b, "sums").expect("it is there").counters.sent, 20);
        drop(watched);
        adder.stop();
        world.until(|| !told.lock().expect("no panic").is_empty());
        let reason = told.lock().expect("no panic")[0].reason;
        assert_eq!(reason, RemoteExit::Terminated);
        world.until(|| b.system().actors_alive() == before + 1);
        let received = |node: &Node| node.snapshot().published[0].counters.received;
        assert_eq!((a.snapshot().published.len(), received(&a)), (1, 20));
        // The name goes on with its counts.
        world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        assert_eq!(to.ask(Add(1)).wait(), Ok(1));
        assert_eq!(received(&a), 21);
        assert!(b.leave(LONG) && a.leave(LONG));
        assert_eq!(of(&b, "sums").expect("it is there").counters.sent, 21);
        assert_eq!(received(&a), 21);
    }
}

#[test]
fn over_a_slow_network_a_session_stays() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (_, _adder) = world.adder(&a, "sums", PublishOptions::new());
        // Longer than the time between two attempts to open a session.
        world.nats.set_delay(Duration::from_millis(150));
        let to = b.remote::<Add>("sums").expect("a valid name");
        for number in 0..20 {
            let reply = to.ask(Add(number)).timeout(Duration::from_secs(20)).wait();
            assert!(reply.is_ok(), "seed {seed}: {reply:?}");
        }
        assert_eq!(to.counters().sessions, 1, "seed {seed}");
    }
}

#[test]
fn senders_of_messages_larger_than_their_share_all_go_on() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let c = world.node("c", seed + 900);
        let (_, adder) = world.adder(&a, "sums", PublishOptions::new());
        let window = PublishOptions::new().window(64, 100_000);
        a.publish_with::<Other, _>("bytes", &adder, window)
            .expect("published");
        let senders = [&b, &c].map(|node| node.remote::<Other>("bytes").expect("a valid name"));
        // Each sender holds half of the credit before both want more.
        for turn in 0..10 {
            let reply = senders[turn % 2].ask(Other(vec![0; 1_000])).wait();
            assert!(reply.is_ok(), "seed {seed}: {reply:?}");
        }
        assert!(senders.iter().all(|it| it.credit() > 0), "seed {seed}");
        let asks: Vec<_> = (0..10)
            .map(|turn| {
                senders[turn % 2]
                    .ask(Other(vec![0; 60_000]))
                    .into_future_in(&world)
            })
            .collect();
        for ask in asks {
            world.until(|| ask.lock().expect("no panic").is_some());
        }
    }
}

#[test]
fn frames_are_no_larger_than_the_server_takes() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        world.nats.set_payload_max(1_024);
        let (seen, _adder) = world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&to);
        for number in 0..1_000 {
            to.tell(Add(number)).expect("accepted");
        }
        let asks: Vec<_> = (0..200)
            .map(|number| to.ask(Add(number)).into_future_in(&world))
            .collect();
        for ask in asks {
            world.until(|| ask.lock().expect("no panic").is_some());
            let reply = ask.lock().expect("no panic").take();
            assert!(matches!(reply, Some(Ok(_))), "seed {seed}: {reply:?}");
        }
        assert_eq!(seen.len(), 1_200, "seed {seed}");
        let counters = to.counters();
        assert_eq!((counters.sent, counters.sessions), (1_200, 1));
    }
}

#[test]
fn an_end_that_was_not_heard_is_found_by_an_idle_reference() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (_, adder) = world.adder(&a, "sums", PublishOptions::new());
        let to = b.remote::<Add>("sums").expect("a valid name");
        let ends = Arc::new(Mutex::new(Vec::new()));
        let watcher = b.system().spawn(Watcher(ends.clone()));
        world.connected(&to);
        to.watch(watcher.recipient::<RemoteTerminated>());
        // Shorter than the time after which a node counts as down. Without a connection the end cannot be sent.
        world.nats.partition("a");
        world.nats.lose_connection("a");
        adder.stop();
        world.system.advance(Duration::from_secs(1));
        world.nats.heal("a");
        world.until(|| !ends.lock().expect("no panic").is_empty());
        assert!(!to.is_connected(), "seed {seed}");
    }
}

#[test]
fn a_name_of_a_node_has_one_owner() {
    for seed in 0..SEEDS {
        let (world, a, _b) = two_nodes(seed);
        let other = world.try_node("a", seed + 77);
        assert!(matches!(other, Err(NodeError::NameTaken(_))), "{other:?}");
        assert!(!a.has_left());
        // Once it has left, the name is free.
        assert!(a.leave(Duration::from_secs(5)));
        world.node("a", seed + 78);
    }
}

#[test]
fn what_was_accepted_before_leaving_is_sent_and_answered() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new().window(16, 100_000));
        let to = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&to);
        for number in 0..300 {
            to.tell(Add(number)).expect("accepted");
        }
        assert!(seen.len() < 300, "some wait for credit");
        assert!(b.leave(Duration::from_secs(30)), "seed {seed}");
        let all: Vec<_> = (0..300).collect();
        world.until(|| seen.len() == all.len());
        assert_eq!(seen.numbers(), all, "seed {seed}");
        assert!(matches!(
            to.tell(Add(1)),
            Err(RemoteTellError::Closed(Add(1)))
        ));
    }
}

#[test]
fn garbage_and_large_messages_get_clear_errors() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        world.nats.set_payload_max(10_000);
        let adder = a.system().spawn(Adder {
            seen: Seen::default(),
            sum: 0,
        });
        let window = PublishOptions::new().window(64, 5_000);
        a.publish_with::<Other, _>("bytes", &adder, window)
            .expect("published");
        let to = b.remote::<Other>("bytes").expect("a valid name");
        world.connected(&to);
        let large = to.tell(Other(vec![0; 20_000]));
        assert!(matches!(large, Err(RemoteTellError::TooLarge(..))));
        let wide = to.ask(Other(vec![0; 7_000])).wait();
        assert!(matches!(wide, Err(RemoteAskError::TooLarge(_))), "{wide:?}");
        assert_eq!(to.ask(Other(vec![7; 4_000])).wait(), Ok(vec![7; 4_000]));
        let stranger = world.engine("stranger");
        world.until(|| {
            stranger
                .publish("freeboard.hb", None, Bytes::from_static(b"FB\x01?"))
                .is_ok()
        });
        for bytes in [&b""[..], b"FB", b"FB\x09", b"{\"a\": 1}", &[0xff; 100]] {
            let subject = "freeboard.name.bytes";
            let bytes = Bytes::copy_from_slice(bytes);
            stranger.publish(subject, None, bytes).expect("up");
        }
        assert_eq!(to.ask(Other(vec![1])).wait(), Ok(vec![1]), "seed {seed}");
    }
}

#[test]
fn nothing_waits_for_ever_when_connections_break_again_and_again() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new().window(8, 100_000));
        let to = b.remote::<Add>("sums").expect("a valid name");
        world.connected(&to);
        let mut asks = Vec::new();
        for number in 0..200_u64 {
            asks.push(to.ask(Add(number)).into_future_in(&world));
            world.system.advance(Duration::from_micros(300));
            match number % 50 {
                10 => world.nats.lose_connection("a"),
                30 => world.nats.lose_connection("b"),
                45 => world.nats.restart(true),
                _ => {}
            }
        }
        world.until(|| asks.iter().all(|it| it.lock().expect("no panic").is_some()));
        let answered = asks
            .iter()
            .filter(|it| matches!(*it.lock().expect("no panic"), Some(Ok(_))))
            .count();
        assert!(
            answered <= seen.len() && answered > 0,
            "seed {seed}: {answered}"
        );
        let mut numbers = seen.numbers();
        assert!(numbers.is_sorted(), "seed {seed}");
        numbers.dedup();
        assert_eq!(
            numbers.len(),
            seen.len(),
            "seed {seed}: none is handled twice"
        );
        // The credit of lost messages comes back.
        world.connected(&to);
        for _ in 0..20 {
            to.ask(Add(1))
                .timeout(Duration::from_secs(10))
                .wait()
                .expect("a reply");
        }
    }
}

/// Nodes `a` and `b` on a real server, each with a system of its own; `None` if it is not installed.
pub(crate) fn real_nodes() -> Option<(Server, Node, Node)> {
    let server = if_installed(nats(JetStream::Off, ""))?;
    let join = |name: &str| {
        let system = System::builder().workers(1).build().expect("valid");
        let options = NodeOptions::new(format!("nats://{}", server.address()));
        Node::join(&system, options.name(name)).expect("it joins")
    };
    let (a, b) = (join("a"), join("b"));
    Some((server, a, b))
}

/// Ends nodes and their systems.
pub(crate) fn end(nodes: &[Node]) {
    for node in nodes {
        node.leave(LONG);
        node.system().shutdown(LONG);
    }
}

/// Two processes' worth of nodes on a real server.
#[test]
fn nodes_on_a_real_server() {
    let Some(mut server) = if_installed(nats(JetStream::On, "")) else {
        return;
    };
    let url = format!("nats://{}", server.address());
    let system = || System::builder().workers(1).build().expect("valid");
    let (first, second) = (system(), system());
    let a = Node::join(&first, NodeOptions::new(&url).name("a")).expect("it joins");
    let b = Node::join(&second, NodeOptions::new(&url).name("b")).expect("it joins");
    let seen = Seen::default();
    let adder = first.spawn(Adder {
        seen: seen.clone(),
        sum: 0,
    });
    a.publish::<Add, _>("sums", &adder).expect("published");
    let to = b.remote::<Add>("sums").expect("a valid name");
    for number in 0..10_000 {
        to.tell(Add(number)).expect("accepted");
    }
    assert_eq!(to.ask(Add(0)).timeout(LONG).wait(), Ok(49_995_000));
    assert!(seen.numbers()[..10_000].is_sorted());
    let taken = Node::join(&second, NodeOptions::new(&url).name("a"));
    assert!(matches!(taken, Err(NodeError::NameTaken(_))), "{taken:?}");
    // Asks on the way when the server is killed end, and the references find each other again.
    seen.hold(1);
    let asked = to.clone();
    let lost = thread::spawn(move || asked.ask(Add(1)).timeout(LONG).wait());
    eventually("it is handled", || seen.held() == 1);
    server.kill();
    let lost = lost.join().expect("no panic");
    assert!(matches!(lost, Err(RemoteAskError::Lost(_))), "{lost:?}");
    seen.release();
    server.restart().expect("it starts");
    eventually("connected again", || to.is_connected());
    assert!(to.ask(Add(0)).timeout(LONG).wait().is_ok());
    assert!(b.leave(LONG) && a.leave(LONG));
    let nobody = Node::join(&first, NodeOptions::new("nats://127.0.0.1:1").name("a"));
    assert!(matches!(nobody, Err(NodeError::Engine(_))), "{nobody:?}");
    first.shutdown(LONG);
    second.shutdown(LONG);
}

/// A node that may not use its prefix would wait for answers that never come.
#[test]
fn a_node_joins_only_with_permissions_for_its_subjects() {
    let user = |name: &str, publish: &str, subscribe: &str| {
        let permissions = format!("{{ publish: [{publish}], subscribe: [{subscribe}] }}");
        format!("{{ user: {name}, password: {name}, permissions: {permissions} }}")
    };
    let users = [
        user("all", "\"freeboard.>\"", "\"freeboard.>\""),
        user("mute", "\"_INBOX.>\"", "\"freeboard.>\""),
        user("deaf", "\"freeboard.>\"", "\"freeboard.hb\""),
        user(
            "lost",
            "\"freeboard.>\"",
            "\"freeboard.hb\", \"freeboard.in.>\"",
        ),
    ];
    let settings = format!("authorization {{ users: [{}] }}", users.join("\n"));
    let Some(server) = if_installed(nats(JetStream::Off, &settings)) else {
        return;
    };
    let system = System::builder().workers(1).build().expect("valid");
    let join = |name: &str| {
        let url = format!("nats://{name}:{name}@{}", server.address());
        Node::join(&system, NodeOptions::new(url).name(name))
    };
    let node = join("all").expect("it has them");
    for (name, subject) in [
        ("mute", "freeboard."),
        ("deaf", "freeboard.in."),
        ("lost", "freeboard.none."),
    ] {
        let error = join(name).expect_err("it has not").to_string();
        let text = format!("no permission for subject {subject}");
        assert!(error.contains(&text), "{name}: {error}");
    }
    assert!(node.leave(LONG));
    system.shutdown(LONG);
}
