//! Actors that transfer money, with and without a mistake.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use freeboard_actor::{Actor, ActorRef, Context, Handler};
use freeboard_sim::{FaultRates, Policy, Simulation, World, each_seed};

/// An account whose balance lives elsewhere, as in a database without transactions.
struct Teller {
    balance: Arc<AtomicU64>,
    /// What it has read, between two messages.
    read: Option<u64>,
    is_atomic: bool,
}

struct Deposit;
struct Store;

impl Actor for Teller {}

impl Handler<Deposit> for Teller {
    type Reply = ();

    fn handle(&mut self, _: Deposit, cx: &mut Context<Self>) {
        if self.is_atomic {
            self.balance.fetch_add(1, Ordering::Relaxed);
        } else {
            self.read = Some(self.balance.load(Ordering::Relaxed));
            cx.actor_ref()
                .tell(Store)
                .expect("its mailbox has capacity");
        }
    }
}

impl Handler<Store> for Teller {
    type Reply = ();

    fn handle(&mut self, _: Store, _: &mut Context<Self>) {
        if let Some(read) = self.read.take() {
            self.balance.store(read + 1, Ordering::Relaxed);
        }
    }
}

/// Each teller gets one deposit.
fn deposits(world: &World, is_atomic: bool) {
    let balance = Arc::new(AtomicU64::new(0));
    let tellers: Vec<ActorRef<Teller>> = (0..world.size("tellers", 1..=20))
        .map(|_| {
            world.spawn(Teller {
                balance: balance.clone(),
                read: None,
                is_atomic,
            })
        })
        .collect();
    world.inject(FaultRates::default(), Duration::from_secs(1));
    for teller in &tellers {
        teller.tell(Deposit).expect("its mailbox has capacity");
    }
    world.run_until_idle();
    assert_eq!(balance.load(Ordering::Relaxed), tellers.len() as u64);
}

#[test]
fn atomic_deposits_are_never_lost() {
    each_seed(0..100, |world| deposits(world, true));
}

#[test]
fn a_lost_update_is_found_and_made_as_small_as_it_can_be() {
    for policy in [Policy::Uniform, Policy::BySeed] {
        let test = |world: &mut World| deposits(world, false);
        let found = (0..100).find_map(|seed| {
            let simulation = Simulation::seed(seed).policy(policy);
            let failure = simulation.clone().try_run(test).err()?;
            Some(simulation.minimise(*failure, test))
        });
        let found = found.expect("a seed that loses a deposit");
        // One teller alone is right.
        assert_eq!(found.reduction.to_string(), "tellers=2", "{found}");
        assert!(found.message.contains("last steps"), "{found}");
        let again = Simulation::seed(found.seed).policy(policy);
        let again = again.reduced(found.reduction).try_run(test);
        assert_eq!(again.expect_err("the same run").message, found.message);
    }
}
