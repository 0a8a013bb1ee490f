//! The manual executor: tasks and timers run on one thread, one step at a time, in an order that a function chooses.
//!
//! ```text
//!   schedule ──▶ runnable tasks ──┐
//!                                 ├──▶ choose ──▶ step: one run of a task, or one timer
//!   after    ──▶ due timers ──────┘
//! ```
//!
//! Several schedulers and timers may share an executor. A run is the production code: `Task::run` with a
//! [`RunContext`] and a budget. There are no workers, no monitor and no timer thread. The clock is the virtual one of the
//! executor's thread (`freeboard_meter::clock`): only the executor moves it, to the next timer or further.
//!
//! Each task, timer's call and future runs on a stack of its own, and so do the threads that the code starts
//! (`freeboard_platform::thread`). If one of them waits, it is suspended, and the other ones run on: see `threads.rs`. The
//! test's own code, called the root, waits by running steps.
//!
//! Sources: shuttle (one choice per step), tokio's paused clock (time moves when nothing can run), FoundationDB's
//! simulator.

mod candidates;
mod future;
mod nodes;
mod threads;
mod timers;
mod trace;

use std::{
    cell::Cell,
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use freeboard_meter::clock;

use crate::{
    catch_panic,
    label::RunLabel,
    run_context::{Host, RunContext},
    settings::SchedulerSettings,
    shared::Shared,
    task::{After, Task},
};

pub use candidates::Candidates;
use future::FutureTask;
pub use nodes::Node;
use nodes::Nodes;
use threads::{Job, Shown, Threads};
pub(crate) use timers::OwnTimers;
use timers::{Due, TimerList};
use trace::Trace;
pub use trace::{StepKind, TRACE_STEPS_MAX, TraceStep};

/// Chooses one of the things that can happen next. There are at least 2. The result is below their number.
pub type Choose = Box<dyn FnMut(&Candidates<'_>) -> usize + Send>;

/// Called after each step.
type OnStep = Box<dyn FnMut(&TraceStep) + Send>;

/// The failure of a run that stops where [`Executor::stop_behind`] says.
pub const STOPPED: &str = "the run stopped where it should";

/// Takes the values of a suspended thread out of the thread-local variables of the operating system's thread; the result
/// puts them back.
pub type SaveLocals = fn() -> Box<dyn FnOnce()>;

/// Why [`Executor::block`] gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// The deadline has passed.
    DeadlinePassed,
    /// No task is runnable, and no timer is set.
    Deadlock,
    /// The condition did not hold within the allowed number of steps.
    OutOfSteps,
}

/// What can run.
enum Ready {
    Task(ReadyTask),
    Future(Arc<FutureTask>),
    /// A thread, with what it runs if it has not begun.
    Thread(u64, Option<Box<dyn FnOnce() + Send>>),
}

/// Something that can run.
struct Runnable {
    node: Node,
    /// Names what runs across its steps: see [`Candidates::key`].
    key: u64,
    ready: Ready,
}

/// A runnable task and its scheduler.
struct ReadyTask {
    task: Task,
    shared: Arc<Shared>,
}

struct State {
    choose: Choose,
    ready: Vec<Runnable>,
    timers: TimerList,
    threads: Threads,
    nodes: Nodes,
    /// The numbers of the tasks that have been runnable, by address, and the last number.
    task_keys: HashMap<usize, u64>,
    last_key: u64,
    on_step: Option<OnStep>,
    /// Tasks whose wake-ups are late, and by how much.
    delays: Vec<(Task, u64)>,
    steps: u64,
    trace: Trace,
    /// Yields of the test's code in a row that found nothing to run.
    idle_yields: u64,
    /// No step comes behind this one.
    steps_end: u64,
    /// Why nothing runs any more.
    failure: Option<String>,
}

struct Inner {
    thread: ThreadId,
    steps_max: u64,
    locals: SaveLocals,
    state: Mutex<State>,
}

/// Runs tasks and timers on the thread that made it. Cheap to clone; see the module.
///
/// A handle is one of a [`Node`]: what it adds runs there.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
    node: Node,
}

impl fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Executor(after {} steps)", self.steps())
    }
}

impl Executor {
    /// An executor of the calling thread. A blocking call that takes more than `steps_max` steps fails. `locals` is called
    /// whenever a thread of the executor is suspended.
    pub fn new(choose: Choose, steps_max: u64, locals: SaveLocals) -> Self {
        let state = State {
            choose,
            ready: Vec::new(),
            timers: TimerList::default(),
            threads: Threads::default(),
            nodes: Nodes::default(),
            task_keys: HashMap::new(),
            last_key: 0,
            on_step: None,
            delays: Vec::new(),
            steps: 0,
            trace: Trace::default(),
            idle_yields: 0,
            steps_end: u64::MAX,
            failure: None,
        };
        let inner = Inner {
            thread: thread::current().id(),
            steps_max,
            locals,
            state: Mutex::new(state),
        };
        Self {
            inner: Arc::new(inner),
            node: Node::WORLD,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Runs one task or one timer that is due. `false` if there is none; then the clock must move.
    ///
    /// # Panics
    /// On another thread, and after [`Executor::fail`].
    pub fn step(&self) -> bool {
        self.check_sound();
        let now_ns = clock::now_ns();
        let mut state = self.lock();
        let choice = loop {
            let at = &mut *state;
            let candidates = Candidates::new(&at.ready, &at.timers, now_ns);
            let choice = match candidates.len() {
                0 => return false,
                1 => 0,
                _ => (at.choose)(&candidates),
            };
            if choice < at.ready.len() || !at.hold_due(choice - at.ready.len()) {
                break choice;
            }
        };
        if state.steps >= state.steps_end && !thread::panicking() {
            drop(state);
            self.fail(STOPPED.to_owned());
        }
        state.steps += 1;
        state.idle_yields = 0;
        let step = state.steps;
        if choice < state.ready.len() {
            let Runnable { node, ready, .. } = state.ready.swap_remove(choice);
            drop(state);
            match ready {
                Ready::Task(ready) => {
                    let label = Arc::new(RunLabel::default());
                    let (executor, shown) = (self.clone(), Shown::Task(label.clone()));
                    let job = move || executor.run(ready, &label);
                    self.run_job(step, node, shown, Box::new(job));
                }
                Ready::Future(future) => {
                    self.run_job(step, node, Shown::Future, Box::new(move || future.poll()));
                }
                Ready::Thread(number, body) => {
                    let job = body.map(|body| -> Job { Box::new(move || _ = call(body)) });
                    self.resume(step, number, job);
                }
            }
        } else {
            let index = choice - state.ready.len();
            let (due_ns, node, due) = state.timers.take_due(index);
            match due {
                Due::Wakeup(ready) => {
                    state.add_task(node, ready);
                    drop(state);
                }
                Due::Thread(number) => {
                    drop(state);
                    self.wake_thread(number);
                }
                Due::Timer(timer) => {
                    drop(state);
                    let executor = self.on(node);
                    let job = move || timers::fire(&executor, now_ns, due_ns, timer);
                    self.run_job(step, node, Shown::Timer, Box::new(job));
                }
                Due::Call(name, function) => {
                    drop(state);
                    self.run_job(step, node, Shown::Call(name), function);
                }
            }
        }
        self.check_conditions();
        self.tell_step(step);
        self.check_sound();
        true
    }

    /// Calls `on_step` after each step from now on, on the test's own stack. It may use the executor, but must not run it.
    pub fn on_step(&self, on_step: impl FnMut(&TraceStep) + Send + 'static) {
        self.lock().on_step = Some(Box::new(on_step));
    }

    /// Ends its use, and frees its stacks, its trace and what waits. Nodes that were killed hold the executor for ever.
    pub fn clear(&self) {
        let mut state = self.lock();
        let cleared = (
            mem::take(&mut state.ready),
            mem::take(&mut state.timers),
            mem::take(&mut state.threads),
            mem::take(&mut state.trace),
            mem::take(&mut state.task_keys),
            state.on_step.take(),
            mem::replace(&mut state.choose, Box::new(|_| 0)),
        );
        drop(state);
        // Destructors of foreign code.
        drop(cleared);
    }

    /// The run fails with [`STOPPED`] instead of the step behind this one.
    pub fn stop_behind(&self, step: u64) {
        self.lock().steps_end = step;
    }

    fn tell_step(&self, step: u64) {
        let mut state = self.lock();
        let Some(mut on_step) = state.on_step.take() else {
            return;
        };
        let last = state.trace.last().filter(|it| it.step == step).cloned();
        drop(state);
        if let Some(last) = last {
            on_step(&last);
        }
        self.lock().on_step.get_or_insert(on_step);
    }

    /// Runs steps until nothing can run at the present time.
    ///
    /// # Errors
    /// [`GaveUp::OutOfSteps`].
    pub fn run_until_idle(&self) -> Result<(), GaveUp> {
        let last = self.steps().saturating_add(self.inner.steps_max);
        while self.step() {
            if self.steps() > last {
                return Err(GaveUp::OutOfSteps);
            }
        }
        Ok(())
    }

    /// Runs steps until `is_ready`. When nothing can run, the clock moves to the next timer, but not beyond `deadline_ns`.
    /// In a task or a timer's call it waits, and others run the steps.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub fn block(
        &self,
        deadline_ns: u64,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), GaveUp> {
        if !self.is_root() {
            return self.suspend_until(deadline_ns, &mut is_ready);
        }
        let last = self.steps().saturating_add(self.inner.steps_max);
        loop {
            if is_ready() {
                return Ok(());
            }
            if clock::now_ns() >= deadline_ns {
                return Err(GaveUp::DeadlinePassed);
            }
            if self.steps() > last {
                return Err(GaveUp::OutOfSteps);
            }
            if self.step() {
                continue;
            }
            let next_ns = self.next_timer_ns().unwrap_or(u64::MAX).min(deadline_ns);
            if next_ns == u64::MAX {
                return Err(GaveUp::Deadlock);
            }
            clock::set_virtual_ns(next_ns);
        }
    }

    /// Moves the clock by `time_ns`. What can run at a time runs before the clock moves on. In a task or a timer's call it
    /// waits for this time.
    ///
    /// # Errors
    /// [`GaveUp::OutOfSteps`].
    pub fn advance(&self, time_ns: u64) -> Result<(), GaveUp> {
        let until_ns = clock::now_ns().saturating_add(time_ns).min(u64::MAX - 1);
        match self.block(until_ns, || false) {
            Ok(()) | Err(GaveUp::DeadlinePassed) if !self.is_root() => Ok(()),
            Ok(()) | Err(GaveUp::DeadlinePassed) => self.run_until_idle(),
            Err(error) => Err(error),
        }
    }

    /// When the first timer is due.
    pub fn next_timer_ns(&self) -> Option<u64> {
        self.lock().timers.next_ns()
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// The last steps, at most [`TRACE_STEPS_MAX`], oldest first.
    pub fn trace(&self) -> Vec<TraceStep> {
        self.lock().trace.steps().cloned().collect()
    }

    /// A checksum of all steps so far: equal for two equal runs.
    pub fn trace_checksum(&self) -> u64 {
        self.lock().trace.checksum()
    }

    /// The number of a task's owner in the trace: owners are numbered from 1, by their first appearance.
    pub fn number_of(&self, owner: u64) -> u32 {
        self.lock().trace.number_of(owner)
    }

    /// From now on, `task` becomes runnable only this long after it was scheduled; 0 for at once.
    pub fn delay_wakeups(&self, task: Task, delay_ns: u64) {
        let mut state = self.lock();
        state.delays.retain(|(known, _)| *known != task);
        if delay_ns > 0 {
            state.delays.push((task, delay_ns));
        }
    }

    /// No wake-up is late from now on.
    pub fn end_delays(&self) {
        self.lock().delays.clear();
    }

    /// Whether a task that is scheduled is among those that can run, or wait for the end of a delay or a pause. If not, it
    /// was lost.
    pub fn has_task(&self, task: Task) -> bool {
        let state = self.lock();
        let is_it = |it: &ReadyTask| it.task == task;
        let is_ready = |it: &Runnable| matches!(&it.ready, Ready::Task(ready) if is_it(ready));
        state.ready.iter().any(is_ready)
            || state.nodes.holds(is_it)
            || state.timers.has_wakeup(is_it)
    }

    /// Calls `function` in a step of its own at `due_ns` of the virtual clock: for packets of a simulated network, and what
    /// else happens outside the actors. Among the timers that are due at the same time, the order is chosen. `name` is its
    /// name in the trace. It cannot be cancelled.
    pub fn call_at(
        &self,
        due_ns: u64,
        name: &'static str,
        function: impl FnOnce() + Send + 'static,
    ) {
        self.check_thread();
        let due = Due::Call(name, Box::new(function));
        self.lock().insert_due(due_ns, self.node, due);
    }

    /// Nothing runs any more: drops what could, and the trace. A system of a killed node is leaked, and with it this
    /// executor; the rest of it must not be.
    pub fn end(&self) {
        let held = {
            let mut state = self.lock();
            let state = &mut *state;
            (
                mem::take(&mut state.ready),
                mem::take(&mut state.timers),
                mem::take(&mut state.threads),
                mem::take(&mut state.trace),
                mem::take(&mut state.task_keys),
                state.on_step.take(),
            )
        };
        // Outside of the lock: destructors may call the executor.
        drop(held);
    }

    /// The run has failed for good: this call and each later step panics with `text`. A handler's panic would be caught.
    #[track_caller]
    pub fn fail(&self, text: String) -> ! {
        self.lock().failure.get_or_insert_with(|| text.clone());
        panic!("{text}");
    }

    /// Why the run has failed.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    #[track_caller]
    fn check_sound(&self) {
        self.check_thread();
        // The destructors of a test that has failed may wait. A second panic would end the process without a report.
        if thread::panicking() {
            return;
        }
        if let Some(text) = self.failure() {
            panic!("{text}");
        }
    }

    /// Another thread would make the order depend on time: the run fails, and so does that thread.
    fn check_thread(&self) {
        if thread::current().id() != self.inner.thread {
            let text =
                "another thread used a test system: all senders must be on the test's thread";
            self.fail(text.to_owned());
        }
    }

    pub(crate) fn push(&self, task: Task, shared: &Arc<Shared>) {
        self.check_thread();
        let mut state = self.lock();
        // Under the lock: see `close`.
        if shared.is_shut_down() {
            return;
        }
        let ready = ReadyTask {
            task,
            shared: shared.clone(),
        };
        let delay = state.delays.iter().find(|(known, _)| *known == task);
        match delay.map(|(_, delay_ns)| *delay_ns) {
            Some(delay_ns) => {
                let due_ns = clock::now_ns().saturating_add(delay_ns);
                state.insert_due(due_ns, self.node, Due::Wakeup(ready));
            }
            None => state.add_task(self.node, ready),
        }
    }

    /// One run with the scheduler's budget.
    fn run(&self, ready: ReadyTask, label: &RunLabel) {
        let ReadyTask { task, shared } = ready;
        let limits = shared.settings.budget;
        let host = ManualHost::default();
        let mut context = RunContext::new(&host, limits, label, &shared.tick, 0, false);
        shared.enter(THREAD);
        // SAFETY: the task came from the list of runnable tasks, and no other queue holds it.
        let after = unsafe { task.run(&mut context) };
        if after != After::Done {
            self.push_again(task, &shared);
        }
        if host.has_ended.get() {
            // Another task may get its memory.
            self.delay_wakeups(task, 0);
            self.lock().forget_task(task);
        }
        shared.leave(THREAD);
    }

    /// A task that yields does so without a delay.
    fn push_again(&self, task: Task, shared: &Arc<Shared>) {
        let mut state = self.lock();
        if !shared.is_shut_down() {
            let node = shared.manual.as_ref().map_or(self.node, |it| it.node);
            let shared = shared.clone();
            state.add_task(node, ReadyTask { task, shared });
        }
    }

    /// Forgets the tasks of a scheduler that is shut down. It may be in a run; then its last run closes it.
    pub(crate) fn close(&self, shared: &Arc<Shared>) {
        let is_own_task = |ready: &ReadyTask| Arc::ptr_eq(&ready.shared, shared);
        let is_own = |it: &Runnable| matches!(&it.ready, Ready::Task(it) if is_own_task(it));
        let forgotten = {
            let mut state = self.lock();
            if shared.is_shut_down() {
                return;
            }
            shared.request_shutdown();
            let (own, others) = mem::take(&mut state.ready).into_iter().partition(is_own);
            state.ready = others;
            let held = state.nodes.extract_held(is_own);
            let wakeups = state.timers.extract_wakeups(is_own_task);
            let own: Vec<_> = own;
            (own, held, wakeups)
        };
        drop(forgotten);
        shared.leave(THREAD);
    }
}

impl State {
    /// A task becomes runnable.
    fn add_task(&mut self, node: Node, ready: ReadyTask) {
        let address = ready.task.header().addr().get();
        let last = &mut self.last_key;
        let key = *self.task_keys.entry(address).or_insert_with(|| {
            *last += 1;
            *last
        });
        self.add(node, key, Ready::Task(ready));
    }

    /// Something becomes runnable, unless its node is dead or paused.
    fn add(&mut self, node: Node, key: u64, ready: Ready) {
        let runnable = Runnable { node, key, ready };
        if let Some(runnable) = self.nodes.admit(runnable) {
            self.ready.push(runnable);
        }
    }

    fn forget_task(&mut self, task: Task) {
        self.task_keys.remove(&task.header().addr().get());
    }

    /// Adds what is no timer of a `Timers`, unless its node is dead; returns its place.
    fn insert_due(&mut self, due_ns: u64, node: Node, due: Due) -> (u64, u64) {
        match self.nodes.is_dead(node) {
            true => (due_ns, 0),
            false => self.timers.insert(due_ns, node, due),
        }
    }

    /// Holds one of those that are due back if its node is paused.
    fn hold_due(&mut self, index: usize) -> bool {
        let node = self.timers.node_of_due(index);
        if !self.nodes.is_paused(node) {
            return false;
        }
        let (due_ns, _, due) = self.timers.take_due(index);
        self.nodes.hold_due(node, due_ns, due);
        true
    }
}

/// The number under which a scheduler counts its runs and itself among the live threads.
pub(crate) const THREAD: usize = 0;

/// The scheduler's settings with the least of what only threads need.
pub(crate) fn without_threads(settings: SchedulerSettings) -> SchedulerSettings {
    SchedulerSettings {
        workers: 1,
        threads_max: Some(1),
        driver: None,
        fault: None,
        ..settings
    }
}

/// The host of a run: each run ends with its budget.
#[derive(Debug, Default)]
struct ManualHost {
    /// The task was its actor's last one.
    has_ended: Cell<bool>,
}

impl Host for ManualHost {
    fn is_wanted_elsewhere(&self) -> bool {
        true
    }

    fn wait(&self, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn end(&self) {
        self.has_ended.set(true);
    }

    fn count_run(&self) {}
}

/// Calls foreign code of a timer.
fn call<R>(function: impl FnOnce() -> R) -> Option<R> {
    catch_panic::call(function)
}
