//! Some seeds of each world, and the planted mistakes.

use freeboard::sim::{World, each_seed};
use freeboard_worlds::{PLANTED, find, named};

/// Seeds of each world in continuous integration.
const SEEDS: u64 = 300;

fn run(name: &str) {
    let world = named(name).expect("it exists");
    each_seed(0..SEEDS, |it: &mut World| (world.test)(it));
}

#[test]
fn mailboxes() {
    run("mailboxes");
}

#[test]
fn services() {
    run("services");
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
