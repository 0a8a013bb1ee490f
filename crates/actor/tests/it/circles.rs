//! Circles of asks: the ask that closes one fails at once, and no other does. Circles of asks and muted tells resolve.

use crate::common::*;

type Outcome = Result<(), String>;

/// The outcome of an ask in a handler.
fn outcome<R, M>(reply: Result<R, AskError<M>>) -> Outcome {
    reply.map(drop).map_err(|error| error.to_string())
}

fn spawn(system: &System, name: &str, count: usize) -> Vec<ActorRef<Probe>> {
    let spawn = |index| {
        let options = SpawnOptions::new().name(format!("{name}-{index}"));
        system.spawn_once(options, Probe::default()).expect("free")
    };
    (0..count).map(spawn).collect()
}

/// Asks the first of them, which asks the next one, in async handlers; the one that closes a circle notes its outcome.
fn ask_on(mut rest: VecDeque<ActorRef<Probe>>, outcomes: Notes<Outcome>) -> Await {
    Await(Box::new(move |_| {
        Box::pin(async move {
            if let Some(next) = rest.pop_front() {
                let asking = next.ask(ask_on(rest, outcomes.clone()));
                outcomes.push(outcome(asking.await));
            }
        })
    }))
}

/// The same in handlers that block.
fn wait_on(mut rest: VecDeque<ActorRef<Probe>>, outcomes: Notes<Outcome>) -> Act {
    Act(Box::new(move |_| {
        if let Some(next) = rest.pop_front() {
            let asking = next.ask(wait_on(rest, outcomes.clone()));
            outcomes.push(outcome(asking.wait()));
        }
    }))
}

#[test]
fn the_ask_that_closes_a_circle_fails_at_once_with_the_names() {
    let system = system();
    for is_blocking in [false, true] {
        for count in 1..=3 {
            let name = format!("{is_blocking}-{count}");
            let members = spawn(&system, &name, count);
            let outcomes = Notes::default();
            let mut rest: VecDeque<_> = members[1..].iter().cloned().collect();
            rest.push_back(members[0].clone());
            if is_blocking {
                let script = wait_on(rest, outcomes.clone());
                members[0].ask(script).wait().expect("a reply");
            } else {
                let script = ask_on(rest, outcomes.clone());
                members[0].ask(script).wait().expect("a reply");
            }
            // Usually the last member closes the circle; the one whose edge comes last does.
            let outcomes = outcomes.wait_len(count);
            let errors: Vec<_> = outcomes.iter().filter_map(|it| it.as_ref().err()).collect();
            assert!(!errors.is_empty(), "{outcomes:?}");
            for text in errors {
                assert!(
                    text.starts_with("the actors ask each other in a circle: "),
                    "{text}"
                );
                let names: Vec<_> = text.split('"').skip(1).step_by(2).collect();
                let first = names[0].rsplit('-').next().and_then(|it| it.parse().ok());
                let first: usize = first.expect("a number");
                let order = (0..=count).map(|index| format!("{name}-{}", (index + first) % count));
                assert!(names.iter().copied().eq(order), "{text}");
            }
            members.iter().for_each(ActorRef::stop_gracefully);
            members.iter().for_each(|member| drop(ended(member)));
            members
                .iter()
                .for_each(|member| check_balance(&lane(member, 0)));
        }
    }
}

#[test]
fn an_ask_that_waits_for_capacity_returns_its_message() {
    let system = system();
    for is_routed in [false, true] {
        let options = GroupOptions::new(1).member(bounded(1));
        let group = system.spawn_group(options, |_| Probe::default());
        let group = group.expect("valid");
        let asked = group.members()[0].clone();
        let (asker, _) = probe(&system);
        let (gate, errors, outcomes) = (hold(&asker), Notes::default(), Notes::default());
        let (to, noted) = (group.clone(), errors.clone());
        act_async(&asker, move |_| {
            Box::pin(async move {
                let reply = if is_routed {
                    to.any().ask(7_u64).await
                } else {
                    to.members()[0].ask(7_u64).await
                };
                noted.push(reply.expect_err("a circle"));
            })
        });
        asked
            .tell(ask_on([asker.clone()].into(), outcomes.clone()))
            .expect("alive");
        eventually("it asks", || asker.depth() == 3);
        // Else it could be its ask that closes the circle.
        eventually("it waits", || asked.snapshot().state == "suspended");
        asked.tell(1_u64).expect("capacity");
        gate.open();
        let error = errors.wait_len(1).remove(0);
        assert!(
            matches!(&error, AskError::Circle { circle, .. } if circle.actors()[0].id == asker.id())
        );
        assert_eq!(error.into_inner(), Some(7));
        assert_eq!(outcomes.wait_len(1), [Ok(())]);
        let counts = &group.snapshot().members[0];
        let routed = u64::from(is_routed);
        assert_eq!((counts.routed, counts.refused), (routed, routed));
    }
}

/// While a muted actor waits for the lane of an actor, that one asks it: it is not muted, and replies.
#[test]
fn an_ask_to_an_actor_that_is_muted_for_the_asker_is_answered() {
    let system = system();
    let asker = system
        .spawn_once(bounded(1), Probe::default())
        .expect("valid");
    let (muted, _) = probe(&system);
    let (opened, open) = (Arc::new(AtomicBool::new(false)), Notes::default());
    let (is_open, to, outcomes) = (opened.clone(), muted.clone(), open.clone());
    act_async(&asker, move |_| {
        Box::pin(async move {
            poll_fn(|task| {
                if is_open.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                task.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            outcomes.push(outcome(to.ask(1_u64).await));
        })
    });
    eventually("it runs", || asker.depth() == 0);
    act_tell(&muted, &asker, 0..5);
    suspended(&muted);
    opened.store(true, Ordering::SeqCst);
    assert_eq!(open.wait_len(1), [Ok(())]);
    finish(&system);
    check_balance(&lane(&asker, 0));
}

/// The ask comes first, and muting would close the circle.
#[test]
fn an_actor_is_not_muted_for_one_that_awaits_its_reply() {
    let system = system();
    let asker = system
        .spawn_once(bounded(1), Probe::default())
        .expect("valid");
    let (asked, _) = probe(&system);
    let gate = Gate::default();
    let (to, passed) = (asker.clone(), gate.clone());
    act(&asked, move |_| {
        passed.pass();
        tell_all(&to, 0..5);
    });
    let outcomes = Notes::default();
    asker
        .tell(ask_on([asked.clone()].into(), outcomes.clone()))
        .expect("alive");
    eventually("it asks", || asked.depth() > 1);
    gate.open();
    assert_eq!(outcomes.wait_len(1), [Ok(())]);
    finish(&system);
}

/// The reply was sent, and its asker has not run yet, when the actor that replied asks it.
#[test]
fn an_ask_back_after_the_reply_is_no_circle() {
    let system = system();
    let actors = spawn(&system, "back", 2);
    for round in 0..1_000 {
        let (first, second) = (&actors[round % 2], &actors[(round + 1) % 2]);
        let (gate, outcomes) = (hold(second), Notes::default());
        first
            .tell(ask_on([second.clone()].into(), outcomes.clone()))
            .expect("alive");
        // The message at the gate still counts.
        eventually("it asks", || second.depth() > 1);
        second
            .tell(ask_on([first.clone()].into(), outcomes.clone()))
            .expect("alive");
        gate.open();
        assert_eq!(outcomes.wait_len(2), [Ok(()), Ok(())]);
    }
}

/// Actors ask only later ones: in pipelines, and under load.
#[test]
fn asks_in_one_direction_are_no_circle() {
    let seed = u64::from(std::process::id());
    let mut random = Random::new(seed);
    let system = system();
    let actors = spawn(&system, "pipe", 8);
    let outcomes = Notes::default();
    let mut asks = Vec::new();
    for _ in 0..2_000 {
        let chosen = |_: &&ActorRef<Probe>| random.below(2) == 0;
        let mut rest: VecDeque<_> = actors.iter().filter(chosen).cloned().collect();
        if let Some(first) = rest.pop_front() {
            let mut asking = Box::pin(first.ask(ask_on(rest, outcomes.clone())).into_future());
            if poll_once(&mut asking, &Arc::default()).is_pending() {
                asks.push(asking);
            }
        }
    }
    for asking in asks {
        assert!(block_on(asking).is_ok(), "seed {seed}");
    }
    assert!(outcomes.all().iter().all(Result::is_ok), "seed {seed}");
}

/// All members ask the next one at the same time: at least one fails, and none waits for ever.
#[test]
fn no_circle_is_missed() {
    let system = system_of(4);
    for round in 0..500 {
        let count = 2 + round % 3;
        let actors = probes(&system, count);
        let outcomes = Notes::default();
        let gates: Vec<_> = actors.iter().map(hold).collect();
        for (index, actor) in actors.iter().enumerate() {
            let next = actors[(index + 1) % count].clone();
            actor
                .tell(ask_on([next].into(), outcomes.clone()))
                .expect("alive");
        }
        gates.iter().for_each(Gate::open);
        assert!(outcomes.wait_len(count).len() == count);
        actors.iter().for_each(ActorRef::stop);
    }
}

/// Asks that are awaited together may be a choice: they fail only by their deadlines.
#[test]
fn several_asks_at_once_are_no_circle_until_one_is_left() {
    let system = system();
    let actors = spawn(&system, "beside", 3);
    let (second, third, back) = (actors[1].clone(), actors[2].clone(), actors[0].clone());
    let own = back.clone();
    act_async(&third, |_| Box::pin(pending()));
    let outcomes = Notes::default();
    let (noted, back_noted) = (outcomes.clone(), Notes::default());
    let noted_back = back_noted.clone();
    let script = Await(Box::new(move |_| {
        Box::pin(async move {
            let mut given_up = Box::pin(third.ask(1_u64).into_future());
            let on = ask_on([back].into(), noted_back);
            let mut asking = Box::pin(second.ask(on).into_future());
            // Both are polled once, one is given up, the other one is waited for.
            poll_fn(|cx| {
                assert!(given_up.as_mut().poll(cx).is_pending());
                assert!(asking.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            // In its first poll the message itself still counts as queued.
            let mut is_first = true;
            poll_fn(|cx| match std::mem::take(&mut is_first) {
                true => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                false => Poll::Ready(()),
            })
            .await;
            eventually("the other one asks back", || own.depth() > 0);
            drop(given_up);
            noted.push(outcome(asking.await));
        })
    }));
    actors[0].tell(script).expect("alive");
    // The ask back saw several asks; the one that was left closed the circle.
    assert!(outcomes.wait_len(1)[0].is_err());
    assert_eq!(back_noted.wait_len(1), [Ok(())]);
    actors.iter().for_each(ActorRef::stop);
}

/// Asks that a handler has begun and given up, by their deadline or on another thread, leave no edge.
#[test]
fn an_ask_that_was_given_up_leaves_no_edge() {
    let system = system();
    for is_moved in [false, true] {
        let actors = probes(&system, 2);
        let gate = hold(&actors[1]);
        let (to, given) = (actors[1].clone(), Notes::default());
        let (kept, is_over) = (given.clone(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        act_async(&actors[0], move |_| {
            Box::pin(async move {
                let ask = to.ask(1_u64);
                let ask = if is_moved {
                    ask
                } else {
                    ask.timeout(Duration::from_millis(1))
                };
                let mut asking = ask.into_future();
                if is_moved {
                    poll_fn(|cx| {
                        assert!(Pin::new(&mut asking).poll(cx).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                } else {
                    assert_eq!((&mut asking).await, Err(AskError::Expired));
                }
                kept.push(Arc::new(Mutex::new(Some(asking))));
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if over.load(Ordering::SeqCst) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
            })
        });
        let asking = given.wait_len(1).remove(0);
        if is_moved {
            drop(lock(&asking).take());
        }
        let outcomes = Notes::default();
        actors[1]
            .tell(ask_on([actors[0].clone()].into(), outcomes.clone()))
            .expect("alive");
        gate.open();
        eventually("it asks back", || actors[0].depth() > 0);
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(outcomes.wait_len(1), [Ok(())]);
        drop(lock(&asking).take());
    }
}

/// A plain handler that polls an ask and keeps it does not await it.
#[test]
fn an_ask_that_a_plain_handler_keeps_is_no_edge() {
    let system = system();
    let actors = probes(&system, 2);
    let gate = hold(&actors[1]);
    let (to, kept) = (actors[1].clone(), Arc::new(Mutex::new(None)));
    let keeps = kept.clone();
    within(&actors[0], move |_| {
        let mut asking = Box::pin(to.ask(1_u64).into_future());
        assert!(poll_once(&mut asking, &Arc::default()).is_pending());
        *lock(&keeps) = Some(asking);
    });
    let outcomes = Notes::default();
    actors[1]
        .tell(ask_on([actors[0].clone()].into(), outcomes.clone()))
        .expect("alive");
    gate.open();
    assert_eq!(outcomes.wait_len(1), [Ok(())]);
    drop(kept);
}
