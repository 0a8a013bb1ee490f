//! Supervision of an actor that panicked: stop, restart with its limits, escalate, decide; reports; the mailbox
//! survives.

use freeboard_actor::testing::{each_seed, expect_counts};

use crate::common::*;

/// Each test is run in so many orders of messages.
const SEEDS: Range<u64> = 0..20;

const HOUR: Duration = Duration::from_secs(3_600);

/// Noted by each incarnation at its start, with the number of the incarnation added.
const LIFE: u64 = 1_000_000;

/// Makes probes that note their incarnation, counted from 1.
fn factory(notes: &Notes<u64>) -> impl FnMut() -> Probe + Send + 'static {
    let (notes, mut incarnation) = (notes.clone(), 0);
    move || {
        incarnation += 1;
        notes.push(LIFE + incarnation);
        Probe {
            notes: notes.clone(),
            ..Probe::default()
        }
    }
}

fn spawn(system: &System, supervision: Supervision) -> (ActorRef<Probe>, Notes<u64>) {
    let notes = Notes::default();
    let options = SpawnOptions::new().supervision(supervision);
    let actor = system.spawn_with(options, factory(&notes));
    (actor.expect("valid options"), notes)
}

/// Has the actor panic.
fn tell_fail(actor: &ActorRef<Probe>, text: &'static str) {
    act(actor, move |_| panic!("{text}"));
}

/// The same, and waits until it has panicked.
#[track_caller]
fn fail(actor: &ActorRef<Probe>, text: &'static str) {
    let reply = actor.ask(Act(Box::new(move |_| panic!("{text}")))).wait();
    assert!(matches!(reply, Err(AskError::NoReply)));
}

/// Without a limit that a test reaches.
fn restart() -> Supervision {
    at_once().limit(1_000, HOUR)
}

#[test]
fn stop_is_the_default_and_sheds_the_rest() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = spawn(system, Supervision::default());
        tell_fail(&actor, "on purpose");
        actor.tell(1_u64).expect("alive");
        assert_eq!(actor.join().reason, ExitReason::Panicked);
        assert_eq!(notes.all(), [LIFE + 1]);
        assert_eq!(shed(&actor, "handler_panicked"), 1);
        assert_eq!(shed(&actor, "stopped"), 1);
        check_balance(&lane(&actor, 0));
    });
}

#[test]
fn the_mailbox_survives_a_restart() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = spawn(system, restart());
        tell_all(&actor, 0..5);
        tell_fail(&actor, "on purpose");
        tell_all(&actor, 5..10);
        finish(system);
        let first = [LIFE + 1].into_iter().chain(0..5);
        assert!(
            notes
                .all()
                .into_iter()
                .eq(first.chain([LIFE + 2]).chain(5..10))
        );
        let snapshot = actor.snapshot();
        assert_eq!(snapshot.restarts, 1);
        assert_eq!(snapshot.lanes[0].handled, 10);
        assert_eq!(shed(&actor, "handler_panicked"), 1);
        check_balance(&lane(&actor, 0));
        assert_eq!(system.snapshot().actors_restarted, 1);
    });
}

#[test]
fn a_handler_that_panics_on_each_third_message_loses_only_those() {
    const SENDERS: u64 = 4;
    const EACH: u64 = 600;
    let system = system();
    let (actor, notes) = spawn(&system, restart());
    thread::scope(|scope| {
        for sender in 1..=SENDERS {
            let actor = &actor;
            scope.spawn(move || {
                for number in 0..EACH {
                    match number % 3 {
                        2 => tell_fail(actor, "each third"),
                        _ => actor.tell(sender << 32 | number).expect("alive"),
                    }
                }
            });
        }
    });
    finish(&system);
    let numbers = notes.all();
    for sender in 1..=SENDERS {
        let told = numbers.iter().filter(|it| **it >> 32 == sender);
        let told = told.map(|it| it & 0xffff_ffff);
        assert!(told.eq((0..EACH).filter(|it| it % 3 != 2)));
    }
    let (all, failed) = (SENDERS * EACH, SENDERS * EACH / 3);
    let lane = lane(&actor, 0);
    assert_eq!((lane.accepted, lane.handled), (all, all - failed));
    assert_eq!(shed(&actor, "handler_panicked"), failed);
    assert_eq!(actor.snapshot().restarts, failed);
    check_balance(&lane);
}

#[test]
fn the_message_that_panicked_is_reported() {
    let (failures, letters) = (Notes::<Failure>::default(), Notes::default());
    let (seen, noted) = (failures.clone(), letters.clone());
    let builder = System::builder().workers(1);
    let builder = builder.on_failure(move |failure| seen.push(failure.clone()));
    let builder =
        builder.on_dead_letter(move |letter| noted.push((letter.reason, letter.message_type)));
    let system = build(builder);
    let options = SpawnOptions::new().name("fragile").supervision(restart());
    let (actor, _) = probe_with(&system, options);
    fail(&actor, "the text");
    assert_eq!(actor.ask(1_u64).wait(), Ok(1));
    let message_type = type_name::<Act>();
    let [failure] = &failures.all()[..] else {
        panic!("{:?}", failures.all());
    };
    assert_eq!(failure.actor, actor.id());
    assert_eq!(failure.name.as_deref(), Some("fragile"));
    assert_eq!(failure.message_type, Some(message_type));
    assert_eq!(failure.reason, "the text");
    assert_eq!(failure.restarts, 0);
    assert!(failure.to_string().contains("the text"));
    assert_eq!(letters.all(), [(ShedReason::HandlerPanicked, message_type)]);
    assert_eq!(count_of(&system.dead_letters(), "handler_panicked"), 1);
}

#[test]
fn more_restarts_than_the_limit_stop_the_actor() {
    each_seed(SEEDS, |system| {
        let (actor, _) = spawn(system, at_once().limit(2, HOUR));
        for _ in 0..2 {
            fail(&actor, "again");
            assert!(actor.ask(1_u64).wait().is_ok());
        }
        fail(&actor, "too often");
        assert_eq!(actor.join().reason, ExitReason::RestartLimit);
        assert_eq!(actor.snapshot().restarts, 2);
    });
}

#[test]
fn restarts_outside_the_limits_time_do_not_count() {
    each_seed(SEEDS, |system| {
        let (actor, _) = spawn(system, at_once().limit(2, HOUR));
        for _ in 0..5 {
            fail(&actor, "again");
            fail(&actor, "and again");
            assert!(actor.ask(1_u64).wait().is_ok());
            system.advance(HOUR + Duration::from_nanos(1));
        }
        assert_eq!(actor.snapshot().restarts, 10);
    });
}

#[test]
fn restarts_wait_for_the_back_off() {
    each_seed(SEEDS, |system| {
        let (min, max) = (Duration::from_millis(30), Duration::from_millis(100));
        let backoff = Supervision::restart().backoff(min, max).limit(9, HOUR);
        let (actor, notes) = spawn(system, backoff);
        for (restart, delay_ms) in [30, 60, 100, 100].into_iter().enumerate() {
            fail(&actor, "on purpose");
            let failed = system.now();
            actor.tell(1_u64).expect("a message waits for the restart");
            system.run_until(|| notes.len() == 3 + 2 * restart);
            assert_eq!(system.now() - failed, Duration::from_millis(delay_ms));
        }
        assert_eq!(notes.all()[..3], [LIFE + 1, LIFE + 2, 1]);
    });
}

#[test]
fn an_actor_may_be_stopped_while_it_backs_off() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = spawn(system, Supervision::restart().backoff(HOUR, HOUR));
        fail(&actor, "on purpose");
        actor.tell(1_u64).expect("a message waits for the restart");
        system.run_until_idle();
        assert_eq!(actor.snapshot().state, "suspended");
        actor.stop();
        assert_eq!(actor.join().reason, ExitReason::Stopped);
        assert_eq!(notes.all(), [LIFE + 1]);
        assert_eq!(shed(&actor, "stopped"), 1);
    });
}

#[test]
fn a_decision_is_made_per_failure() {
    each_seed(SEEDS, |system| {
        let asked = Notes::<Failure>::default();
        let noted = asked.clone();
        let decide = Supervision::decide(move |failure| {
            noted.push(failure.clone());
            match failure.reason.as_str() {
                "restart" => Directive::Restart,
                _ => Directive::Stop,
            }
        });
        let decide = decide.backoff(Duration::ZERO, Duration::ZERO);
        let (actor, notes) = spawn(system, decide);
        fail(&actor, "restart");
        assert_eq!(actor.ask(1_u64).wait(), Ok(1));
        assert_eq!(notes.all(), [LIFE + 1, LIFE + 2, 1]);
        fail(&actor, "stop");
        assert_eq!(actor.join().reason, ExitReason::Panicked);
        let restarts: Vec<_> = asked.all().iter().map(|it| it.restarts).collect();
        assert_eq!(restarts, [0, 1]);
    });
}

#[test]
fn a_decision_that_panics_stops_the_actor() {
    each_seed(SEEDS, |system| {
        let (actor, _) = spawn(system, Supervision::decide(|_| panic!("undecided")));
        fail(&actor, "on purpose");
        assert_eq!(actor.join().reason, ExitReason::Panicked);
    });
}

/// A parent whose incarnations each have one named child, which escalates; and all these children.
fn spawn_parent(
    system: &freeboard_actor::testing::TestSystem,
    supervision: Supervision,
) -> (ActorRef<Probe>, Notes<ActorRef<Probe>>) {
    let children = Notes::default();
    let known = children.clone();
    let options = SpawnOptions::new().supervision(supervision);
    let parent = system.spawn_with(options, move || {
        let known = known.clone();
        Probe {
            on_started: Some(Box::new(move |cx| {
                let options = SpawnOptions::new().name("child");
                let options = options.supervision(Supervision::escalate());
                let child = cx.spawn_with(options, Probe::default);
                known.push(child.expect("the last child has ended"));
            })),
            ..Probe::default()
        }
    });
    system.run_until_idle();
    (parent.expect("valid options"), children)
}

#[test]
fn an_escalated_failure_stops_the_parent() {
    each_seed(SEEDS, |system| {
        let (parent, children) = spawn_parent(system, Supervision::stop());
        let child = &children.all()[0];
        tell_fail(child, "on purpose");
        assert_eq!(parent.join().reason, ExitReason::Panicked);
        assert_eq!(child.join().reason, ExitReason::Escalated);
    });
}

#[test]
fn an_escalated_failure_restarts_the_parent_with_new_children() {
    each_seed(SEEDS, |system| {
        let (parent, children) = spawn_parent(system, restart());
        for round in 1..20 {
            tell_fail(&children.all()[round - 1], "on purpose");
            system.run_until(|| children.len() == round + 1);
        }
        parent.ask(Ping).wait().expect("a reply");
        assert_eq!(parent.snapshot().restarts, 19);
        system.run_until(|| system.actors_alive() == 2);
        expect_counts(system);
    });
}

#[test]
fn an_actor_that_escalates_without_a_parent_ends() {
    each_seed(SEEDS, |system| {
        let (actor, _) = spawn(system, Supervision::escalate());
        fail(&actor, "on purpose");
        assert_eq!(actor.join().reason, ExitReason::Escalated);
    });
}
