//! The accounting of the workers' time adds up at any moment.

use crate::common::*;

fn first(system: &System) -> WorkerSnapshot {
    system.workers_snapshot().swap_remove(0)
}

/// Each worker's times add up to the time the system is up. `building_ns` is how long it took to be
/// built: the workers' time begins somewhere in that.
#[track_caller]
fn check_sums(system: &System, building_ns: u64) {
    let earlier = system.snapshot();
    let later = system.snapshot();
    // A worker slot that changes threads loses or gains the time between two reads of the clock.
    let tolerance_ns = earlier.uptime_ns / 50 + 20_000_000;
    for worker in &earlier.workers {
        let total_ns = worker.times.total_ns();
        assert!(
            total_ns + tolerance_ns >= earlier.uptime_ns,
            "too little: {total_ns} of {}: {worker:?}",
            earlier.uptime_ns
        );
        // A run that is found to have blocked was shown as a run for the time until then, which stays shown.
        let twice_ns = worker.times.run_ns.min(worker.times.blocked_ns);
        assert!(
            total_ns - twice_ns <= later.uptime_ns + building_ns + tolerance_ns,
            "too much: {total_ns} of {}: {worker:?}",
            later.uptime_ns
        );
    }
}

#[test]
fn times_add_up_to_the_uptime() {
    let began = Instant::now();
    let system = system_of(3);
    let building_ns = began.elapsed().as_nanos() as u64;
    check_sums(&system, building_ns);
    let actors = probes(&system, 20);
    let mut random = Random::new(7);
    for round in 0..20 {
        let gate = Gate::default();
        let blocked = random.below(4);
        for actor in &actors[..blocked as usize] {
            actor.tell(gate.clone()).expect("alive");
        }
        for number in 0..500 {
            actors[10 + number as usize % 10]
                .tell(number)
                .expect("alive");
        }
        gate.wait_arrived(blocked);
        system
            .set_workers_online(1 + random.below(3) as usize)
            .expect("in range");
        check_sums(&system, building_ns);
        gate.open();
        if round % 5 == 0 {
            system.set_workers_online(3).expect("all");
            check_sums(&system, building_ns);
        }
    }
}

#[test]
fn times_add_up_with_no_spare_thread() {
    let began = Instant::now();
    let system = system_within(1, 1);
    let building_ns = began.elapsed().as_nanos() as u64;
    for _ in 0..5 {
        let gate = Gate::default();
        let actor = probe(&system).0;
        actor.tell(gate.clone()).expect("alive");
        let before_ns = first(&system).times.blocked_ns;
        eventually("blocked time", || {
            first(&system).times.blocked_ns > before_ns + 5_000_000
        });
        check_sums(&system, building_ns);
        gate.open();
        assert_eq!(actor.ask(1_u64).wait().expect("a reply"), 1);
        check_sums(&system, building_ns);
    }
}

#[test]
fn a_run_counts_while_it_is_open() {
    let system = system_of(2);
    let (spin, release) = mpsc::channel();
    let actor = probe(&system).0;
    actor.tell(Spin(release)).expect("alive");
    let runner = || {
        let mut workers = system.workers_snapshot().into_iter();
        workers.find(|worker| worker.state == WorkerState::Run)
    };
    eventually("one handles the message", || {
        let current = runner().and_then(|it| it.current);
        current.is_some_and(|it| !it.message_type.is_empty())
    });
    let before = runner().expect("it still runs");
    let current = before.current.as_ref().expect("labelled");
    assert_eq!(current.actor, actor.id().get());
    assert_eq!(current.actor_type, type_name::<Probe>());
    assert_eq!(current.message_type, type_name::<Spin>());
    eventually("its time grows", || {
        let now = runner().expect("it still runs");
        now.index == before.index
            && now.runs == before.runs
            && now.times.run_ns > before.times.run_ns + 20_000_000
    });
    drop(spin);
    eventually("it rests", || runner().is_none());
    assert!(
        system
            .workers_snapshot()
            .iter()
            .all(|it| it.current.is_none())
    );
}

#[test]
fn an_idle_worker_parks() {
    let system = system_of(2);
    // A slot that waits for its thread is idle, too, but never slept.
    eventually("all sleep", || {
        let mut workers = system.workers_snapshot().into_iter();
        workers.all(|it| it.state == WorkerState::Park && it.parks > 0)
    });
    let before = system.workers_snapshot();
    eventually("time passes", || {
        let now = system.workers_snapshot();
        let parked = now.iter().zip(&before);
        parked
            .map(|(now, before)| now.times.park_ns - before.times.park_ns)
            .all(|parked_ns| parked_ns > 5_000_000)
    });
    for (now, before) in system.workers_snapshot().iter().zip(&before) {
        assert_eq!(now.times.run_ns, before.times.run_ns);
        assert_eq!(now.times.blocked_ns, 0);
        assert_eq!(now.times.offline_ns, 0);
        assert_eq!(now.parks, before.parks);
        assert_eq!(now.current, None);
        assert!(now.is_idle() && now.is_online());
    }
}

#[test]
fn a_worker_blocked_without_a_spare_says_so() {
    let system = system_within(1, 1);
    let actor = probe(&system).0;
    let gate = hold(&actor);
    eventually("it is blocked", || {
        let worker = first(&system);
        let times = &worker.times;
        // Its thread may have waited for a processor before, which counts as a run.
        let is_counted = times.blocked_ns > 20_000_000 && times.run_ns < times.blocked_ns;
        worker.state == WorkerState::Blocked && is_counted
    });
    let current = first(&system).current.expect("labelled");
    assert_eq!(current.message_type, type_name::<Gate>());
    gate.open();
    eventually("it sleeps", || first(&system).state == WorkerState::Park);
}

#[test]
fn the_time_of_each_blocked_run_is_kept() {
    let system = system_within(1, 2);
    let actors = probes(&system, 3);
    let blocked_ns = || first(&system).times.blocked_ns;
    let exhausted = || system.scheduler_snapshot().spares_exhausted;
    let rescues = || system.scheduler_snapshot().rescues;
    // The first one loses its worker slot to the spare thread, by a rescue, or by a relief if it waited for a processor.
    let displaced = hold(&actors[0]);
    // The spare thread blocks twice, and keeps the worker slot, because no other thread is left.
    let kept = hold(&actors[1]);
    eventually("much time is blocked", || blocked_ns() > 50_000_000);
    let (known_ns, exhausted_before) = (blocked_ns(), exhausted());
    kept.open();
    let rescued = hold(&actors[2]);
    eventually("it is known", || exhausted() > exhausted_before);
    // A thread comes back only now, when the run is blocked for certain: a relief would not count its time.
    let rescues_before = rescues();
    displaced.open();
    eventually("it is rescued", || rescues() > rescues_before);
    // Without the time of the earlier run, the time would still be as it was shown, because it is never taken back.
    assert!(blocked_ns() > known_ns, "{} <= {known_ns}", blocked_ns());
    rescued.open();
}

/// Blocks, computes and idles while the times are read.
#[test]
fn no_time_is_ever_taken_back() {
    for threads_max in [1, 4] {
        let system = system_within(1, threads_max);
        let actor = probe(&system).0;
        let mut last = first(&system).times;
        let mut read = || {
            let now = first(&system).times;
            for state in WorkerState::ALL {
                let (was_ns, is_ns) = (last.of(state), now.of(state));
                assert!(
                    is_ns >= was_ns,
                    "{state:?} went from {was_ns} to {is_ns} ns"
                );
            }
            last = now;
            now
        };
        for _ in 0..3 {
            let gate = Gate::default();
            actor.tell(gate.clone()).expect("alive");
            let total_ns = read().total_ns();
            eventually("time passes", || read().total_ns() > total_ns + 20_000_000);
            gate.open();
            let (spin, release) = mpsc::channel();
            actor.tell(Spin(release)).expect("alive");
            let total_ns = read().total_ns();
            eventually("time passes", || read().total_ns() > total_ns + 20_000_000);
            drop(spin);
        }
    }
}

#[test]
fn json_and_prometheus_text_tell_it() {
    let system = system_within(1, 1);
    let actor = probe(&system).0;
    let gate = hold(&actor);
    eventually("it is blocked", || {
        first(&system).state == WorkerState::Blocked
            && system.scheduler_snapshot().spares_exhausted == 1
    });
    let snapshot = system.snapshot();
    gate.open();
    let json = serde_json::to_value(&snapshot).expect("plain data");
    let worker = &json["workers"][0];
    assert_eq!(worker["state"], "blocked");
    let times = &snapshot.workers[0].times;
    assert_eq!(worker["times"]["blocked_ns"], times.blocked_ns);
    assert_eq!(worker["times"]["park_ns"], times.park_ns);
    let message_type = type_name::<Gate>();
    assert_eq!(worker["current"]["message_type"], message_type);
    assert_eq!(json["scheduler"]["spares_exhausted"], 1);
    let back: SystemSnapshot = serde_json::from_value(json).expect("its own data");
    assert_eq!(back, snapshot);
    let text = render(&snapshot);
    let value_of = |words: &[&str]| -> f64 {
        let line = text
            .lines()
            .find(|line| !line.starts_with('#') && words.iter().all(|it| line.contains(it)))
            .unwrap_or_else(|| panic!("no {words:?} in:\n{text}"));
        let value = line.rsplit(' ').next().expect("a value");
        value.parse().expect("a number")
    };
    let seconds_of = |state: &str| value_of(&["freeboard_worker_state_seconds_total", state]);
    for state in WorkerState::ALL {
        let wanted = times.of(state) as f64 / 1e9;
        let found = seconds_of(&format!("state=\"{}\"", state.name()));
        assert!(
            (found - wanted).abs() < 1e-6,
            "{state:?}: {found}, {wanted}"
        );
    }
    // One series per message that a worker ever handled would grow without bound.
    assert!(!text.contains(message_type), "{text}");
    assert_eq!(value_of(&["freeboard_spares_exhausted_total"]), 1.0);
    assert_eq!(value_of(&["freeboard_worker_threads_limit"]), 1.0);
}
