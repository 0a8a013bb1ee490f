//! Muting: an actor that sends to a full lane handles nothing until there is capacity; nothing is lost, order
//! is kept, and circles of actors that flood each other never deadlock.

use crate::common::{
    Gate, Hold, LIMIT, Ledger, Noter, Notes, Token, count_of, ended, eventually, finish, lane,
    system,
};
use freeboard_actor::{
    Actor, ActorRef, Context, ExitReason, Handler, SpawnOptions, System, TellError,
};
use freeboard_flow::LaneConfig;

/// Tells a noter whatever range it is given.
struct Producer {
    to: ActorRef<Noter>,
    refused: Notes<u64>,
}

impl Actor for Producer {}

impl Handler<std::ops::Range<u64>> for Producer {
    type Reply = ();
    fn handle(&mut self, numbers: std::ops::Range<u64>, _cx: &mut Context<Self>) {
        for number in numbers {
            if let Err(TellError::OutboxFull(number)) = self.to.tell(number) {
                self.refused.push(number);
            }
        }
    }
}

impl Handler<Hold> for Producer {
    type Reply = ();
    fn handle(&mut self, _hold: Hold, _cx: &mut Context<Self>) {}
}

struct Scene {
    system: System,
    noter: ActorRef<Noter>,
    producer: ActorRef<Producer>,
    gate: Gate,
    notes: Notes<u64>,
    refused: Notes<u64>,
}

/// A producer in front of a noter that is held at its gate.
fn scene(bound: usize, outbox: usize) -> Scene {
    let system = system();
    let (gate, notes, refused) = (Gate::default(), Notes::default(), Notes::default());
    let made = (gate.clone(), notes.clone());
    let options = SpawnOptions::new().lane(LaneConfig::bounded(bound));
    let noter = system
        .spawn_with(options, move || Noter {
            gate: made.0.clone(),
            notes: made.1.clone(),
        })
        .expect("valid options");
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    let made = (noter.clone(), refused.clone());
    let producer = system
        .spawn_with(SpawnOptions::new().outbox(outbox), move || Producer {
            to: made.0.clone(),
            refused: made.1.clone(),
        })
        .expect("valid options");
    Scene {
        system,
        noter,
        producer,
        gate,
        notes,
        refused,
    }
}

impl Scene {
    /// Has the producer tell so many in one message, and waits until it is muted.
    fn mute(&self, count: u64) {
        self.producer.tell(0..count).expect("alive");
        eventually("the producer is muted", || {
            self.producer.snapshot().state == "suspended"
        });
    }
}

#[test]
fn a_fast_producer_is_held_back_and_loses_nothing() {
    let scene = scene(16, 1_024);
    for round in 0..1_000 {
        scene
            .producer
            .tell(round * 50..(round + 1) * 50)
            .expect("alive");
    }
    eventually("it is muted", || {
        scene.producer.snapshot().state == "suspended"
    });
    assert!(
        scene.producer.depth() > 900,
        "it handles nothing while muted"
    );
    scene.gate.open();
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..50_000));
    assert_eq!(scene.refused.len(), 0);
    let lane = lane(&scene.noter, 0);
    assert!(lane.high_water <= 16, "{lane:?}");
    assert_eq!((lane.accepted, lane.handled), (50_001, 50_001));
    assert!(lane.shed.is_empty(), "{lane:?}");
}

#[test]
fn a_full_outbox_gives_messages_back() {
    let scene = scene(4, 10);
    scene.mute(100);
    let refused = scene.refused.all();
    scene.gate.open();
    finish(&scene.system);
    let handled = scene.notes.all();
    assert_eq!(handled.len() + refused.len(), 100);
    assert!(handled.len() >= 13, "the lane's and the outbox's places");
    assert!(
        handled
            .into_iter()
            .chain(refused.iter().copied())
            .eq(0..100)
    );
    let lane = lane(&scene.noter, 0);
    assert_eq!(count_of(&lane.shed, "outbox_full"), refused.len() as u64);
}

#[test]
fn many_producers_share_a_small_lane() {
    let scene = scene(2, 1_024);
    let producers: Vec<_> = (0..10)
        .map(|_| {
            scene.system.spawn(Producer {
                to: scene.noter.clone(),
                refused: scene.refused.clone(),
            })
        })
        .collect();
    for (sender, producer) in (0..).zip(&producers) {
        for round in 0..20 {
            let first = (sender << 32) | (round * 25);
            producer.tell(first..first + 25).expect("alive");
        }
    }
    scene.gate.open();
    finish(&scene.system);
    let notes = scene.notes.all();
    assert_eq!(notes.len(), 5_000);
    for sender in 0..10 {
        let told = notes.iter().filter(|note| **note >> 32 == sender);
        assert!(told.map(|note| note & 0xffff_ffff).eq(0..500));
    }
    assert!(lane(&scene.noter, 0).high_water <= 2);
}

#[test]
fn a_producer_stopped_while_muted_has_delivered_all_in_the_end() {
    let scene = scene(4, 1_024);
    scene.mute(100);
    scene.producer.stop();
    assert_eq!(ended(&scene.producer).reason, ExitReason::Stopped);
    assert!(!scene.producer.is_alive());
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), (0..100).collect::<Vec<_>>());
    assert!(scene.system.dead_letters().is_empty());
}

#[test]
fn a_muted_producer_drains_before_it_ends() {
    let scene = scene(4, 1_024);
    scene.mute(100);
    scene.producer.tell(100..200).expect("alive");
    scene.producer.stop_gracefully();
    scene.gate.open();
    assert_eq!(ended(&scene.producer).reason, ExitReason::Drained);
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..200));
}

#[test]
fn a_receiver_that_stops_frees_its_muted_senders() {
    let scene = scene(4, 1_024);
    scene.mute(100);
    scene.noter.stop();
    scene.gate.open();
    ended(&scene.noter);
    let reply = scene.producer.ask(Hold).timeout(LIMIT).wait();
    reply.expect("it goes on");
    let dead = scene.system.dead_letters();
    let handled = scene.notes.len() as u64;
    assert_eq!(count_of(&dead, "stopped") + handled, 100, "{dead:?}");
    assert!(scene.producer.tell(0..1).is_ok());
    finish(&scene.system);
}

/// Keeps on telling in its drop.
struct LastWords(
    ActorRef<Noter>,
    #[expect(dead_code, reason = "only dropped")] Token,
);

impl Actor for LastWords {}

impl Drop for LastWords {
    fn drop(&mut self) {
        for number in 0..10_u64 {
            let _ = self.0.tell(number);
        }
    }
}

#[test]
fn what_an_actor_tells_in_its_drop_is_counted() {
    let (scene, ledger) = (scene(1, 1_024), Ledger::default());
    while scene.noter.try_tell(99_u64).is_ok() {}
    let before = lane(&scene.noter, 0);
    let last_words = LastWords(scene.noter.clone(), ledger.token());
    let actor = scene.system.spawn(last_words);
    actor.stop();
    ended(&actor);
    ledger.settle(1);
    scene.gate.open();
    finish(&scene.system);
    let after = lane(&scene.noter, 0);
    let sum = |lane: &freeboard_meter::LaneSnapshot| -> u64 {
        lane.accepted + lane.shed.iter().map(|it| it.count).sum::<u64>()
    };
    assert_eq!(sum(&after) - sum(&before), 10, "{before:?} {after:?}");
}

/// Gives each message on to the next of a circle, twice while it has fuel.
struct Link {
    next: Option<ActorRef<Link>>,
    handled: u64,
    refused: Notes<()>,
}

struct Join(ActorRef<Link>);
#[derive(Clone, Copy)]
struct Fuel(u64);
struct Handled;

impl Actor for Link {}

impl Handler<Join> for Link {
    type Reply = ();
    fn handle(&mut self, join: Join, _cx: &mut Context<Self>) {
        self.next = Some(join.0);
    }
}

impl Handler<Fuel> for Link {
    type Reply = ();
    fn handle(&mut self, fuel: Fuel, _cx: &mut Context<Self>) {
        self.handled += 1;
        if fuel.0 == 0 {
            return;
        }
        let next = self.next.as_ref().expect("joined");
        for _ in 0..2 {
            if next.tell(Fuel(fuel.0 - 1)).is_err() {
                self.refused.push(());
            }
        }
    }
}

impl Handler<Handled> for Link {
    type Reply = u64;
    fn handle(&mut self, _handled: Handled, _cx: &mut Context<Self>) -> u64 {
        self.handled
    }
}

/// A circle in which each message becomes two; returns how many were handled and refused.
#[track_caller]
fn check_circle(links: usize, bound: usize, outbox: usize, workers: usize) {
    const FUEL: u64 = 8;
    let system = crate::common::system_of(workers);
    let refused = Notes::default();
    let circle: Vec<_> = (0..links)
        .map(|_| {
            let refused = refused.clone();
            let options = SpawnOptions::new()
                .lane(LaneConfig::bounded(bound))
                .outbox(outbox);
            system
                .spawn_with(options, move || Link {
                    next: None,
                    handled: 0,
                    refused: refused.clone(),
                })
                .expect("valid options")
        })
        .collect();
    for (index, link) in circle.iter().enumerate() {
        let next = circle[(index + 1) % links].clone();
        link.ask(Join(next)).wait().expect("a reply");
    }
    for link in &circle {
        link.tell(Fuel(FUEL)).expect("alive");
    }
    let at_rest = || {
        let lanes = circle.iter().map(|link| lane(link, 0));
        let (accepted, handled) =
            lanes.fold((0, 0), |sum, it| (sum.0 + it.accepted, sum.1 + it.handled));
        let states = circle.iter().map(|link| link.snapshot().state);
        let is_idle = accepted == handled && states.into_iter().all(|state| state == "idle");
        is_idle.then_some(accepted)
    };
    // The same value twice: changes between two reads are not missed.
    let done = || at_rest().is_some_and(|accepted| at_rest() == Some(accepted));
    let deadline = crate::common::soon();
    while !done() {
        let states = || circle.iter().map(ActorRef::snapshot).collect::<Vec<_>>();
        let is_late = std::time::Instant::now() > deadline;
        assert!(!is_late, "{links} links, bound {bound}: {:#?}", states());
        std::thread::yield_now();
    }
    let handled: u64 = circle.iter().map(|link| lane(link, 0).handled).sum();
    // Each refused message is a whole tree that was not grown; without any, the count is known.
    if refused.len() == 0 {
        let per_link = (1 << (FUEL + 1)) - 1;
        assert_eq!(handled, links as u64 * (per_link + 1), "with the joins");
    }
    for link in &circle {
        let lane = lane(link, 0);
        assert!(lane.high_water <= bound as u64, "{lane:?}");
        assert_eq!(lane.accepted, lane.handled, "{lane:?}");
    }
    let counted: u64 = circle
        .iter()
        .map(|link| count_of(&lane(link, 0).shed, "outbox_full"))
        .sum();
    assert_eq!(counted, refused.len() as u64);
    let per_actor: u64 = circle
        .iter()
        .map(|link| link.ask(Handled).timeout(LIMIT).wait().expect("a reply"))
        .sum();
    assert_eq!(per_actor + links as u64, handled);
    finish(&system);
}

#[test]
fn an_actor_floods_itself_through_one_place() {
    check_circle(1, 1, 100_000, 2);
    check_circle(1, 1, 3, 2);
}

#[test]
fn circles_never_stand_still() {
    for links in [2, 3, 5] {
        for bound in [1, 2, 7] {
            check_circle(links, bound, 100_000, 2);
        }
    }
}

#[test]
fn circles_with_small_outboxes_refuse_and_go_on() {
    for links in [2, 3, 5] {
        check_circle(links, 1, 1, 2);
        check_circle(links, 2, 5, 3);
    }
}

#[test]
fn a_circle_goes_round_on_one_worker() {
    for links in [2, 3, 5] {
        check_circle(links, 2, 100_000, 1);
    }
}
