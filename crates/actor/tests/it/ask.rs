//! Asking: replies, deadlines, dropped asks, and actors that terminate or shed with asks queued.

use std::{
    future::{Future, IntoFuture},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Gate, Hold, LIMIT, Noter, Notes, Wakes, block_on, check_balance, ended, eventually, finish,
    lane, poll_once, shed, system, system_of,
};
use freeboard_actor::{Actor, ActorRef, AskError, Context, Handler, SpawnOptions, System};
use freeboard_flow::{LaneConfig, Overload};

/// Short enough to wait for, long enough to be asked.
const SHORT: Duration = Duration::from_millis(20);

fn noter_with(system: &System, lane: LaneConfig) -> (ActorRef<Noter>, Gate, Notes<u64>) {
    let (gate, notes) = (Gate::default(), Notes::default());
    let made = (gate.clone(), notes.clone());
    let noter = system
        .spawn_with(SpawnOptions::new().lane(lane), move || Noter {
            gate: made.0.clone(),
            notes: made.1.clone(),
        })
        .expect("valid options");
    (noter, gate, notes)
}

/// A noter in the middle of a message.
fn held(system: &System) -> (ActorRef<Noter>, Gate, Notes<u64>) {
    let (noter, gate, notes) = noter_with(system, LaneConfig::default());
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    (noter, gate, notes)
}

#[test]
fn every_asker_gets_its_own_reply() {
    let system = system();
    let noter = system.spawn(Noter::default());
    thread::scope(|scope| {
        for asker in 0..4_u64 {
            let noter = noter.clone();
            scope.spawn(move || {
                for count in 0..1_000 {
                    let number = asker << 32 | count;
                    let reply = noter.ask(number).timeout(LIMIT).wait();
                    assert_eq!(reply.expect("a reply"), number);
                }
            });
        }
    });
    finish(&system);
    assert_eq!(lane(&noter, 0).handled, 4_000);
}

#[test]
fn tokio_tasks_ask_at_once() {
    let system = system();
    let noter = system.spawn(Noter::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let asks: Vec<_> = (0..500_u64)
            .map(|number| {
                let noter = noter.clone();
                tokio::spawn(async move { noter.ask(number).timeout(LIMIT).await })
            })
            .collect();
        for (number, ask) in asks.into_iter().enumerate() {
            let reply = ask.await.expect("no panic").expect("a reply");
            assert_eq!(reply, number as u64);
        }
    });
    finish(&system);
}

#[test]
fn a_blocked_question_expires_and_is_not_handled() {
    let system = system();
    let (noter, gate, notes) = held(&system);
    let asked = Instant::now();
    let reply = noter.ask(1_u64).timeout(SHORT).wait();
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    assert!(asked.elapsed() >= SHORT, "it did not wait");
    gate.open();
    noter.ask(2_u64).wait().expect("a reply");
    finish(&system);
    assert_eq!(notes.all(), [2]);
    assert_eq!(shed(&noter, "expired") + shed(&noter, "asker_gone"), 1);
    check_balance(&lane(&noter, 0));
}

#[test]
fn an_awaited_question_expires_and_is_not_handled() {
    let system = system();
    let (noter, gate, notes) = held(&system);
    let reply = block_on(noter.ask(1_u64).timeout(SHORT).into_future());
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
    block_on(noter.ask(2_u64).timeout(LIMIT).into_future()).expect("a reply");
    finish(&system);
    assert_eq!(notes.all(), [2]);
    assert_eq!(shed(&noter, "expired") + shed(&noter, "asker_gone"), 1);
    check_balance(&lane(&noter, 0));
}

#[test]
fn a_passed_deadline_alone_keeps_a_question_from_its_handler() {
    let system = system();
    let (noter, gate, notes) = held(&system);
    // The asker is still there, but it is not polled any more.
    let mut asking = noter.ask(1_u64).timeout(25 * SHORT).into_future();
    let wakes = Arc::<Wakes>::default();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    eventually("the deadline's wake", || wakes.count() > 0);
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&noter, "expired"), 1);
    check_balance(&lane(&noter, 0));
    drop(asking);
}

#[test]
fn a_deadline_that_passes_is_never_taken_for_shedding() {
    let system = system_of(1);
    let (noter, _, _) = noter_with(&system, LaneConfig::default());
    for round in 0..2_000 {
        let timeout = Duration::from_nanos(round * 20);
        for reply in [
            noter.ask(1_u64).timeout(timeout).wait(),
            block_on(noter.ask(1_u64).timeout(timeout).into_future()),
        ] {
            let is_expected = matches!(reply, Ok(1) | Err(AskError::Expired));
            assert!(is_expected, "{reply:?} after {timeout:?}");
        }
    }
    finish(&system);
    check_balance(&lane(&noter, 0));
}

#[test]
fn a_question_whose_asker_has_gone_is_not_handled() {
    let system = system();
    let (noter, gate, notes) = held(&system);
    let wakes = Arc::<Wakes>::default();
    for number in 0..10_u64 {
        let mut asking = noter.ask(number).into_future();
        assert!(poll_once(&mut asking, &wakes).is_pending());
    }
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&noter, "asker_gone"), 10);
    check_balance(&lane(&noter, 0));
}

#[test]
fn asking_an_ended_actor_is_an_error() {
    let system = system();
    let noter = system.spawn(Noter::default());
    noter.stop();
    ended(&noter);
    assert!(matches!(noter.ask(1_u64).wait(), Err(AskError::Closed(1))));
    let reply = block_on(noter.ask(2_u64).timeout(LIMIT).into_future());
    assert!(matches!(reply, Err(AskError::Closed(2))));
    finish(&system);
    assert!(matches!(noter.ask(3_u64).wait(), Err(AskError::Closed(3))));
}

#[test]
fn an_actor_that_ends_tells_those_who_asked_it() {
    let system = system();
    let (noter, gate, notes) = held(&system);
    let askers: Vec<_> = (0..4_u64)
        .map(|number| {
            let noter = noter.clone();
            thread::spawn(move || noter.ask(number).wait())
        })
        .collect();
    let asked = noter.clone();
    let asyncs = thread::spawn(move || block_on(asked.ask(9_u64).into_future()));
    eventually("all have asked", || noter.snapshot().lanes[0].accepted == 6);
    noter.stop();
    gate.open();
    for asker in askers {
        let reply = asker.join().expect("no panic");
        assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    }
    assert!(matches!(
        asyncs.join().expect("no panic"),
        Err(AskError::Shed)
    ));
    assert_eq!(notes.len(), 0);
    finish(&system);
    assert_eq!(shed(&noter, "stopped"), 5);
    check_balance(&lane(&noter, 0));
}

#[test]
fn a_question_behind_a_deep_backlog_is_answered_after_it() {
    let system = system();
    let (noter, gate, notes) = noter_with(&system, LaneConfig::bounded(200_000));
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    for _ in 0..100_000 {
        noter.tell(1_u64).expect("alive");
    }
    let asking = noter.clone();
    let asker = thread::spawn(move || asking.ask(2_u64).timeout(LIMIT).wait());
    eventually("the question is queued", || noter.depth() > 100_000);
    gate.open();
    assert_eq!(asker.join().expect("no panic").expect("a reply"), 2);
    assert_eq!(notes.all()[100_000], 2);
    finish(&system);
}

#[track_caller]
fn check_shed_question(overload: Overload, is_expected: fn(&AskError<u64>) -> bool) {
    for is_blocking in [true, false] {
        check_shed(overload, is_expected, is_blocking);
    }
}

#[track_caller]
fn check_shed(overload: Overload, is_expected: fn(&AskError<u64>) -> bool, is_blocking: bool) {
    let system = system();
    let (noter, gate, _) = noter_with(&system, LaneConfig::bounded(1).overload(overload));
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    let _ = noter.try_tell(1_u64);
    let time = if overload == Overload::Wait {
        SHORT
    } else {
        LIMIT
    };
    let ask = noter.ask(2_u64).timeout(time);
    let reply = if is_blocking {
        ask.wait()
    } else {
        block_on(ask.into_future())
    };
    let error = reply.expect_err("full");
    assert!(
        is_expected(&error),
        "{overload:?}, {is_blocking}: {error:?}"
    );
    gate.open();
    finish(&system);
    check_balance(&lane(&noter, 0));
}

#[test]
fn a_full_lane_answers_by_its_policy() {
    check_shed_question(Overload::Reject, |it| matches!(it, AskError::Full(2)));
    check_shed_question(Overload::Coalesce, |it| matches!(it, AskError::Full(2)));
    check_shed_question(Overload::DropNewest, |it| matches!(it, AskError::Shed));
    check_shed_question(Overload::Wait, |it| matches!(it, AskError::Full(2)));
}

#[test]
fn an_evicted_question_is_shed() {
    let system = system();
    let lane_config = LaneConfig::bounded(2).overload(Overload::DropOldest);
    let (noter, gate, notes) = noter_with(&system, lane_config);
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    let asked = noter.clone();
    let asker = thread::spawn(move || asked.ask(1_u64).wait());
    eventually("it is queued", || lane(&noter, 0).accepted == 2);
    for number in 2..=3_u64 {
        noter.tell(number).expect("alive");
    }
    let reply = asker.join().expect("no panic");
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    gate.open();
    finish(&system);
    assert_eq!(notes.all(), [2, 3]);
    check_balance(&lane(&noter, 0));
}

/// Asks another actor from its own handler, blocking its worker.
struct Forwarder(ActorRef<Noter>);

impl Actor for Forwarder {}

impl Handler<u64> for Forwarder {
    type Reply = Result<u64, String>;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> Result<u64, String> {
        let reply = self.0.ask(number).timeout(LIMIT / 4).wait();
        reply.map_err(|error| error.to_string())
    }
}

#[test]
fn a_handler_may_ask_and_wait() {
    let system = system();
    let noter = system.spawn(Noter::default());
    let forwarder = system.spawn(Forwarder(noter));
    assert_eq!(forwarder.ask(5_u64).wait().expect("a reply"), Ok(5));
    finish(&system);
}

#[test]
fn a_handler_may_ask_a_full_actor_and_wait() {
    let system = system_of(3);
    let (noter, gate, _) = noter_with(&system, LaneConfig::bounded(1));
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    let _ = noter.try_tell(1_u64);
    let forwarder = system.spawn(Forwarder(noter));
    let asker = thread::spawn(move || forwarder.ask(5_u64).wait().expect("a reply"));
    eventually("it is being asked", || {
        system.snapshot().actors[1].state == "running"
    });
    gate.open();
    assert_eq!(asker.join().expect("no panic"), Ok(5));
    finish(&system);
}

/// A waker that panics.
struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn an_askers_waker_that_panics_leaves_the_server_alone() {
    let system = system();
    let (noter, gate, _) = held(&system);
    let mut asking = noter.ask(1_u64).into_future();
    let waker = std::task::Waker::from(Arc::new(Panics));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut asking)
            .poll(&mut context)
            .is_pending()
    );
    gate.open();
    assert_eq!(noter.ask(2_u64).wait(), Ok(2));
    assert_eq!(block_on(asking), Ok(1));
    finish(&system);
}
