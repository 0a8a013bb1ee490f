//! Many actors: a hundred thousand that each handle a message, a million that are idle.
//!
//! A process of its own: other tests would wait for memory and processors behind it.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use common::*;

/// Adds its messages to a shared sum.
struct Adder(Arc<AtomicU64>);

impl Actor for Adder {}

impl Handler<u64> for Adder {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }
}

/// Debug builds are several times slower.
const IDLE: u64 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

#[test]
fn a_hundred_thousand_actors_each_handle_a_message() {
    const COUNT: u64 = 100_000;
    let (system, sum) = (system(), Arc::default());
    let adders: Vec<_> = (0..COUNT)
        .map(|_| system.spawn(Adder(Arc::clone(&sum))))
        .collect();
    thread::scope(|scope| {
        for half in adders.chunks(COUNT as usize / 2) {
            scope.spawn(move || {
                for adder in half {
                    adder.tell(3_u64).expect("alive");
                }
            });
        }
    });
    eventually("all have handled theirs", || {
        sum.load(Ordering::Relaxed) == 3 * COUNT
    });
    assert_eq!(system.actors_alive(), COUNT);
    let report = system.shutdown(10 * LIMIT);
    assert!(report.is_clean(), "{report:?}");
    let snapshot = system.snapshot();
    assert_eq!(snapshot.actors_ended, COUNT);
    assert!(snapshot.dead_letters.is_empty());
}

#[test]
fn very_many_idle_actors_rest_and_end() {
    let (system, sum) = (system(), Arc::default());
    for _ in 0..IDLE {
        system.spawn(Adder(Arc::clone(&sum)));
    }
    assert_eq!(system.actors_alive(), IDLE);
    let report = system.shutdown(10 * LIMIT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(Arc::strong_count(&sum), 1, "every actor was dropped");
}

/// Spawns a tree of its kind; each node tells its parent's sum once.
struct Node(u32, Arc<AtomicU64>);

impl Actor for Node {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        if self.0 > 0 {
            for _ in 0..2 {
                cx.spawn(Self(self.0 - 1, self.1.clone()));
            }
        }
    }
}

#[test]
fn a_deep_tree_of_actors_ends_from_its_leaves() {
    let (system, started) = (system(), Arc::<AtomicU64>::default());
    let root = system.spawn(Node(14, started.clone()));
    eventually("the tree is there", || {
        started.load(Ordering::Relaxed) == (1 << 15) - 1
    });
    root.stop();
    ended(&root);
    assert_eq!(Arc::strong_count(&started), 1);
}

/// Passes a count round a ring.
struct Ring(Option<ActorRef<Ring>>, Arc<AtomicU64>);

struct Next(ActorRef<Ring>);

impl Actor for Ring {}

impl Handler<Next> for Ring {
    type Reply = ();
    fn handle(&mut self, next: Next, _cx: &mut Context<Self>) {
        self.0 = Some(next.0);
    }
}

impl Handler<u64> for Ring {
    type Reply = ();
    fn handle(&mut self, left: u64, _cx: &mut Context<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        if left > 0 {
            let next = self.0.as_ref().expect("joined");
            next.tell(left - 1).expect("alive");
        }
    }
}

#[test]
fn a_thousand_messages_go_round_a_ring_of_a_thousand() {
    let (system, hops) = (system_of(2), Arc::<AtomicU64>::default());
    let ring: Vec<_> = (0..1_000)
        .map(|_| system.spawn(Ring(None, hops.clone())))
        .collect();
    for (index, member) in ring.iter().enumerate() {
        let next = ring[(index + 1) % ring.len()].clone();
        member.tell(Next(next)).expect("alive");
    }
    for member in &ring {
        member.tell(99_u64).expect("alive");
    }
    eventually("all have gone round", || {
        hops.load(Ordering::Relaxed) == 100_000
    });
    finish(&system);
    assert_eq!(count_of(&system.dead_letters(), "stopped"), 0);
}

#[test]
fn actors_are_spawned_and_end_from_many_threads() {
    let system = system();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..5_000_u64 {
                    let adder = system.spawn(Adder(Arc::default()));
                    adder.tell(round).expect("alive");
                    adder.stop_gracefully();
                }
            });
        }
    });
    eventually("all have ended", || system.actors_alive() == 0);
    assert_eq!(system.snapshot().actors_ended, 20_000);
    assert!(system.dead_letters().is_empty());
}
