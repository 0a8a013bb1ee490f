//! Jobs, gates and waiting with a deadline, for the tests.
#![allow(dead_code, reason = "tests/refused_threads.rs uses some of it")]

use std::{
    ops::Deref,
    ptr::NonNull,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use freeboard_sched::{After, Header, RunContext, Scheduler, SchedulerSettings, Task, Vtable};

/// Far more than any test takes, also on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        thread::yield_now();
    }
}

type Work = Box<dyn FnOnce(&mut RunContext<'_>) + Send>;

/// A task that runs once.
#[repr(C)]
struct Job {
    header: Header,
    number: u64,
    work: Work,
}

/// # Safety
/// As [`Vtable::run`] says, for the task of a [`Job`].
unsafe fn run(task: Task, context: &mut RunContext<'_>) -> After {
    // SAFETY: `job` made the task of a box, and it runs once.
    let job = unsafe { Box::from_raw(task.header().as_ptr().cast::<Job>()) };
    context.label().begin(job.number, || "Job");
    (job.work)(context);
    After::Done
}

static VTABLE: Vtable = Vtable {
    run,
    is_pinned: false,
};

/// A task with this number, to be scheduled once.
pub(crate) fn job_in(number: u64, work: impl FnOnce(&mut RunContext<'_>) + Send + 'static) -> Task {
    let job = Box::new(Job {
        header: Header::new(&VTABLE),
        number,
        work: Box::new(work),
    });
    let header = NonNull::from(Box::leak(job)).cast();
    // SAFETY: the header is the first field of a `Send` value that lives until it has run.
    unsafe { Task::from_header(header) }
}

pub(crate) fn job(number: u64, work: impl FnOnce() + Send + 'static) -> Task {
    job_in(number, |_| work())
}

pub(crate) fn scheduler_of(workers: usize, threads_max: usize) -> TestScheduler {
    start(SchedulerSettings {
        workers,
        threads_max: Some(threads_max),
        ..SchedulerSettings::default()
    })
}

pub(crate) fn start(settings: SchedulerSettings) -> TestScheduler {
    start_with(settings, || ())
}

pub(crate) fn start_with(
    settings: SchedulerSettings,
    on_end: impl FnOnce() + Send + 'static,
) -> TestScheduler {
    TestScheduler(Scheduler::start(settings, on_end).expect("valid settings"))
}

/// A scheduler that shuts down with its test: all its threads must terminate.
pub(crate) struct TestScheduler(Scheduler);

impl Deref for TestScheduler {
    type Target = Scheduler;
    fn deref(&self) -> &Scheduler {
        &self.0
    }
}

impl Drop for TestScheduler {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(self.0.shutdown(LIMIT), Vec::<usize>::new());
        }
    }
}

/// Threads arrive, and wait until the gate opens.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    arrived: usize,
    passed: usize,
    is_open: bool,
}

impl Gate {
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.arrived += 1;
        changed.notify_all();
        while !state.is_open {
            state = changed.wait(state).unwrap();
        }
        state.passed += 1;
        changed.notify_all();
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }

    /// An open gate.
    pub(crate) fn opened() -> Self {
        let gate = Self::default();
        gate.open();
        gate
    }

    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&GateState) -> bool) {
        let (state, changed) = &*self.0;
        let waiting = state.lock().unwrap();
        let is_not = |state: &mut GateState| !is_so(state);
        let (state, _) = changed.wait_timeout_while(waiting, LIMIT, is_not).unwrap();
        let (arrived, passed) = (state.arrived, state.passed);
        assert!(is_so(&state), "{what}: {arrived} arrived, {passed} passed");
    }

    #[track_caller]
    pub(crate) fn wait_arrived(&self, count: usize) {
        self.wait("all arrive", |state| state.arrived >= count);
    }

    #[track_caller]
    pub(crate) fn wait_passed(&self, count: usize) {
        self.wait("all pass", |state| state.passed >= count);
    }
}

/// Schedules a task, and waits until it has run.
#[track_caller]
pub(crate) fn check_served(scheduler: &Scheduler) {
    let gate = Gate::opened();
    let passed = gate.clone();
    scheduler.schedule(job(7, move || passed.pass()));
    gate.wait_passed(1);
}
