//! Failures without a panic: `Context::fail` in handlers, async handlers, notices and hooks.

use crate::common::*;

/// The failures that a system reports.
fn system_with_failures() -> (TestSystem, Notes<Failure>) {
    let failures = Notes::<Failure>::default();
    let seen = failures.clone();
    let builder = System::builder().workers(2);
    (
        build(builder.on_failure(move |failure| seen.push(failure.clone()))),
        failures,
    )
}

fn restarting(system: &System) -> ActorRef<Probe> {
    let options = SpawnOptions::new().supervision(at_once().limit(1_000, LIMIT));
    probe_with(system, options).0
}

#[test]
fn a_handler_that_fails_has_handled_its_message() {
    let (system, failures) = system_with_failures();
    let actor = restarting(&system);
    let gate = hold(&actor);
    act(&actor, |cx| {
        cx.stop();
        cx.fail("the first error");
        cx.fail("a later error");
        cx.stop();
    });
    actor.tell(7_u64).expect("alive");
    gate.open();
    assert_eq!(actor.ask(8_u64).wait(), Ok(8));
    let [failure] = &failures.all()[..] else {
        panic!("{:?}", failures.all());
    };
    assert_eq!(
        (failure.kind, &*failure.reason),
        (FailureKind::Error, "the first error")
    );
    assert_eq!(failure.message_type, Some(type_name::<Act>()));
    assert!(failure.to_string().contains("failed on"), "{failure}");
    assert_eq!(actor.snapshot().restarts, 1);
    finish(&system);
    // The gate, the failed message and both numbers: none was shed.
    let lane = lane(&actor, 0);
    assert_eq!((lane.accepted, lane.handled), (4, 4));
    check_balance(&lane);
}

#[test]
fn the_reply_of_a_failed_handler_is_delivered() {
    let (system, failures) = system_with_failures();
    let (actor, _) = probe(&system);
    let failed = Act(Box::new(|cx| {
        let outcome: Result<u64, fmt::Error> = cx.fail_on_err(Err(fmt::Error));
        assert!(outcome.is_err());
        assert_eq!(cx.fail_on_err(Ok::<_, fmt::Error>(3)), Ok(3));
    }));
    assert!(actor.ask(failed).wait().is_ok());
    assert_eq!(ended(&actor).reason, ExitReason::Failed);
    assert!(ExitReason::Failed.is_abnormal());
    assert_eq!(failures.all()[0].reason, fmt::Error.to_string());
}

#[test]
fn an_async_handler_fails_when_its_future_is_complete() {
    let (system, failures) = system_with_failures();
    let actor = restarting(&system);
    let gate = Arc::new(AtomicBool::new(false));
    let opened = gate.clone();
    let failed = Await(Box::new(move |cx| {
        Box::pin(async move {
            cx.fail("late");
            poll_fn(|task| {
                if opened.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                task.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        })
    }));
    let mut asking = Box::pin(actor.ask(failed).into_future());
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    eventually("it runs", || actor.snapshot().lanes[0].depth == 0);
    assert_eq!(failures.len(), 0);
    gate.store(true, Ordering::SeqCst);
    assert!(block_on(asking).is_ok());
    assert_eq!(actor.ask(1_u64).wait(), Ok(1));
    assert_eq!(failures.all()[0].message_type, Some(type_name::<Await>()));
    finish(&system);
    let lane = lane(&actor, 0);
    assert_eq!((lane.accepted, lane.handled), (2, 2));
}

#[test]
fn a_panic_after_an_error_counts_as_a_panic() {
    let (system, failures) = system_with_failures();
    let actor = restarting(&system);
    act(&actor, |cx| {
        cx.fail("an error");
        panic!("a panic");
    });
    act(&actor, |cx| cx.fail("another error"));
    assert_eq!(actor.ask(1_u64).wait(), Ok(1));
    let reasons: Vec<_> = failures.all().into_iter().map(|it| it.reason).collect();
    assert_eq!(reasons, ["a panic", "another error"]);
    assert_eq!(shed(&actor, "handler_panicked"), 1);
    check_balance(&lane(&actor, 0));
}

#[test]
fn hooks_and_notices_fail_their_actor() {
    let (system, failures) = system_with_failures();
    let fail = || -> Option<Script> { Some(Box::new(|cx| cx.fail("in a hook"))) };
    let starting = system.spawn(Probe {
        on_started: fail(),
        on_stopped: Some(Box::new(|_| panic!("it never started"))),
        ..Probe::default()
    });
    assert_eq!(ended(&starting).reason, ExitReason::Failed);
    let stopping = system.spawn(Probe {
        on_stopped: fail(),
        ..Probe::default()
    });
    stopping.ask(Ping).wait().expect("a reply");
    stopping.stop();
    assert_eq!(ended(&stopping).reason, ExitReason::Stopped);
    let (noticing, _) = probe(&system);
    act(&noticing, |cx| {
        cx.waker_fn(|_, cx| cx.fail("in a notice"))()
    });
    assert_eq!(ended(&noticing).reason, ExitReason::Failed);
    let failures = failures.all();
    assert_eq!(failures.len(), 3);
    assert!(failures[..2].iter().all(|it| it.message_type.is_none()));
    assert!(failures[2].message_type.is_some());
}

#[test]
fn an_error_escalates_like_a_panic() {
    let (system, failures) = system_with_failures();
    let (parent, _) = probe(&system);
    let options = SpawnOptions::new().supervision(Supervision::escalate());
    let (child, _) = child_of(&parent, options);
    // The parent's suspended message is interrupted, and shed.
    act_async(&parent, |_| Box::pin(pending()));
    suspended(&parent);
    act(&child, |cx| cx.fail("on purpose"));
    assert_eq!(ended(&parent).reason, ExitReason::Failed);
    assert_eq!(ended(&child).reason, ExitReason::Escalated);
    assert_eq!(failures.all()[1].kind, FailureKind::Error);
    check_balance(&lane(&parent, 0));
    assert_eq!(shed(&parent, "handler_panicked"), 1);
}

#[test]
fn a_notice_that_fails_its_actor_ends_those_queued_behind_it() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let system = system();
    let (actor, _) = probe_with(&system, SpawnOptions::new().supervision(at_once()));
    act(&actor, |cx| {
        let wake = cx.waker_fn(|_, _| {
            HANDLED.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new(()));
        });
        (0..3).for_each(|_| wake());
    });
    eventually("it has restarted", || actor.snapshot().restarts == 1);
    assert_eq!(actor.ask(1).wait(), Ok(1));
    finish(&system);
    assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
}
