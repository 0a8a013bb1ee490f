//! Dams: order, the depth behind them, and an account of every message: told = forwarded + shed +
//! kept.

use crate::common::*;

const MS: Duration = Duration::from_millis(1);

struct Scene {
    system: TestSystem,
    actor: ActorRef<Probe>,
    dam: ActorRef<Dam<u64>>,
    gauge: DamGauge,
    notes: Notes<u64>,
}

/// A dam in front of an actor, which is not held.
fn scene(builder: DamBuilder<u64>, lane: LaneConfig) -> Scene {
    let system = system();
    let (actor, notes) = probe_with(&system, SpawnOptions::new().lane(lane));
    let dam = builder.in_front_of(actor.recipient()).expect("valid");
    let gauge = dam.gauge();
    let dam = system.spawn(dam);
    Scene {
        system,
        actor,
        dam,
        gauge,
        notes,
    }
}

impl Scene {
    /// Tells 0, 1, 2... and waits until the dam has seen them.
    fn tell(&self, count: u64) {
        for number in 0..count {
            self.dam.tell(number).expect("alive");
        }
        eventually("the dam has seen them", || {
            lane(&self.dam, 0).handled == count && self.dam.snapshot().state != "running"
        });
    }

    #[track_caller]
    fn check_account(&self, told: u64) {
        let gauge = &self.gauge;
        assert_eq!(gauge.forwarded() + gauge.shed() + gauge.depth(), told);
    }
}

#[test]
fn its_gauges_are_rendered_under_its_name() {
    let scene = scene(Dam::credit(2), LaneConfig::default());
    let gate = hold(&scene.actor);
    scene.tell(5);
    let mut text = Exposition::new();
    scene.gauge.render("log", &mut text);
    let text = text.finish();
    for line in [
        "freeboard_dam_depth{dam=\"log\"} 3",
        "freeboard_dam_high_water{dam=\"log\"} 3",
        "freeboard_dam_messages_forwarded_total{dam=\"log\"} 2",
        "freeboard_dam_messages_shed_total{dam=\"log\"} 0",
        "freeboard_dam_limit{dam=\"log\"} 2",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
    }
    gate.open();
}

#[track_caller]
fn check_flood(builder: DamBuilder<u64>, depth_max: u64) {
    const COUNT: u64 = 20_000;
    let scene = scene(builder, LaneConfig::default());
    for number in 0..COUNT {
        scene.dam.tell(number).expect("alive");
    }
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..COUNT));
    let lane = lane(&scene.actor, 0);
    assert!(lane.high_water <= depth_max, "{lane:?}");
    assert_eq!(scene.gauge.forwarded(), COUNT);
    scene.check_account(COUNT);
}

#[test]
fn a_credit_dam_keeps_the_order_and_the_depth() {
    for window in [1, 2, 7, 64, 1_024] {
        check_flood(Dam::credit(window), window);
    }
}

#[test]
fn a_polling_dam_keeps_the_order_and_the_depth() {
    // One message goes on while at most the threshold is queued.
    check_flood(Dam::polling(5_000, MS), 5_001);
}

#[test]
fn a_polling_dam_lets_the_threshold_through_and_one_more() {
    let scene = scene(Dam::polling(10, MS), LaneConfig::default());
    let gate = hold(&scene.actor);
    let before = scene.actor.depth();
    scene.tell(100);
    assert_eq!(scene.actor.depth(), 11);
    assert_eq!(scene.gauge.forwarded(), 11 - before);
    scene.check_account(100);
    gate.open();
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..100));
}

#[test]
fn a_credit_dam_stands_while_nothing_comes_back() {
    let scene = scene(Dam::credit(10), LaneConfig::default());
    let gate = hold(&scene.actor);
    scene.tell(100);
    assert_eq!(scene.gauge.forwarded(), 10);
    assert_eq!(scene.gauge.depth(), 90);
    assert_eq!(scene.gauge.high_water(), 90);
    scene.check_account(100);
    gate.open();
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..100));
    assert_eq!(scene.gauge.depth(), 0);
}

#[test]
fn a_refusing_receiver_does_not_widen_the_window() {
    const COUNT: u64 = 20_000;
    let config = LaneConfig::bounded(64).overload(Overload::Reject);
    let scene = scene(Dam::credit(4), config);
    let gate = hold(&scene.actor);
    while scene.actor.try_tell(0_u64).is_ok() {}
    let refused = || count_of(&lane(&scene.actor, 0).shed, "full");
    let before = refused();
    for number in 1..=COUNT {
        scene.dam.tell(number).expect("alive");
    }
    eventually("the dam tries again and again", || refused() > before + 20);
    gate.open();
    eventually("the dam's messages are all that is queued", || {
        scene.notes.all().contains(&1)
    });
    // Held again, behind the forwarded messages: the window bounds them.
    let gate = hold(&scene.actor);
    let handled = scene.notes.len();
    eventually("the dam has used its credit", || {
        scene.actor.depth() >= 3 || scene.gauge.depth() == 0
    });
    let waiting = || scene.actor.depth();
    for _ in 0..1_000 {
        assert!(waiting() <= 5, "the window is 4: {}", waiting());
        thread::yield_now();
    }
    gate.open();
    finish(&scene.system);
    assert!(handled <= scene.notes.len());
    let through = scene.notes.all().into_iter().filter(|it| *it > 0);
    assert!(through.eq(1..=COUNT));
    scene.check_account(COUNT);
}

#[test]
fn dams_in_front_of_the_lanes_of_one_actor_do_not_delay_each_other() {
    let system = system();
    let lanes = [LaneConfig::bounded(2), LaneConfig::bounded(2)];
    let (actor, notes) = probe_with(&system, SpawnOptions::new().lanes(lanes));
    let gate = hold(&actor);
    let dam = |lane| {
        let dam = Dam::credit(2).lane(lane);
        system.spawn(dam.in_front_of(actor.recipient()).expect("valid"))
    };
    let (urgent, other) = (dam(0), dam(1));
    for number in 100..110 {
        other.tell(number).expect("alive");
    }
    eventually("the lower lane is full", || lane(&actor, 1).depth == 2);
    urgent.tell(1).expect("alive");
    eventually("the urgent one is queued", || lane(&actor, 0).depth == 1);
    gate.open();
    let expected: Vec<u64> = [1].into_iter().chain(100..110).collect();
    eventually("all arrive, the urgent one first", || {
        notes.all() == expected
    });
    // A lane that the receiver does not have is as a receiver that has terminated.
    let dam = dam(2);
    dam.tell(7).expect("alive");
    eventually("it stops", || !dam.is_alive());
}

#[test]
fn a_dam_waits_for_a_small_mailbox() {
    for overload in [Overload::Wait, Overload::Reject] {
        let config = LaneConfig::bounded(2).overload(overload);
        let scene = scene(Dam::credit(64), config);
        for number in 0..300 {
            scene.dam.tell(number).expect("alive");
        }
        finish(&scene.system);
        assert!(scene.notes.all().into_iter().eq(0..300), "{overload:?}");
        scene.check_account(300);
    }
}

#[test]
fn a_drained_dam_passes_everything_on_before_it_ends() {
    for builder in [Dam::credit(3), Dam::polling(3, MS)] {
        let scene = scene(builder, LaneConfig::default());
        let gate = hold(&scene.actor);
        scene.tell(50);
        scene.dam.stop_gracefully();
        assert!(scene.dam.tell(50).is_err());
        assert!(scene.dam.is_alive());
        gate.open();
        ended(&scene.dam);
        assert_eq!(scene.gauge.forwarded(), 50);
        finish(&scene.system);
        assert!(scene.notes.all().into_iter().eq(0..50));
    }
}

/// The reservoir is work that is left: a dam that forwards it is not stalled, although its mailbox is empty.
#[test]
fn a_shutdown_waits_for_a_dam_that_forwards() {
    for rule in 0..3 {
        let system = testing::TestSystem::new(rule);
        let (to, notes) = probe(&system);
        system.faults(&to).slow(MS);
        let rule = match rule {
            0 => Dam::credit(4),
            1 => Dam::polling(4, MS),
            _ => Dam::adaptive(AdaptiveLimit::default()),
        };
        let dam = rule.in_front_of(to.recipient::<u64>()).expect("valid");
        let dam = system.spawn(dam);
        (0..1_000).for_each(|number| dam.tell(number).expect("capacity"));
        system.run_until(|| dam.depth() == 0);
        assert!(system.shutdown(Duration::from_secs(3)).is_clean());
        assert_eq!(notes.len(), 1_000);
    }
}

#[test]
fn a_stopped_dam_sheds_what_it_keeps() {
    let scene = scene(Dam::credit(10), LaneConfig::default());
    let gate = hold(&scene.actor);
    scene.tell(100);
    scene.dam.stop();
    ended(&scene.dam);
    assert_eq!(scene.gauge.forwarded(), 10);
    assert_eq!((scene.gauge.shed(), scene.gauge.depth()), (90, 0));
    let dead = scene.system.dead_letters();
    assert_eq!(count_of(&dead, "stopped"), 90);
    gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.len(), 10);
}

#[test]
fn a_dam_whose_receiver_ends_sheds_and_ends() {
    for builder in [Dam::credit(10), Dam::polling(10, MS)] {
        let scene = scene(builder, LaneConfig::default());
        let gate = hold(&scene.actor);
        scene.tell(100);
        scene.actor.stop();
        gate.open();
        ended(&scene.actor);
        // A polling dam may sleep, a credit dam has been told: either ends by itself.
        ended(&scene.dam);
        scene.check_account(100);
        let dead = scene.system.dead_letters();
        let forwarded = scene.gauge.forwarded();
        assert_eq!(count_of(&dead, "no_receiver"), 100 - forwarded);
        assert_eq!(count_of(&dead, "stopped"), forwarded);
        finish(&scene.system);
        assert_eq!(scene.notes.len(), 0);
    }
}

#[test]
fn a_dam_in_front_of_an_ended_actor_sheds() {
    let scene = scene(Dam::credit(10), LaneConfig::default());
    scene.actor.stop();
    ended(&scene.actor);
    scene.dam.tell(1).expect("the dam does not know yet");
    ended(&scene.dam);
    assert_eq!(scene.gauge.shed(), 1);
    assert_eq!(count_of(&scene.system.dead_letters(), "no_receiver"), 1);
}

#[test]
fn dams_stand_in_front_of_dams() {
    let scene = scene(Dam::credit(4), LaneConfig::default());
    let outer = Dam::credit(16)
        .in_front_of(scene.dam.recipient())
        .expect("valid");
    let outer = scene.system.spawn(outer);
    tell_all(&outer, 0..2_000);
    finish(&scene.system);
    assert!(scene.notes.all().into_iter().eq(0..2_000));
}

#[test]
fn bad_settings_are_refused() {
    let system = system();
    let actor = probe(&system).0;
    let built = |builder: DamBuilder<u64>| builder.in_front_of(actor.recipient()).err();
    assert_eq!(built(Dam::credit(0)), Some(DamError::Window));
    let none = ReservoirBound {
        messages: 0,
        bytes: 1,
    };
    assert!(matches!(
        built(Dam::credit(1).reservoir(none)),
        Some(DamError::Reservoir(_))
    ));
    assert_eq!(
        built(Dam::credit(1).overload(Overload::Coalesce)),
        Some(DamError::Overload(Overload::Coalesce))
    );
    assert_eq!(built(Dam::polling(0, Duration::ZERO)), None);
}

const ADAPTIVE: AdaptiveLimit = AdaptiveLimit {
    min: 2,
    initial: 8,
    max: 32,
    window: Duration::from_micros(50),
};

#[test]
fn an_adaptive_dam_forwards_everything_in_order_within_its_range() {
    let scene = scene(Dam::adaptive(ADAPTIVE), LaneConfig::default());
    assert_eq!(scene.gauge.limit(), 4);
    let gate = hold(&scene.actor);
    scene.tell(10_000);
    // The probe's window, whatever is told.
    assert_eq!(scene.gauge.forwarded(), 4);
    gate.open();
    let notes = scene.notes.wait_len(10_000);
    assert!(notes.into_iter().eq(0..10_000));
    scene.check_account(10_000);
    assert!((2..=32).contains(&scene.gauge.limit()));
    // The message of the gate, and the largest window.
    assert!(lane(&scene.actor, 0).high_water <= 33);
    finish(&scene.system);
}

#[test]
fn what_the_receiver_sheds_gives_its_credit_back() {
    let old = Overload::MaxAge(Duration::from_nanos(1));
    let scene = scene(Dam::adaptive(ADAPTIVE), LaneConfig::default().overload(old));
    scene.tell(1_000);
    eventually("all were forwarded", || scene.gauge.forwarded() == 1_000);
    // None was handled, so nothing is known of the receiver.
    assert_eq!(scene.gauge.limit(), 4);
    finish(&scene.system);
    assert_eq!(shed(&scene.actor, "too_old"), 1_000);
}

#[test]
fn an_adaptive_dam_says_why_it_cannot_be_built() {
    let system = system();
    let (actor, _) = probe(&system);
    let limit = AdaptiveLimit { min: 0, ..ADAPTIVE };
    let error = Dam::<u64>::adaptive(limit)
        .in_front_of(actor.recipient())
        .err()
        .expect("refused");
    assert_eq!(
        error.to_string(),
        "a dam's limit: adaptive limit is 0 to 32 from 8, it must be 1 <= min <= initial <= max <= 4294967296"
    );
}

#[test]
fn credit_returns_with_each_message_that_was_handled_shed_or_refused() {
    let system = system();
    let (actor, notes) = probe_with(&system, SpawnOptions::new().lane(LaneConfig::bounded(64)));
    let credit = CreditWindow::new(4);
    assert_eq!((credit.window(), credit.take(), credit.take()), (4, 4, 0));
    let gate = hold(&actor);
    for number in 0..3_u64 {
        actor
            .tell_credited(0, number, &credit, None)
            .expect("accepted");
    }
    // Its deadline is over when it reaches the actor.
    let past = Instant::now();
    actor
        .tell_credited(0, 3_u64, &credit, Some(past))
        .expect("accepted");
    assert_eq!(credit.take(), 0);
    let (woken, wakes) = mpsc::channel();
    let is_waiting = credit.wait(move || {
        move || {
            let _ = woken.send(());
        }
    });
    assert!(is_waiting);
    gate.open();
    wakes.recv_timeout(LIMIT).expect("half of it came back");
    let mut taken = 0;
    eventually("all came back", || {
        taken += credit.take();
        taken == 4
    });
    assert_eq!(notes.all(), [0, 1, 2]);
    assert_eq!(shed(&actor, "expired"), 1);
    actor.stop();
    actor.join();
    let refused = actor.tell_credited(0, 9_u64, &credit, None);
    assert!(matches!(refused, Err(TellError::Closed(9))));
    credit.give_back();
    assert_eq!(credit.take(), 2);
}
