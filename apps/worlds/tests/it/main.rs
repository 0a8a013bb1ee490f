//! Some seeds of each world, and the planted mistakes.

use freeboard::sim::{World, each_seed};
use freeboard_worlds::{PLANTED, find, named};

/// Seeds of each world in continuous integration.
const SEEDS: u64 = 300;

fn run(name: &str) {
    let world = named(name).expect("it exists");
    each_seed(0..SEEDS, |it: &mut World| (world.test)(it));
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
}

#[test]
fn each_world_has_a_test() {
    let text = include_str!("main.rs");
    let has_test = |name: &str| text.lines().any(|line| line.trim() == name);
    let without = freeboard_worlds::ALL.iter().find(|it| !has_test(it.name));
    assert!(without.is_none(), "{without:?}");
}

#[test]
fn each_planted_mistake_is_found() {
    if !cfg!(planted) {
        return;
    }
    for mistake in PLANTED {
        let found = find(mistake, 10_000);
        assert!(found.is_some(), "{} is not found", mistake.name);
    }
}
