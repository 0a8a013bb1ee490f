//! Supervisors: a row for each rule of OTP's documentation of `supervisor`, checked there with OTP 25.

use crate::common::*;

use Restart::{Permanent, Temporary, Transient};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// Starts (`+id`) and ends (`-id`) in their order; an actor that fails has no end.
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Notes<String>);

impl Log {
    pub(crate) fn probe(&self, id: &str) -> Probe {
        let note = |sign: char| -> Option<Script> {
            let (log, text) = (self.clone(), format!("{sign}{id}"));
            Some(Box::new(move |_| log.0.push(text)))
        };
        Probe {
            on_started: note('+'),
            on_stopped: note('-'),
            ..Probe::default()
        }
    }

    pub(crate) fn spec(&self, id: &'static str, restart: Restart) -> ChildSpec<Probe> {
        let log = self.clone();
        ChildSpec::new(id, move || log.probe(id)).restart(restart)
    }

    pub(crate) fn text(&self) -> String {
        self.0.all().join(" ")
    }

    pub(crate) fn wait(&self, wanted: &str) {
        let deadline = soon();
        while self.text() != wanted {
            assert!(
                Instant::now() < deadline,
                "{:?} is not {wanted:?}",
                self.text()
            );
            thread::yield_now();
        }
    }
}

pub(crate) fn started(system: &System, supervisor: Supervisor) -> ActorRef<Supervisor> {
    let supervisor = system.spawn(supervisor);
    assert_eq!(supervisor.wait_started().wait(), Ok(()));
    supervisor
}

/// The actor of a child, which runs.
pub(crate) fn child(supervisor: &ActorRef<Supervisor>, id: &str) -> ActorRef<Probe> {
    let children = supervisor.which_children().wait().expect("a reply");
    let found = children.into_iter().find(|child| child.id == id);
    let actor = found.and_then(|child| child.actor);
    actor.and_then(|it| it.downcast()).expect("it runs")
}

/// How a child terminates by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    Panic,
    Error,
    Stop,
    Drain,
}

use Exit::{Drain, Error, Panic, Stop};

pub(crate) fn exit(actor: &ActorRef<Probe>, how: Exit) {
    act(actor, move |cx| match how {
        Panic => panic!("on purpose"),
        Error => cx.fail("on purpose"),
        Stop => cx.stop(),
        Drain => cx.stop_gracefully(),
    });
    ended(actor);
}

type Row = (
    fn() -> Supervisor,
    [Restart; 3],
    &'static [(&'static str, Exit)],
    &'static str,
    &'static str,
);

/// Strategy; kinds of the children a, b, c; exits; what follows them; which children run at the end.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    // one_for_one: "if one child process terminates and is to be restarted, only that child process is affected".
    (Supervisor::one_for_one, [Permanent; 3], &[("b", Panic)], "+b", "a b c"),
    // "A permanent child process is always restarted."
    (Supervisor::one_for_one, [Permanent; 3], &[("b", Error)], "+b", "a b c"),
    (Supervisor::one_for_one, [Permanent; 3], &[("b", Stop)], "-b +b", "a b c"),
    (Supervisor::one_for_one, [Permanent; 3], &[("b", Drain)], "-b +b", "a b c"),
    // "A transient child process is restarted only if it terminates abnormally."
    (Supervisor::one_for_one, [Transient; 3], &[("b", Panic)], "+b", "a b c"),
    (Supervisor::one_for_one, [Transient; 3], &[("b", Error)], "+b", "a b c"),
    (Supervisor::one_for_one, [Transient; 3], &[("b", Stop)], "-b", "a c"),
    (Supervisor::one_for_one, [Transient; 3], &[("b", Drain)], "-b", "a c"),
    // "A temporary child process is never restarted."
    (Supervisor::one_for_one, [Temporary; 3], &[("b", Panic)], "", "a c"),
    (Supervisor::one_for_one, [Temporary; 3], &[("b", Stop)], "-b", "a c"),
    // one_for_all: "all other child processes are terminated and then all child processes are restarted".
    (Supervisor::one_for_all, [Permanent; 3], &[("b", Panic)], "-c -a +a +b +c", "a b c"),
    (Supervisor::one_for_all, [Permanent; 3], &[("a", Stop)], "-a -c -b +a +b +c", "a b c"),
    (Supervisor::one_for_all, [Permanent, Transient, Permanent], &[("b", Error)], "-c -a +a +b +c", "a b c"),
    // An exit that restarts nothing concerns no sibling.
    (Supervisor::one_for_all, [Permanent, Transient, Permanent], &[("b", Drain)], "-b", "a c"),
    (Supervisor::one_for_all, [Permanent, Temporary, Permanent], &[("b", Panic)], "", "a c"),
    // A transient child that has terminated is restarted with the others.
    (Supervisor::one_for_all, [Permanent, Transient, Permanent], &[("b", Stop), ("a", Panic)], "-b -c +a +b +c", "a b c"),
    // A temporary one is not, "even when a sibling's death causes the temporary process to be terminated".
    (Supervisor::one_for_all, [Permanent, Permanent, Temporary], &[("b", Panic)], "-c -a +a +b", "a b"),
    (Supervisor::one_for_all, [Temporary, Permanent, Temporary], &[("b", Panic)], "-c -a +b", "b"),
    // rest_for_one: "the child processes after the terminated child process in start order are terminated. Then the
    // terminated child process and all child processes after it are restarted."
    (Supervisor::rest_for_one, [Permanent; 3], &[("a", Panic)], "-c -b +a +b +c", "a b c"),
    (Supervisor::rest_for_one, [Permanent; 3], &[("b", Panic)], "-c +b +c", "a b c"),
    (Supervisor::rest_for_one, [Permanent; 3], &[("c", Panic)], "+c", "a b c"),
    (Supervisor::rest_for_one, [Permanent, Transient, Permanent], &[("b", Stop)], "-b", "a c"),
    (Supervisor::rest_for_one, [Permanent, Transient, Transient], &[("c", Stop), ("b", Panic)], "-c +b +c", "a b c"),
    (Supervisor::rest_for_one, [Permanent, Permanent, Temporary], &[("b", Error)], "-c +b", "a b"),
    (Supervisor::rest_for_one, [Permanent, Temporary, Permanent], &[("a", Panic)], "-c -b +a +c", "a c"),
];

#[test]
fn strategies_and_restart_kinds_are_those_of_otp() {
    testing::each_seed(0..3, check_rows);
}

fn check_rows(system: &testing::TestSystem) {
    for (row, (strategy, kinds, exits, then, running)) in ROWS.iter().enumerate() {
        let log = Log::default();
        let mut supervisor = strategy().intensity(10, HOUR);
        for (id, kind) in ["a", "b", "c"].into_iter().zip(kinds) {
            supervisor = supervisor.child(log.spec(id, *kind));
        }
        let supervisor = started(system, supervisor);
        assert_eq!(log.text(), "+a +b +c");
        for (id, how) in *exits {
            exit(&child(&supervisor, id), *how);
            // The supervisor has handled the exit, which is a notice, before a later request.
            let wanted = supervisor.count_children().wait().expect("a reply");
            assert_eq!(wanted.specs, wanted.workers + wanted.supervisors);
        }
        system.run_until_idle();
        assert_eq!(
            log.text(),
            format!("+a +b +c {then}").trim_end(),
            "row {row}"
        );
        let children = supervisor.which_children().wait().expect("a reply");
        let alive = children
            .iter()
            .filter(|it| it.actor.as_ref().is_some_and(AnyActorRef::is_alive));
        let alive: Vec<_> = alive.map(|it| it.id.as_str()).collect();
        assert_eq!(alive.join(" "), *running, "row {row}");
        // A terminated transient child is kept, a temporary one is not.
        let kept = children
            .iter()
            .all(|it| it.actor.is_some() || it.restart == Transient);
        assert!(kept, "row {row}: {children:?}");
        // "The supervisor terminates its children in reversed start order."
        let before = log.text();
        supervisor.stop_gracefully();
        assert_eq!(ended(&supervisor).reason, ExitReason::Drained, "row {row}");
        let ends = running.split(' ').rev().map(|id| format!(" -{id}"));
        assert_eq!(log.text(), before + &ends.collect::<String>(), "row {row}");
    }
}

/// "If more than MaxR restarts occur in the last MaxT seconds, the supervisor terminates all the child processes and then
/// itself."
#[test]
fn more_restarts_than_the_intensity_fail_the_supervisor() {
    let system = testing::TestSystem::new(0);
    for (intensity, strategy) in [
        (0, Supervisor::one_for_one as fn() -> _),
        (2, Supervisor::one_for_all),
    ] {
        let log = Log::default();
        let supervisor = strategy().intensity(intensity, HOUR);
        let supervisor = supervisor
            .child(log.spec("a", Permanent))
            .child(log.spec("b", Permanent));
        let supervisor = started(&system, supervisor);
        for round in 0..=intensity {
            // The group's restart counts once.
            assert!(supervisor.is_alive(), "round {round}");
            exit(&child(&supervisor, "a"), Panic);
            if round < intensity {
                system.run_until_idle();
                assert_eq!(log.0.len(), 2 + (round as usize + 1) * 3);
            }
        }
        assert_eq!(ended(&supervisor).reason, ExitReason::RestartLimit);
        assert!(log.text().ends_with("+a +b -b"), "{}", log.text());
    }
}

/// Starts `id` except in these attempts, counted from 0.
pub(crate) fn flaky(log: &Log, id: &'static str, fails: Range<u64>) -> ChildSpec<Probe> {
    let (log, attempts) = (log.clone(), AtomicU64::new(0));
    ChildSpec::fallible(id, move || {
        if fails.contains(&attempts.fetch_add(1, Ordering::SeqCst)) {
            log.0.push(format!("!{id}"));
            return Err("no file");
        }
        Ok(log.probe(id))
    })
}

/// "If the start of a child fails, the supervisor terminates all already started child processes and fails itself."
#[test]
fn a_child_that_does_not_start_fails_the_supervisor_at_its_start() {
    let system = system();
    let log = Log::default();
    let supervisor = Supervisor::one_for_one()
        .child(log.spec("a", Permanent))
        .child(log.spec("b", Permanent));
    let supervisor = supervisor
        .child(flaky(&log, "c", 0..1))
        .child(log.spec("d", Permanent));
    let supervisor = system.spawn(supervisor);
    let error = supervisor.wait_started().wait();
    let no_file = "child \"c\": the actor did not start: no file";
    let no_file = Err(StartError::Failed(no_file.to_owned()));
    assert_eq!(error, no_file);
    assert_eq!(ended(&supervisor).reason, ExitReason::Failed);
    assert_eq!(supervisor.wait_started().wait(), no_file);
    assert_eq!(log.text(), "+a +b !c -b -a");
    let twice = Supervisor::one_for_one()
        .child(log.spec("a", Permanent))
        .child(log.spec("a", Permanent));
    assert_eq!(ended(&system.spawn(twice)).reason, ExitReason::Failed);
    let many = Supervisor::one_for_one()
        .children_max(0)
        .child(log.spec("a", Permanent));
    assert_eq!(ended(&system.spawn(many)).reason, ExitReason::Failed);
    // Intensities out of range start no child.
    for (restarts, period, error) in [
        (
            1,
            Duration::ZERO,
            "time of the restart limit is 0, it must be above 0",
        ),
        (
            1_025,
            HOUR,
            "restart limit is 1025, it must be at most 1024",
        ),
    ] {
        let supervisor = Supervisor::one_for_one().intensity(restarts, period);
        let supervisor = system.spawn(supervisor.child(log.spec("z", Permanent)));
        let failed = Err(StartError::Failed(error.to_owned()));
        assert_eq!(supervisor.wait_started().wait(), failed);
        ended(&supervisor);
    }
    assert!(!log.text().contains('z'));
}

/// A child that ends as soon as it has started is one that has started: its exit counts, not an error of the start.
#[test]
fn a_child_that_ends_at_once_has_started() {
    testing::each_seed(0..200, |system| {
        let brief = ChildSpec::new("brief", || Probe {
            on_started: Some(Box::new(Context::stop)),
            ..Probe::default()
        });
        let supervisor = Supervisor::one_for_one().child(brief.restart(Transient));
        let supervisor = started(system, supervisor);
        system.run_until_idle();
        let counts = supervisor.count_children().wait();
        assert_eq!(counts.expect("a reply").active, 0);
    });
}

/// A start that fails at a restart is tried again, and each attempt counts.
#[test]
fn a_restart_that_fails_is_tried_again_within_the_intensity() {
    let system = testing::TestSystem::new(0);
    let log = Log::default();
    let tree = |fails| {
        let supervisor = Supervisor::rest_for_one().intensity(3, HOUR);
        let supervisor = supervisor.child(log.spec("a", Permanent));
        started(&system, supervisor.child(flaky(&log, "b", fails)))
    };
    let recovers = tree(1..3);
    exit(&child(&recovers, "b"), Panic);
    system.run_until_idle();
    assert_eq!(log.text(), "+a +b !b !b +b");
    assert!(
        recovers
            .count_children()
            .wait()
            .is_ok_and(|it| it.active == 2)
    );
    recovers.stop_gracefully();
    ended(&recovers);
    let fails = tree(1..9);
    exit(&child(&fails, "b"), Panic);
    assert_eq!(ended(&fails).reason, ExitReason::RestartLimit);
    assert!(log.text().ends_with("+a +b !b !b !b -a"), "{}", log.text());
}

#[test]
fn a_tree_starts_in_depth_first_order_and_stops_in_reverse() {
    let system = system();
    let log = Log::default();
    let inner = log.clone();
    let nested = ChildSpec::new("nested", move || {
        let supervisor = Supervisor::one_for_one().intensity(0, HOUR);
        supervisor
            .child(inner.spec("b", Permanent))
            .child(inner.spec("c", Permanent))
    });
    let reference = ChildRef::new();
    let supervisor = Supervisor::one_for_one()
        .child(log.spec("a", Permanent))
        .child(nested.reference(&reference))
        .child(log.spec("d", Permanent));
    let supervisor = started(&system, supervisor);
    assert_eq!(log.text(), "+a +b +c +d");
    let counts = supervisor.count_children().wait().expect("a reply");
    assert_eq!(
        (
            counts.specs,
            counts.active,
            counts.supervisors,
            counts.workers
        ),
        (3, 3, 1, 2)
    );
    // The inner supervisor gives up, and the outer one restarts it.
    let first = reference.get().expect("it runs");
    exit(&child(&first, "c"), Panic);
    assert_eq!(ended(&first).reason, ExitReason::RestartLimit);
    log.wait("+a +b +c +d -b +b +c");
    eventually("it runs", || reference.get().is_some_and(|it| it != first));
    finish_failed(&system);
    assert_eq!(log.text(), "+a +b +c +d -b +b +c -d -c -b -a");
    assert!(reference.get().is_none());
}

/// A shutdown without leftovers; failures during it do not matter here.
fn finish_failed(system: &System) {
    let report = system.shutdown(LIMIT);
    assert!(report.unfinished.is_empty(), "{report:?}");
}

#[test]
fn children_are_shut_down_as_their_specifications_say() {
    let system = system();
    let log = Log::default();
    let slow = |id, shutdown| log.spec(id, Permanent).shutdown(shutdown);
    let supervisor = Supervisor::one_for_one()
        .child(slow("patient", Shutdown::Infinity))
        .child(slow("within", Shutdown::Within(Duration::from_millis(1))))
        .child(slow("brutal", Shutdown::Brutal));
    let supervisor = started(&system, supervisor);
    let children = ["patient", "within", "brutal"].map(|id| child(&supervisor, id));
    let gates = children.each_ref().map(hold);
    children.iter().for_each(|child| tell_all(child, 0..3));
    supervisor.stop_gracefully();
    // It waits for the last one, which it has told to stop.
    suspended(&supervisor);
    assert!(children[0].is_alive() && children[1].is_alive());
    gates[2].open();
    ended(&children[2]);
    assert_eq!(lane(&children[2], 0).handled, 1);
    eventually("it takes no messages", || {
        matches!(children[1].try_tell(3), Err(TellError::Closed(_)))
    });
    assert!(children[0].is_alive());
    gates[1].open();
    ended(&children[1]);
    gates[0].open();
    ended(&supervisor);
    assert_eq!(lane(&children[0], 0).handled, 4);
    children
        .iter()
        .for_each(|child| check_balance(&lane(child, 0)));
}

#[test]
fn significant_children_terminate_the_supervisor() {
    let system = system();
    for (auto, ends_after) in [
        (AutoShutdown::Never, 9),
        (AutoShutdown::AnySignificant, 1),
        (AutoShutdown::AllSignificant, 2),
    ] {
        let log = Log::default();
        let supervisor = Supervisor::one_for_one()
            .auto_shutdown(auto)
            .child(log.spec("a", Permanent))
            .child(log.spec("b", Transient).significant())
            .child(log.spec("c", Temporary).significant());
        let supervisor = started(&system, supervisor);
        for (count, id) in ["c", "b"].into_iter().enumerate() {
            if supervisor.is_alive() {
                exit(&child(&supervisor, id), Stop);
            }
            if count + 1 == ends_after {
                assert_eq!(ended(&supervisor).reason, ExitReason::Stopped);
                assert!(log.text().ends_with("-a"), "{}", log.text());
            } else if count + 1 < ends_after {
                assert!(supervisor.count_children().wait().is_ok());
            }
        }
    }
}

/// A stop at once, a panic inside, and a supervisor that is stopped before its first run leave no child.
#[test]
fn a_supervisor_leaves_no_child() {
    let system = system_of(1);
    let log = Log::default();
    let tree = || {
        Supervisor::one_for_all()
            .child(log.spec("a", Permanent))
            .child(log.spec("b", Permanent))
    };
    let stopped = started(&system, tree());
    stopped.stop();
    assert_eq!(ended(&stopped).reason, ExitReason::Stopped);
    let (held, _) = probe(&system);
    let gate = hold(&held);
    let (never, drained) = (system.spawn(tree()), system.spawn(tree()));
    never.stop();
    drained.stop_gracefully();
    gate.open();
    assert_eq!(ended(&never).reason, ExitReason::Stopped);
    assert_eq!(ended(&drained).reason, ExitReason::Drained);
    assert_eq!(log.text(), "+a +b -b -a +a +b -b -a");
    finish(&system);
    let late = system.spawn(tree());
    assert_eq!(late.wait_started().wait(), Err(StartError::Exited));
}

#[test]
fn a_child_keeps_its_name_across_restarts() {
    let system = system();
    let options = SpawnOptions::new()
        .name("named")
        .supervision(Supervision::escalate());
    let spec = ChildSpec::new("a", Probe::default).options(options);
    let supervisor = started(
        &system,
        Supervisor::one_for_one().intensity(100, HOUR).child(spec),
    );
    for _ in 0..100 {
        let named: ActorRef<Probe> = system.whereis("named").expect("it runs");
        exit(&named, Panic);
        eventually("it is restarted", || {
            system
                .whereis::<Probe>("named")
                .is_some_and(|it| it != named)
        });
        assert!(
            supervisor
                .count_children()
                .wait()
                .is_ok_and(|it| it.active == 1)
        );
    }
}

/// A supervisor that gives up "terminates all the child processes and then itself" with the reason `shutdown`, and
/// shutdown is no abnormal exit: "a transient child process is restarted only if it terminates abnormally, that is, with
/// an exit reason other than normal, shutdown, or {shutdown,Term}".
#[test]
fn a_nested_supervisor_that_gives_up_is_restarted_only_if_it_is_permanent() {
    let system = system();
    for (kind, wanted, then) in [
        (Permanent, (1, 1, true), "+b +b"),
        (Transient, (1, 0, false), "+b"),
        (Temporary, (0, 0, false), "+b"),
    ] {
        let (log, reference) = (Log::default(), ChildRef::new());
        let inner = log.clone();
        let nested = ChildSpec::new("nested", move || {
            let supervisor = Supervisor::one_for_one().intensity(0, HOUR);
            supervisor.child(inner.spec("b", Permanent))
        });
        let nested = nested.restart(kind).reference(&reference);
        let supervisor = started(&system, Supervisor::one_for_one().child(nested));
        let first = reference.get().expect("it runs");
        exit(&child(&first, "b"), Panic);
        assert_eq!(ended(&first).reason, ExitReason::RestartLimit);
        eventually("its exit is handled", || {
            let counts = supervisor.count_children().wait().expect("a reply");
            let is_new = reference.get().is_some_and(|it| it != first);
            (counts.specs, counts.active, is_new) == wanted
        });
        assert_eq!(log.text(), then, "{kind:?}");
        supervisor.stop_gracefully();
        ended(&supervisor);
    }
    // Other exits of a transient one are as those of any child; a linked actor fails with it.
    assert!(ExitReason::RestartLimit.is_abnormal());
}

/// During a shutdown no actor can be spawned: a supervisor keeps what it has until it is told to stop.
#[test]
fn a_shutdown_restarts_no_child_and_fails_no_supervisor() {
    for strategy in [
        Supervisor::one_for_one as fn() -> _,
        Supervisor::one_for_all,
        Supervisor::rest_for_one,
    ] {
        let system = system();
        let log = Log::default();
        let supervisor = strategy()
            .child(log.spec("a", Permanent))
            .child(log.spec("b", Permanent));
        let supervisor = started(&system, supervisor);
        let [a, b] = ["a", "b"].map(|id| child(&supervisor, id));
        // Spawned later, so it is stopped before the supervisor.
        let (last, _) = probe(&system);
        let gate = hold(&last);
        let shutdown = shut_down(&system, LIMIT);
        eventually("the shutdown has begun", || {
            system.spawn_with(SpawnOptions::new(), Probe::default).err()
                == Some(SpawnError::ShuttingDown)
        });
        exit(&a, Stop);
        eventually("its exit is handled", || {
            let counts = supervisor.count_children().wait().expect("a reply");
            (counts.specs, counts.active) == (2, 1)
        });
        assert!(b.is_alive());
        gate.open();
        let report = shutdown.join().expect("it returns");
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(ended(&supervisor).reason, ExitReason::Drained);
        assert_eq!(log.text(), "+a +b -a -b");
    }
}

/// A supervisor whose start a shutdown overtakes stops; it has not failed.
#[test]
fn a_shutdown_during_a_supervisors_start_is_clean() {
    let system = system();
    let log = Log::default();
    let (gate, opened) = (Gate::default(), Mutex::new(None::<Gate>));
    *opened.lock().expect("free") = Some(gate.clone());
    let slow = log.clone();
    let slow = ChildSpec::new("a", move || {
        if let Some(gate) = opened.lock().expect("free").take() {
            gate.pass();
        }
        slow.probe("a")
    });
    let supervisor = Supervisor::one_for_one()
        .child(slow)
        .child(log.spec("b", Permanent));
    let supervisor = system.spawn(supervisor);
    gate.wait_arrived(1);
    let shutdown = shut_down(&system, LIMIT);
    eventually("the shutdown has begun", || {
        system.spawn_with(SpawnOptions::new(), Probe::default).err()
            == Some(SpawnError::ShuttingDown)
    });
    gate.open();
    let report = shutdown.join().expect("it returns");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(supervisor.wait_started().wait(), Err(StartError::Exited));
    assert_eq!(log.text(), "+a -a");
}
