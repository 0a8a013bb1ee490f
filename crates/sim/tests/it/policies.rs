//! Policies find what they are made for.

use std::sync::{Arc, Mutex};

use freeboard_platform::thread;
use freeboard_sim::{Policy, Simulation};

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
