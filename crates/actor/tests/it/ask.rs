//! Asking: replies, deadlines, dropped asks, and actors that terminate or shed with asks queued.

use crate::common::*;

/// Short enough to wait for, long enough to be asked.
const SHORT: Duration = Duration::from_millis(20);

/// A way to wait for a reply.
type Way = fn(Ask<Probe, u64, u64>) -> Result<u64, AskError<u64>>;

const WAYS: [Way; 2] = [|ask| ask.wait(), |ask| block_on(ask.into_future())];

#[test]
fn an_ask_that_was_not_accepted_wakes_nobody() {
    let system = system();
    let rejecting = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::Reject));
    for (options, is_refused) in [(rejecting, true), (bounded(1), false)] {
        let (actor, gate, _) = full(&system, options);
        let wakes = Arc::<Wakes>::default();
        let mut ask = actor.ask(1_u64).into_future();
        assert_eq!(poll_once(&mut ask, &wakes).is_ready(), is_refused);
        drop(ask);
        gate.open();
        assert_eq!(wakes.count(), 0, "refused: {is_refused}");
    }
}

#[test]
fn every_asker_gets_its_own_reply() {
    let system = system();
    let (actor, _) = probe(&system);
    thread::scope(|scope| {
        for asker in 0..4_u64 {
            let actor = actor.clone();
            scope.spawn(move || {
                for count in 0..1_000 {
                    let number = asker << 32 | count;
                    assert_eq!(actor.ask(number).timeout(LIMIT).wait(), Ok(number));
                }
            });
        }
    });
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 4_000);
}

#[test]
fn tokio_tasks_ask_at_once() {
    let system = system();
    let (actor, _) = probe(&system);
    tokio_runtime().block_on(async {
        let asks: Vec<_> = (0..500_u64)
            .map(|number| {
                let actor = actor.clone();
                tokio::spawn(async move { actor.ask(number).timeout(LIMIT).await })
            })
            .collect();
        for (number, ask) in (0..).zip(asks) {
            assert_eq!(ask.await.expect("no panic"), Ok(number));
        }
    });
}

#[test]
fn an_ask_that_expires_is_not_handled() {
    for way in WAYS {
        let system = system();
        let (actor, gate, notes) = held(&system, SpawnOptions::new());
        let asked = Instant::now();
        let reply = way(actor.ask(1).timeout(SHORT));
        assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
        assert!(asked.elapsed() >= SHORT, "it did not wait");
        gate.open();
        assert_eq!(way(actor.ask(2).timeout(LIMIT)), Ok(2));
        finish(&system);
        assert_eq!(notes.all(), [2]);
        assert_eq!(shed(&actor, "expired"), 1);
        check_balance(&lane(&actor, 0));
    }
}

#[test]
fn a_passed_deadline_alone_keeps_an_ask_from_its_handler() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    // The asker is still there, but it is not polled any more.
    let mut asking = actor.ask(1_u64).timeout(25 * SHORT).into_future();
    let wakes = Arc::<Wakes>::default();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    eventually("the deadline's wake", || wakes.count() > 0);
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&actor, "expired"), 1);
    check_balance(&lane(&actor, 0));
    drop(asking);
}

#[test]
fn a_deadline_that_passes_is_never_taken_for_shedding() {
    let system = system_of(1);
    let (actor, _) = probe(&system);
    for round in 0..2_000 {
        let timeout = Duration::from_nanos(round * 20);
        for way in WAYS {
            let reply = way(actor.ask(1).timeout(timeout));
            let is_expected = matches!(reply, Ok(1) | Err(AskError::Expired));
            assert!(is_expected, "{reply:?} after {timeout:?}");
        }
    }
    finish(&system);
    check_balance(&lane(&actor, 0));
}

#[test]
fn an_ask_given_up_before_its_deadline_has_expired_after_it() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let mut asking = actor.ask(1).timeout(SHORT).into_future();
    let begun = Instant::now();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    drop(asking);
    eventually("its deadline has passed", || begun.elapsed() > SHORT);
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(
        (shed(&actor, "expired"), shed(&actor, "asker_gone")),
        (1, 0)
    );
}

#[test]
fn an_ask_whose_asker_gave_up_is_not_handled() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    for number in 0..10_u64 {
        let mut asking = actor.ask(number).into_future();
        assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    }
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(shed(&actor, "asker_gone"), 10);
    check_balance(&lane(&actor, 0));
}

#[test]
fn asking_a_terminated_actor_is_an_error() {
    let system = system();
    let (actor, _) = probe(&system);
    actor.stop();
    ended(&actor);
    for way in WAYS {
        assert_eq!(way(actor.ask(1)), Err(AskError::Closed(1)));
    }
    finish(&system);
    assert_eq!(actor.ask(3_u64).wait(), Err(AskError::Closed(3)));
}

#[test]
fn an_actor_that_terminates_answers_its_askers() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let askers: Vec<_> = [WAYS[0], WAYS[0], WAYS[1], WAYS[1]]
        .into_iter()
        .map(|way| {
            let actor = actor.clone();
            thread::spawn(move || way(actor.ask(1)))
        })
        .collect();
    eventually("all have asked", || lane(&actor, 0).accepted == 5);
    actor.stop();
    gate.open();
    for asker in askers {
        assert_eq!(asker.join().expect("no panic"), Err(AskError::Shed));
    }
    assert_eq!(notes.len(), 0);
    finish(&system);
    assert_eq!(shed(&actor, "stopped"), 4);
    check_balance(&lane(&actor, 0));
}

#[test]
fn an_ask_behind_a_long_queue_is_answered_after_it() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(200_000));
    tell_all(&actor, 0..100_000);
    let asking = actor.clone();
    let asker = thread::spawn(move || asking.ask(2_u64).timeout(LIMIT).wait());
    eventually("the ask is queued", || actor.depth() > 100_000);
    gate.open();
    assert_eq!(asker.join().expect("no panic"), Ok(2));
    assert_eq!(notes.all()[100_000], 2);
}

#[test]
fn a_full_lane_answers_by_its_policy() {
    // Only the lane that makes senders wait lets the time pass.
    let policies = [
        (Overload::Reject, LIMIT, AskError::Full(2)),
        (Overload::Coalesce, LIMIT, AskError::Full(2)),
        (Overload::DropNewest, LIMIT, AskError::Shed),
        (Overload::Wait, SHORT, AskError::Full(2)),
    ];
    for (overload, timeout, error) in policies {
        for way in WAYS {
            let system = system();
            let config = LaneConfig::bounded(1).overload(overload);
            let (actor, gate, _) = held(&system, SpawnOptions::new().lane(config));
            let _ = actor.try_tell(1_u64);
            let reply = way(actor.ask(2).timeout(timeout));
            assert_eq!(reply.as_ref(), Err(&error), "{overload:?}");
            gate.open();
            finish(&system);
            check_balance(&lane(&actor, 0));
        }
    }
}

#[test]
fn an_evicted_ask_is_shed() {
    let system = system();
    let config = LaneConfig::bounded(2).overload(Overload::DropOldest);
    let (actor, gate, notes) = held(&system, SpawnOptions::new().lane(config));
    let asked = actor.clone();
    let asker = thread::spawn(move || asked.ask(1_u64).wait());
    eventually("it is queued", || lane(&actor, 0).accepted == 2);
    tell_all(&actor, 2..4);
    assert_eq!(asker.join().expect("no panic"), Err(AskError::Shed));
    gate.open();
    finish(&system);
    assert_eq!(notes.all(), [2, 3]);
    check_balance(&lane(&actor, 0));
}

/// Asks another actor from its own handler, blocking its worker.
struct Forwarder(ActorRef<Probe>);

impl Actor for Forwarder {}

impl Handler<u64> for Forwarder {
    type Reply = Result<u64, String>;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> Result<u64, String> {
        let reply = self.0.ask(number).timeout(LIMIT / 4).wait();
        reply.map_err(|error| error.to_string())
    }
}

#[test]
fn a_handler_may_ask_a_full_actor_and_wait() {
    let system = system_of(3);
    let (actor, gate, _) = held(&system, bounded(1));
    let _ = actor.try_tell(1_u64);
    let forwarder = system.spawn(Forwarder(actor));
    let asked = forwarder.clone();
    let asker = thread::spawn(move || asked.ask(5_u64).wait().expect("a reply"));
    eventually("it is being asked", || {
        system.snapshot().actors[1].state == "running"
    });
    gate.open();
    assert_eq!(asker.join().expect("no panic"), Ok(5));
    assert_eq!(forwarder.ask(6_u64).wait(), Ok(Ok(6)), "with capacity");
}

#[test]
fn an_askers_waker_that_panics_leaves_the_server_alone() {
    let system = system();
    let (actor, gate, _) = held(&system, SpawnOptions::new());
    let mut asking = actor.ask(1_u64).into_future();
    let waker = Waker::from(Arc::new(OnWake(|| panic!("on purpose"))));
    let polled = Pin::new(&mut asking).poll(&mut TaskContext::from_waker(&waker));
    assert!(polled.is_pending());
    gate.open();
    assert_eq!(actor.ask(2_u64).wait(), Ok(2));
    assert_eq!(block_on(asking), Ok(1));
}
