//! Everything at once, from a seed: actors tell, ask, block, stop, panic, restart, pause lanes and set timers at
//! random through small mailboxes and outboxes, threads outside do the same, workers come and go, and the system ends
//! in order, at a deadline, or by being dropped. At the end each message has exactly one outcome, and all counters add up.
//!
//! The tests run a few seeds each. `FREEBOARD_STRESS_SEEDS` says how many, `FREEBOARD_STRESS_SEED` which one is the first.
//! A seed fixes all choices, not how the threads interleave.
//!
//! A process of its own: it installs a panic hook.
#![cfg(not(loom))]

mod balance;
#[path = "../it/common.rs"]
mod common;
mod member;
mod observed;
mod outside;
mod record;
mod world;

use std::{panic, sync::Once};

use common::*;
use member::{Call, Hold};
use observed::Observed;
use record::Sent;
use world::{Role, World};

/// The longest time before an end during the run.
const AMIDST_MAX: Duration = Duration::from_millis(50);

/// How a seed's system ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// After the threads outside are done.
    InOrder,
    /// While they go on.
    InOrderAmidst,
    /// With a deadline that may come first.
    CutShort(Duration),
    Dropped,
}

impl End {
    fn draw(random: &mut Random) -> Self {
        match random.below(5) {
            0 | 1 => Self::InOrder,
            2 => Self::InOrderAmidst,
            3 => Self::CutShort(Duration::from_micros(random.below(20_000))),
            _ => Self::Dropped,
        }
    }

    fn end(self, system: System) {
        let limit = match self {
            Self::Dropped => return drop(system),
            Self::CutShort(limit) => limit,
            Self::InOrder | Self::InOrderAmidst => LIMIT,
        };
        let report = system.shutdown(limit);
        if self != Self::CutShort(limit) {
            // What an older member told a newer one may find it drained: undelivered, but by no deadline.
            let is_orderly = report.stopped_at_deadline == 0
                && report.unfinished.is_empty()
                && report.stuck_workers.is_empty()
                && count_of(&system.dead_letters(), "sender_stopped") == 0;
            assert!(is_orderly, "{report:?}");
        }
    }
}

/// A seed's system and its actors.
struct Trial {
    /// Its owner, until the end.
    system: Option<System>,
    /// As an actor's context has it: it does not keep the threads.
    inner: System,
    world: Arc<World>,
    observed: Arc<Observed>,
    end: End,
}

impl Trial {
    fn new(
        world: World,
        builder: SystemBuilder,
        random: &mut Random,
        end: End,
        roles: impl Iterator<Item = Role>,
    ) -> Self {
        let (observed, records) = (Arc::<Observed>::default(), world.records.clone());
        let observer = observed.clone();
        let system = builder
            .on_dead_letter(move |letter| observer.observe(&records, &letter))
            .build()
            .expect("valid settings");
        let world = Arc::new(world);
        let targets = roles.map(|role| {
            let spawn = |options, factory| system.spawn_with(options, factory);
            let target = world.spawn(random, role, false, spawn);
            target.expect("valid options")
        });
        let targets = targets.collect();
        assert!(world.targets.set(targets).is_ok());
        let inner = system.downgrade().upgrade().expect("the system is there");
        Self {
            system: Some(system),
            inner,
            world,
            observed,
            end,
        }
    }

    fn end(&mut self) {
        self.end.end(self.system.take().expect("not ended yet"));
    }

    /// Waits until nothing is left, and checks all sums.
    fn check(self) {
        let (inner, world) = (&self.inner, &self.world);
        eventually("the end of everything", || {
            inner.actors_alive() == 0
                && inner.scheduler_snapshot().threads == 0
                && world.records.live() == 0
                && world.members_live() == 0
        });
        let faults = balance::faults(world, inner, &self.observed);
        assert!(faults.is_empty(), "{:?}: {faults:#?}", self.end);
        let watching = inner.downgrade();
        drop(self);
        eventually("nobody holds the system", || watching.upgrade().is_none());
    }
}

/// A mesh of actors, three threads outside that use them, and one that takes workers off-line and back.
fn run_mesh(seed: u64) {
    let mut random = Random::new(seed);
    let workers = 1 + random.below(3) as usize;
    let mut builder = System::builder().workers(workers);
    if random.below(3) == 0 {
        builder = builder.threads_max(workers + random.below(4) as usize);
    }
    let end = End::draw(&mut random);
    let mut world = World::new(seed, &mut random);
    world.may_pause_for_ever = matches!(end, End::CutShort(_) | End::Dropped);
    let roles = [Role::Server; 4].into_iter().chain([Role::Mesh; 8]);
    let mut trial = Trial::new(world, builder, &mut random, end, roles);
    let (world, system) = (trial.world.clone(), trial.inner.clone());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let drivers: Vec<_> = (1..=3)
            .map(|driver| {
                let (world, random) = (&world, Random::new(seed ^ driver << 48));
                scope.spawn(move || outside::drive(world, random))
            })
            .collect();
        let (system, is_over) = (&system, &is_over);
        scope.spawn(move || {
            outside::move_workers(system, Random::new(seed ^ 4 << 48), is_over);
        });
        if end != End::InOrder {
            let amidst = outside::STEPS * random.below(3);
            // Threads may be blocked until the end comes.
            let began = Instant::now();
            eventually("they are at it", || {
                world.records.len() >= amidst || began.elapsed() > AMIDST_MAX
            });
            trial.end();
        }
        for driver in drivers {
            driver.join().expect("no panic");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    drop((world, system));
    if end == End::InOrder {
        trial.end();
    }
    trial.check();
}

/// A thousand handlers that block at once for four servers, which then go on, panic and stop.
fn run_blocked(seed: u64) {
    const BLOCKED: u64 = 1_000;
    // Those that fill the servers' lanes do not block.
    const CALLERS: usize = 1_050;
    let mut random = Random::new(seed);
    let end = End::draw(&mut random);
    let mut world = World::new(seed, &mut random);
    world.only_waits = true;
    world.is_calm = true.into();
    let roles = std::iter::repeat_n(Role::Server, 4);
    let roles = roles.chain(std::iter::repeat_n(Role::Mesh, CALLERS));
    let builder = System::builder().workers(2).thread_stack(256 << 10);
    let mut trial = Trial::new(world, builder, &mut random, end, roles);
    let (world, gate) = (trial.world.clone(), Gate::default());
    for (arrived, target) in (1..).zip(world.everybody()) {
        let (fast, record) = world.fast(&target, 0, 2);
        record.set_sent(Sent::Accepted);
        let outcome = match target.role {
            Role::Server => target.actor.tell(Hold(fast, gate.clone())).map_err(drop),
            Role::Mesh => target.actor.tell(Call(fast)).map_err(drop),
        };
        outcome.expect("alive, with capacity");
        if target.role == Role::Server {
            gate.wait_arrived(arrived);
        }
    }
    eventually("a thousand block", || {
        trial.inner.scheduler_snapshot().threads_displaced >= BLOCKED
    });
    world.is_calm.store(false, Ordering::SeqCst);
    thread::scope(|scope| {
        let opener = scope.spawn(|| {
            if random.below(2) == 0 {
                thread::yield_now();
            }
            gate.open();
        });
        if end != End::InOrder {
            trial.end();
        }
        opener.join().expect("it opens the gate");
    });
    drop(world);
    if end == End::InOrder {
        trial.end();
    }
    trial.check();
}

/// Says which seed it was, if its test fails.
struct Replay(&'static str, u64);

impl Drop for Replay {
    #[allow(clippy::print_stderr, reason = "for whoever reads why a test failed")]
    fn drop(&mut self) {
        if thread::panicking() {
            let Self(test, seed) = self;
            eprintln!(
                "replay: FREEBOARD_STRESS_SEED={seed} cargo test -p freeboard-actor --test stress {test}"
            );
        }
    }
}

/// Panics on purpose come by the hundred: they are not printed.
fn hush() {
    static HUSHED: Once = Once::new();
    HUSHED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let text = text.unwrap_or_default();
            if !text.starts_with("on purpose") {
                print(info);
            }
        }));
    });
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the seeds that the environment says, or `count`.
fn run_seeds(test: &'static str, count: u64, run: fn(u64)) {
    hush();
    let first = variable("FREEBOARD_STRESS_SEED");
    let count = variable("FREEBOARD_STRESS_SEEDS").unwrap_or(first.map_or(count, |_| 1));
    let first = first.unwrap_or(1);
    for seed in first..first + count {
        let _replay = Replay(test, seed);
        run(seed);
    }
}

#[test]
fn everything_at_once_is_accounted_for() {
    run_seeds("everything_at_once", 100, run_mesh);
}

#[test]
fn a_thousand_blocked_handlers_are_accounted_for() {
    run_seeds("a_thousand_blocked", 3, run_blocked);
}
