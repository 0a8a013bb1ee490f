//! Supervision of an actor that panicked: stop, restart with its limits, escalate, decide; reports; the mailbox
//! survives.

use crate::common::*;

/// Notes numbers, with the number of its incarnation before them; panics on [`Fail`].
struct Fragile {
    incarnation: u64,
    notes: Notes<(u64, u64)>,
}

struct Fail(&'static str);

impl Actor for Fragile {}

impl Handler<u64> for Fragile {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.notes.push((self.incarnation, number));
        self.incarnation
    }
}

impl Handler<Fail> for Fragile {
    type Reply = ();
    fn handle(&mut self, fail: Fail, _cx: &mut Context<Self>) {
        panic!("{}", fail.0);
    }
}

impl Handler<Gate> for Fragile {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

/// Makes a fragile actor whose incarnations count up from 1.
fn factory(notes: &Notes<(u64, u64)>) -> impl FnMut() -> Fragile + Send + 'static {
    let notes = notes.clone();
    let mut incarnation = 0;
    move || {
        incarnation += 1;
        Fragile {
            incarnation,
            notes: notes.clone(),
        }
    }
}

fn spawn(system: &System, supervision: Supervision) -> (ActorRef<Fragile>, Notes<(u64, u64)>) {
    let notes = Notes::default();
    let options = SpawnOptions::new().supervision(supervision);
    let actor = system
        .spawn_with(options, factory(&notes))
        .expect("valid options");
    (actor, notes)
}

fn restart() -> Supervision {
    at_once().limit(1_000, Duration::from_secs(3_600))
}

#[test]
fn stop_is_the_default_and_sheds_the_rest() {
    let system = system();
    let (actor, notes) = spawn(&system, Supervision::default());
    let gate = hold(&actor);
    actor.tell(Fail("on purpose")).expect("alive");
    actor.tell(1_u64).expect("alive");
    gate.open();
    assert_eq!(ended(&actor).reason, ExitReason::Panicked);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&actor, "handler_panicked"), 1);
    assert_eq!(shed(&actor, "stopped"), 1);
    check_balance(&lane(&actor, 0));
}

#[test]
fn the_mailbox_survives_a_restart() {
    let system = system();
    let (actor, notes) = spawn(&system, restart());
    let gate = hold(&actor);
    tell_all(&actor, 0..5);
    actor.tell(Fail("on purpose")).expect("alive");
    tell_all(&actor, 5..10);
    gate.open();
    finish(&system);
    let expected: Vec<_> = (0..10).map(|it| (if it < 5 { 1 } else { 2 }, it)).collect();
    assert_eq!(notes.all(), expected);
    let snapshot = actor.snapshot();
    assert_eq!(snapshot.restarts, 1);
    assert_eq!(snapshot.lanes[0].handled, 11);
    assert_eq!(shed(&actor, "handler_panicked"), 1);
    check_balance(&lane(&actor, 0));
    assert_eq!(system.snapshot().actors_restarted, 1);
}

#[test]
fn a_handler_that_panics_on_each_third_message_loses_only_those() {
    let system = system();
    let (actor, notes) = spawn(&system, restart());
    for number in 0..900_u64 {
        if number % 3 == 2 {
            actor.tell(Fail("each third")).expect("alive");
        } else {
            actor.tell(number).expect("alive");
        }
    }
    finish(&system);
    let numbers: Vec<_> = notes.all().into_iter().map(|(_, number)| number).collect();
    assert!(numbers.into_iter().eq((0..900).filter(|it| it % 3 != 2)));
    let lane = lane(&actor, 0);
    assert_eq!((lane.accepted, lane.handled), (900, 600));
    assert_eq!(shed(&actor, "handler_panicked"), 300);
    assert_eq!(actor.snapshot().restarts, 300);
}

#[test]
fn the_message_that_panicked_is_reported() {
    let (failures, letters) = (Notes::<Failure>::default(), Notes::default());
    let (seen, noted) = (failures.clone(), letters.clone());
    let system = build(
        System::builder()
            .workers(1)
            .on_failure(move |failure| seen.push(failure.clone()))
            .on_dead_letter(move |letter| noted.push((letter.reason, letter.message_type))),
    );
    let options = SpawnOptions::new().name("fragile").supervision(restart());
    let actor = system
        .spawn_with(options, factory(&Notes::default()))
        .expect("valid options");
    let reply = actor.ask(Fail("the text")).wait();
    assert!(matches!(reply, Err(AskError::Shed)));
    assert_eq!(actor.ask(1_u64).wait().expect("a reply"), 2);
    let fail = type_name::<Fail>();
    let [failure] = &failures.all()[..] else {
        panic!("{:?}", failures.all());
    };
    assert_eq!(failure.actor, actor.id());
    assert_eq!(failure.name.as_deref(), Some("fragile"));
    assert_eq!(failure.message_type, Some(fail));
    assert_eq!(failure.panic, "the text");
    assert_eq!(failure.restarts, 0);
    assert!(failure.to_string().contains("the text"));
    assert_eq!(letters.all(), [(ShedReason::HandlerPanicked, fail)]);
    assert_eq!(count_of(&system.dead_letters(), "handler_panicked"), 1);
}

#[test]
fn more_restarts_than_the_limit_stop_the_actor() {
    let system = system();
    let limit = restart().limit(2, Duration::from_secs(3_600));
    let (actor, _) = spawn(&system, limit);
    for _ in 0..2 {
        let _ = actor.ask(Fail("again")).wait();
        assert!(actor.ask(1_u64).wait().is_ok());
    }
    let _ = actor.ask(Fail("too often")).wait();
    assert_eq!(ended(&actor).reason, ExitReason::RestartLimit);
    assert_eq!(actor.snapshot().restarts, 2);
}

#[test]
fn restarts_wait_for_the_back_off() {
    let system = system();
    let delay = Duration::from_millis(30);
    let backoff = Supervision::restart().backoff(delay, delay);
    let (actor, notes) = spawn(&system, backoff);
    let failed = Instant::now();
    let _ = actor.ask(Fail("on purpose")).wait();
    actor.tell(1_u64).expect("a message waits for the restart");
    assert_eq!(notes.wait_len(1), [(2, 1)]);
    // Not a measurement: a timer never fires early.
    assert!(failed.elapsed() >= delay);
}

#[test]
fn an_actor_may_be_stopped_while_it_backs_off() {
    let system = system();
    let hour = Duration::from_secs(3_600);
    let (actor, notes) = spawn(&system, Supervision::restart().backoff(hour, hour));
    let _ = actor.ask(Fail("on purpose")).wait();
    actor.tell(1_u64).expect("a message waits for the restart");
    suspended(&actor);
    actor.stop();
    assert_eq!(ended(&actor).reason, ExitReason::Stopped);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&actor, "stopped"), 1);
}

#[test]
fn a_decision_is_made_per_failure() {
    let system = system();
    let asked = Notes::<Failure>::default();
    let noted = asked.clone();
    let decide = Supervision::decide(move |failure| {
        noted.push(failure.clone());
        match failure.panic.as_str() {
            "restart" => Directive::Restart,
            _ => Directive::Stop,
        }
    });
    let decide = decide.backoff(Duration::ZERO, Duration::ZERO);
    let (actor, _) = spawn(&system, decide);
    let _ = actor.ask(Fail("restart")).wait();
    assert_eq!(actor.ask(1_u64).wait().expect("a reply"), 2);
    let _ = actor.ask(Fail("stop")).wait();
    assert_eq!(ended(&actor).reason, ExitReason::Panicked);
    let restarts: Vec<_> = asked.all().iter().map(|it| it.restarts).collect();
    assert_eq!(restarts, [0, 1]);
}

#[test]
fn a_decision_that_panics_stops_the_actor() {
    let system = system();
    let (actor, _) = spawn(&system, Supervision::decide(|_| panic!("undecided")));
    let _ = actor.ask(Fail("on purpose")).wait();
    assert_eq!(ended(&actor).reason, ExitReason::Panicked);
}

/// Has one named child, which escalates.
struct Parent {
    starts: Notes<ActorRef<Fragile>>,
}

impl Actor for Parent {
    fn started(&mut self, cx: &mut Context<Self>) {
        let options = SpawnOptions::new()
            .name("child")
            .supervision(Supervision::escalate());
        let child = cx.spawn_with(options, factory(&Notes::default()));
        self.starts.push(child.expect("the last child has ended"));
    }
}

impl Handler<()> for Parent {
    type Reply = ();
    fn handle(&mut self, (): (), _cx: &mut Context<Self>) {}
}

fn spawn_parent(
    supervision: Supervision,
) -> (TestSystem, ActorRef<Parent>, Notes<ActorRef<Fragile>>) {
    let (system, starts) = (system(), Notes::default());
    let made = starts.clone();
    let options = SpawnOptions::new().supervision(supervision);
    let parent = system
        .spawn_with(options, move || Parent {
            starts: made.clone(),
        })
        .expect("valid options");
    starts.wait_len(1);
    (system, parent, starts)
}

#[test]
fn an_escalated_failure_stops_the_parent() {
    let (_system, parent, starts) = spawn_parent(Supervision::stop());
    let child = &starts.all()[0];
    child.tell(Fail("on purpose")).expect("alive");
    assert_eq!(ended(&parent).reason, ExitReason::Panicked);
    assert_eq!(ended(child).reason, ExitReason::Escalated);
}

#[test]
fn an_escalated_failure_restarts_the_parent_with_new_children() {
    let (system, parent, starts) = spawn_parent(restart());
    for round in 1..20 {
        starts.all()[round - 1]
            .tell(Fail("on purpose"))
            .expect("alive");
        starts.wait_len(round + 1);
    }
    parent.ask(()).wait().expect("a reply");
    assert_eq!(parent.snapshot().restarts, 19);
    eventually("the last of the old ones has gone", || {
        system.actors_alive() == 2
    });
}

#[test]
fn an_actor_that_escalates_without_a_parent_ends() {
    let system = system();
    let (actor, _) = spawn(&system, Supervision::escalate());
    let _ = actor.ask(Fail("on purpose")).wait();
    assert_eq!(ended(&actor).reason, ExitReason::Escalated);
}

#[test]
fn restarting_does_not_stop_the_senders() {
    let system = system();
    let (actor, notes) = spawn(&system, restart());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..2_000_u64 {
                    if number % 100 == 0 {
                        actor.tell(Fail("each hundredth")).expect("alive");
                    } else {
                        actor.tell(number).expect("alive");
                    }
                }
            });
        }
    });
    finish(&system);
    assert_eq!(notes.len(), 4 * 1_980);
    assert_eq!(shed(&actor, "handler_panicked"), 80);
    check_balance(&lane(&actor, 0));
}
