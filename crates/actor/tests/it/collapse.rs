//! Workers that sleep while there is work: detected when a fault causes it, and never otherwise.

use crate::common::*;

fn observed(builder: SystemBuilder) -> (TestSystem, Notes<Collapse>) {
    let notes = Notes::default();
    let told = notes.clone();
    let builder = builder.on_collapse(move |collapse| told.push(*collapse));
    (build(builder), notes)
}

fn wait_asleep(system: &System) {
    eventually("all sleep", || {
        let workers = system.workers_snapshot();
        workers.iter().all(|it| it.state == WorkerState::Park)
    });
}

#[test]
fn wakes_that_are_dropped_are_found_and_made_good() {
    let (system, notes) = observed(System::builder().workers(2).fault(Fault::DropWakes));
    let actors = probes(&system, 10);
    for round in 1..=10 {
        for actor in &actors {
            actor.tell(round).expect("alive");
        }
        for actor in &actors {
            eventually("each is handled", || lane(actor, 0).handled == round);
        }
        wait_asleep(&system);
    }
    // Its last one is told a moment after it is counted.
    eventually("all are told", || {
        notes.len() as u64 == system.scheduler_snapshot().collapses
    });
    let (seen, told) = (system.scheduler_snapshot(), notes.all());
    assert!(seen.collapses >= 1, "{seen:?}");
    assert!(seen.forced_wakes >= seen.collapses, "{seen:?}");
    assert!(seen.wasted_core_ns > 0, "{seen:?}");
    let detect_ns_max = told.iter().map(|it| it.detect_ns).max();
    assert_eq!(detect_ns_max, Some(seen.collapse_detect_ns_max));
    for collapse in &told {
        assert!(collapse.detect_ns > 0, "{collapse:?}");
        assert!((1..=2).contains(&collapse.sleeping), "{collapse:?}");
        assert!(collapse.queued >= 1, "{collapse:?}");
    }
}

#[test]
fn an_observer_that_panics_does_no_harm() {
    let notes = Notes::default();
    let told = notes.clone();
    let system = System::builder()
        .workers(2)
        .fault(Fault::DropWakes)
        .on_collapse(move |_| {
            told.push(());
            panic!("on purpose");
        })
        .build()
        .expect("valid settings");
    let actor = probe(&system).0;
    eventually("a collapse is shown", || {
        wait_asleep(&system);
        assert_eq!(actor.ask(1_u64).wait().expect("a reply"), 1);
        notes.len() > 0
    });
    // The monitor still runs: nothing else wakes a worker.
    let forced_wakes = || system.scheduler_snapshot().forced_wakes;
    let forced_before = forced_wakes();
    eventually("further wakes are forced", || {
        wait_asleep(&system);
        assert_eq!(actor.ask(1_u64).wait().expect("a reply"), 1);
        forced_wakes() >= forced_before + 5
    });
}

#[test]
fn a_busy_system_never_collapses() {
    check_no_collapse(collapses_of_a_busy_system);
}

fn collapses_of_a_busy_system() -> u64 {
    let (system, notes) = observed(System::builder().workers(2));
    let actors = probes(&system, 32);
    let until = Instant::now() + Duration::from_secs(1);
    thread::scope(|scope| {
        for driver in 0..3 {
            let (actors, system) = (&actors, &system);
            scope.spawn(move || {
                let mut random = Random::new(driver + 1);
                while Instant::now() < until {
                    let to = &actors[random.below(32) as usize];
                    match random.below(1_000) {
                        0 => wait_asleep_or(system, until),
                        1..=3 => {
                            to.ask(7_u64).wait().expect("a reply");
                        }
                        4 => {
                            let gate = hold(to);
                            gate.open();
                        }
                        number => to.tell(number).expect("alive"),
                    }
                }
            });
        }
    });
    for actor in &actors {
        let all = || lane(actor, 0).accepted;
        eventually("each is handled", || lane(actor, 0).handled == all());
        check_balance(&lane(actor, 0));
    }
    finish(&system);
    let collapses = system.scheduler_snapshot().collapses;
    assert_eq!(notes.len() as u64, collapses, "{:?}", notes.all());
    collapses
}

/// So that the next message meets workers asleep, if the other drivers let them.
fn wait_asleep_or(system: &System, until: Instant) {
    let asleep = |system: &System| {
        let workers = system.workers_snapshot();
        workers.iter().any(|it| it.state == WorkerState::Park)
    };
    while Instant::now() < until && !asleep(system) {
        thread::yield_now();
    }
}
