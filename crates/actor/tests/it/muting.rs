//! Muting: an actor that sends to a full lane handles nothing until there is capacity; nothing is lost, order
//! is kept, and circles of actors that flood each other never deadlock.

use crate::common::*;

/// A producer in front of a receiver that is held at its gate.
struct Scene {
    system: TestSystem,
    receiver: ActorRef<Probe>,
    producer: ActorRef<Probe>,
    gate: Gate,
    notes: Notes<u64>,
    refused: Notes<u64>,
}

fn scene(bound: usize, outbox: usize) -> Scene {
    let system = system();
    let (receiver, gate, notes) = held(&system, bounded(bound));
    let (producer, _) = probe_with(&system, SpawnOptions::new().outbox(outbox));
    Scene {
        system,
        receiver,
        producer,
        gate,
        notes,
        refused: Notes::default(),
    }
}

impl Scene {
    /// Has a producer tell these numbers in one message.
    fn produce(&self, producer: &ActorRef<Probe>, numbers: Range<u64>) {
        let (to, refused) = (self.receiver.clone(), self.refused.clone());
        act(producer, move |_| {
            for number in numbers {
                if let Err(TellError::OutboxFull(number)) = to.tell(number) {
                    refused.push(number);
                }
            }
        });
    }

    /// Has the producer tell a hundred in one message, and waits until it is muted.
    fn mute(&self) {
        self.produce(&self.producer, 0..100);
        suspended(&self.producer);
    }
}

#[test]
fn a_fast_producer_is_held_back_and_loses_nothing() {
    let scene = scene(16, 1_024);
    for round in 0..1_000 {
        scene.produce(&scene.producer, round * 50..(round + 1) * 50);
    }
    suspended(&scene.producer);
    assert!(
        scene.producer.depth() > 900,
        "it handles nothing while muted"
    );
    scene.gate.open();
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..50_000));
    assert_eq!(scene.refused.len(), 0);
    let lane = lane(&scene.receiver, 0);
    assert!(lane.high_water <= 16, "{lane:?}");
    assert_eq!((lane.accepted, lane.handled), (50_001, 50_001));
    assert!(lane.shed.is_empty(), "{lane:?}");
}

#[test]
fn a_full_outbox_gives_messages_back() {
    let scene = scene(4, 10);
    scene.mute();
    let refused = scene.refused.all();
    scene.gate.open();
    finish(&scene.system);
    let handled = scene.notes.all();
    assert!(handled.len() >= 13, "the lane's and the outbox's slots");
    let all = handled.into_iter().chain(refused.iter().copied());
    assert!(all.eq(0..100));
    let lane = lane(&scene.receiver, 0);
    assert_eq!(count_of(&lane.shed, "outbox_full"), refused.len() as u64);
}

#[test]
fn many_producers_share_a_small_lane() {
    let scene = scene(2, 1_024);
    for sender in 0..10 {
        let (producer, _) = probe(&scene.system);
        for round in 0..20 {
            let first = (sender << 32) | (round * 25);
            scene.produce(&producer, first..first + 25);
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
    assert!(lane(&scene.receiver, 0).high_water <= 2);
}

#[test]
fn a_producer_stopped_while_muted_has_delivered_all_in_the_end() {
    let scene = scene(4, 1_024);
    scene.mute();
    scene.producer.stop();
    assert_eq!(ended(&scene.producer).reason, ExitReason::Stopped);
    assert!(!scene.producer.is_alive());
    scene.gate.open();
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..100));
    assert!(scene.system.dead_letters().is_empty());
}

#[test]
fn a_muted_producer_drains_before_it_ends() {
    let scene = scene(4, 1_024);
    scene.mute();
    scene.produce(&scene.producer, 100..200);
    scene.producer.stop_gracefully();
    scene.gate.open();
    assert_eq!(ended(&scene.producer).reason, ExitReason::Drained);
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..200));
}

#[test]
fn a_receiver_that_stops_frees_its_muted_senders() {
    let scene = scene(4, 1_024);
    scene.mute();
    scene.receiver.stop();
    scene.gate.open();
    ended(&scene.receiver);
    let reply = scene.producer.ask(Ping).timeout(LIMIT).wait();
    reply.expect("it goes on");
    let dead = scene.system.dead_letters();
    let handled = scene.notes.len() as u64;
    assert_eq!(count_of(&dead, "stopped") + handled, 100, "{dead:?}");
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
    let system = system_of(workers);
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
    let deadline = soon();
    while !done() {
        let states = || circle.iter().map(ActorRef::snapshot).collect::<Vec<_>>();
        let is_late = Instant::now() > deadline;
        assert!(!is_late, "{links} links, bound {bound}: {:#?}", states());
        thread::yield_now();
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
}

#[test]
fn an_actor_floods_itself_through_one_slot() {
    check_circle(1, 1, 100_000, 2);
    check_circle(1, 1, 3, 2);
}

#[test]
fn circles_never_deadlock() {
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

/// Tells each of these a zero in a handler, after passing the gate.
fn pass_and_tell(from: &ActorRef<Probe>, to: &[&ActorRef<Probe>]) -> Gate {
    let (gate, to) = (
        Gate::default(),
        to.iter().copied().cloned().collect::<Vec<_>>(),
    );
    let passed = gate.clone();
    act(from, move |_| {
        passed.pass();
        to.iter().for_each(|to| tell_all(to, 0..1));
    });
    gate.wait_arrived(1);
    gate
}

#[test]
fn a_future_behind_its_outbox_does_not_wait_for_other_lanes() {
    let system = system_of(3);
    let spawn = |bound| probe_with(&system, bounded(bound));
    let ((a, a_notes), (b, b_notes), (s, s_notes)) = (spawn(4), spawn(1), spawn(1));
    let tell = |to: &ActorRef<Probe>| to.try_tell(0_u64).expect("capacity");
    // S and then A and B are in a handler.
    let gate_s = pass_and_tell(&s, &[]);
    tell(&s);
    let gate_a = pass_and_tell(&a, &[&b, &s]);
    let (to, sent) = (s.clone(), a_notes.clone());
    act_async(&a, move |_| {
        Box::pin(async move {
            to.send(0_u64).await.expect("alive");
            sent.push(1);
        })
    });
    // So that A's lane does not fall to its low watermark while its future waits.
    (0..3).for_each(|_| tell(&a));
    let gate_b = pass_and_tell(&b, &[&a]);
    tell(&b);
    // B is muted for A; A, which it waits for, cannot be muted for B.
    gate_b.open();
    suspended(&b);
    gate_a.open();
    // A has a message for S in its outbox behind one for B, and sends to S in a future.
    eventually("A waits in its future", || {
        a.snapshot().state == "suspended" && lane(&a, 0).handled == 1
    });
    gate_s.open();
    assert!(a_notes.wait_len(5).contains(&1), "sent");
    b_notes.wait_len(2);
    s_notes.wait_len(3);
}
