//! The part of a test system that the runtime knows: the executor of the thread, faults, and what went wrong.

use std::{
    cell::{Cell, RefCell},
    fmt,
    fmt::Write as _,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Duration,
};

use freeboard_flow::random;
use freeboard_meter::clock;
use freeboard_platform::simulation::{self, Entered, Simulation, ThreadNumber, Token};
use freeboard_sched::{
    Phase, catch_panic,
    manual::{Candidates, Choose, Executor, GaveUp, Node},
};

use super::{STEPS_MAX, faults::FaultTable, gave_up_text, invariants::violation};
use crate::{
    builder::SystemBuilder,
    core::{Core, state_name},
    core_ref::CoreRef,
    current,
    dead_letter::{DeadLetter, DeadLetterObserver},
    reply::NO_DEADLINE_NS,
    supervision::{Failure, saturating_ns},
    system::{BuildError, System},
    system_inner::{FailureObserver, SystemInner},
    wait_graph,
};

/// Dead letters and failures that are described.
const NOTES_MAX: usize = 16;
/// Steps in a report.
const STEPS_SHOWN: usize = 20;
/// The most actors of a system for a check at each step. A system with more is checked less often.
const ACTORS_PER_STEP: usize = 64;
/// Waiting actors in a report.
const ACTORS_SHOWN: usize = 30;

thread_local! {
    static ACTIVE: RefCell<Option<Rc<Kit>>> = const { RefCell::new(None) };
}

/// The kit of the test system that this thread runs.
pub(crate) fn active() -> Option<Rc<Kit>> {
    ACTIVE.try_with(|kit| kit.borrow().clone()).ok().flatten()
}

/// Chooses among all with equal chances.
pub(super) fn uniform(seed: u64) -> Choose {
    let mut turn = 0;
    Box::new(move |candidates: &Candidates<'_>| {
        turn += 1;
        random::below(random::number(seed, turn - 1), candidates.len())
    })
}

/// Marks the thread as running a test system in virtual time, until it is dropped.
pub(super) struct Active {
    kit: Rc<Kit>,
    // Its drop gives the thread its own clock and threads again.
    _entered: Entered,
}

impl fmt::Debug for Active {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seed {}", self.kit.seed)
    }
}

impl Active {
    #[track_caller]
    pub(super) fn enter(seed: u64, choose: Choose) -> Self {
        let executor = Executor::new(choose, STEPS_MAX, current::leave);
        let kit = Rc::new(Kit {
            seed,
            executor,
            systems: RefCell::default(),
            actors: Cell::default(),
            faults: RefCell::default(),
            dead_letters: Arc::default(),
            failures: Arc::default(),
        });
        let entered = simulation::enter(kit.clone());
        let entered = entered
            .expect("this thread has a test system already: see `TestSystem::build_another`");
        ACTIVE.set(Some(kit.clone()));
        Self {
            kit,
            _entered: entered,
        }
    }

    pub(super) fn kit(&self) -> &Rc<Kit> {
        &self.kit
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        // Handlers and threads that wait end by themselves if they can, and drop what they hold.
        if !thread::panicking() {
            let executor = self.kit.executor();
            let is_over = || !executor.has_threads();
            catch_panic::call(|| executor.block(NO_DEADLINE_NS, is_over));
            catch_panic::call(|| executor.end());
        }
        ACTIVE.set(None);
        self.kit.executor().clear();
    }
}

/// The executor's threads. The test's own thread waits by running steps; a deadlock is then reported with the actors.
impl Simulation for Kit {
    fn spawn(&self, name: Option<&str>, body: Box<dyn FnOnce() + Send>) -> ThreadNumber {
        Simulation::spawn(&self.executor, name, body)
    }

    fn current(&self) -> ThreadNumber {
        self.executor.current()
    }

    #[track_caller]
    fn park(&self, token: Token, deadline_ns: u64) {
        if self.executor.is_root() {
            self.block(deadline_ns, || self.executor.take_token(token));
        } else {
            self.executor.park(token, deadline_ns);
        }
    }

    fn unpark(&self, thread: ThreadNumber, token: Token) {
        self.executor.unpark(thread, token);
    }

    fn yield_now(&self) {
        self.executor.yield_now();
    }
}

/// Texts of things that happened, at most [`NOTES_MAX`].
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    count: usize,
}

impl Notes {
    fn push(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.texts.len() < NOTES_MAX {
            self.texts.push(text());
        }
    }

    /// Empty if nothing happened.
    fn text(&self, title: &str) -> String {
        if self.count == 0 {
            return String::new();
        }
        let list = self.texts.iter().map(|text| format!("\n  {text}"));
        format!("{title}: {}{}", self.count, list.collect::<String>())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the test systems of one thread.
pub(crate) struct Kit {
    seed: u64,
    executor: Executor,
    systems: RefCell<Vec<Weak<SystemInner>>>,
    /// The actors that the last check has found.
    actors: Cell<usize>,
    pub(super) faults: RefCell<FaultTable>,
    dead_letters: Arc<Mutex<Notes>>,
    failures: Arc<Mutex<Notes>>,
}

impl Kit {
    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn build(&self, builder: SystemBuilder) -> Result<System, BuildError> {
        let system = builder.build_manual(self)?;
        let mut systems = self.systems.borrow_mut();
        systems.push(Arc::downgrade(system.inner()));
        Ok(system)
    }

    /// Whether the system is one of this kit.
    pub(super) fn runs(&self, system: &System) -> bool {
        let executor = system.inner().scheduler.executor();
        executor.is_some_and(|it| it.is_same(&self.executor))
    }

    /// Runs the systems until `is_ready`. `false` if the deadline passed first.
    #[track_caller]
    pub(crate) fn block(&self, deadline_ns: u64, is_ready: impl FnMut() -> bool) -> bool {
        match self.executor.block(deadline_ns, is_ready) {
            Err(GaveUp::DeadlinePassed) => false,
            outcome => {
                self.check(outcome, "a blocking call");
                true
            }
        }
    }

    #[track_caller]
    pub(crate) fn advance(&self, time: Duration) {
        let advanced = self.executor.advance(saturating_ns(time));
        self.check(advanced, "advance");
    }

    /// Fails the run if a call of the executor has failed.
    #[track_caller]
    pub(super) fn check(&self, outcome: Result<(), GaveUp>, call: &str) {
        if let Err(why) = outcome {
            let headline = format!("{call}: {}", gave_up_text(why));
            self.executor.fail(self.report(&headline));
        }
    }

    /// A failure's text: the headline, the seed, the actors that wait, and the last steps.
    pub(super) fn report(&self, headline: &str) -> String {
        let now = Duration::from_nanos(clock::now_ns() - 1);
        let mut text = format!(
            "{headline}\nseed {}, after {} steps, at {now:?}",
            self.seed,
            self.executor.steps()
        );
        let mut waiting = self.waiting();
        if !waiting.is_empty() {
            text += "\nactors that wait or have messages:";
        }
        let more = waiting.len().saturating_sub(ACTORS_SHOWN);
        waiting.truncate(ACTORS_SHOWN);
        waiting.into_iter().for_each(|line| text += &line);
        if more > 0 {
            let _ = write!(text, "\n  and {more} more");
        }
        for notes in [
            lock(&self.failures).text("failures"),
            lock(&self.dead_letters).text("dead letters"),
        ] {
            if !notes.is_empty() && !headline.contains(&notes) {
                let _ = write!(text, "\n{notes}");
            }
        }
        text += "\nlast steps:";
        let trace = self.executor.trace();
        for step in &trace[trace.len().saturating_sub(STEPS_SHOWN)..] {
            let _ = write!(text, "\n{step}");
        }
        text
    }

    /// The systems that exist, without those of killed nodes.
    fn living(&self) -> Vec<Arc<SystemInner>> {
        let is_dead = |it: &SystemInner| it.scheduler.executor().is_some_and(Executor::is_dead);
        let mut living = Vec::new();
        self.systems.borrow_mut().retain(|system| {
            let system = system.upgrade().filter(|it| !is_dead(it));
            let is_living = system.is_some();
            living.extend(system);
            is_living
        });
        living
    }

    /// All actors, by their ids.
    fn cells(&self) -> Vec<CoreRef> {
        let systems = self.living();
        let mut cells: Vec<_> = systems.iter().flat_map(|it| it.registry.cells()).collect();
        cells.sort_unstable_by_key(|cell| cell.id());
        cells
    }

    /// The actors of a node, by their ids.
    pub(super) fn cells_of(&self, node: Node) -> Vec<CoreRef> {
        let mut cells = self.cells();
        cells.retain(|cell| {
            let executor = cell.system.scheduler.executor();
            executor.is_some_and(|it| it.node() == node)
        });
        cells
    }

    /// A line for each actor.
    pub(super) fn actors(&self) -> Vec<String> {
        let cells = self.cells();
        let lines = cells.iter().map(|cell| self.describe(cell));
        lines.map(|line| line.trim_start().to_owned()).collect()
    }

    /// What is wrong with an actor of these systems, between two steps.
    pub(super) fn violation(&self) -> Option<String> {
        let living = self.living();
        let every = (self.actors.get() / ACTORS_PER_STEP + 1) as u64;
        let steps = self.executor.steps();
        if living.is_empty() || !steps.is_multiple_of(every) {
            return None;
        }
        // Of several systems one is checked, by turns.
        let turn = (steps / every % living.len() as u64) as usize;
        let mut actors = 0;
        let mut check = |core: &Core| {
            actors += 1;
            violation(core)
        };
        let found = living[turn].registry.find_map(&mut check);
        self.actors.set(actors);
        let (core, what) = found?;
        Some(format!("{}: {what}", self.describe(&core).trim_start()))
    }

    fn waiting(&self) -> Vec<String> {
        let cells = self.cells();
        let waits = |core: &Core| {
            let phase = core.state.phase();
            core.mailbox.depth() > 0 || !matches!(phase, Phase::Idle | Phase::Terminated)
        };
        let waiting = cells.iter().filter(|cell| waits(cell));
        waiting.map(|cell| self.describe(cell)).collect()
    }

    fn describe(&self, core: &Core) -> String {
        let number_of = |id: u64| self.executor.number_of(id);
        let executor = core.system.scheduler.executor();
        let node = executor.and_then(Executor::node_name);
        let node = node.map(|name| format!("{name}: ")).unwrap_or_default();
        let number = number_of(core.id().get());
        let mut text = format!("\n  {node}{}#{number}", core.type_name());
        if let Some(name) = core.options().name.as_deref() {
            let _ = write!(text, " \"{name}\"");
        }
        let state = match core.state.phase() {
            Phase::Queued => "runnable",
            phase => state_name(phase),
        };
        let _ = write!(text, " {state}, {} messages", core.mailbox.depth());
        if let Some(asked) = wait_graph::asked_by(core) {
            let number = number_of(asked.id().get());
            let _ = write!(text, ", waits for the reply of #{number}");
        }
        if let Some(target) = wait_graph::muted_for(core) {
            let number = number_of(target.id().get());
            let _ = write!(text, ", waits for capacity in the mailbox of #{number}");
        }
        text
    }

    pub(crate) fn observe_dead_letters(
        &self,
        other: Option<DeadLetterObserver>,
    ) -> DeadLetterObserver {
        let notes = self.dead_letters.clone();
        Box::new(move |letter: DeadLetter| {
            lock(&notes).push(|| {
                let DeadLetter {
                    actor_type,
                    message_type,
                    reason,
                    ..
                } = &letter;
                format!("{message_type} to {actor_type}: {}", reason.as_str())
            });
            if let Some(other) = &other {
                other(letter);
            }
        })
    }

    pub(crate) fn observe_failures(&self, other: Option<FailureObserver>) -> FailureObserver {
        let notes = self.failures.clone();
        Box::new(move |failure: &Failure| {
            lock(&notes).push(|| failure.to_string());
            if let Some(other) = &other {
                other(failure);
            }
        })
    }

    pub(super) fn dead_letters(&self) -> String {
        lock(&self.dead_letters).text("dead letters")
    }

    pub(super) fn forget_dead_letters(&self) {
        *lock(&self.dead_letters) = Notes::default();
    }

    pub(super) fn failures(&self) -> String {
        lock(&self.failures).text("failures")
    }
}
