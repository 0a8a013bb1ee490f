//! Where the workers' time goes, and what they are at, as a snapshot shows it.
#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{LIMIT, Noter, Ping, eventually, finish, system};
use freeboard_actor::{Actor, Context, Handler, SpawnOptions, System};
use freeboard_meter::{WorkerState, render};

struct Spinner;

struct Spin(&'static AtomicBool);

impl Actor for Spinner {}

impl Handler<Spin> for Spinner {
    type Reply = ();

    fn handle(&mut self, spin: Spin, _: &mut Context<Self>) {
        let deadline = std::time::Instant::now() + LIMIT;
        while !spin.0.load(Ordering::Relaxed) && std::time::Instant::now() < deadline {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn all_time_is_accounted_for() {
    let system = system();
    let actor = system.spawn(Noter::default());
    for _ in 0..100 {
        actor.ask(Ping).wait().unwrap();
    }
    eventually("both workers sleep", || {
        let workers = system.workers_snapshot();
        workers.iter().all(|it| it.state == WorkerState::Park)
    });
    let before = system.workers_snapshot();
    let after = system.snapshot();
    for (before, worker) in before.iter().zip(&after.workers) {
        let total_ns = worker.times.total_ns();
        // From the first thread's start, a moment before the system's own clock begins.
        assert!(
            total_ns >= after.uptime_ns,
            "{total_ns} {}",
            after.uptime_ns
        );
        assert!(worker.times.park_ns > before.times.park_ns, "it is open");
        assert!(worker.times.run_ns <= total_ns);
    }
    let ran_ns: u64 = after.workers.iter().map(|it| it.times.run_ns).sum();
    assert!(ran_ns > 0);
    finish(&system);
}

#[test]
fn an_open_run_counts_and_says_whose_it_is() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let system = System::builder().workers(1).build().unwrap();
    let actor = system
        .spawn_once(SpawnOptions::new().name("spinner"), Spinner)
        .unwrap();
    actor.tell(Spin(&IS_OVER)).unwrap();
    let worker = || system.workers_snapshot().remove(0);
    eventually("it runs", || {
        worker()
            .current
            .is_some_and(|run| run.message_type.contains("Spin") && run.actor == actor.id().get())
    });
    let seen = worker();
    assert_eq!(seen.state, WorkerState::Run);
    assert!(seen.current.unwrap().actor_type.contains("Spinner"));
    eventually("the open run grows", || {
        worker().times.run_ns > seen.times.run_ns + 1_000_000
    });
    let text = render(&system.snapshot());
    assert!(text.contains("freeboard_worker_state_seconds_total{worker=\"0\",state=\"run\"}"));
    assert!(text.contains("freeboard_worker_current_info{worker=\"0\""));
    IS_OVER.store(true, Ordering::Relaxed);
    eventually("it sleeps", || worker().state == WorkerState::Park);
    assert_eq!(worker().current, None);
    finish(&system);
}
