//! Asks whose replies come as messages: each has exactly one outcome, and none waits in a thread.

use crate::common::*;
use freeboard_actor::testing;

const SHORT: Duration = Duration::from_millis(20);

type Outcome = Result<u64, AskError<u64>>;

/// Makes the message that notes an outcome.
fn note(outcomes: &Notes<Outcome>) -> impl FnOnce(Outcome) -> Act + Send + 'static {
    let outcomes = outcomes.clone();
    move |outcome| Act(Box::new(move |_| outcomes.push(outcome)))
}

/// Has `from` ask `to` with each number, and note the outcomes. Returns those that were refused.
#[track_caller]
fn ask_all(
    from: &ActorRef<Probe>,
    to: &ActorRef<Probe>,
    numbers: Range<u64>,
    outcomes: &Notes<Outcome>,
) -> Vec<TellError<u64>> {
    let (to, outcomes) = (to.clone(), outcomes.clone());
    within(from, move |cx| {
        let asked = numbers.map(|number| cx.ask(&to, number, note(&outcomes)));
        let refused = asked.filter_map(Result::err);
        refused.map(|it| it.error).collect()
    })
}

#[test]
fn replies_come_as_messages_before_queued_ones() {
    // A run whose time is over handles a queued message between two replies.
    let system = build(System::builder().workers(2).budget_time(LIMIT));
    let (asker, order) = probe(&system);
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    let outcomes = Notes::default();
    assert_eq!(ask_all(&asker, &asked, 0..30, &outcomes), []);
    // The asker is not blocked, and then held with a long queue.
    assert_eq!(asker.ask(7).wait(), Ok(7));
    let held_asker = hold(&asker);
    let (queued, seen) = (outcomes.clone(), Notes::default());
    let noted = seen.clone();
    act(&asker, move |_| noted.push(queued.len()));
    gate.open();
    eventually("all are answered", || lane(&asked, 0).handled == 31);
    held_asker.open();
    seen.wait_len(1);
    // Fewer messages than the budget of a run.
    assert_eq!(seen.all(), [30]);
    assert!(outcomes.all().into_iter().eq((0..30).map(Ok)));
    assert_eq!(order.all(), [7]);
}

#[test]
fn a_full_mailbox_keeps_no_reply_out() {
    let system = system();
    let (first, _) = probe_with(&system, bounded(1));
    let (second, _) = probe_with(&system, bounded(1));
    let outcomes = Notes::default();
    // Each asks the other more than its lane holds, while both are full.
    for (from, to) in [(&first, &second), (&second, &first)] {
        let (to, outcomes) = (to.clone(), outcomes.clone());
        let asks = Act(Box::new(move |cx| {
            for number in 0..100 {
                cx.ask(&to, number, note(&outcomes)).expect("accepted");
            }
        }));
        from.tell(asks).expect("accepted");
    }
    let outcomes = outcomes.wait_len(200);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn an_actor_may_ask_itself() {
    let system = system();
    let (actor, notes) = probe(&system);
    let outcomes = Notes::default();
    assert_eq!(ask_all(&actor, &actor, 1..3, &outcomes), []);
    assert_eq!(outcomes.wait_len(2), [Ok(1), Ok(2)]);
    assert_eq!(notes.all(), [1, 2]);
}

#[test]
fn an_ask_without_a_reply_is_shed_once() {
    let system = system();
    let (asker, _) = probe(&system);
    let outcomes = Notes::default();
    // Its actor stops.
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    assert_eq!(ask_all(&asker, &asked, 0..2, &outcomes), []);
    asked.stop();
    gate.open();
    assert_eq!(
        outcomes.wait_len(2),
        [Err(AskError::Shed), Err(AskError::Shed)]
    );
    // Its policy drops the newest.
    let lane = LaneConfig::bounded(1).overload(Overload::DropNewest);
    let (asked, gate, _) = held(&system, SpawnOptions::new().lane(lane));
    asked.tell(0).expect("it fills the lane");
    assert_eq!(ask_all(&asker, &asked, 2..3, &outcomes), []);
    assert_eq!(outcomes.wait_len(3)[2], Err(AskError::Shed));
    gate.open();
    // Its handler panics.
    let (asked, _) = probe(&system);
    let to = asked.clone();
    let shed = Notes::default();
    let noted = shed.clone();
    act(&asker, move |cx| {
        let panic = Act(Box::new(|_| std::panic::resume_unwind(Box::new(()))));
        let note = move |outcome: Result<(), AskError<Act>>| {
            Act(Box::new(move |_| {
                noted.push(matches!(outcome, Err(AskError::NoReply)))
            }))
        };
        assert!(cx.ask(&to, panic, note).is_ok());
    });
    assert_eq!(shed.wait_len(1), [true]);
    finish(&system);
    assert_eq!((outcomes.len(), shed.len()), (3, 1));
}

#[test]
fn a_refused_ask_returns_its_message_and_its_closure() {
    let system = system();
    let options = SpawnOptions::new().outbox(1).pending_asks(3);
    let (asker, _) = probe_with(&system, options);
    let outcomes = Notes::default();
    let (gone, _) = probe(&system);
    gone.stop();
    ended(&gone);
    assert_eq!(
        ask_all(&asker, &gone, 1..2, &outcomes),
        [TellError::Closed(1)]
    );
    let reject = LaneConfig::bounded(1).overload(Overload::Reject);
    let (busy, busy_gate, _) = full(&system, SpawnOptions::new().lane(reject));
    assert_eq!(
        ask_all(&asker, &busy, 2..3, &outcomes),
        [TellError::Full(2)]
    );
    let to = busy.clone();
    let (ledger, noted) = (Ledger::default(), Notes::default());
    let (token, note) = (ledger.token(), note(&noted));
    let handed_back = ledger.clone();
    let text = within(&asker, move |cx| {
        let closure = move |outcome| {
            drop(token);
            note(outcome)
        };
        let refused = cx.ask_with(to.ask(3).lane(1), closure);
        let refused = refused.expect_err("the actor has one lane");
        assert_eq!(handed_back.dropped(), 0);
        let text = format!("{refused:?}: {refused}");
        refused.into_message().0(cx);
        text
    });
    assert_eq!(text, "AskRefused(NoLane(..)): the mailbox has no such lane");
    assert_eq!(noted.all(), [Err(AskError::NoLane(3))]);
    ledger.settle(1);
    // The bound counts those that wait for a reply, in the lane or in the outbox.
    let (slow, slow_gate, _) = held(&system, SpawnOptions::new());
    let refused = ask_all(&asker, &slow, 10..15, &outcomes);
    assert_eq!(
        refused,
        [TellError::TooManyAsks(13), TellError::TooManyAsks(14)]
    );
    slow_gate.open();
    assert_eq!(outcomes.wait_len(3), [Ok(10), Ok(11), Ok(12)]);
    assert_eq!(ask_all(&asker, &slow, 15..16, &outcomes), []);
    busy_gate.open();
    finish(&system);
    assert_eq!(outcomes.len(), 4);
    // An ask after the shutdown is refused, too.
    assert_eq!(asker.ask(1).wait(), Err(AskError::Closed(1)));
}

#[test]
fn a_deadline_ends_an_ask() {
    let system = build(System::builder().workers(2).ask_timeout(SHORT));
    let (asker, _) = probe(&system);
    let (asked, gate, notes) = held(&system, SpawnOptions::new());
    let outcomes = Notes::default();
    // The system's.
    assert_eq!(ask_all(&asker, &asked, 0..1, &outcomes), []);
    // Its own, although the system's is later or earlier. A told script has no deadline.
    let (to, noted) = (asked.clone(), outcomes.clone());
    act(&asker, move |cx| {
        for (number, timeout) in [(1, SHORT / 2), (2, LIMIT)] {
            let ask = to.ask(number).timeout(timeout);
            cx.ask_with(ask, note(&noted)).expect("accepted");
        }
    });
    let expired = outcomes.wait_len(2);
    assert!(
        expired.iter().all(|it| *it == Err(AskError::Expired)),
        "{expired:?}"
    );
    gate.open();
    eventually("the last reply", || outcomes.all().contains(&Ok(2)));
    finish(&system);
    assert_eq!((notes.all(), outcomes.len()), (vec![2], 3));
}

#[test]
fn an_inherited_deadline_ends_an_ask() {
    let system = system();
    let (asker, _) = probe(&system);
    let (asked, gate, notes) = held(&system, SpawnOptions::new());
    let outcomes = Notes::default();
    let (to, noted) = (asked.clone(), outcomes.clone());
    let script = Act(Box::new(move |cx| {
        let ask = to.ask(1).timeout(LIMIT);
        // An earlier deadline than its own, and sure to have passed when it is handled.
        cx.ask_with(ask, note(&noted)).expect("accepted");
        eventually("it passes", || {
            cx.time_left().is_some_and(|left| left.is_zero())
        });
    }));
    asker
        .ask(script)
        .deadline(Instant::now() + 25 * SHORT)
        .tell()
        .expect("accepted");
    eventually("it is handled", || {
        outcomes.len() + shed(&asker, "expired") as usize > 0
    });
    let expired = outcomes.all();
    assert!(
        expired.iter().all(|it| *it == Err(AskError::Expired)),
        "{expired:?}"
    );
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
}

#[test]
fn a_late_reply_is_dropped() {
    let system = system();
    let (asker, _) = probe(&system);
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    let (to, outcomes) = (asked.clone(), Notes::default());
    let noted = outcomes.clone();
    within(&asker, move |cx| {
        let ask = to.ask(gate.clone()).timeout(SHORT);
        let expired = move |outcome: Result<(), AskError<Gate>>| {
            Act(Box::new(move |_| {
                noted.push(matches!(outcome, Err(AskError::Expired)))
            }))
        };
        cx.ask_with(ask, expired).expect("accepted");
        gate.open();
    });
    // Whichever comes first, the reply or the deadline: once.
    outcomes.wait_len(1);
    finish(&system);
    assert_eq!(outcomes.len(), 1);
}

#[test]
fn a_restart_drops_replies_to_the_former_life() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let (asker, notes) = probe_with(&system, options);
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    let (ledger, outcomes) = (Ledger::default(), Notes::default());
    let (to, token, noted) = (asked.clone(), ledger.token(), outcomes.clone());
    act(&asker, move |cx| {
        let note = note(&noted);
        let into_message = move |outcome| {
            drop(token);
            note(outcome)
        };
        let ask = to.ask(1).timeout(LIMIT);
        cx.ask_with(ask, into_message).expect("accepted");
        std::panic::resume_unwind(Box::new(()));
    });
    // The closure goes with the state, before the reply comes.
    ledger.settle(1);
    // The new life asks with the same index.
    assert_eq!(ask_all(&asker, &asked, 2..3, &outcomes), []);
    gate.open();
    assert_eq!(outcomes.wait_len(1), [Ok(2)]);
    finish(&system);
    assert_eq!((outcomes.len(), notes.len()), (1, 0));
}

#[test]
fn a_panic_of_the_closure_fails_the_asker() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let (asker, _) = probe_with(&system, options);
    let (asked, notes) = probe(&system);
    let to = asked.clone();
    act(&asker, move |cx| {
        let panic = |_: Outcome| -> Act { std::panic::resume_unwind(Box::new(())) };
        cx.ask(&to, 1, panic).expect("accepted");
    });
    eventually("it has restarted", || asker.snapshot().restarts == 1);
    assert_eq!(asked.snapshot().restarts, 0);
    check_served(&system, 10);
    assert_eq!(asked.ask(2).wait(), Ok(2));
    assert_eq!(notes.all(), [1, 2]);
}

#[test]
fn a_message_whose_asker_has_terminated_is_not_handled() {
    let system = system();
    let (asker, _) = probe(&system);
    let (asked, gate, notes) = held(&system, SpawnOptions::new());
    let outcomes = Notes::default();
    assert_eq!(ask_all(&asker, &asked, 1..4, &outcomes), []);
    asker.stop();
    ended(&asker);
    gate.open();
    finish(&system);
    assert_eq!((notes.len(), outcomes.len()), (0, 0));
    assert_eq!(shed(&asked, "asker_gone"), 3);
    check_balance(&lane(&asked, 0));
}

#[test]
fn a_graceful_stop_waits_for_the_replies() {
    let system = system();
    let (asker, _) = probe(&system);
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    let outcomes = Notes::default();
    assert_eq!(ask_all(&asker, &asked, 1..4, &outcomes), []);
    asker.stop_gracefully();
    // It has seen the request, and waits.
    eventually("it is idle", || asker.snapshot().state == "idle");
    assert!(asker.is_alive());
    gate.open();
    assert_eq!(ended(&asker).reason, ExitReason::Drained);
    assert_eq!(outcomes.len(), 3);
}

#[test]
fn the_handler_of_a_reply_has_the_deadline_of_the_one_that_asked() {
    let system = system();
    let (asker, _) = probe(&system);
    let (asked, _) = probe(&system);
    let known = Notes::default();
    for (to, is_async) in [(asked.clone(), false), (asked.clone(), true)] {
        let known = known.clone();
        let script = Act(Box::new(move |cx| {
            let asked = if is_async {
                cx.ask(&to, 1, move |_| {
                    Await(Box::new(move |cx| {
                        Box::pin(async move { known.push(cx.deadline().is_some()) })
                    }))
                })
                .is_ok()
            } else {
                cx.ask(&to, 1, move |_| {
                    Act(Box::new(move |cx| known.push(cx.deadline().is_some())))
                })
                .is_ok()
            };
            assert!(asked, "accepted");
        }));
        asker.ask(script).deadline(soon()).wait().expect("handled");
    }
    known.wait_len(2);
    let (to, noted) = (asked.clone(), known.clone());
    act(&asker, move |cx| {
        let ask = to.ask(1).timeout(LIMIT);
        let script = move |cx: &mut Context<Probe>| noted.push(cx.deadline().is_some());
        cx.ask_with(ask, move |_| Act(Box::new(script)))
            .expect("accepted");
    });
    known.wait_len(3);
    assert_eq!(known.all(), [true, true, false]);
}

#[test]
fn an_actor_has_one_timer_for_its_asks() {
    const MS: Duration = Duration::from_millis(1);
    testing::each_seed(0..20, |system| {
        let (asker, _) = probe(system);
        let (asked, _) = probe(system);
        act_async(&asked, |_| Box::pin(pending()));
        let outcomes = Notes::default();
        let (to, noted) = (asked.clone(), outcomes.clone());
        act(&asker, move |cx| {
            for timeout in [10 * MS, 100 * MS] {
                let ask = to.ask(1).timeout(timeout);
                cx.ask_with(ask, note(&noted)).expect("accepted");
            }
        });
        system.run_until_idle();
        // The timer fires while a handler runs, which then asks with a deadline that has passed before it.
        let (to, noted) = (asked.clone(), outcomes.clone());
        let script = Act(Box::new(move |cx| {
            let waited = without_deadline(|| to.ask(2).timeout(20 * MS).wait());
            assert_eq!(waited, Err(AskError::Expired));
            cx.ask(&to, 3, note(&noted)).expect("accepted");
        }));
        asker.ask(script).timeout(5 * MS).tell().expect("accepted");
        system.advance(150 * MS);
        assert_eq!(outcomes.all(), vec![Err(AskError::Expired); 3]);
        let trace = system.trace();
        let last = trace.iter().filter(|step| step.time == 100 * MS);
        let timers = last.filter(|step| step.to_string().ends_with("timer"));
        assert_eq!(timers.count(), 1);
    });
}
