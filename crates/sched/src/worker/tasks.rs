//! Which task a worker runs next.
//!
//! ```text
//!   found by the driver ──▶ injector ──▶ next slot ──▶ ring ──▶ injector ──▶ others' rings
//!   (takes turns)          (now and then)
//! ```

use freeboard_meter::{WorkerState, clock};

use super::{FOUND_IN_ROW_MAX, INJECTOR_EVERY_RUNS, Worker};
use crate::{local::LocalQueue, task::Task};

/// How often in a row the next slot goes before the local ring.
const NEXT_SLOT_USES_MAX: u32 = 3;
/// Tasks taken from the injector at once, at the most.
const INJECTOR_BATCH_MAX: usize = 32;

impl Worker {
    pub(super) fn next_task(&self) -> Option<Task> {
        let own = self.seat();
        let uses = self.next_slot_uses.get();
        // What one that was found wakes on its way is part of its turn.
        if self.found_in_row.get() > 0
            && uses < NEXT_SLOT_USES_MAX
            && let Some(task) = own.next_slot.take()
        {
            self.next_slot_uses.set(uses + 1);
            return Some(task);
        }
        if let Some(task) = self.take_found() {
            return Some(task);
        }
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
            .or_else(|| self.shared.found.pop_batch(0, |_| ()))
    }

    /// One of those that the driver has found, unless it is the others' turn. After a short run of another
    /// there is one; after a long one there are so many short ones, or one long one: else each of them
    /// would wait for a long one.
    fn take_found(&self) -> Option<Task> {
        let row = self.found_in_row.get();
        let row_max = if self.was_long.get() {
            FOUND_IN_ROW_MAX
        } else {
            1
        };
        let task = match row < row_max {
            true => self.shared.found.pop_batch(0, |_| ()),
            false => None,
        };
        self.found_in_row.set(task.map_or(0, |_| row + 1));
        task
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
        // Long runs one by one, in their order: a batch would wait here while others go ahead.
        let extra_max = if self.has_long_runs() { 0 } else { extra_max };
        let share = (length / self.shared.settings.workers).min(extra_max);
        let own = self.seat();
        let mut spill = Vec::new();
        let task = self.shared.injector.pop_batch(share, |task| {
            own.queue
                .push(task, |overflow| spill.extend_from_slice(overflow));
        });
        if !spill.is_empty() {
            self.shared.injector.push_batch(&spill);
        }
        if share > 0 && task.is_some() {
            self.shared.wake_one(self.number);
            self.keep_only_as_worker();
        }
        task
    }

    /// Looks for work everywhere, for as long as the settings say.
    pub(super) fn search(&self) -> Option<Task> {
        let started_ns = clock::now_ns();
        self.enter_state(WorkerState::Search, started_ns);
        // What a wait in the driver has made ready is here.
        let own = self.seat();
        if let Some(task) = own.next_slot.take().or_else(|| own.queue.pop()) {
            return Some(task);
        }
        let shared = &*self.shared;
        let (settings, workers) = (&shared.settings, shared.settings.workers);
        // Where a driver is watching, the kernel would be spun against: what it has to bring comes by
        // work that this very processor could do.
        let spin_ns = if self.is_driver_watching() {
            0
        } else {
            settings.spin_ns
        };
        loop {
            let found = self.shared.found.pop_batch(0, |_| ());
            if let Some(task) = found.or_else(|| self.take_injected(INJECTOR_BATCH_MAX)) {
                return Some(task);
            }
            let first = self.next_random() as usize % workers;
            for offset in 0..workers {
                if let Some(victim) = shared.places.occupant((first + offset) % workers)
                    && victim != self.number
                    && let Some(task) = self.steal_from(&shared.seats.get(victim).queue)
                {
                    return Some(task);
                }
            }
            let now_ns = clock::now_ns();
            if self.shared.is_shut_down() || !self.is_seated() || now_ns - started_ns >= spin_ns {
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

    fn steal_from(&self, victim: &LocalQueue) -> Option<Task> {
        let own = self.seat();
        victim
            .steal_into(&own.queue)
            .inspect(|_| own.steals.bump(1))
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
