//! Reports of handlers that take long.
#![cfg(not(loom))]

mod common;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use common::{Gate, LIMIT, Noter, Notes, eventually, finish};
use freeboard_actor::{Actor, Context, Handler, System, SystemBuilder};
use freeboard_meter::LongRunSnapshot;

struct Spinner;

/// Spins until told otherwise.
struct Spin(&'static AtomicBool);

impl Actor for Spinner {}

impl Handler<Spin> for Spinner {
    type Reply = ();

    fn handle(&mut self, spin: Spin, _: &mut Context<Self>) {
        let deadline = Instant::now() + LIMIT;
        while !spin.0.load(Ordering::Relaxed) && Instant::now() < deadline {
            std::hint::spin_loop();
        }
    }
}

fn observed(notes: &Notes<LongRunSnapshot>) -> SystemBuilder {
    let notes = notes.clone();
    System::builder()
        .workers(2)
        .long_run(Duration::from_millis(5))
        .on_long_run(move |run| notes.push(run.clone()))
}

#[test]
fn a_handler_that_computes_and_one_that_blocks_are_told_apart() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let notes = Notes::default();
    let system = observed(&notes).build().unwrap();
    let spinner = system.spawn(Spinner);
    spinner.tell(Spin(&IS_OVER)).unwrap();
    let run = notes.wait_len(1).remove(0);
    IS_OVER.store(true, Ordering::Relaxed);
    assert_eq!(run.run.actor, spinner.id().get());
    assert!(run.run.actor_type.contains("Spinner") && run.run.message_type.contains("Spin"));
    assert!(!run.is_blocked && run.elapsed_ns >= 5_000_000, "{run:?}");

    let gate = Gate::default();
    let blocked = system.spawn(Noter::default());
    blocked.tell(gate.clone()).unwrap();
    let run = notes.wait_len(2).remove(1);
    gate.open();
    assert_eq!(run.run.actor, blocked.id().get());
    assert!(run.run.message_type.contains("Gate"), "{run:?}");
    assert!(run.is_blocked && run.cpu_share.is_none_or(|share| share < 0.5));
    assert_eq!(system.snapshot().long_runs.len(), 2);
    assert_eq!(system.scheduler_snapshot().long_runs, 2);
    finish(&system);
}

#[test]
fn five_reports_are_made_and_the_rest_are_counted() {
    let notes = Notes::default();
    let system = observed(&notes).build().unwrap();
    for number in 1..=8 {
        let gate = Gate::default();
        let blocked = system.spawn(Noter::default());
        blocked.tell(gate.clone()).unwrap();
        eventually("the run is found long", || {
            system.scheduler_snapshot().long_runs == number
        });
        gate.open();
    }
    assert_eq!(notes.len(), 5);
    assert_eq!(system.scheduler_snapshot().long_runs_unreported, 3);
    finish(&system);
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let system = System::builder()
        .workers(1)
        .long_run(Duration::from_millis(5))
        .on_long_run(|_| panic!("on purpose"))
        .build()
        .unwrap();
    let gate = Gate::default();
    let blocked = system.spawn(Noter::default());
    blocked.tell(gate.clone()).unwrap();
    eventually("it is reported", || system.snapshot().long_runs.len() == 1);
    gate.open();
    finish(&system);
}

#[cfg(all(feature = "stacks", target_os = "linux", target_env = "gnu"))]
#[test]
fn a_report_has_the_stack_if_asked_for() {
    let notes = Notes::default();
    let system = observed(&notes).stacks_of_long_runs(true).build().unwrap();
    let gate = Gate::default();
    let blocked = system.spawn(Noter::default());
    blocked.tell(gate.clone()).unwrap();
    let run = notes.wait_len(1).remove(0);
    gate.open();
    assert!(run.stack.unwrap().contains("pass"), "the gate's function");
    finish(&system);
}
