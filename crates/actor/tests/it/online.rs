//! Workers that are taken off-line and brought back while everything runs.

use crate::common::*;

/// Counters that an off-line worker must not change.
fn doings(worker: &WorkerSnapshot) -> (u64, u64, u64, u64) {
    (worker.runs, worker.steals, worker.parks, worker.queue_depth)
}

#[test]
fn none_and_too_many_are_refused() {
    let system = system_of(3);
    for online in [0, 4, usize::MAX] {
        let error = OnlineError { online, workers: 3 };
        assert_eq!(system.set_workers_online(online), Err(error));
    }
    assert_eq!((system.workers(), system.workers_online()), (3, 3));
    system.set_workers_online(1).expect("one of three");
    assert_eq!((system.workers(), system.workers_online()), (3, 1));
    let text = OnlineError {
        online: 0,
        workers: 3,
    };
    assert_eq!(text.to_string(), "1 to 3 workers can be on-line, not 0");
}

#[test]
fn an_off_line_worker_is_shown_as_such_and_does_nothing() {
    let system = system_of(4);
    system.set_workers_online(2).expect("two of four");
    let states = || system.workers_snapshot().into_iter().map(|it| it.state);
    assert!(states().skip(2).all(|it| it == WorkerState::Offline));
    assert!(states().take(2).all(|it| it != WorkerState::Offline));
    let before = system.workers_snapshot();
    let actors = probes(&system, 50);
    for number in 0..10_000_u64 {
        actors[number as usize % 50].tell(number).expect("alive");
    }
    for actor in &actors {
        eventually("each is handled", || lane(actor, 0).handled == 200);
    }
    let after = system.workers_snapshot();
    for (before, after) in before.iter().zip(&after).skip(2) {
        assert_eq!(doings(before), doings(after));
        assert_eq!(before.times.run_ns, after.times.run_ns);
        assert!(after.times.offline_ns > before.times.offline_ns);
        assert_eq!(after.current, None);
    }
    let runs = |workers: &[WorkerSnapshot]| workers[..2].iter().map(|it| it.runs).sum::<u64>();
    assert!(runs(&after) > runs(&before));
    system.set_workers_online(4).expect("all");
    assert!(states().all(|it| it != WorkerState::Offline));
}

#[test]
fn a_worker_that_goes_off_line_in_a_handler_finishes_it_first() {
    let system = system_of(2);
    let (actors, gate) = (probes(&system, 2), Gate::default());
    for actor in &actors {
        actor.tell(gate.clone()).expect("alive");
        actor.tell(8_u64).expect("alive");
    }
    gate.wait_arrived(2);
    system.set_workers_online(1).expect("one of two");
    check_served(&system, 1);
    gate.open();
    for actor in &actors {
        eventually("both go on", || lane(actor, 0).handled == 2);
    }
    all_back(&system);
    assert_eq!(system.workers_online(), 1);
}

#[test]
fn workers_come_and_go_while_all_on_line_ones_block() {
    let system = system_of(4);
    system.set_workers_online(2).expect("two of four");
    let (actors, gate) = (probes(&system, 2), Gate::default());
    for actor in &actors {
        actor.tell(gate.clone()).expect("alive");
    }
    gate.wait_arrived(2);
    for online in [4, 1, 3, 1, 4, 2] {
        system.set_workers_online(online).expect("in range");
        check_served(&system, 1);
        assert_eq!(system.workers_online(), online);
    }
    gate.open();
    all_back(&system);
}

#[test]
fn without_spare_threads_worker_slots_are_handed_over_all_the_same() {
    let system = system_within(4, 4);
    for round in 0..200 {
        system.set_workers_online(1 + round % 4).expect("in range");
        check_served(&system, 1);
    }
    system.set_workers_online(4).expect("all");
    eventually("each slot has its thread", || {
        let workers = system.workers_snapshot();
        let seen = system.scheduler_snapshot();
        seen.threads_displaced == 0 && workers.iter().all(|it| it.state == WorkerState::Park)
    });
    assert_eq!(system.scheduler_snapshot().threads, 4);
}

#[test]
fn bringing_workers_back_starts_no_more_threads_than_slots() {
    let system = system_of(4);
    for _ in 0..300 {
        // On a busy machine those that were displaced before take their time.
        eventually("most have left", || {
            system.scheduler_snapshot().threads_displaced <= 8
        });
        let (spin, release) = mpsc::channel();
        let actor = probe(&system).0;
        actor.tell(Spin(release)).expect("alive");
        system.set_workers_online(1).expect("one of four");
        system.set_workers_online(4).expect("all");
        drop(spin);
        let seen = system.scheduler_snapshot();
        // Four in slots, eight on their way out before and four now, and a few more.
        assert!(seen.threads <= 20, "{seen:?}");
    }
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a run that hangs must have said its seed"
)]
fn everybody_is_served_while_workers_come_and_go() {
    let seed = 0x5eed_0001;
    eprintln!("seed {seed}");
    check_no_collapse(|| collapses_while_workers_come_and_go(seed));
}

fn collapses_while_workers_come_and_go(seed: u64) -> u64 {
    let system = system_of(4);
    let actors = probes(&system, 64);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for driver in 0..3 {
            let (actors, is_over) = (&actors, &is_over);
            scope.spawn(move || {
                let mut random = Random::new(seed ^ (driver + 1) << 32);
                while !is_over.load(Ordering::Relaxed) {
                    let to = &actors[random.below(64) as usize];
                    to.tell(random.below(1_000)).expect("alive");
                }
            });
        }
        let mut random = Random::new(seed);
        for _ in 0..1_000 {
            let online = 1 + random.below(4) as usize;
            system.set_workers_online(online).expect("in range");
            assert_eq!(system.workers_online(), online);
            if random.below(50) == 0 {
                check_served(&system, 1);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for actor in &actors {
        let all = || lane(actor, 0).accepted;
        eventually("each is handled", || lane(actor, 0).handled == all());
        check_balance(&lane(actor, 0));
    }
    finish(&system);
    system.scheduler_snapshot().collapses
}
