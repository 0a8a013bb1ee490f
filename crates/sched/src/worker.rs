//! A worker: a thread that takes tasks from the queues and runs them.
//!
//! ```text
//!   next slot ──> local ring ──> injector ──> others' rings ──> sleep
//!   (<= 3 times    (256, FIFO)    (each 31 runs  (one searcher,
//!    in a row)                     or 500 us      spins a while)
//!                                  first)
//! ```
//!
//! A task that is woken by a message goes to the worker's next slot, so that a conversation between two actors stays on
//! one core and in its cache; the task that it displaces goes to the local ring. A searcher takes it only if the run that
//! woke it goes on: in a blocking handler it would wait until the monitor finds it. A task whose budget expired goes to the
//! injector, behind all others. Tasks that the driver makes ready while workers are busy have their own queue, which
//! takes turns with the others.

mod tasks;

use std::{
    cell::{Cell, RefCell},
    io,
    ptr::NonNull,
    sync::Arc,
    thread,
};

use freeboard_meter::{WorkerState, clock};

use crate::{
    catch_panic,
    driver::{Driver, PollInterval, PollOrigin},
    run_context::{Host, RunContext},
    shared::Shared,
    sync::fence_for_loom,
    task::{After, Task},
    thread_slot::{SlotState, ThreadSlot},
    worker_slots::{HandOver, HandOverReason, Rested},
};

/// Runs between two checks of the injector while the local queues have work.
const INJECTOR_EVERY_RUNS: u32 = 31;
/// Time between two checks of the injector, in nanoseconds.
const INJECTOR_EVERY_NS: u64 = 500_000;
/// The number of runs after a long one that read the clock from the start.
const LONG_RUNS_REMEMBERED: u32 = 64;
/// After a long run, the most short I/O tasks in a row before the other tasks' turn.
const IO_IN_ROW_MAX: u32 = 64;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// Where a task goes that becomes ready on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// Into the next slot: the running task woke it.
    NextSlot,
    /// Behind the waiting tasks: a poll of the driver made it ready.
    Last,
    /// Before all waiting tasks.
    First,
}

#[inline]
fn interval_of(driver: &dyn Driver) -> PollInterval {
    catch_panic::call(|| driver.poll_interval()).unwrap_or(PollInterval::Never)
}

/// Starts one more thread, which gets a vacant worker slot or becomes a spare. `false` if no further thread is allowed.
pub(crate) fn start_thread(shared: &Arc<Shared>) -> io::Result<bool> {
    let Some(thread) = shared.worker_slots.reserve_thread() else {
        return Ok(false);
    };
    shared.enter(thread);
    let mut builder = thread::Builder::new().name(format!("{}-{thread}", shared.settings.name));
    if let Some(bytes) = shared.settings.stack_bytes {
        builder = builder.stack_size(bytes);
    }
    let own = shared.clone();
    let started = builder.spawn(move || {
        // Tasks must not panic, and those of actors do not. If one does, the others still see that this thread
        // terminates.
        let _leave = LeaveOnDrop(&own, thread);
        own.threads.get(thread).enter();
        own.settings
            .run_thread(&mut || Worker::new(thread, own.clone()).work());
    });
    if let Err(error) = started {
        shared.worker_slots.forget_thread(thread);
        shared.leave(thread);
        return Err(error);
    }
    shared.worker_slots.add_thread(thread, &shared.sleep);
    Ok(true)
}

struct LeaveOnDrop<'a>(&'a Shared, usize);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        let Self(shared, thread) = *self;
        shared.threads.get(thread).leave();
        shared.worker_slots.leave(thread);
        shared.leave(thread);
    }
}

/// Marks the thread as a worker's until it is dropped, also by a panic.
struct Current(());

impl Current {
    fn enter(worker: &Worker) -> Self {
        CURRENT.with(|current| current.set(worker));
        Self(())
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(std::ptr::null()));
    }
}

pub(crate) struct Worker {
    /// The index of its thread slot.
    thread: usize,
    slot: NonNull<ThreadSlot>,
    shared: Arc<Shared>,
    /// The worker that the thread is, or was last.
    index: Cell<usize>,
    state: Cell<WorkerState>,
    runs_since_injector: Cell<u32>,
    /// The last clock read before taking from the injector.
    injector_read_ns: Cell<u64>,
    /// The number of runs for which a recent long run still counts.
    long_runs_left: Cell<u32>,
    /// Whether the last task came from the injector because it was its turn.
    was_injectors_turn: Cell<bool>,
    next_slot_uses: Cell<u32>,
    runs_since_poll: Cell<u32>,
    messages_since_poll: Cell<u32>,
    /// When the driver is to be polled next, and the monitor's tick at the last poll.
    poll_due_ns: Cell<u64>,
    polled_at_tick: Cell<u64>,
    /// Where tasks go that become ready here.
    placement: Cell<Placement>,
    /// Whether the last run that was not an I/O task was long.
    was_long: Cell<bool>,
    /// I/O tasks run in a row.
    io_in_row: Cell<u32>,
    /// Tasks from a poll that go before all others.
    io_first: RefCell<Vec<Task>>,
    /// A run of another worker with a task in the next slot, and when it was seen first.
    long_run: Cell<(RunOfThread, u64)>,
    random: Cell<u32>,
}

/// A thread, and its count of runs.
type RunOfThread = (usize, u64);

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Worker({})", self.thread)
    }
}

impl Worker {
    pub(crate) fn new(thread: usize, shared: Arc<Shared>) -> Self {
        Self {
            thread,
            slot: NonNull::from(shared.threads.get(thread)),
            shared,
            index: Cell::new(0),
            state: Cell::new(WorkerState::Park),
            runs_since_injector: Cell::new(0),
            injector_read_ns: Cell::new(0),
            long_runs_left: Cell::new(0),
            was_injectors_turn: Cell::new(false),
            next_slot_uses: Cell::new(0),
            runs_since_poll: Cell::new(0),
            messages_since_poll: Cell::new(0),
            poll_due_ns: Cell::new(0),
            polled_at_tick: Cell::new(0),
            placement: Cell::new(Placement::NextSlot),
            was_long: Cell::new(false),
            io_in_row: Cell::new(0),
            io_first: RefCell::default(),
            long_run: Cell::default(),
            random: Cell::new(0x9e37_79b9 ^ (thread as u32 + 1)),
        }
    }

    #[inline]
    fn slot(&self) -> &ThreadSlot {
        // SAFETY: a thread slot never moves while `shared` lives.
        unsafe { self.slot.as_ref() }
    }

    /// Whether a recent run used up its time.
    #[inline]
    fn has_long_runs(&self) -> bool {
        self.long_runs_left.get() > 0
    }

    /// The worker that the thread is, or was last.
    pub(crate) fn index(&self) -> usize {
        self.index.get()
    }

    #[inline]
    fn is_worker(&self) -> bool {
        matches!(self.slot().state.get(), SlotState::Worker(_))
    }

    fn enter_state(&self, state: WorkerState, now_ns: u64) {
        if self.state.replace(state) == WorkerState::Run {
            self.slot().label.clear();
        }
        self.slot().accounting.enter(state, now_ns);
    }

    /// Calls `use_worker` if the calling thread is a worker of any scheduler.
    #[inline]
    pub(crate) fn with_any<R>(use_worker: impl FnOnce(&Worker) -> R) -> Option<R> {
        let worker = CURRENT.with(Cell::get);
        // SAFETY: the pointer is set only while `work` holds the worker, on this thread.
        unsafe { worker.as_ref() }.map(use_worker)
    }

    /// Calls `use_worker` if the calling thread is a worker of `shared`.
    #[inline]
    pub(crate) fn with_current<R>(
        shared: &Arc<Shared>,
        use_worker: impl FnOnce(&Worker) -> R,
    ) -> Option<R> {
        Self::with_any(|worker| Arc::ptr_eq(&worker.shared, shared).then(|| use_worker(worker)))?
    }

    /// Runs until the thread is retired or the scheduler shuts down.
    pub(crate) fn work(&self) {
        let _current = Current::enter(self);
        if !self.start_as(self.shared.worker_slots.wait(self.thread)) {
            return;
        }
        let mut is_searching = true;
        while !self.shared.is_shut_down() {
            if !self.is_worker() {
                if is_searching {
                    self.leave_search();
                    self.leave_driver();
                }
                if !self.wait_for_slot() {
                    return;
                }
                is_searching = true;
            }
            if !is_searching {
                if let Some(task) = self.next_task() {
                    self.run(task);
                    continue;
                }
                is_searching = self.shared.sleep.try_start_searching();
            }
            if is_searching && let Some(task) = self.search() {
                self.leave_search();
                is_searching = false;
                self.run(task);
                continue;
            }
            self.rest(is_searching);
            // A worker returns from rest as a searcher.
            is_searching = true;
        }
    }

    /// Gives the queue to the other workers and waits for a worker slot. `false` if the thread terminates.
    fn wait_for_slot(&self) -> bool {
        self.give_queue_away();
        self.enter_state(WorkerState::Park, clock::now_ns());
        let shared = &self.shared;
        self.start_as(shared.worker_slots.rest(self.thread, &shared.sleep))
    }

    fn start_as(&self, rested: Rested) -> bool {
        match rested {
            Rested::Retired => false,
            Rested::Worker { stuck_since_ns } => {
                if let SlotState::Worker(index) = self.slot().state.get() {
                    self.index.set(index);
                }
                if let Some(since_ns) = stuck_since_ns {
                    let delay_ns = clock::now_ns().saturating_sub(since_ns);
                    self.shared.gauges.rescue_delay.record_shared(delay_ns);
                }
                true
            }
        }
    }

    /// The running task announced that it will block.
    pub(crate) fn count_blocking_call(&self) {
        self.shared.gauges.blocking_calls.add(1);
    }

    pub(crate) fn give_queue_away(&self) {
        let next = self.slot().next_slot.take();
        self.give_away(next.into_iter());
    }

    /// Moves `first`, and then what is in the ring, to the global queue.
    fn give_away(&self, first: impl Iterator<Item = Task>) {
        let ring = std::iter::from_fn(|| self.slot().queue.pop());
        let given: Vec<Task> = first.chain(ring).collect();
        if !given.is_empty() {
            self.shared.injector.push_batch(&given);
            self.shared.wake_one(self.thread);
        }
    }

    /// Within a run: hands the worker slot and the queue over to another thread. `false` if no thread is available; then
    /// the thread keeps both.
    pub(crate) fn give_slot_away(&self) -> bool {
        if self.state.get() != WorkerState::Run {
            return true;
        }
        let shared = &self.shared;
        let hand_over = || {
            let start = || start_thread(shared).is_ok();
            let (thread, reason) = (self.thread, HandOverReason::Announced);
            shared
                .worker_slots
                .hand_over(thread, reason, &shared.sleep, start)
        };
        if self.is_worker() && hand_over() == HandOver::NoSpare {
            self.shared.gauges.spares_exhausted.add(1);
            return false;
        }
        self.give_queue_away();
        true
    }

    fn rest(&self, was_searching: bool) {
        let own = self.slot();
        own.parks.bump(1);
        self.enter_state(WorkerState::Park, clock::now_ns());
        let sleep = &self.shared.sleep;
        sleep.sleep(self.thread, self.index.get(), was_searching, || {
            self.shared.has_work() || !self.is_worker()
        });
        self.shared.monitor_parker.wake();
    }

    /// The thread may have waited in the driver, and does not return there: another worker is woken to do so.
    fn leave_driver(&self) {
        if self.is_driver_watching() {
            self.shared.sleep.force_wake();
        }
    }

    fn is_driver_watching(&self) -> bool {
        let driver = self.shared.settings.driver.as_ref();
        driver.and_then(|driver| catch_panic::call(|| driver.is_watching())) == Some(true)
    }

    /// F1 and F2 of the sleep protocol.
    fn leave_search(&self) {
        let is_last = self.shared.sleep.stop_searching();
        self.check_still_worker();
        if is_last && self.shared.has_work() {
            self.shared.wake_one(self.thread);
        }
    }

    fn run(&self, task: Task) {
        let mut began_ns = 0;
        if self.state.get() != WorkerState::Run {
            began_ns = clock::now_ns();
            self.enter_state(WorkerState::Run, began_ns);
        }
        let own = self.slot();
        own.runs.bump(1);
        let shared = &self.shared;
        let (limits, has_long_runs) = (shared.settings.budget, self.has_long_runs());
        let mut context = RunContext::new(
            self,
            limits,
            &own.label,
            &shared.tick,
            began_ns,
            has_long_runs,
        );
        // SAFETY: the task came from a run queue, and no other queue holds it.
        let after = unsafe { task.run(&mut context) };
        let long_runs_left = self.long_runs_left.get().saturating_sub(1);
        if self.io_in_row.get() == 0 {
            self.was_long.set(context.is_time_up());
        } else if context.is_time_up() {
            self.io_in_row.set(IO_IN_ROW_MAX);
        }
        if context.is_time_up() {
            self.long_runs_left.set(LONG_RUNS_REMEMBERED);
            // Tasks with long runs share one queue, first come first served. Otherwise the tasks in this ring would get
            // each second turn.
            self.give_away(std::iter::empty());
        } else {
            self.long_runs_left.set(long_runs_left);
        }
        if context.is_time_up()
            || context.clock_read_ns() > self.injector_read_ns.get() + INJECTOR_EVERY_NS
        {
            self.runs_since_injector.set(INJECTOR_EVERY_RUNS);
        }
        self.poll_if_due(&context);
        match after {
            After::Done => {}
            After::BudgetSpent => {
                own.budget_expiries.bump(1);
                self.shared.injector.push(task);
                // Without other work this worker takes the task again at once. Waking another worker would only move the
                // task between cores.
                if own.depth() > 0 || self.shared.injector.len() > 1 || !self.is_worker() {
                    self.shared.wake_one(self.thread);
                }
            }
            After::Yield => {
                self.shared.inject(task);
                thread::yield_now();
            }
        }
    }

    /// Polls the driver if it is time.
    #[inline]
    fn poll_if_due(&self, run: &RunContext<'_>) {
        let Some(driver) = self.shared.settings.driver.as_deref() else {
            return;
        };
        let runs = self.runs_since_poll.get().saturating_add(1);
        self.runs_since_poll.set(runs);
        // A run without a message counts as one message, so that no worker runs for ever without a poll.
        let messages = self.messages_since_poll.get();
        let messages = messages.saturating_add(run.messages().max(1));
        self.messages_since_poll.set(messages);
        let interval = interval_of(driver);
        let is_due = match interval {
            PollInterval::Never => false,
            PollInterval::Every { runs: most, .. } => {
                runs >= most
                    || run.clock_read_ns() >= self.poll_due_ns.get()
                    || self.shared.tick.now() != self.polled_at_tick.get()
            }
            PollInterval::Budgets(count) => {
                messages >= count.saturating_mul(self.shared.settings.budget.messages)
            }
        };
        if is_due && self.is_worker() {
            self.poll(driver, interval);
        }
    }

    fn poll(&self, driver: &dyn Driver, interval: PollInterval) {
        let now_ns = clock::now_ns();
        self.runs_since_poll.set(0);
        self.messages_since_poll.set(0);
        if let PollInterval::Every { time_ns, .. } = interval {
            self.poll_due_ns.set(now_ns.saturating_add(time_ns));
        }
        self.polled_at_tick.set(self.shared.tick.now());
        self.enter_state(WorkerState::Poll, now_ns);
        self.placement.set(if interval.is_first() {
            Placement::First
        } else {
            Placement::Last
        });
        catch_panic::call(|| driver.poll(PollOrigin::Busy(self.index.get())));
        self.placement.set(Placement::NextSlot);
        let mut first = self.io_first.borrow_mut();
        if !first.is_empty() {
            self.shared.injector.push_batch_first(&first);
            first.clear();
            self.shared.wake_one(self.thread);
            // The injector is next.
            self.runs_since_injector.set(INJECTOR_EVERY_RUNS);
            self.was_injectors_turn.set(false);
        }
    }

    /// Queues a task that the running task woke, or that a poll of the driver made ready.
    #[inline]
    pub(crate) fn schedule(&self, task: Task) {
        if !self.is_worker() {
            self.shared.inject(task);
            return;
        }
        match self.placement.get() {
            Placement::NextSlot => {}
            Placement::First => return self.io_first.borrow_mut().push(task),
            // In the ring it would wait for a second long run.
            Placement::Last if self.was_long.get() => return self.shared.inject_io(task),
            Placement::Last => return self.push_local(task),
        }
        match self.slot().next_slot.replace(task) {
            Some(displaced) => self.push_local(displaced),
            None => self.check_still_worker(),
        }
    }

    fn push_local(&self, task: Task) {
        let own = self.slot();
        own.queue
            .push(task, |overflow| self.shared.injector.push_batch(overflow));
        self.shared.wake_one(self.thread);
        self.check_still_worker();
    }

    /// P2' of the sleep protocol, after a push: a thread that took the worker slot meanwhile may have missed it.
    #[inline]
    fn check_still_worker(&self) {
        fence_for_loom();
        if !self.is_worker() {
            self.give_queue_away();
        }
    }
}

impl Host for Worker {
    fn is_wanted_elsewhere(&self) -> bool {
        let shared = &*self.shared;
        let polls = |driver| interval_of(driver) != PollInterval::Never;
        self.slot().depth() > 0
            || shared.injector.len() > 0
            || shared.io_queue.len() > 0
            || shared.settings.driver.as_deref().is_some_and(polls)
            || !self.is_worker()
            || shared.is_shut_down()
    }

    fn wait(&self, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn end(&self) {}

    fn count_run(&self) {
        self.slot().runs.bump(1);
    }
}
