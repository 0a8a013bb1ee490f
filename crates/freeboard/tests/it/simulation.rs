//! `#[sim_test]` runs its function in a world of each seed.

use std::{cell::RefCell, collections::BTreeSet};

use freeboard::sim::World;

thread_local! {
    static SEEDS: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

#[freeboard::sim_test(seeds = 30)]
fn a_node_counts_its_starts(world: &mut World) {
    SEEDS.with_borrow_mut(|seeds| seeds.insert(world.seed()));
    let node = world.node("server", |machine| machine.starts);
    node.kill();
    node.start();
    world.run_until(|| node.state() == Some(1));
}

#[test]
fn each_seed_has_its_run() {
    // On this thread, so that it sees its own runs alone.
    a_node_counts_its_starts();
    assert!(SEEDS.with_borrow(|seeds| seeds.iter().copied().eq(0..30)));
}
