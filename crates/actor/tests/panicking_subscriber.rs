//! A `tracing` subscriber that panics on every event and span: no worker, monitor, message or ask is lost.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use common::*;

use tracing::{Event, Metadata, Subscriber, span};

static CALLS: AtomicU64 = AtomicU64::new(0);

struct Panics;

fn panic_on_purpose() -> ! {
    CALLS.fetch_add(1, Ordering::SeqCst);
    // Not `panic!`: a hook would write much.
    std::panic::resume_unwind(Box::new("on purpose"))
}

impl Subscriber for Panics {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        panic_on_purpose()
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, _event: &Event<'_>) {
        panic_on_purpose()
    }

    fn enter(&self, _span: &span::Id) {
        panic_on_purpose()
    }

    fn exit(&self, _span: &span::Id) {
        panic_on_purpose()
    }
}

/// A system of one worker and the subscriber; no spare thread hides that the worker is gone.
fn lone_worker(threads_max: usize) -> SystemBuilder {
    static INSTALL: std::sync::Once = std::sync::Once::new();
    INSTALL.call_once(|| {
        tracing::subscriber::set_global_default(Panics).expect("the only one of this process");
    });
    System::builder().workers(1).threads_max(threads_max)
}

#[track_caller]
fn check_works(system: &System) {
    let scripted = Probe::default();
    let notes = scripted.notes.clone();
    let scripted = system.spawn(scripted);
    for number in 0..100 {
        scripted.tell(number).expect("alive");
        let reply = scripted.ask(number + 1_000).timeout(LIMIT).wait();
        assert_eq!(reply.expect("a reply"), number + 1_000);
    }
    assert_eq!(notes.len(), 200);
}

#[test]
fn failures_are_survived() {
    let failures = Notes::default();
    let seen = failures.clone();
    let system = lone_worker(1)
        .on_failure(move |failure| seen.push(failure.actor))
        .build()
        .expect("valid settings");
    let calls = CALLS.load(Ordering::SeqCst);
    for round in 0..20 {
        let supervision = if round % 2 == 0 {
            Supervision::stop()
        } else {
            at_once()
        };
        let options = SpawnOptions::new().supervision(supervision);
        let scripted = system.spawn_with(options, Probe::default);
        let scripted = scripted.expect("valid options");
        act(&scripted, |_| panic!("on purpose"));
        if round % 2 == 0 {
            assert_eq!(ended(&scripted).reason, ExitReason::Panicked);
        } else {
            scripted
                .ask(1_u64)
                .timeout(LIMIT)
                .wait()
                .expect("it is restarted");
        }
    }
    check_works(&system);
    assert_eq!(failures.len(), 20, "the observer is called after the log");
    assert!(CALLS.load(Ordering::SeqCst) >= calls + 20);
}

#[test]
fn the_monitor_goes_on_after_a_long_run() {
    let runs = Notes::default();
    let seen = runs.clone();
    let system = lone_worker(4)
        .long_run(Duration::from_millis(1))
        .on_long_run(move |run| seen.push(run.run.actor))
        .build()
        .expect("valid settings");
    for round in 1..=3 {
        let gate = hold(&probe(&system).0);
        runs.wait_len(round);
        gate.open();
    }
    check_works(&system);
}

#[test]
fn the_growth_and_the_use_of_all_threads_are_survived() {
    let system = lone_worker(8).build().expect("valid settings");
    let gate = Gate::default();
    for _ in 0..8 {
        system
            .spawn(Probe::default())
            .tell(gate.clone())
            .expect("alive");
    }
    gate.wait_arrived(8);
    let waiting = probe(&system).0;
    waiting.tell(1_u64).expect("alive");
    eventually("no thread is left", || {
        system.scheduler_snapshot().spares_exhausted > 0
    });
    gate.open();
    check_works(&system);
}

#[test]
fn a_message_that_is_logged_is_a_dead_letter() {
    let system = lone_worker(1).build().expect("valid settings");
    let config = LaneConfig::bounded(1).overload(Overload::Reject);
    let options = SpawnOptions::new().lane(config);
    let gone = system
        .spawn_once(options, Probe::default())
        .expect("valid options");
    gone.stop();
    ended(&gone);
    let (scripted, told) = (probe(&system).0, Notes::default());
    let done = told.clone();
    act(&scripted, move |_| {
        (0..10_u64).for_each(|number| gone.tell_or_log(number));
        done.push(());
    });
    told.wait_len(1);
    assert_eq!(count_of(&system.dead_letters(), "stopped"), 10);
    check_works(&system);
}
