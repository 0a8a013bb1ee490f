//! Deadlines: set as a point in time, by the system, and inherited.

use crate::common::*;
use freeboard_actor::testing;

/// Short enough to wait for.
/// Longer than a busy machine takes to begin a handler.
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_deadline_is_a_point_in_time() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let reply = actor.ask(1).timeout(LIMIT).deadline(Instant::now()).wait();
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
    assert_eq!(actor.ask(2).deadline(soon()).wait(), Ok(2));
    finish(&system);
    assert_eq!(notes.all(), [2]);
    assert_eq!(shed(&actor, "expired"), 1);
}

#[test]
fn an_ask_may_be_told() {
    let system = system();
    let options = SpawnOptions::new().lanes([LaneConfig::bounded(8), LaneConfig::bounded(1)]);
    let (actor, gate, notes) = held(&system, options);
    assert_eq!(actor.ask(1).lane(1).tell(), Ok(()));
    assert_eq!(actor.ask(2).deadline(Instant::now()).tell(), Ok(()));
    assert_eq!(actor.ask(3).timeout(LIMIT).tell(), Ok(()));
    assert_eq!(actor.ask(4).lane(2).tell(), Err(TellError::NoLane(4)));
    gate.open();
    finish(&system);
    notes.check_all([1, 3]);
    assert_eq!(shed(&actor, "expired"), 1);
    check_balance(&lane(&actor, 0));
    assert_eq!(actor.ask(5).tell(), Err(TellError::Closed(5)));
}

#[test]
fn a_system_has_a_timeout_for_asks_without_one() {
    let system = build(System::builder().workers(2).ask_timeout(SHORT));
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let group = system.spawn_group(GroupOptions::new(1), |_| Probe::default());
    let group = group.expect("valid options");
    let group_gate = hold(&group.members()[0]);
    for reply in [
        actor.ask(1).wait(),
        block_on(actor.ask(2).into_future()),
        group.any().ask(3).wait(),
    ] {
        assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    }
    group_gate.open();
    let mut patient = actor.ask(4).timeout(LIMIT).into_future();
    let wakes = Arc::default();
    assert!(poll_once(&mut patient, &wakes).is_pending());
    // A tell has no such deadline.
    assert_eq!(actor.ask(5).tell(), Ok(()));
    let begun = Instant::now();
    eventually("the timeout is over", || begun.elapsed() > SHORT);
    gate.open();
    assert_eq!(block_on(patient), Ok(4));
    finish(&system);
    assert_eq!(notes.all(), [4, 5]);
}

#[test]
fn an_ask_of_a_group_that_moves_on_keeps_the_deadline_that_it_began_with() {
    let builder = System::builder().ask_timeout(2 * SHORT);
    let system = testing::TestSystem::build(0, builder).expect("valid");
    let options = GroupOptions::new(2).member(bounded(1));
    let group = system.spawn_group(options, |_| Probe::default());
    let group = group.expect("valid options");
    for member in &group.members() {
        act_async(member, |_| Box::pin(pending()));
        system.run_until_idle();
        member.tell(0_u64).expect("capacity");
    }
    let mut asking = group.any().ask(7).into_future();
    let wakes = Arc::default();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    system.advance(SHORT);
    group.members()[0].stop();
    system.run_until_idle();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    system.advance(SHORT);
    let full = Err(AskError::Full(7));
    assert_eq!(poll_once(&mut asking, &wakes), Poll::Ready(full));
    group.stop();
    system.run_until_idle();
    system.forget_dead_letters();
    system.finish();
}

/// Asks the probe to run a function in a handler with this deadline; returns its result.
#[track_caller]
fn within_until<R: Send + 'static>(
    probe: &ActorRef<Probe>,
    deadline: Instant,
    script: impl FnOnce(&mut Context<Probe>) -> R + Send + 'static,
) -> R {
    let (sender, result) = mpsc::channel();
    let script = Act(Box::new(move |cx| drop(sender.send(script(cx)))));
    let _ = probe.ask(script).deadline(deadline).wait();
    result.recv_timeout(LIMIT).expect("the handler returns")
}

/// Waits until the deadline of the current message has passed.
fn outlive(cx: &Context<Probe>) {
    eventually("it passes", || {
        cx.time_left().expect("a deadline").is_zero()
    });
}

#[test]
fn a_handler_knows_its_deadline() {
    let system = system();
    let (actor, _) = probe(&system);
    let deadline = soon();
    let known = within_until(&actor, deadline, |cx| (cx.deadline(), cx.time_left()));
    let (Some(known), Some(left)) = known else {
        panic!("{known:?}");
    };
    // The clocks are read one after the other.
    let apart = known.max(deadline) - known.min(deadline);
    assert!(apart < LIMIT / 2, "{apart:?}");
    assert!(left > LIMIT / 2 && left <= LIMIT, "{left:?}");
    assert_eq!(
        within(&actor, |cx| (cx.deadline(), cx.time_left())),
        (None, None)
    );
    let cleared = within_until(&actor, deadline, |cx| {
        let kept = without_deadline(|| cx.deadline());
        let is_kept = cx.deadline().is_some();
        cx.clear_deadline();
        (kept, is_kept, cx.deadline())
    });
    assert_eq!(cleared, (None, true, None));
}

/// As a byte stream, or a log.
struct Keeper(Notes<u64>);

impl Actor for Keeper {
    const TELLS_EXPIRE: bool = false;
}

impl Handler<u64> for Keeper {
    type Reply = ();
    fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
        assert_eq!(cx.deadline(), None);
        self.0.push(number);
    }
}

impl Handler<Gate> for Keeper {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

#[test]
fn tells_to_an_actor_whose_every_message_counts_do_not_expire() {
    let system = testing::TestSystem::new(0);
    let (actor, _) = probe(&system);
    let notes = Notes::default();
    let kept = notes.clone();
    let options = GroupOptions::new(1).adaptive(AdaptiveLimit::default());
    let group = system.spawn_group(options, move |_| Keeper(kept.clone()));
    let group = group.expect("valid options");
    let keeper = group.members()[0].clone();
    system.faults(&keeper).delay_wakeups(3 * SHORT);
    let dams = [Dam::credit(8), Dam::adaptive(AdaptiveLimit::default())].map(|dam| {
        let dam = dam.in_front_of(keeper.recipient::<u64>());
        system.spawn(dam.expect("valid"))
    });
    let to = keeper.clone();
    let script = Act(Box::new(move |_| {
        to.tell(1).expect("accepted");
        to.recipient().tell(2).expect("accepted");
        block_on(to.send(3)).expect("accepted");
        to.ask(4).tell().expect("accepted");
        group.any().tell(5).expect("accepted");
        block_on(group.send_any(9)).expect("accepted");
        dams.iter()
            .zip(6..)
            .for_each(|(dam, number)| dam.tell(number).expect("accepted"));
        // Its own deadline counts.
        to.ask(8).timeout(SHORT).tell().expect("accepted");
    }));
    let asked = actor.ask(script).timeout(2 * SHORT).wait();
    asked.expect("a reply");
    system.advance(4 * SHORT);
    notes.check_all((1..8).chain([9]));
    assert_eq!(shed(&keeper, "expired"), 1);
    system.finish();
}

/// A way to send a number in a handler.
type SendFn = fn(&ActorRef<Probe>, &Group<Probe>, u64);

const SENDS: [SendFn; 7] = [
    |to, _, number| to.tell(number).expect("accepted"),
    |to, _, number| to.recipient().tell(number).expect("accepted"),
    |to, _, number| to.tell_or_log(number),
    |to, _, number| to.ask(number).timeout(LIMIT).tell().expect("accepted"),
    |to, _, number| block_on(to.send(number)).expect("accepted"),
    |_, group, number| group.any().tell(number).expect("accepted"),
    |_, group, number| block_on(group.send_any(number)).expect("accepted"),
];

#[test]
fn tells_inherit_the_deadline() {
    let system = system();
    let (actor, _) = probe(&system);
    let options = GroupOptions::new(1);
    let notes = Notes::default();
    let kept = notes.clone();
    let group = system.spawn_group(options, move |_| Probe {
        notes: kept.clone(),
        ..Probe::default()
    });
    let group = group.expect("valid options");
    let to = group.members()[0].clone();
    let gate = hold(&to);
    for (number, send) in (1..).zip(SENDS) {
        let (to, group) = (to.clone(), group.clone());
        within_until(&actor, Instant::now() + SHORT, move |cx| {
            send(&to, &group, number);
            without_deadline(|| send(&to, &group, 10 + number));
            outlive(cx);
            cx.clear_deadline();
            send(&to, &group, 20 + number);
        });
    }
    // The next message of the actor has no deadline.
    act_tell(&actor, &to, 31..32);
    within(&actor, |_| ());
    gate.open();
    finish(&system);
    assert_eq!(shed(&to, "expired"), SENDS.len() as u64);
    notes.check_all((11..18).chain(21..28).chain([31]));
    check_balance(&lane(&to, 0));
}

#[test]
fn asks_inherit_the_deadline() {
    let system = system();
    let (actor, _) = probe(&system);
    let (other, gate, notes) = held(&system, SpawnOptions::new());
    for limit in [None, Some(LIMIT)] {
        let to = other.clone();
        let reply = within_until(&actor, Instant::now() + SHORT, move |_| match limit {
            None => to.ask(1).wait(),
            Some(limit) => to.ask(1).timeout(limit).wait(),
        });
        assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    }
    // Its own deadline is earlier.
    let to = other.clone();
    let reply = within_until(&actor, soon(), move |_| to.ask(2).timeout(SHORT).wait());
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
    finish(&system);
    assert_eq!((notes.len(), shed(&other, "expired")), (0, 3));
}

#[test]
fn a_told_message_passes_the_deadline_on() {
    let system = system();
    let (first, _) = probe(&system);
    let (second, _) = probe(&system);
    let (sender, known) = mpsc::channel();
    let to = second.clone();
    within_until(&first, soon(), move |_| {
        act(&to, move |cx| sender.send(cx.deadline()).expect("awaited"));
    });
    let known = known.recv_timeout(LIMIT).expect("handled");
    assert!(known.is_some());
    assert_eq!(within(&second, |cx| cx.deadline()), None);
}

#[test]
fn a_message_in_an_outbox_expires() {
    let system = system();
    let (actor, _) = probe(&system);
    let (to, gate, notes) = full(&system, bounded(4));
    let sent_to = to.clone();
    within_until(&actor, Instant::now() + SHORT, move |cx| {
        sent_to.tell(1).expect("kept in the outbox");
        outlive(cx);
        cx.clear_deadline();
        sent_to.tell(2).expect("kept in the outbox");
    });
    gate.open();
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
    finish(&system);
    assert_eq!((notes.nonzero(), shed(&to, "expired")), (vec![2], 1));
    check_balance(&lane(&to, 0));
}

#[test]
fn an_async_handler_keeps_its_deadline_across_awaits() {
    let system = system();
    let (actor, _) = probe(&system);
    let (to, notes) = probe(&system);
    let (sender, known) = mpsc::channel();
    let (wake, woken) = tokio::sync::oneshot::channel();
    let sent_to = to.clone();
    let script = Await(Box::new(move |cx| {
        Box::pin(async move {
            woken.await.expect("woken");
            let _ = sender.send(cx.deadline().is_some());
            assert_eq!(sent_to.ask(1).await, Ok(1));
            cx.clear_deadline();
            assert_eq!(sent_to.ask(2).await, Ok(2));
            let _ = sender.send(cx.deadline().is_some());
        })
    }));
    let mut asking = actor.ask(script).deadline(soon()).into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    suspended(&actor);
    wake.send(()).expect("it waits");
    block_on(asking).expect("a reply");
    assert_eq!(known.iter().collect::<Vec<_>>(), [true, false]);
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
    assert_eq!(notes.all(), [1, 2]);
}

#[test]
fn a_panic_ends_the_deadline() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let (actor, _) = probe_with(&system, options);
    let script = |_: &mut Context<Probe>| std::panic::resume_unwind(Box::new(()));
    let reply = actor.ask(Act(Box::new(script))).timeout(LIMIT).wait();
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
    let script = Await(Box::new(|_| {
        Box::pin(async { std::panic::resume_unwind(Box::new(())) })
    }));
    let reply = actor.ask(script).timeout(LIMIT).wait();
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
}

#[test]
fn timers_and_iterators_do_not_inherit_the_deadline() {
    let system = system();
    let (actor, notes) = probe(&system);
    let (to, sent) = probe(&system);
    let sent_to = to.clone();
    within_until(&actor, Instant::now() + SHORT, move |cx| {
        cx.send_after(Duration::ZERO, 1_u64).expect("a timer");
        cx.send_all(&sent_to, [2_u64]).expect("kept");
        outlive(cx);
    });
    notes.wait_len(1);
    sent.wait_len(1);
}

#[test]
fn a_dam_passes_deadlines_on() {
    let system = system();
    for dam in [Dam::credit(1), Dam::polling(0, Duration::from_millis(1))] {
        let (actor, _) = probe(&system);
        let (to, gate, notes) = full(&system, bounded(4));
        let dam = dam.in_front_of(to.recipient::<u64>()).expect("valid");
        let dam = system.spawn(dam);
        let sent_to = dam.clone();
        within_until(&actor, Instant::now() + SHORT, move |cx| {
            sent_to.tell(1).expect("accepted");
            outlive(cx);
        });
        dam.tell(2).expect("accepted");
        gate.open();
        eventually("the last one", || notes.nonzero() == [2]);
        assert_eq!(shed(&to, "expired") + shed(&dam, "expired"), 1);
    }
}
