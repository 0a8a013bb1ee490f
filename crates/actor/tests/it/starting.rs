//! Starts that fail, and waiting for a start.

use crate::common::*;

/// An actor whose factory or start hook fails as often as told.
struct Fragile {
    failures: Arc<AtomicU64>,
}

impl Fragile {
    fn factory(failures: u64) -> impl FnMut() -> Self + Send + 'static {
        let failures = Arc::new(AtomicU64::new(failures));
        move || Self {
            failures: failures.clone(),
        }
    }
}

impl Actor for Fragile {
    fn try_started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        let failed = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
        match failed {
            Ok(left) => Err(format!("{left} failures left").into()),
            Err(_) => Ok(()),
        }
    }

    fn stopped(&mut self, _cx: &mut Context<Self>) {
        assert_eq!(self.failures.load(Ordering::SeqCst), 0, "it has started");
    }
}

fn failed(text: &str) -> Result<(), StartError> {
    Err(StartError::Failed(text.to_owned()))
}

/// A probe that waits at the gate in its start hook.
fn starting(system: &System) -> (ActorRef<Probe>, Gate) {
    let gate = Gate::default();
    let opened = gate.clone();
    let probe = system.spawn(Probe {
        on_started: Some(Box::new(move |_| opened.pass())),
        ..Probe::default()
    });
    (probe, gate)
}

#[test]
fn a_started_actor_answers_at_once_and_a_starting_one_later() {
    let system = system();
    let (actor, gate) = starting(&system);
    let wakes = Arc::default();
    let mut early = actor.wait_started();
    assert!(poll_once(&mut early, &wakes).is_pending());
    let mut dropped = actor.wait_started();
    assert!(poll_once(&mut dropped, &wakes).is_pending());
    drop(dropped);
    gate.open();
    assert_eq!(block_on(early), Ok(()));
    assert_eq!(actor.wait_started().wait(), Ok(()));
    // Also while it is suspended, and while it is stopping.
    act_async(&actor, |_| Box::pin(pending()));
    suspended(&actor);
    assert_eq!(actor.wait_started().wait(), Ok(()));
    actor.stop();
    ended(&actor);
    assert_eq!(actor.wait_started().wait(), Err(StartError::Exited));
}

#[test]
fn an_error_of_the_factory_or_the_hook_is_returned_and_supervised() {
    let system = system();
    let options = || SpawnOptions::new().supervision(at_once());
    let hook = system
        .spawn_with(options(), Fragile::factory(1))
        .expect("valid");
    let made = Arc::new(AtomicU64::new(0));
    let factory = move || match made.fetch_add(1, Ordering::SeqCst) {
        0 => Err("no file"),
        _ => Ok(Probe::default()),
    };
    let factory = system.try_spawn_with(options(), factory).expect("valid");
    for actor in [hook.wait_started(), factory.wait_started()] {
        // The wait began before the first start, or after it.
        let outcome = actor.wait();
        let texts = [failed("1 failures left"), failed("no file"), Ok(())];
        assert!(texts.contains(&outcome), "{outcome:?}");
    }
    assert_eq!(hook.wait_started().wait(), Ok(()));
    assert_eq!(factory.wait_started().wait(), Ok(()));
    assert_eq!(
        (hook.snapshot().restarts, factory.snapshot().restarts),
        (1, 1)
    );
    assert_eq!(factory.ask(3_u64).wait(), Ok(3));
}

#[test]
fn a_start_that_is_awaited_from_its_beginning_returns_the_first_error() {
    let system = system_of(1);
    let (held, _) = probe(&system);
    let gate = hold(&held);
    // The only worker is held: no start has begun.
    let stops = system
        .spawn_with(SpawnOptions::new(), Fragile::factory(1))
        .expect("valid");
    let panics = system.spawn(Probe {
        on_started: Some(Box::new(|_| panic!("a panic"))),
        ..Probe::default()
    });
    let fails = system.spawn(Probe {
        on_started: Some(Box::new(|cx| cx.fail("an error"))),
        ..Probe::default()
    });
    let limited = SpawnOptions::new().supervision(at_once().limit(2, LIMIT));
    let limited = system
        .spawn_with(limited, Fragile::factory(9))
        .expect("valid");
    let stopped = system.spawn(Probe::default());
    let waits = [
        (stops.wait_started(), failed("1 failures left")),
        (panics.wait_started(), failed("a panic")),
        (fails.wait_started(), failed("an error")),
        (limited.wait_started(), failed("9 failures left")),
        (stopped.wait_started(), Err(StartError::Exited)),
    ];
    stopped.stop();
    gate.open();
    for (wait, wanted) in waits {
        assert_eq!(block_on(wait), wanted);
    }
    assert_eq!(ended(&stops).reason, ExitReason::Failed);
    assert_eq!(ended(&panics).reason, ExitReason::Panicked);
    assert_eq!(ended(&limited).reason, ExitReason::RestartLimit);
}

/// It does not matter whether the caller or the actor is faster.
#[test]
fn the_error_of_a_start_outlives_the_actor() {
    let system = system();
    let fails = || Err::<Probe, _>("no file");
    let escalates = SpawnOptions::new().supervision(Supervision::escalate());
    let limited = SpawnOptions::new().supervision(at_once().limit(2, LIMIT));
    for options in [SpawnOptions::new(), escalates, limited] {
        let actor = system.try_spawn_with(options, fails).expect("valid");
        ended(&actor);
        for _ in 0..2 {
            assert_eq!(actor.wait_started().wait(), failed("no file"));
        }
    }
    let panics = system.spawn(Probe {
        on_started: Some(Box::new(|_| panic!("a panic"))),
        ..Probe::default()
    });
    ended(&panics);
    assert_eq!(block_on(panics.wait_started()), failed("a panic"));
    // A start that a restart has made good is no error of the end, and neither is a later failure.
    let options = SpawnOptions::new().supervision(at_once().limit(1, LIMIT));
    let mut starts = 0;
    let once = system.try_spawn_with(options, move || {
        starts += 1;
        (starts > 1).then(Probe::default).ok_or("not yet")
    });
    let once = once.expect("valid");
    eventually("it has started", || once.wait_started().wait().is_ok());
    act(&once, |_| panic!("on purpose"));
    ended(&once);
    assert_eq!(once.wait_started().wait(), Err(StartError::Exited));
}

#[test]
fn an_escalated_start_fails_the_parent() {
    let system = system();
    let (parent, _) = probe(&system);
    let child = within(&parent, |cx| {
        let options = SpawnOptions::new().supervision(Supervision::escalate());
        cx.try_spawn_with(options, || Err::<Probe, _>("no file"))
    });
    assert_eq!(ended(&child.expect("valid")).reason, ExitReason::Escalated);
    assert_eq!(ended(&parent).reason, ExitReason::Failed);
}

#[test]
fn a_handler_may_wait_for_a_start() {
    let system = system_of(1);
    let (parent, _) = probe(&system);
    let started = within(&parent, |cx| {
        cx.spawn(Probe::default()).wait_started().wait()
    });
    assert_eq!(started, Ok(()));
    let (sender, outcome) = mpsc::channel();
    act_async(&parent, move |cx| {
        let child = cx.spawn(Probe::default());
        Box::pin(async move { drop(sender.send(child.wait_started().await)) })
    });
    assert_eq!(outcome.recv_timeout(LIMIT), Ok(Ok(())));
}

#[test]
fn the_last_thread_does_not_wait_for_a_start() {
    let system = system_within(1, 1);
    let (parent, _) = probe(&system);
    let started = within(&parent, |cx| {
        cx.spawn(Probe::default()).wait_started().wait()
    });
    assert_eq!(started, Err(StartError::NoThread));
}

#[test]
fn the_end_of_the_system_ends_a_wait() {
    let system = system();
    let (actor, gate) = starting(&system);
    gate.wait_arrived(1);
    let wait = actor.wait_started();
    actor.stop();
    let late = system.spawn(Probe::default());
    let shutdown = shut_down(&system, LIMIT);
    gate.open();
    assert!(block_on(wait).is_ok(), "it had started when it was stopped");
    shutdown.join().expect("no panic");
    assert_eq!(late.wait_started().wait(), Err(StartError::Exited));
    assert_eq!(
        system.spawn(Probe::default()).wait_started().wait(),
        Err(StartError::Exited)
    );
}

/// Random starts, waits and stops from two threads: each wait ends.
#[test]
fn no_waiter_is_forgotten() {
    let seed = u64::from(std::process::id());
    let system = system();
    let mut random = Random::new(seed);
    for _ in 0..2_000 {
        let failures = random.below(3);
        let options = SpawnOptions::new().supervision(at_once());
        let actor = system
            .spawn_with(options, Fragile::factory(failures))
            .expect("valid");
        let other = actor.clone();
        let is_stopped = random.below(4) == 0;
        thread::scope(|scope| {
            scope.spawn(move || drop(other.wait_started().wait()));
            let outcome = block_on(actor.wait_started());
            assert!(!matches!(outcome, Err(StartError::NoThread)), "seed {seed}");
            if is_stopped {
                actor.stop();
            }
        });
        actor.stop();
    }
}
