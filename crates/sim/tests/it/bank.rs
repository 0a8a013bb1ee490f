//! Actors that transfer money, with and without a mistake.

use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use freeboard_actor::{Actor, ActorRef, Context, Handler};
use freeboard_sim::{FaultRates, Policy, RUN_VARIABLE, Simulation, World, each_seed};

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

/// Marks the process that [`the_printed_command_repeats_the_run`] starts.
const CHILD: &str = "FREEBOARD_SIM_CHILD";

/// Fails in the child; nothing otherwise.
#[test]
fn child() {
    if env::var_os(CHILD).is_some() {
        each_seed(0..100, |world| deposits(world, false));
    }
}

/// What the child prints, with this run.
fn printed(run: &str) -> String {
    let mut child = Command::new(env::current_exe().expect("this test"));
    child.args(["--exact", "bank::child", "--nocapture"]);
    child.env(CHILD, "1").env("RUST_BACKTRACE", "0");
    child.env_remove(RUN_VARIABLE);
    if !run.is_empty() {
        child.env(RUN_VARIABLE, run);
    }
    let output = child.output().expect("it starts");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_printed_command_repeats_the_run() {
    let first = printed("");
    let quoted = first.split_once("FREEBOARD_SIM='");
    let (_, behind) = quoted.unwrap_or_else(|| panic!("{first}"));
    let (run, command) = behind.split_once('\'').expect("the end of the variable");
    let command = command.lines().next();
    assert_eq!(
        command,
        Some(" cargo test -p freeboard-sim bank::child -- --exact --nocapture")
    );
    assert!(run.contains("tellers=2"), "{run}");
    let why = |text: &str| -> Vec<String> {
        let from = text.lines().skip_while(|line| !line.contains("left: "));
        let shown =
            from.take_while(|line| !line.starts_with("to repeat") && !line.starts_with("note"));
        shown.map(str::to_owned).collect()
    };
    let again = printed(run);
    assert_eq!(why(&again), why(&first));
    assert!(why(&first).len() > 5, "{first}");
    let followed = printed(&format!("{run} follow=Teller"));
    assert!(followed.contains("Teller#1 Deposit"), "{followed}");
}
