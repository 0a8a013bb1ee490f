//! The test kit: a system that runs on the test's thread in a seeded order and in virtual time, probes, and faults.
//!
//! [`TestSystem`] is a [`System`] without threads. Each [step](TestSystem::step) is one seeded choice among the actors that
//! can run and the timers that are due, and runs the production code. So the same seed repeats the same run, and another
//! seed tries another order:
//!
//! ```
//! use freeboard_actor::{Actor, Context, Handler, testing::{Probe, TestSystem}};
//! use std::time::Duration;
//!
//! struct Reminder(freeboard_actor::Recipient<&'static str>);
//! struct Remind;
//!
//! impl Actor for Reminder {
//!     fn started(&mut self, cx: &mut Context<Self>) {
//!         cx.send_after(Duration::from_secs(3_600), Remind).expect("a timer");
//!     }
//! }
//!
//! impl Handler<Remind> for Reminder {
//!     type Reply = ();
//!     fn handle(&mut self, _msg: Remind, _cx: &mut Context<Self>) {
//!         self.0.tell_or_log("tea");
//!     }
//! }
//!
//! let system = TestSystem::new(7);
//! let probe = Probe::spawn(&system);
//! system.spawn(Reminder(probe.recipient()));
//! system.advance(Duration::from_secs(3_599));
//! probe.expect_none(Duration::ZERO);
//! system.advance(Duration::from_secs(1)); // takes no time
//! probe.expect_eq("tea");
//! system.finish();
//! ```
//!
//! [`each_seed`] repeats a test with many seeds, and tells how to repeat the one that failed.
//!
//! # Time
//!
//! The clock of the test's thread is virtual, and starts when the system is made. Restart back-off, timers, deadlines of
//! asks and overload policies follow it. `Instant::now()` does not: use [`TestSystem::now`] in a test, and
//! `freeboard::meter::clock::now` in code that must run in both.
//!
//! - [`TestSystem::run_until_idle`] does not move the clock.
//! - [`TestSystem::advance`] moves it from timer to timer. Everything that can run at a time runs before the clock moves.
//! - A blocking call on the test's thread (`ask(..).wait()`, [`ActorRef::join`](crate::ActorRef::join),
//!   [`System::shutdown`], [`TestSystem::run_until`], a [`Probe`]) runs the system. When nothing can run, the clock moves
//!   to the next timer. Without one the call panics with "deadlock" and lists the actors that wait.
//!
//! # Blocking handlers, pinned actors, tokio
//!
//! - A handler that blocks in `ask(..).wait()` or `tell_blocking` is suspended, and the other actors run on.
//! - Pinned actors have no thread of their own, and `cx.blocking` calls its function at once.
//! - No tokio runtime is attached unless the builder has one: tokio's timers and sockets panic with tokio's own message.
//!   Futures of `cx.pipe` are polled by the steps of the system. A waker that another thread calls fails the test, because
//!   the order would depend on real time. So does a tell from another thread.

mod faults;
mod invariants;
mod kit;
mod probe;

use std::{
    env,
    fmt::Write as _,
    marker::PhantomData,
    ops::{Deref, Range},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    thread,
    time::Duration,
};

use freeboard_meter::{ReasonCount, clock};
use freeboard_sched::manual::{Choose, Executor, GaveUp, TraceStep};

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    builder::SystemBuilder,
    reply::NO_DEADLINE_NS,
    supervision::panic_text,
    system::{BuildError, System},
};

pub(crate) use faults::before_handler;
pub use faults::{Faults, clear_faults, inject_into_any};
pub(crate) use kit::Kit;
use kit::{Active, active};
pub use probe::{PROBE_TIMEOUT, Probe, ProbeActor};

/// Steps that one blocking call, [`TestSystem::run_until_idle`] or [`TestSystem::advance`] may take.
pub const STEPS_MAX: u64 = 1_000_000;

/// The environment variable with the only seed that [`each_seed`] shall use.
pub const SEED_VARIABLE: &str = "FREEBOARD_SEED";

/// The virtual time that [`TestSystem::finish`] allows for a shutdown.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

/// A [`System`] that runs on the thread that made it, in a seeded order and in virtual time. See the
/// [module](crate::testing).
///
/// If a test fails, its drop prints the seed, the waiting actors and the last steps to standard error.
#[derive(Debug)]
pub struct TestSystem {
    system: System,
    // Dropped last.
    active: Active,
    thread: PhantomData<*const ()>,
}

impl Deref for TestSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl TestSystem {
    /// A system whose order depends on `seed`. Each step handles one message.
    ///
    /// # Panics
    /// If the thread has a test system already.
    #[must_use]
    #[track_caller]
    pub fn new(seed: u64) -> Self {
        let built = Self::build(seed, System::builder());
        built.expect("the default settings are valid")
    }

    /// As [`TestSystem::new`], with settings. Workers, threads and the driver are ignored. The budget of a step is the
    /// builder's; if that is the default, it is one message.
    ///
    /// # Errors
    /// [`BuildError`] for settings out of range.
    ///
    /// # Panics
    /// If the thread has a test system already.
    #[track_caller]
    pub fn build(seed: u64, builder: SystemBuilder) -> Result<Self, BuildError> {
        Self::build_with(seed, kit::uniform(seed), builder)
    }

    /// As [`TestSystem::build`], with another way to choose the next step. `seed` is only shown then.
    ///
    /// # Errors
    /// [`BuildError`] for settings out of range.
    ///
    /// # Panics
    /// If the thread has a test system already.
    #[track_caller]
    pub fn build_with(
        seed: u64,
        choose: Choose,
        builder: SystemBuilder,
    ) -> Result<Self, BuildError> {
        let active = Active::enter(seed, choose);
        let system = active.kit().build(builder)?;
        Ok(Self {
            system,
            active,
            thread: PhantomData,
        })
    }

    /// A further system that shares thread, order, clock and trace with this one.
    ///
    /// # Errors
    /// [`BuildError`] for settings out of range.
    pub fn build_another(&self, builder: SystemBuilder) -> Result<System, BuildError> {
        self.kit().build(builder)
    }

    fn kit(&self) -> &Rc<Kit> {
        self.active.kit()
    }

    /// The executor that runs it, for a simulated network.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        self.kit().executor()
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.kit().seed()
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(clock::now_ns() - 1)
    }

    /// Runs one actor for one budget, or calls one timer that is due. `false` if nothing can run at the present time.
    #[track_caller]
    pub fn step(&self) -> bool {
        self.kit().executor().step()
    }

    /// Runs until nothing can run at the present time. The clock stands still.
    ///
    /// # Panics
    /// After [`STEPS_MAX`] steps.
    #[track_caller]
    pub fn run_until_idle(&self) {
        let ran = self.kit().executor().run_until_idle();
        self.kit().check(ran, "run_until_idle");
    }

    /// Runs until the condition holds. When nothing can run, the clock moves to the next timer.
    ///
    /// # Panics
    /// After [`STEPS_MAX`] steps, or when nothing can run and no timer is set.
    #[track_caller]
    pub fn run_until(&self, condition: impl FnMut() -> bool) {
        let ran = self.kit().executor().block(NO_DEADLINE_NS, condition);
        self.kit().check(ran, "run_until");
    }

    /// Moves the clock by `time`, and runs everything that can run until then.
    ///
    /// # Panics
    /// After [`STEPS_MAX`] steps.
    #[track_caller]
    pub fn advance(&self, time: Duration) {
        self.kit().advance(time);
    }

    /// Faults to inject into an actor.
    pub fn faults<'a, A: Actor>(&'a self, actor: &'a ActorRef<A>) -> Faults<'a> {
        Faults::of(self.kit(), actor.cell().core())
    }

    /// The last steps, oldest first; at most [`freeboard_sched::manual::TRACE_STEPS_MAX`].
    #[must_use]
    pub fn trace(&self) -> Vec<TraceStep> {
        self.kit().executor().trace()
    }

    /// A checksum of all steps so far: time, actor and message type of each. Two runs of one seed have the same.
    #[must_use]
    pub fn trace_checksum(&self) -> u64 {
        self.kit().executor().trace_checksum()
    }

    /// A line for each actor of these systems: its type, number and name, its state and the messages in its mailbox.
    #[must_use]
    pub fn actors(&self) -> Vec<String> {
        self.kit().actors()
    }

    /// The seed, the actors that wait, and the last steps, for the message of an assertion.
    #[must_use]
    pub fn report(&self) -> String {
        self.kit().report("")
    }

    /// # Panics
    /// If there were dead letters since the start, or since the last [`TestSystem::forget_dead_letters`]; lists them.
    #[track_caller]
    pub fn expect_no_dead_letters(&self) {
        let letters = self.kit().dead_letters();
        assert!(letters.is_empty(), "{}", self.kit().report(&letters));
    }

    /// Forgets the dead letters so far, which the test expected.
    pub fn forget_dead_letters(&self) {
        self.kit().forget_dead_letters();
    }

    /// # Panics
    /// If an actor has failed since the start, by a panic, an error or a failed start; lists the failures.
    #[track_caller]
    pub fn expect_no_failures(&self) {
        let failures = self.kit().failures();
        assert!(failures.is_empty(), "{}", self.kit().report(&failures));
    }

    /// Shuts down, and checks that each actor handled its messages and terminated by itself, and that the counts add up
    /// ([`expect_counts`]).
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn finish(self) {
        let report = self.shutdown(FINISH_TIMEOUT);
        assert!(report.is_clean(), "the shutdown was not clean: {report:?}");
        expect_counts(&self);
    }
}

impl Drop for TestSystem {
    fn drop(&mut self) {
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the report of a failed test")]
            {
                eprintln!("{}", self.kit().report("a test with a seed failed"));
            }
        }
    }
}

/// Checks each lane of each actor of a system at rest: accepted = handled + shed + queued. Works for a system with threads,
/// too.
///
/// An async handler's message that is still being handled may be missing. Of terminated actors, only lost messages are
/// found: a closed lane also counts refused messages as shed.
///
/// # Panics
/// If a lane's counts do not add up.
#[track_caller]
pub fn expect_counts(system: &System) {
    let snapshot = system.snapshot();
    let check = |owner: &str, lane: String, accepted: u64, sum: u64, suspended: u64| {
        assert!(
            (sum..=sum + suspended).contains(&accepted),
            "{owner}: accepted {accepted} messages, handled, shed or queued {sum}: {lane}"
        );
    };
    for actor in &snapshot.actors {
        let suspended = u64::from(actor.state == "suspended");
        for lane in &actor.lanes {
            let sum = lane.handled + shed_after_acceptance(&lane.shed) + lane.depth;
            let text = format!("{lane:?}");
            check(&actor.actor_type, text, lane.accepted, sum, suspended);
        }
    }
    for ended in &snapshot.ended_by_type {
        for lane in &ended.lanes {
            let sum = lane.handled + shed_after_acceptance(&lane.shed) + lane.depth;
            let text = format!("{lane:?}");
            check(&ended.actor_type, text, lane.accepted.max(sum), sum, 0);
        }
    }
}

fn shed_after_acceptance(shed: &[ReasonCount]) -> u64 {
    let is_before = |count: &&ReasonCount| {
        invariants::BEFORE_ACCEPTANCE
            .iter()
            .any(|it| it.as_str() == count.reason)
    };
    let after = shed.iter().filter(|count| !is_before(count));
    after.map(|count| count.count).sum()
}

/// Builds a system on the node whose code runs, of the calling thread's test system.
///
/// # Errors
/// [`BuildError`] for settings out of range.
///
/// # Panics
/// If the thread runs no test system.
pub fn build_here(builder: SystemBuilder) -> Result<System, BuildError> {
    let kit = active().expect("this thread runs no test system");
    kit.build(builder)
}

/// Checks between two steps what holds for each actor of the calling thread's test systems: an idle one has no messages,
/// none waits in a circle of asks, no lane holds more than its bound, and accepted = handled + shed + queued. Of
/// several systems it checks one at each step, by turns; with more than 64 actors it checks only at some of the steps. `Ok`
/// without a test system.
///
/// # Errors
/// The first violation, as a text.
pub fn check_actors() -> Result<(), String> {
    active().and_then(|kit| kit.violation()).map_or(Ok(()), Err)
}

/// The run of the calling thread's test system has failed: this call and each later step panics, with a report that
/// begins with `headline`.
#[track_caller]
pub fn fail(headline: &str) -> ! {
    let Some(kit) = active() else {
        panic!("{headline}");
    };
    let report = kit.report(headline);
    kit.executor().fail(report)
}

/// Calls `test` with a new system for each seed, or only for the seed in the environment variable [`SEED_VARIABLE`].
///
/// ```
/// freeboard_actor::testing::each_seed(0..20, |system| {
///     assert_eq!(system.actors_alive(), 0);
/// });
/// ```
///
/// # Panics
/// If the test panics. The message has the seed, the last steps, and the command that repeats the run. If the variable is
/// no number.
#[track_caller]
pub fn each_seed(seeds: Range<u64>, test: impl Fn(&TestSystem)) {
    let only = env::var(SEED_VARIABLE).ok().map(|seed| {
        let seed = seed.parse();
        seed.unwrap_or_else(|_| panic!("{SEED_VARIABLE} is no number"))
    });
    let seeds = only.map_or(seeds, |seed| seed..seed + 1);
    for seed in seeds {
        let system = TestSystem::new(seed);
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(&system))) else {
            continue;
        };
        let text = panic_text(&*panic);
        // The kit's own failures have the report already.
        let mut report = if text.contains("last steps") {
            text
        } else {
            system.kit().report(&text)
        };
        let thread = thread::current();
        let test = thread.name().unwrap_or("<test>");
        let _ = write!(
            report,
            "\nto repeat this run: {SEED_VARIABLE}={seed} cargo test {test}"
        );
        drop(system);
        panic!("{report}");
    }
}

/// The result of an executor's call, for a message.
fn gave_up_text(why: GaveUp) -> &'static str {
    match why {
        GaveUp::Deadlock => "deadlock: nothing can run, and no timer is set",
        GaveUp::OutOfSteps => "the condition did not hold within the allowed number of steps",
        GaveUp::DeadlinePassed => "the deadline has passed",
    }
}
