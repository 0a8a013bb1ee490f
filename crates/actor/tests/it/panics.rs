//! Panics of user code stop neither a worker nor the timer thread.

use crate::common::*;

/// Panics when it is dropped, unless a panic is already being unwound.
struct BadDrop;

impl Drop for BadDrop {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a drop, on purpose");
        }
    }
}

/// It is its own reply.
impl Handler<BadDrop> for Probe {
    type Reply = BadDrop;
    fn handle(&mut self, bad: BadDrop, _cx: &mut Context<Self>) -> BadDrop {
        bad
    }
}

/// A message for timers that repeat.
struct BadClone;

impl Clone for BadClone {
    fn clone(&self) -> Self {
        panic!("a clone, on purpose");
    }
}

impl Handler<BadClone> for Probe {
    type Reply = ();
    fn handle(&mut self, _bad: BadClone, _cx: &mut Context<Self>) {}
}

fn bad_script() -> Option<Script> {
    Some(Box::new(|_| panic!("on purpose")))
}

/// A system of one worker: if that goes down, nothing else runs.
fn one_worker() -> (TestSystem, Notes<Failure>) {
    let failures = Notes::default();
    let noted = failures.clone();
    let builder = System::builder().workers(1);
    let builder = builder.on_failure(move |failure: &Failure| noted.push(failure.clone()));
    (build(builder), failures)
}

#[test]
fn a_panic_in_started_ends_the_actor() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Probe {
        on_started: bad_script(),
        ..Probe::default()
    });
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    assert_eq!(failures.all()[0].message_type, None);
    check_served(&system, 1);
}

#[test]
fn a_panic_in_stopped_changes_no_count() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Probe {
        on_stopped: bad_script(),
        ..Probe::default()
    });
    act(&bomb, |cx| cx.stop());
    assert_eq!(ended(&bomb).reason, ExitReason::Stopped);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures.all()[0].message_type, None);
    let lane = lane(&bomb, 0);
    assert_eq!((lane.accepted, lane.handled), (1, 1));
    assert_eq!(shed(&bomb, "handler_panicked"), 0);
    check_served(&system, 1);
}

#[test]
fn a_panic_in_an_actors_drop_ends_it_all_the_same() {
    let (system, _) = one_worker();
    let bomb = system.spawn(Probe {
        on_drop: OnDrop::call(|| panic!("on purpose")),
        ..Probe::default()
    });
    bomb.stop();
    ended(&bomb);
    drop(bomb);
    check_served(&system, 1);
}

#[test]
fn a_factory_that_panics_is_tried_again_up_to_the_limit() {
    let hour = Duration::from_secs(3_600);
    for (panics, ends) in [(3, false), (usize::MAX, true)] {
        let (system, failures) = one_worker();
        let mut left = panics;
        let options = SpawnOptions::new().supervision(at_once().limit(5, hour));
        let actor = system.spawn_with(options, move || {
            if left > 0 {
                left -= 1;
                panic!("on purpose");
            }
            Probe::default()
        });
        let actor = actor.expect("valid options");
        if ends {
            assert_eq!(ended(&actor).reason, ExitReason::RestartLimit);
        } else {
            assert_eq!(actor.ask(1_u64).wait(), Ok(1));
            assert_eq!(failures.len(), panics);
            assert_eq!(actor.snapshot().restarts, panics as u64);
        }
        check_served(&system, 1);
    }
}

#[test]
fn a_factory_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let bad = BadDrop;
    let actor = system.spawn_with(SpawnOptions::new(), move || {
        let _kept = &bad;
        Probe::default()
    });
    let actor = actor.expect("valid options");
    actor.stop();
    ended(&actor);
    check_served(&system, 1);
}

#[test]
fn a_payload_whose_drop_panics_is_let_go() {
    let (system, failures) = one_worker();
    let (bomb, _) = probe(&system);
    act(&bomb, |_| std::panic::panic_any(BadDrop));
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    assert_eq!(failures.all()[0].reason, "a panic without text");
    check_served(&system, 1);
}

#[test]
fn a_reply_whose_drop_panics_is_the_handlers_panic() {
    let (system, _) = one_worker();
    let (bomb, _) = probe(&system);
    bomb.tell(BadDrop).expect("alive");
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    check_balance(&lane(&bomb, 0));
    check_served(&system, 1);
}

#[test]
fn messages_whose_drop_panics_are_shed() {
    let (system, _) = one_worker();
    let config = LaneConfig::bounded(8).overload(Overload::DropOldest);
    let (bomb, gate, _) = held(&system, SpawnOptions::new().lane(config));
    for _ in 0..20 {
        bomb.tell(BadDrop).expect("evicts");
    }
    bomb.stop();
    gate.open();
    assert_eq!(ended(&bomb).reason, ExitReason::Stopped);
    check_balance(&lane(&bomb, 0));
    check_served(&system, 1);
}

#[test]
fn an_async_handler_that_panics_is_shed_and_not_handled() {
    let (system, failures) = one_worker();
    let (bomb, _) = probe(&system);
    let script: AsyncScript = Box::new(|_| {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        })
    });
    assert!(matches!(
        bomb.ask(Await(script)).wait(),
        Err(AskError::NoReply)
    ));
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    let message_type = failures.all()[0].message_type;
    assert_eq!(message_type, Some(type_name::<Await>()));
    assert_eq!(shed(&bomb, "handler_panicked"), 1);
    assert_eq!(lane(&bomb, 0).handled, 0);
    check_balance(&lane(&bomb, 0));
    check_served(&system, 1);
}

#[test]
fn a_future_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let (bomb, _) = probe(&system);
    act_async(&bomb, |_| {
        Box::pin(async {
            let _bad = BadDrop;
            pending::<()>().await;
        })
    });
    suspended(&bomb);
    bomb.stop();
    ended(&bomb);
    check_served(&system, 1);
}

#[test]
fn a_clone_that_panics_leaves_the_other_timers() {
    let (system, _) = one_worker();
    let (clocked, notes) = probe(&system);
    act(&clocked, |cx| {
        let period = Duration::from_micros(10);
        cx.every(period, BadClone).expect("a timer");
        for number in 0..=10 {
            let delay = Duration::from_millis(number + 1);
            cx.send_after(delay, number).expect("a timer");
        }
    });
    assert!(notes.wait_len(11).into_iter().eq(0..=10));
    check_served(&system, 1);
}

#[test]
fn a_timers_message_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let (clocked, _) = probe(&system);
    act(&clocked, |cx| {
        let delay = Duration::from_secs(3_600);
        cx.send_after(delay, BadDrop).expect("a timer");
    });
    clocked.stop_gracefully();
    ended(&clocked);
    check_served(&system, 1);
}

#[test]
fn observers_that_panic_are_survived() {
    let builder = System::builder().workers(1);
    let builder = builder.on_failure(|_| panic!("an observer, on purpose"));
    let system = build(builder.on_dead_letter(|_| panic!("an observer, on purpose")));
    let bomb = system.spawn(Probe {
        on_started: bad_script(),
        ..Probe::default()
    });
    let _ = bomb.tell(Ping);
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    check_served(&system, 1);
}

#[test]
fn a_senders_waker_that_panics_is_survived() {
    let system = system_of(1);
    let (receiver, gate, _) = full(&system, bounded(1));
    let mut send = receiver.send(1_u64);
    let waker = Waker::from(Arc::new(OnWake(|| panic!("a waker, on purpose"))));
    let polled = Pin::new(&mut send).poll(&mut TaskContext::from_waker(&waker));
    assert!(polled.is_pending());
    gate.open();
    eventually("it is let go", || receiver.depth() == 0);
    block_on(send).expect("alive");
    check_served(&system, 1);
}
