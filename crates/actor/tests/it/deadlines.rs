//! Deadlines: set as a point in time, by the system, and inherited.

use crate::common::*;
use freeboard_actor::testing;

/// The deadline of most messages here, in virtual time.
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
fn an_ask_that_is_polled_late_says_what_happened_first() {
    let system = testing::TestSystem::new(0);
    for (is_shed_first, wanted) in [(true, AskError::Shed), (false, AskError::Expired)] {
        let lane = LaneConfig::bounded(1).overload(Overload::DropOldest);
        let (actor, _) = probe_with(&system, SpawnOptions::new().lane(lane));
        act_async(&actor, |_| Box::pin(pending()));
        system.run_until_idle();
        let mut asking = actor.ask(1).timeout(SHORT).into_future();
        assert!(poll_once(&mut asking, &Arc::default()).is_pending());
        let evict = || actor.tell(2).expect("it drops the oldest");
        if is_shed_first {
            evict();
        }
        system.advance(2 * SHORT);
        if !is_shed_first {
            evict();
        }
        let outcome = poll_once(&mut asking, &Arc::default());
        assert_eq!(outcome, Poll::Ready(Err(wanted)));
    }
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
    let system = testing::TestSystem::build(0, System::builder().ask_timeout(SHORT));
    let system = system.expect("valid settings");
    let (actor, notes) = late(&system, SpawnOptions::new());
    let group = system.spawn_group(GroupOptions::new(1), |_| Probe::default());
    let group = group.expect("valid options");
    make_late(&system, &group.members()[0]);
    let mut asking = actor.ask(1).into_future();
    let wakes = Arc::default();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    for reply in [actor.ask(2).wait(), group.any().ask(3).wait()] {
        assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    }
    assert_eq!(
        poll_once(&mut asking, &wakes),
        Poll::Ready(Err(AskError::Expired))
    );
    system.run_until_idle();
    let mut patient = actor.ask(4).timeout(LIMIT).into_future();
    assert!(poll_once(&mut patient, &wakes).is_pending());
    // A tell has no such deadline.
    assert_eq!(actor.ask(5).tell(), Ok(()));
    system.advance(3 * SHORT);
    assert_eq!(poll_once(&mut patient, &wakes), Poll::Ready(Ok(4)));
    assert_eq!(notes.all(), [4, 5]);
    system.finish();
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

/// A probe that runs only after [`SHORT`] has passed.
fn late(system: &testing::TestSystem, options: SpawnOptions) -> (ActorRef<Probe>, Notes<u64>) {
    let (probe, notes) = probe_with(system, options);
    make_late(system, &probe);
    (probe, notes)
}

fn make_late<A: Actor>(system: &testing::TestSystem, actor: &ActorRef<A>) {
    // Its start was a wake-up, too.
    system.run_until_idle();
    system.faults(actor).delay_wakeups(2 * SHORT);
}

/// Asks the probe, with the deadline [`SHORT`] from now, to run a function in a handler.
fn within_short(
    probe: &ActorRef<Probe>,
    script: impl FnOnce(&mut Context<Probe>) + Send + 'static,
) -> Result<(), AskError<Act>> {
    probe.ask(Act(Box::new(script))).timeout(SHORT).wait()
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
    make_late(&system, &keeper);
    let dams = [Dam::credit(8), Dam::adaptive(AdaptiveLimit::default())].map(|dam| {
        let dam = dam.in_front_of(keeper.recipient::<u64>());
        system.spawn(dam.expect("valid"))
    });
    let to = keeper.clone();
    let told = within_short(&actor, move |_| {
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
    });
    told.expect("a reply");
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
    let system = testing::TestSystem::new(0);
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
    make_late(&system, &to);
    for (number, send) in (1..).zip(SENDS) {
        let (to, group) = (to.clone(), group.clone());
        let told = within_short(&actor, move |cx| {
            send(&to, &group, number);
            without_deadline(|| send(&to, &group, 10 + number));
            cx.clear_deadline();
            send(&to, &group, 20 + number);
        });
        told.expect("a reply");
    }
    // The next message of the actor has no deadline.
    act_tell(&actor, &to, 31..32);
    system.advance(3 * SHORT);
    assert_eq!(shed(&to, "expired"), SENDS.len() as u64);
    notes.check_all((11..18).chain(21..28).chain([31]));
    system.finish();
}

#[test]
fn asks_inherit_the_deadline() {
    let system = testing::TestSystem::new(0);
    let (actor, _) = probe(&system);
    let (other, notes) = late(&system, SpawnOptions::new());
    let replies = Notes::default();
    for (deadline, limit) in [
        (SHORT, None),
        (SHORT, Some(LIMIT)),
        // Its own deadline is earlier.
        (LIMIT, Some(SHORT)),
    ] {
        let (to, noted) = (other.clone(), replies.clone());
        let (begun, before) = (system.now(), replies.len());
        let script = Act(Box::new(move |_| {
            noted.push(match limit {
                None => to.ask(1).wait(),
                Some(limit) => to.ask(1).timeout(limit).wait(),
            });
        }));
        let asked = actor.ask(script).timeout(deadline).tell();
        asked.expect("accepted");
        system.run_until(|| replies.len() > before);
        assert_eq!(system.now() - begun, SHORT);
        system.advance(3 * SHORT);
    }
    assert_eq!(replies.all(), vec![Err(AskError::Expired); 3]);
    assert_eq!((notes.len(), shed(&other, "expired")), (0, 3));
    system.finish();
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
    let system = testing::TestSystem::new(0);
    let (actor, _) = probe(&system);
    let (to, notes) = late(&system, bounded(4));
    while to.try_tell(0).is_ok() {}
    let sent_to = to.clone();
    let told = within_short(&actor, move |cx| {
        sent_to.tell(1).expect("kept in the outbox");
        cx.clear_deadline();
        sent_to.tell(2).expect("kept in the outbox");
    });
    told.expect("a reply");
    system.advance(5 * SHORT);
    assert_eq!((notes.nonzero(), shed(&to, "expired")), (vec![2], 1));
    system.finish();
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

/// An actor awaits two asks, of which the first is answered at once and the second never.
fn check_second_of_two_asks(timeouts: [Duration; 2]) {
    let system = testing::TestSystem::new(0);
    let (asker, _) = probe_with(&system, SpawnOptions::new());
    let (quick, _) = probe_with(&system, SpawnOptions::new());
    let (silent, _) = probe_with(&system, SpawnOptions::new());
    act_async(&silent, |_| Box::pin(pending()));
    let (sender, outcome) = mpsc::channel();
    act_async(&asker, move |_| {
        Box::pin(async move {
            assert_eq!(quick.ask(1).timeout(timeouts[0]).await, Ok(1));
            let _ = sender.send(silent.ask(2).timeout(timeouts[1]).await);
        })
    });
    system.run_until_idle();
    system.advance(timeouts[1] - Duration::from_nanos(1));
    assert!(outcome.try_recv().is_err(), "it is early: {timeouts:?}");
    system.advance(Duration::from_nanos(1));
    assert_eq!(outcome.try_recv(), Ok(Err(AskError::Expired)));
    assert_eq!(system.executor().next_timer_ns(), None, "{timeouts:?}");
}

#[test]
fn asks_one_after_the_other_end_at_their_own_deadlines() {
    for timeouts in [[SHORT, 3 * SHORT], [3 * SHORT, SHORT], [SHORT, SHORT]] {
        check_second_of_two_asks(timeouts);
    }
}

#[test]
fn no_timer_outlives_the_handler_that_asked() {
    let system = testing::TestSystem::new(0);
    let (asker, _) = probe_with(&system, SpawnOptions::new());
    let (quick, _) = probe_with(&system, SpawnOptions::new());
    act_async(&asker, move |_| {
        Box::pin(async move {
            let both = [1, 2].map(|number| quick.ask(number).timeout(SHORT).into_future());
            for (asking, number) in both.into_iter().zip(1..) {
                assert_eq!(asking.await, Ok(number));
            }
            assert_eq!(quick.ask(3).timeout(LIMIT).await, Ok(3));
        })
    });
    system.run_until_idle();
    assert_eq!(system.executor().next_timer_ns(), None);
}

#[test]
fn asks_of_two_systems_have_alarms_of_their_own() {
    let system = testing::TestSystem::new(0);
    let other = system.build_another(System::builder()).expect("valid");
    let (asker, _) = probe_with(&system, SpawnOptions::new());
    let (here, _) = probe_with(&system, SpawnOptions::new());
    let (there, _) = probe_with(&other, SpawnOptions::new());
    let (silent, _) = probe_with(&other, SpawnOptions::new());
    act_async(&silent, |_| Box::pin(pending()));
    let (sender, outcome) = mpsc::channel();
    act_async(&asker, move |_| {
        Box::pin(async move {
            for number in 1..4 {
                assert_eq!(here.ask(number).timeout(SHORT).await, Ok(number));
                assert_eq!(there.ask(number).timeout(SHORT).await, Ok(number));
            }
            let _ = sender.send(silent.ask(1).timeout(2 * SHORT).await);
        })
    });
    system.run_until_idle();
    system.advance(2 * SHORT);
    assert_eq!(outcome.try_recv(), Ok(Err(AskError::Expired)));
    assert_eq!(system.executor().next_timer_ns(), None);
}

/// Alarms that are taken over fire on the timer thread while the asks go on.
#[test]
fn every_ask_of_a_long_row_is_answered_and_the_last_expires() {
    let system = system();
    let (asker, _) = probe(&system);
    let (quick, _) = probe(&system);
    let (silent, gate, _) = held(&system, SpawnOptions::new());
    let (sender, outcome) = mpsc::channel();
    act_async(&asker, move |_| {
        Box::pin(async move {
            let began = Instant::now();
            while began.elapsed() < SHORT {
                match quick.ask(1).timeout(SHORT / 20).await {
                    Ok(1) | Err(AskError::Expired) => {}
                    other => panic!("{other:?}"),
                }
            }
            let last = silent.ask(2).timeout(SHORT / 2);
            let began = Instant::now();
            let _ = sender.send((last.await, began.elapsed()));
        })
    });
    let (last, elapsed) = outcome.recv_timeout(LIMIT).expect("it expires");
    assert_eq!(last, Err(AskError::Expired));
    assert!(elapsed >= SHORT / 2, "it is early: {elapsed:?}");
    gate.open();
}

#[test]
fn a_panic_ends_the_deadline() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let (actor, _) = probe_with(&system, options);
    let script = |_: &mut Context<Probe>| std::panic::resume_unwind(Box::new(()));
    let reply = actor.ask(Act(Box::new(script))).timeout(LIMIT).wait();
    assert!(matches!(reply, Err(AskError::NoReply)), "{reply:?}");
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
    let script = Await(Box::new(|_| {
        Box::pin(async { std::panic::resume_unwind(Box::new(())) })
    }));
    let reply = actor.ask(script).timeout(LIMIT).wait();
    assert!(matches!(reply, Err(AskError::NoReply)), "{reply:?}");
    assert_eq!(within(&actor, |cx| cx.deadline()), None);
}

#[test]
fn timers_and_iterators_do_not_inherit_the_deadline() {
    let system = testing::TestSystem::new(0);
    let (actor, notes) = probe(&system);
    let (to, sent) = late(&system, SpawnOptions::new());
    let sent_to = to.clone();
    let told = within_short(&actor, move |cx| {
        cx.send_after(2 * SHORT, 1_u64).expect("a timer");
        cx.send_all(&sent_to, [2_u64]).expect("kept");
    });
    told.expect("a reply");
    system.advance(5 * SHORT);
    assert_eq!((notes.all(), sent.all()), (vec![1], vec![2]));
    system.finish();
}

#[test]
fn a_dam_passes_deadlines_on() {
    for dam in [Dam::credit(1), Dam::polling(0, Duration::from_millis(1))] {
        let system = testing::TestSystem::new(0);
        let (actor, _) = probe(&system);
        let (to, notes) = late(&system, SpawnOptions::new());
        let dam = dam.in_front_of(to.recipient::<u64>()).expect("valid");
        let dam = system.spawn(dam);
        let sent_to = dam.clone();
        let told = within_short(&actor, move |_| sent_to.tell(1).expect("accepted"));
        told.expect("a reply");
        dam.tell(2).expect("accepted");
        system.advance(9 * SHORT);
        assert_eq!(notes.all(), [2]);
        assert_eq!(shed(&to, "expired") + shed(&dam, "expired"), 1);
        system.finish();
    }
}
