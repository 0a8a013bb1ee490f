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
//! budget expired goes to the injector, behind everybody else's.

use std::{cell::Cell, sync::Arc};

use freeboard_meter::clock;

use crate::{
    budget::Budget,
    scheduler::Shared,
    sync::Ordering,
    task::{After, Task},
};

/// Runs between two looks at the injector while the local queues have work.
const INJECTOR_EVERY_RUNS: u32 = 31;
/// Time between two looks at the injector, in nanoseconds.
const INJECTOR_EVERY_NS: u64 = 500_000;
/// How often in a row the next slot goes before the local ring.
const NEXT_SLOT_USES_MAX: u32 = 3;
/// Tasks taken from the injector at once, at the most.
const INJECTOR_BATCH_MAX: usize = 32;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// What a task sees of the worker that runs it.
#[derive(Debug)]
pub struct RunContext<'a> {
    worker: &'a Worker,
    looked_ns: u64,
}

impl RunContext<'_> {
    /// Number of the worker within its scheduler.
    pub fn worker_index(&self) -> usize {
        self.worker.index
    }

    /// A whole budget under the scheduler's limits.
    #[inline]
    pub fn budget(&self) -> Budget {
        Budget::new(self.worker.shared.settings.budget)
    }

    /// Whether other tasks wait for this worker, so that a task whose budget is spent should make way.
    #[inline]
    pub fn is_wanted_elsewhere(&self) -> bool {
        let shared = &self.worker.shared;
        let own = &shared.seats[self.worker.index];
        !own.next_slot.is_empty()
            || own.queue.len() > 0
            || shared.injector.len() > 0
            || shared.is_shut_down()
    }

    /// Tells the worker that the run is over and what the clock said when it was last read.
    #[inline]
    pub fn account(&mut self, budget: &Budget) {
        self.looked_ns = self.looked_ns.max(budget.looked_ns());
    }
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
    index: usize,
    shared: Arc<Shared>,
    runs_since_injector: Cell<u32>,
    injector_looked_ns: Cell<u64>,
    /// Whether the last task came from the injector because it was its turn.
    has_just_looked: Cell<bool>,
    next_slot_uses: Cell<u32>,
    random: Cell<u32>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Worker({})", self.index)
    }
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>) -> Self {
        Self {
            index,
            shared,
            runs_since_injector: Cell::new(0),
            injector_looked_ns: Cell::new(0),
            has_just_looked: Cell::new(false),
            next_slot_uses: Cell::new(0),
            random: Cell::new(0x9e37_79b9 ^ (index as u32 + 1)),
        }
    }

    /// Calls `use_worker` with the worker of `shared` that this thread is, if it is one.
    #[inline]
    pub(crate) fn with_current<R>(
        shared: &Arc<Shared>,
        use_worker: impl FnOnce(&Worker) -> R,
    ) -> Option<R> {
        let worker = CURRENT.with(Cell::get);
        // SAFETY: the pointer is set only while `work` holds the worker, on this thread.
        let worker = unsafe { worker.as_ref() }?;
        Arc::ptr_eq(&worker.shared, shared).then(|| use_worker(worker))
    }

    /// The thread's life: until the scheduler shuts down.
    pub(crate) fn work(&self) {
        let _current = Current::enter(self);
        let mut is_searching = false;
        while !self.shared.is_shut_down() {
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

    fn rest(&self, was_searching: bool) {
        let own = &self.shared.seats[self.index];
        own.parks.bump(1);
        self.shared
            .sleep
            .sleep(self.index, was_searching, || self.shared.has_work());
    }

    /// F1 and F2 of the sleep protocol.
    fn leave_search(&self) {
        if self.shared.sleep.stop_searching() && self.shared.has_work() {
            self.shared.wake_one(self.index);
        }
    }

    fn run(&self, task: Task) {
        let own = &self.shared.seats[self.index];
        own.runs.bump(1);
        let mut context = RunContext {
            worker: self,
            looked_ns: 0,
        };
        // SAFETY: the task came from a run queue, where it was alone.
        let after = unsafe { task.run(&mut context) };
        if context.looked_ns > self.injector_looked_ns.get() + INJECTOR_EVERY_NS {
            self.runs_since_injector.set(INJECTOR_EVERY_RUNS);
        }
        match after {
            After::Done => {}
            After::BudgetSpent => {
                own.budget_expiries.bump(1);
                self.shared.injector.push(task);
                // With nothing else to do this worker takes it up again at once: waking another one
                // would only move the task from core to core.
                if own.queue.len() > 0 || !own.next_slot.is_empty() {
                    self.shared.wake_one(self.index);
                }
            }
            After::Yield => {
                self.shared.inject(task);
                std::thread::yield_now();
            }
        }
    }

    /// A task was woken by what runs on this worker.
    #[inline]
    pub(crate) fn schedule(&self, task: Task) {
        let own = &self.shared.seats[self.index];
        if let Some(displaced) = own.next_slot.replace(task) {
            self.push_local(displaced);
        }
    }

    fn push_local(&self, task: Task) {
        let own = &self.shared.seats[self.index];
        own.queue
            .push(task, |overflow| self.shared.injector.push_batch(overflow));
        self.shared.wake_one(self.index);
    }

    fn next_task(&self) -> Option<Task> {
        let own = &self.shared.seats[self.index];
        let runs = self.runs_since_injector.get() + 1;
        self.runs_since_injector.set(runs);
        // Not twice in a row: a task that uses up its time each run would be taken for ever.
        if runs > INJECTOR_EVERY_RUNS
            && !self.has_just_looked.replace(false)
            && let Some(task) = self.take_injected(0)
        {
            self.has_just_looked.set(true);
            return Some(task);
        }
        let uses = self.next_slot_uses.get();
        if uses < NEXT_SLOT_USES_MAX {
            if let Some(task) = own.next_slot.take() {
                self.next_slot_uses.set(uses + 1);
                return Some(task);
            }
        } else if own.queue.len() > 0
            && let Some(task) = own.next_slot.take()
        {
            // It has had its turns in a row: now it queues behind the others.
            self.push_local(task);
        }
        self.next_slot_uses.set(0);
        own.queue
            .pop()
            .or_else(|| own.next_slot.take())
            .or_else(|| self.take_injected(INJECTOR_BATCH_MAX))
    }

    /// One task from the injector, and a fair share of what else is there, up to `extra_max`, into
    /// the local ring.
    fn take_injected(&self, extra_max: usize) -> Option<Task> {
        self.runs_since_injector.set(0);
        let length = self.shared.injector.len();
        if length == 0 {
            return None;
        }
        self.injector_looked_ns.set(clock::now_ns());
        let share = (length / self.shared.seats.len()).min(extra_max);
        let own = &self.shared.seats[self.index];
        let mut spill = Vec::new();
        let task = self.shared.injector.pop_batch(share, |task| {
            own.queue
                .push(task, |overflow| spill.extend_from_slice(overflow));
        });
        if !spill.is_empty() {
            self.shared.injector.push_batch(&spill);
        }
        if share > 0 && task.is_some() {
            self.shared.wake_one(self.index);
        }
        task
    }

    /// Looks for work everywhere, for as long as the settings say.
    fn search(&self) -> Option<Task> {
        let started_ns = clock::now_ns();
        let seats = &self.shared.seats;
        loop {
            if let Some(task) = self.take_injected(INJECTOR_BATCH_MAX) {
                return Some(task);
            }
            let first = self.next_random() as usize % seats.len();
            for offset in 0..seats.len() {
                let victim = (first + offset) % seats.len();
                if victim != self.index
                    && let Some(task) = seats[victim].queue.steal_into(&seats[self.index].queue)
                {
                    seats[self.index].steals.bump(1);
                    return Some(task);
                }
            }
            if let Some(task) = self.take_next_of_stuck() {
                return Some(task);
            }
            if self.shared.is_shut_down()
                || clock::now_ns() - started_ns >= self.shared.settings.spin_ns
            {
                return None;
            }
            for _ in 0..32 {
                std::hint::spin_loop();
            }
        }
    }

    /// The next slot of a worker that the monitor found in one and the same run for a whole tick.
    fn take_next_of_stuck(&self) -> Option<Task> {
        let seats = &self.shared.seats;
        (0..seats.len())
            .filter(|&victim| victim != self.index)
            // Ordering: Relaxed, advice from the monitor.
            .filter(|&victim| seats[victim].is_stuck.load(Ordering::Relaxed))
            .find_map(|victim| seats[victim].next_slot.take())
            .inspect(|_| seats[self.index].steals.bump(1))
    }

    /// Marsaglia's xorshift: only spreads thieves over victims, no result depends on it.
    fn next_random(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }
}
