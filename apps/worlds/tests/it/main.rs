//! Some seeds of each world, and the planted mistakes.

use freeboard::sim::{Simulation, World, each_seed};
use freeboard_worlds::named;

/// Seeds of each world in continuous integration.
const SEEDS: u64 = 300;

/// Seeds of each world that run twice, to see that the traces are equal.
const SEEDS_TWICE: u64 = 10;

/// Of the worlds `cluster` and `storm`, whose seeds take seconds in a debug build.
const CLUSTER_SEEDS: u64 = 20;
const STORM_SEEDS: u64 = 3;

fn run(name: &str) {
    let world = named(name).expect("it exists");
    let (seeds, twice) = match name {
        "cluster" => (CLUSTER_SEEDS, 2),
        "storm" => (STORM_SEEDS, 1),
        _ => (SEEDS, SEEDS_TWICE),
    };
    each_seed(0..seeds, |it: &mut World| (world.test)(it));
    for seed in 0..twice {
        let run = || Simulation::seed(seed).with_trace().run(world.test);
        assert!(run() == run(), "two runs of seed {seed} differ");
    }
}

/// A test for each world, so that they run side by side.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

tests! {
    mailboxes
    services
    connections
    redis
    streams
    kvs
    fetcher
    cache
    logd
    cluster
    storm
}

#[test]
fn each_world_has_a_test() {
    let text = include_str!("main.rs");
    let has_test = |name: &str| text.lines().any(|line| line.trim() == name);
    let without = freeboard_worlds::ALL.iter().find(|it| !has_test(it.name));
    assert!(without.is_none(), "{without:?}");
}

/// With `--nocapture` it writes the table of docs/measurements/simulation.md.
#[cfg(planted)]
#[test]
fn each_planted_mistake_is_found() {
    use std::io::{self, Write as _};

    for mistake in freeboard_worlds::PLANTED {
        let found = freeboard_worlds::find(mistake, 10_000);
        let seed = found
            .unwrap_or_else(|| panic!("{} is not found", mistake.name))
            .seed;
        let (name, world, about) = (mistake.name, mistake.world, mistake.about);
        writeln!(io::stdout(), "| {name} | {world} | {about} | {seed} |").expect("a reader");
    }
}
