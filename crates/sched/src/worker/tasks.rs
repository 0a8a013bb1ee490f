//! The choice of a worker's next task.
//!
//! ```text
//!   io_queue ──▶ injector ──▶ next slot ──▶ ring ──▶ injector ──▶ others' rings
//!   (takes turns)  (now and then)
//! ```

use freeboard_meter::{WorkerState, clock};

use super::{INJECTOR_EVERY_RUNS, IO_IN_ROW_MAX, Worker};
use crate::{local::LocalQueue, task::Task};

/// The most tasks in a row from the next slot before one from the local ring.
const NEXT_SLOT_USES_MAX: u32 = 3;
/// A run that has lasted this long is not expected to end at once: a searcher takes the task in its next slot.
const NEXT_SLOT_AFTER_NS: u64 = 20_000;
/// The most tasks that are taken from the injector at once.
const INJECTOR_BATCH_MAX: usize = 32;

impl Worker {
    pub(super) fn next_task(&self) -> Option<Task> {
        let own = self.slot();
        let uses = self.next_slot_uses.get();
        // A task that an I/O task woke belongs to its turn.
        if self.io_in_row.get() > 0
            && uses < NEXT_SLOT_USES_MAX
            && let Some(task) = own.next_slot.take()
        {
            self.next_slot_uses.set(uses + 1);
            return Some(task);
        }
        if let Some(task) = self.take_io() {
            return Some(task);
        }
        let runs = self.runs_since_injector.get() + 1;
        self.runs_since_injector.set(runs);
        // Not twice in a row: a task that uses up its time in each run would be taken for ever.
        if runs > INJECTOR_EVERY_RUNS
            && !self.was_injectors_turn.replace(false)
            && let Some(task) = self.take_injected(0)
        {
            self.was_injectors_turn.set(true);
            return Some(task);
        }
        if uses < NEXT_SLOT_USES_MAX {
            if let Some(task) = own.next_slot.take() {
                self.next_slot_uses.set(uses + 1);
                return Some(task);
            }
        } else if own.queue.len() > 0
            && let Some(task) = own.next_slot.take()
        {
            // The next slot has had its turns in a row: its task queues behind the others.
            self.push_local(task);
        }
        self.next_slot_uses.set(0);
        own.queue
            .pop()
            .or_else(|| own.next_slot.take())
            .or_else(|| self.take_injected(INJECTOR_BATCH_MAX))
            .or_else(|| self.shared.io_queue.pop_batch(0, |_| ()))
    }

    /// An I/O task, unless it is the other tasks' turn. After a short run it takes one I/O task; after a long one, up to
    /// [`IO_IN_ROW_MAX`] short ones or one long one. Otherwise every I/O task would wait behind a long run.
    fn take_io(&self) -> Option<Task> {
        let row = self.io_in_row.get();
        let row_max = if self.was_long.get() {
            IO_IN_ROW_MAX
        } else {
            1
        };
        let task = match row < row_max {
            true => self.shared.io_queue.pop_batch(0, |_| ()),
            false => None,
        };
        self.io_in_row.set(task.map_or(0, |_| row + 1));
        task
    }

    /// Takes one task from the injector, and moves a fair share of the others, up to `extra_max`, into the local ring.
    fn take_injected(&self, extra_max: usize) -> Option<Task> {
        self.runs_since_injector.set(0);
        let length = self.shared.injector.len();
        if length == 0 {
            return None;
        }
        self.injector_read_ns.set(clock::now_ns());
        // Tasks with long runs are taken one by one, in order: the tasks of a batch would wait here while others run.
        let extra_max = if self.has_long_runs() { 0 } else { extra_max };
        let share = (length / self.shared.settings.workers).min(extra_max);
        let own = self.slot();
        let mut spill = Vec::new();
        let task = self.shared.injector.pop_batch(share, |task| {
            own.queue
                .push(task, |overflow| spill.extend_from_slice(overflow));
        });
        if !spill.is_empty() {
            self.shared.injector.push_batch(&spill);
        }
        if share > 0 && task.is_some() {
            self.shared.wake_one(self.thread);
            self.check_still_worker();
        }
        task
    }

    /// Searches all queues, for as long as the settings say.
    pub(super) fn search(&self) -> Option<Task> {
        let started_ns = clock::now_ns();
        self.enter_state(WorkerState::Search, started_ns);
        // Tasks from a wait in the driver are here.
        let own = self.slot();
        if let Some(task) = own.next_slot.take().or_else(|| own.queue.pop()) {
            return Some(task);
        }
        let shared = &*self.shared;
        let (settings, workers) = (&shared.settings, shared.settings.workers);
        // With a watching driver there is no spinning: it would compete with the kernel's work that brings the events.
        let spin_ns = if self.is_driver_watching() {
            0
        } else {
            settings.spin_ns
        };
        loop {
            let io_task = self.shared.io_queue.pop_batch(0, |_| ());
            if let Some(task) = io_task.or_else(|| self.take_injected(INJECTOR_BATCH_MAX)) {
                return Some(task);
            }
            let first = self.next_random() as usize % workers;
            for offset in 0..workers {
                if let Some(victim) = shared.worker_slots.occupant((first + offset) % workers)
                    && victim != self.thread
                    && let Some(task) = self.steal_from(&shared.threads.get(victim).queue)
                {
                    return Some(task);
                }
            }
            let now_ns = clock::now_ns();
            if let Some(task) = self.take_next_of_long_run(now_ns) {
                return Some(task);
            }
            if self.shared.is_shut_down() || !self.is_worker() || now_ns - started_ns >= spin_ns {
                return None;
            }
            if self.state.get() == WorkerState::Search {
                self.enter_state(WorkerState::Spin, now_ns);
            }
            for _ in 0..32 {
                std::hint::spin_loop();
            }
        }
    }

    /// The task in the next slot of a worker whose run has gone on since a searcher saw it first.
    ///
    /// Sources: Go's `runqgrab`, which waits 3 us before it takes `runnext`; tokio issue 4941.
    fn take_next_of_long_run(&self, now_ns: u64) -> Option<Task> {
        let threads = &self.shared.threads;
        let run_of = |thread: usize| (thread, threads.get(thread).runs.get());
        let (run, since_ns) = self.long_run.get();
        if run_of(run.0) == run && !threads.get(run.0).next_slot.is_empty() {
            if now_ns.saturating_sub(since_ns) < NEXT_SLOT_AFTER_NS {
                return None;
            }
            let taken = threads.get(run.0).next_slot.take();
            return taken.inspect(|_| self.slot().steals.bump(1));
        }
        let has_next =
            |&thread: &usize| thread != self.thread && !threads.get(thread).next_slot.is_empty();
        if let Some(thread) = self.shared.worker_slots.occupants().find(has_next) {
            self.long_run.set((run_of(thread), now_ns));
        }
        None
    }

    fn steal_from(&self, victim: &LocalQueue) -> Option<Task> {
        let own = self.slot();
        victim
            .steal_into(&own.queue)
            .inspect(|_| own.steals.bump(1))
    }

    /// Marsaglia's xorshift: only spreads the thieves over their victims.
    fn next_random(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }
}
