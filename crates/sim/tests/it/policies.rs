//! Policies find what they are made for.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use freeboard_platform::thread;
use freeboard_sim::{Policy, STARVED_STEPS_MAX, Simulation};

/// Counts the seeds in which a thread with many steps ends before one with a single step.
fn overtaken(policy: Policy) -> usize {
    let is_overtaken = |seed: &u64| {
        let order = Arc::new(Mutex::new(Vec::new()));
        Simulation::seed(*seed).policy(policy).run(|world| {
            for (name, steps) in [("short", 1), ("long", 100)] {
                let order = order.clone();
                let work = move || {
                    (0..steps).for_each(|_| thread::yield_now());
                    order.lock().expect("no panic").push(name);
                };
                let builder = thread::Builder::new().name(name.to_owned());
                drop(builder.spawn(work).expect("a simulated thread"));
            }
            world.run_until_idle();
        });
        let order = order.lock().expect("no panic");
        order.first() == Some(&"long")
    };
    (0..400).filter(is_overtaken).count()
}

#[test]
fn priorities_find_what_even_chances_do_not() {
    assert_eq!(overtaken(Policy::Uniform), 0);
    let by_priority = overtaken(Policy::Pct { changes: 1 });
    assert!((150..250).contains(&by_priority), "{by_priority} of 400");
    let by_seed = overtaken(Policy::BySeed);
    assert!((30..150).contains(&by_seed), "{by_seed} of 400");
}

/// The most steps in a row that one of two threads has while both are there, in any of some seeds.
fn longest_row(policy: Policy) -> usize {
    let of_seed = |seed: u64| {
        let order = Arc::new(Mutex::new(Vec::new()));
        Simulation::seed(seed).policy(policy).run(|world| {
            for number in 0..2 {
                let order = order.clone();
                let work = move || {
                    for _ in 0..3_000 {
                        order.lock().expect("no panic").push(number);
                        thread::yield_now();
                    }
                };
                drop(
                    thread::Builder::new()
                        .spawn(work)
                        .expect("a simulated thread"),
                );
            }
            world.run_until_idle();
        });
        let order = order.lock().expect("no panic");
        let ends = [0, 1].map(|number| order.iter().rposition(|it| *it == number));
        let both = &order[..=ends.into_iter().min().flatten().expect("steps")];
        both.chunk_by(|a, b| a == b).map(<[i32]>::len).max()
    };
    (0..20).filter_map(of_seed).max().expect("a row")
}

#[test]
fn a_starved_task_waits_for_the_others_and_runs_at_last() {
    assert!(longest_row(Policy::Uniform) < 50);
    let most = STARVED_STEPS_MAX as usize;
    let longest = longest_row(Policy::StarveOne);
    assert!((most..most + 50).contains(&longest), "{longest}");
}

#[test]
fn no_policy_lets_a_thread_wait_for_ever() {
    for policy in [
        Policy::Uniform,
        Policy::Pct { changes: 1 },
        Policy::StarveOne,
    ] {
        for seed in 0..5 {
            Simulation::seed(seed).policy(policy).run(|world| {
                let is_over = Arc::new(AtomicBool::new(false));
                let spawn = |work: Box<dyn FnOnce() + Send>| {
                    let thread = thread::Builder::new().spawn(work);
                    thread.expect("a simulated thread").thread().clone()
                };
                // Two threads that wake each other until a third one has run.
                let first = {
                    let is_over = is_over.clone();
                    spawn(Box::new(move || {
                        while !is_over.load(Ordering::Relaxed) {
                            thread::park();
                        }
                    }))
                };
                let (woken, wake_until) = (first.clone(), is_over.clone());
                spawn(Box::new(move || {
                    while !wake_until.load(Ordering::Relaxed) {
                        woken.unpark();
                        thread::yield_now();
                    }
                    woken.unpark();
                }));
                for _ in 0..25_000 {
                    world.step();
                }
                let ends = is_over.clone();
                spawn(Box::new(move || ends.store(true, Ordering::Relaxed)));
                world.run_until(|| is_over.load(Ordering::Relaxed));
            });
        }
    }
}
