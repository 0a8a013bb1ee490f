//! How a run that fails is reported, stopped and made smaller.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use freeboard_actor::Actor;
use freeboard_platform::{clock, thread};
use freeboard_sim::{FaultRates, Reduction, Simulation, World};

const SECOND: Duration = Duration::from_secs(1);

/// The first line of the message of a run that must fail.
fn failure(test: impl FnOnce(&mut World)) -> String {
    let failure = Simulation::seed(1).try_run(test).expect_err("it fails");
    let first = failure.message.lines().next();
    first.unwrap_or_default().to_owned()
}

#[test]
fn the_text_of_a_failed_assertion_names_its_line() {
    let line = line!() + 1;
    let text = failure(|_| panic!("a text"));
    assert!(text.contains(&format!("failures.rs:{line}:")), "{text}");
    assert!(text.ends_with("a text"), "{text}");
}

#[test]
fn a_panic_in_the_start_of_a_node_fails_the_run() {
    let text = failure(|world| {
        world.node("server", |machine| {
            assert!(machine.starts < 5, "a damaged disk");
        });
        let kills = FaultRates {
            kills: 1_000.0,
            ..FaultRates::default()
        };
        world.inject(kills, SECOND * 60);
        world.advance(SECOND * 60);
    });
    assert!(text.ends_with("a damaged disk"), "{text}");
}

/// Waits when it is dropped.
struct Waits;

impl Drop for Waits {
    fn drop(&mut self) {
        thread::sleep(SECOND * 2);
    }
}

#[test]
fn destructors_that_wait_do_not_hide_a_failure() {
    // The invariant breaks before the destructor runs, or while it does.
    for limit in [SECOND, SECOND * 2] {
        let text = failure(|world| {
            world.invariant("early", move || match clock::now_ns() as u128 {
                now_ns if now_ns <= limit.as_nanos() => Ok(()),
                _ => Err("late".to_owned()),
            });
            world.node("ticker", |_| {
                let tick = || (0..5).for_each(|_| thread::sleep(SECOND));
                thread::Builder::new().spawn(tick).map(drop).is_ok()
            });
            let _waits = Waits;
            world.advance(SECOND);
            panic!("the test fails");
        });
        let has_broken = text == "the invariant \"early\" does not hold: late";
        assert!(has_broken || text.ends_with("the test fails"), "{text}");
    }
}

struct Idle;

impl Actor for Idle {}

#[test]
fn a_thread_of_std_fails_the_run_also_at_its_end() {
    let text = failure(|world| {
        let executor = world.executor().clone();
        let other = std::thread::spawn(move || executor.call_at(1, "call", || ()));
        assert!(other.join().is_err(), "it panics");
    });
    assert!(text.contains("another thread used a test system"), "{text}");
}

#[test]
fn a_node_cannot_kill_itself() {
    let text = failure(|world| {
        let cell = std::sync::Arc::new(std::sync::OnceLock::new());
        let own = cell.clone();
        let node = world.node("server", move |_| {
            let own = own.clone();
            let kill = move || {
                thread::sleep(SECOND);
                let node: &freeboard_sim::Node<()> = own.get().expect("it was set");
                node.kill();
            };
            drop(thread::Builder::new().spawn(kill));
        });
        cell.set(node).expect("it is empty");
        world.advance(SECOND * 2);
    });
    assert!(text.contains("server ended its own node"), "{text}");
}

#[test]
fn a_world_in_a_world_fails_and_leaves_the_outer_one_alone() {
    let text = failure(|world| {
        let inner = || Simulation::seed(2).try_run(|_| ()).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(inner)).is_err());
        world.invariant("never", || Err("checked".to_owned()));
        world.spawn(Idle);
        world.run_until_idle();
    });
    assert!(text.contains("\"never\" does not hold: checked"), "{text}");
}

#[test]
fn yields_that_nothing_ends_are_a_failure() {
    let text = failure(|_| {
        loop {
            thread::yield_now();
        }
    });
    assert!(text.contains("yields for ever"), "{text}");
}

#[test]
fn the_smallest_run_has_the_same_failure() {
    let test = |world: &mut World| {
        let clients = world.size("clients", 0..=20);
        let last = (0..clients).max().expect("another failure: no client");
        assert!(last < 5, "too many clients");
    };
    let found = (0..50).find_map(|seed| Simulation::seed(seed).try_run(test).err());
    let found = found.expect("a seed with many clients");
    assert!(found.message.contains("too many clients"), "{found}");
    let small = Simulation::seed(found.seed).minimise(*found, test);
    assert!(small.message.contains("too many clients"), "{small}");
    assert_ne!(small.reduction, Reduction::default(), "{small}");
}

#[test]
fn a_run_until_its_last_step_fails_behind_it() {
    let test = |world: &mut World| {
        world.node("server", |_| ());
        panic!("a failure behind step 1");
    };
    let run = |until| Simulation::seed(1).until(until).try_run(test);
    assert_eq!(run(0).map(|it| it.steps).ok(), Some(0));
    let failure = run(1).expect_err("it fails behind the step");
    assert!(failure.message.contains("behind step 1"), "{failure}");
}

#[test]
fn a_size_has_a_name_that_the_command_can_have() {
    for name in ["", "number of clients", "seed", "a=b"] {
        let text = failure(|world| _ = world.size(name, 1..=2));
        assert!(text.ends_with("cannot name a size"), "{text}");
    }
}
