//! A worker: the thread that takes tasks from the queues and runs them.
//!
//! ```text
//!   next slot ──> local ring ──> injector ──> others' rings ──> sleep
//!   (<= 3 times    (256, FIFO)    (each 31 runs  (one searcher,
//!    in a row)                     or 500 us      spins a while)
//!                                  first)
//! ```
//!
//! A task woken by a message goes to the worker's next slot, so that a conversation between two
//! actors stays on one core and in its cache; what it displaces goes to the local ring. A task whose
//! budget expired goes to the injector, behind everybody else's. What the driver has found while workers
//! have other things to do has a queue of its own, which takes turns with all these.

mod tasks;

use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
    sync::Arc,
};

use freeboard_meter::{WorkerState, clock};

use crate::{
    catch_panic,
    driver::{Cadence, Driver, Looker},
    places::{HandOver, Rested, Standing, Stuck},
    run_context::RunContext,
    seat::Seat,
    shared::Shared,
    sync::fence_for_loom,
    task::{After, Task},
};

/// Runs between two looks at the injector while the local queues have work.
const INJECTOR_EVERY_RUNS: u32 = 31;
/// Time between two looks at the injector, in nanoseconds.
const INJECTOR_EVERY_NS: u64 = 500_000;
/// Runs for which a long one is remembered.
const LONG_RUNS_REMEMBERED: u32 = 64;
/// After a long run, so many short ones in a row of what the driver has found before the others' turn.
const FOUND_IN_ROW_MAX: u32 = 64;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// Where a task goes that becomes ready on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// Into the next slot: it was woken by what runs here.
    NextSlot,
    /// Behind what waits: a look at the driver found it.
    None,
    /// Before everything that waits.
    First,
}

/// How often to look at present.
#[inline]
fn cadence_of(driver: &dyn Driver) -> Cadence {
    catch_panic::call(|| driver.cadence()).unwrap_or(Cadence::NEVER)
}

/// Marks the thread as a worker's, until it is dropped, also by a panic.
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
    /// The thread's seat.
    number: usize,
    own: NonNull<Seat>,
    shared: Arc<Shared>,
    /// The worker that the thread is, or was last.
    index: Cell<usize>,
    state: Cell<WorkerState>,
    runs_since_injector: Cell<u32>,
    injector_looked_ns: Cell<u64>,
    /// A run used up its time not long ago: for so many runs yet.
    long_runs_left: Cell<u32>,
    /// Whether the last task came from the injector because it was its turn.
    has_just_looked: Cell<bool>,
    next_slot_uses: Cell<u32>,
    runs_since_look: Cell<u32>,
    /// When the driver is looked at the next time, and the monitor's tick at the last.
    look_due_ns: Cell<u64>,
    looked_at_tick: Cell<u64>,
    /// Where tasks go that become ready here.
    lead: Cell<Lead>,
    /// Whether the last run of what the driver had not found was long.
    was_long: Cell<bool>,
    /// Runs in a row of what the driver has found.
    found_in_row: Cell<u32>,
    /// What a look has found that goes before all others.
    found_first: RefCell<Vec<Task>>,
    random: Cell<u32>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Worker({})", self.number)
    }
}

impl Worker {
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Self {
        Self {
            number,
            own: NonNull::from(shared.seats.get(number)),
            shared,
            index: Cell::new(0),
            state: Cell::new(WorkerState::Park),
            runs_since_injector: Cell::new(0),
            injector_looked_ns: Cell::new(0),
            long_runs_left: Cell::new(0),
            has_just_looked: Cell::new(false),
            next_slot_uses: Cell::new(0),
            runs_since_look: Cell::new(0),
            look_due_ns: Cell::new(0),
            looked_at_tick: Cell::new(0),
            lead: Cell::new(Lead::NextSlot),
            was_long: Cell::new(false),
            found_in_row: Cell::new(0),
            found_first: RefCell::default(),
            random: Cell::new(0x9e37_79b9 ^ (number as u32 + 1)),
        }
    }

    #[inline]
    pub(crate) fn seat(&self) -> &Seat {
        // SAFETY: a seat stays where it was made as long as `shared` lives.
        unsafe { self.own.as_ref() }
    }

    /// Whether a run used up its time not long ago.
    #[inline]
    pub(crate) fn has_long_runs(&self) -> bool {
        self.long_runs_left.get() > 0
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The worker that the thread is, or was last.
    pub(crate) fn index(&self) -> usize {
        self.index.get()
    }

    #[inline]
    pub(crate) fn is_seated(&self) -> bool {
        matches!(self.seat().standing.get(), Standing::Seated(_))
    }

    fn enter_state(&self, state: WorkerState, now_ns: u64) {
        if self.state.replace(state) == WorkerState::Run {
            self.seat().label.clear();
        }
        self.seat().accounting.enter(state, now_ns);
    }

    /// Calls `use_worker` with the worker that this thread is, of any scheduler, if it is one.
    #[inline]
    pub(crate) fn with_any<R>(use_worker: impl FnOnce(&Worker) -> R) -> Option<R> {
        let worker = CURRENT.with(Cell::get);
        // SAFETY: the pointer is set only while `work` holds the worker, on this thread.
        unsafe { worker.as_ref() }.map(use_worker)
    }

    /// Calls `use_worker` with the worker of `shared` that this thread is, if it is one.
    #[inline]
    pub(crate) fn with_current<R>(
        shared: &Arc<Shared>,
        use_worker: impl FnOnce(&Worker) -> R,
    ) -> Option<R> {
        Self::with_any(|worker| Arc::ptr_eq(&worker.shared, shared).then(|| use_worker(worker)))?
    }

    /// The thread's life: until it is retired or the scheduler shuts down.
    pub(crate) fn work(&self) {
        let _current = Current::enter(self);
        if !self.take_up(self.shared.places.wait(self.number)) {
            return;
        }
        let mut is_searching = true;
        while !self.shared.is_shut_down() {
            if !self.is_seated() {
                if is_searching {
                    self.leave_search();
                    self.leave_driver();
                }
                if !self.wait_for_place() {
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
            // Whoever comes back from rest is a searcher.
            is_searching = true;
        }
    }

    /// Gives what is queued here to the others, and waits for a place. `false` if none will come.
    fn wait_for_place(&self) -> bool {
        self.give_queue_away();
        self.enter_state(WorkerState::Park, clock::now_ns());
        let shared = &self.shared;
        self.take_up(shared.places.rest(self.number, &shared.sleep))
    }

    fn take_up(&self, rested: Rested) -> bool {
        match rested {
            Rested::Ended => false,
            Rested::Seated { stuck_since_ns } => {
                if let Standing::Seated(index) = self.seat().standing.get() {
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

    /// The task that runs here has said that it will block.
    pub(crate) fn count_blocking_call(&self) {
        self.shared.gauges.blocking_calls.add(1);
    }

    pub(crate) fn give_queue_away(&self) {
        let next = self.seat().next_slot.take();
        self.give_away(next.into_iter());
    }

    /// Moves `first`, and then what is in the ring, to the global queue.
    fn give_away(&self, first: impl Iterator<Item = Task>) {
        let ring = std::iter::from_fn(|| self.seat().queue.pop());
        let given: Vec<Task> = first.chain(ring).collect();
        if !given.is_empty() {
            self.shared.injector.push_batch(&given);
            self.shared.wake_one(self.number);
        }
    }

    /// If a run is under way here: the place and the queue go to another thread. `false` if there is
    /// none, and the thread keeps both.
    pub(crate) fn give_place_away(&self) -> bool {
        if self.state.get() != WorkerState::Run {
            return true;
        }
        if self.is_seated()
            && self.shared.hand_over(self.number, Stuck::Announced) == HandOver::NoSpare
        {
            self.shared.gauges.spares_exhausted.add(1);
            return false;
        }
        self.give_queue_away();
        true
    }

    fn rest(&self, was_searching: bool) {
        let own = self.seat();
        own.parks.bump(1);
        self.enter_state(WorkerState::Park, clock::now_ns());
        let sleep = &self.shared.sleep;
        sleep.sleep(self.number, self.index.get(), was_searching, || {
            self.shared.has_work() || !self.is_seated()
        });
        self.shared.doze.rouse();
    }

    /// The thread may have waited in the driver, to which it does not come back: another one does.
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
        self.keep_only_as_worker();
        if is_last && self.shared.has_work() {
            self.shared.wake_one(self.number);
        }
    }

    fn run(&self, task: Task) {
        let mut began_ns = 0;
        if self.state.get() != WorkerState::Run {
            began_ns = clock::now_ns();
            self.enter_state(WorkerState::Run, began_ns);
        }
        let own = self.seat();
        own.runs.bump(1);
        let mut context = RunContext::worker(self, began_ns);
        // SAFETY: the task came from a run queue, where it was alone.
        let after = unsafe { task.run(&mut context) };
        let long_runs_left = self.long_runs_left.get().saturating_sub(1);
        if self.found_in_row.get() == 0 {
            self.was_long.set(context.is_time_up());
        } else if context.is_time_up() {
            self.found_in_row.set(FOUND_IN_ROW_MAX);
        }
        if context.is_time_up() {
            self.long_runs_left.set(LONG_RUNS_REMEMBERED);
            // Among long runs there is one queue, first come first served: what waited in the ring
            // would have each second turn, whatever waits elsewhere.
            self.give_away(std::iter::empty());
        } else {
            self.long_runs_left.set(long_runs_left);
        }
        if context.is_time_up()
            || context.looked_ns() > self.injector_looked_ns.get() + INJECTOR_EVERY_NS
        {
            self.runs_since_injector.set(INJECTOR_EVERY_RUNS);
        }
        self.attend(context.looked_ns());
        match after {
            After::Done => {}
            After::BudgetSpent => {
                own.budget_expiries.bump(1);
                self.shared.injector.push(task);
                // With nothing else to do this worker takes it up again at once: waking another one
                // would only move the task from core to core.
                if own.depth() > 0 || self.shared.injector.len() > 1 || !self.is_seated() {
                    self.shared.wake_one(self.number);
                }
            }
            After::Yield => {
                self.shared.inject(task);
                std::thread::yield_now();
            }
        }
    }

    /// Whether it looks at a driver between two runs.
    pub(crate) fn attends(&self) -> bool {
        let driver = self.shared.settings.driver.as_deref();
        driver.is_some_and(|driver| cadence_of(driver) != Cadence::NEVER)
    }

    /// Looks at the driver if it is time.
    #[inline]
    fn attend(&self, looked_ns: u64) {
        let Some(driver) = self.shared.settings.driver.as_deref() else {
            return;
        };
        let runs = self.runs_since_look.get().saturating_add(1);
        self.runs_since_look.set(runs);
        let cadence = cadence_of(driver);
        if cadence.runs == u32::MAX {
            return;
        }
        let is_due = runs >= cadence.runs
            || looked_ns >= self.look_due_ns.get()
            || self.shared.tick.now() != self.looked_at_tick.get();
        if is_due && self.is_seated() {
            self.look(driver, cadence);
        }
    }

    fn look(&self, driver: &dyn Driver, cadence: Cadence) {
        let now_ns = clock::now_ns();
        self.runs_since_look.set(0);
        self.look_due_ns.set(now_ns.saturating_add(cadence.time_ns));
        self.looked_at_tick.set(self.shared.tick.now());
        self.enter_state(WorkerState::Poll, now_ns);
        self.lead.set(if cadence.is_first {
            Lead::First
        } else {
            Lead::None
        });
        catch_panic::call(|| driver.look(Looker::Busy(self.index.get())));
        self.lead.set(Lead::NextSlot);
        let mut found = self.found_first.borrow_mut();
        if !found.is_empty() {
            self.shared.injector.push_batch_first(&found);
            found.clear();
            self.shared.wake_one(self.number);
            // They are taken from the injector next.
            self.runs_since_injector.set(INJECTOR_EVERY_RUNS);
            self.has_just_looked.set(false);
        }
    }

    /// A task was woken by what runs on this worker, or found by its look at the driver.
    #[inline]
    pub(crate) fn schedule(&self, task: Task) {
        if !self.is_seated() {
            self.shared.inject(task);
            return;
        }
        match self.lead.get() {
            Lead::NextSlot => {}
            Lead::First => return self.found_first.borrow_mut().push(task),
            // What is in the ring would wait for a second long run.
            Lead::None if self.was_long.get() => return self.shared.inject_found(task),
            Lead::None => return self.push_local(task),
        }
        match self.seat().next_slot.replace(task) {
            Some(displaced) => self.push_local(displaced),
            None => self.keep_only_as_worker(),
        }
    }

    fn push_local(&self, task: Task) {
        let own = self.seat();
        own.queue
            .push(task, |overflow| self.shared.injector.push_batch(overflow));
        self.shared.wake_one(self.number);
        self.keep_only_as_worker();
    }

    /// P2' of the sleep protocol, after a push: whoever took the place meanwhile may not have seen it.
    #[inline]
    fn keep_only_as_worker(&self) {
        fence_for_loom();
        if !self.is_seated() {
            self.give_queue_away();
        }
    }
}
