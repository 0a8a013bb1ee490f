//! Runs longer than the threshold are reported to the observer, up to a rate limit.

use crate::common::*;

/// Longer than a busy machine often keeps a thread from its processor: the runs before count as short.
const THRESHOLD: Duration = Duration::from_millis(50);

fn builder() -> SystemBuilder {
    System::builder().workers(2).long_run(THRESHOLD)
}

/// A system, and the long runs that it reported.
fn reporting() -> (TestSystem, Notes<LongRunSnapshot>) {
    let notes = Notes::default();
    let told = notes.clone();
    let system = build(builder().on_long_run(move |run| told.push(run.clone())));
    (system, notes)
}

#[track_caller]
fn check_report(system: &System, run: &LongRunSnapshot, actor: u64, message_type: &str) {
    assert_eq!(run.run.actor, actor, "{run:?}");
    assert_eq!(run.run.actor_type, type_name::<Probe>());
    assert_eq!(run.run.message_type, message_type);
    assert!(run.elapsed_ns >= THRESHOLD.as_nanos() as u64, "{run:?}");
    assert!(run.seen_ns >= run.elapsed_ns, "{run:?}");
    eventually("it is kept", || system.snapshot().long_runs.contains(run));
    assert_eq!(system.scheduler_snapshot().long_runs_unreported, 0);
}

/// Checks the report of a run that computes. The share of the processor's time that it had.
fn check_run_that_computes() -> f64 {
    let (system, notes) = reporting();
    let actor = probe(&system).0;
    let (spin, release) = mpsc::channel();
    actor.tell(Spin(release)).expect("alive");
    let run = notes.wait_len(1).swap_remove(0);
    drop(spin);
    check_report(&system, &run, actor.id().get(), type_name::<Spin>());
    assert!(!run.is_blocked, "{run:?}");
    let share = run.cpu_share.expect("this system tells");
    assert!((0.0..=1.0).contains(&share), "{run:?}");
    assert!(run.worker.is_some(), "it keeps its slot: {run:?}");
    finish(&system);
    share
}

#[test]
fn a_run_that_computes_is_reported_as_that() {
    // One that others on this machine displaced may have had none of the time.
    eventually("a share of the time", || check_run_that_computes() > 0.0);
}

#[test]
fn a_run_that_blocks_is_reported_as_that() {
    let (system, notes) = reporting();
    let actor = probe(&system).0;
    let gate = hold(&actor);
    let run = notes.wait_len(1).swap_remove(0);
    gate.open();
    check_report(&system, &run, actor.id().get(), type_name::<Gate>());
    assert!(run.is_blocked, "{run:?}");
    let share = run.cpu_share.expect("this system tells");
    assert!((0.0..0.5).contains(&share), "{run:?}");
}

#[test]
fn a_run_is_reported_once() {
    let (system, notes) = reporting();
    let actor = probe(&system).0;
    let gate = hold(&actor);
    notes.wait_len(1);
    let uptime_ns = || system.snapshot().uptime_ns;
    let seen_ns = uptime_ns();
    eventually("time passes", || uptime_ns() > seen_ns + 250_000_000);
    assert_eq!(notes.len(), 1);
    assert_eq!(system.scheduler_snapshot().long_runs, 1);
    gate.open();
}

#[test]
fn a_flood_of_long_runs_is_counted_and_not_reported() {
    const RUNS: u64 = 12;
    let (system, notes) = reporting();
    let gate = Gate::default();
    for _ in 0..RUNS {
        let actor = probe(&system).0;
        actor.tell(gate.clone()).expect("alive");
    }
    eventually("all are seen", || {
        system.scheduler_snapshot().long_runs == RUNS
    });
    let seen = system.scheduler_snapshot();
    let reported = notes.wait_len((RUNS - seen.long_runs_unreported) as usize);
    // One more if the machine was so slow that the next was due.
    assert!((5..=6).contains(&reported.len()), "{seen:?}");
    assert_eq!(seen.long_runs_unreported + reported.len() as u64, RUNS);
    eventually("they are kept", || {
        system.snapshot().long_runs.len() == reported.len()
    });
    gate.open();
}

#[test]
fn an_observer_that_panics_does_no_harm() {
    let notes = Notes::default();
    let told = notes.clone();
    let system = builder()
        .on_long_run(move |_| {
            told.push(());
            panic!("on purpose");
        })
        .build()
        .expect("valid settings");
    let gate = Gate::default();
    for _ in 0..3 {
        let actor = probe(&system).0;
        actor.tell(gate.clone()).expect("alive");
    }
    notes.wait_len(3);
    // The monitor still runs: the third one waits for a rescued slot.
    gate.wait_arrived(3);
    eventually("they are kept", || system.snapshot().long_runs.len() == 3);
    gate.open();
}

#[test]
fn short_runs_are_not_reported() {
    let notes = Notes::default();
    let told = notes.clone();
    let system = build(
        System::builder()
            .workers(2)
            .long_run(Duration::from_secs(3_600))
            .on_long_run(move |run| told.push(run.clone())),
    );
    let actor = probe(&system).0;
    let gate = hold(&actor);
    eventually("it is rescued", || system.scheduler_snapshot().rescues > 0);
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 0);
    assert_eq!(system.scheduler_snapshot().long_runs, 0);
}

#[cfg(all(feature = "stacks", target_os = "linux", target_env = "gnu"))]
#[test]
fn a_report_has_the_stack_if_asked_for() {
    // A thread that the machine keeps from its processor for long does not tell its stack in time.
    eventually("a stack with the gate in it", || {
        let stack = stack_of_a_run_that_blocks();
        stack.is_some_and(|stack| stack.contains("pass"))
    });
}

#[cfg(all(feature = "stacks", target_os = "linux", target_env = "gnu"))]
fn stack_of_a_run_that_blocks() -> Option<String> {
    let notes = Notes::default();
    let told = notes.clone();
    let system = build(
        builder()
            .stacks_of_long_runs(true)
            .on_long_run(move |run: &LongRunSnapshot| told.push(run.clone())),
    );
    let gate = Gate::default();
    let blocked = probe(&system).0;
    blocked.tell(gate.clone()).expect("alive");
    let run = notes.wait_len(1).remove(0);
    gate.open();
    finish(&system);
    run.stack
}
