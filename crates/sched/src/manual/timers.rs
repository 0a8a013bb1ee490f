//! The timers of a manual executor: a list ordered by time. Each fires exactly when it is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use freeboard_meter::clock;

use super::{Executor, Node, ReadyTask, call};
use crate::timer::{Action, TimerKey, due_after};

/// What happens at a time.
pub(super) enum Due {
    Timer(Timer),
    /// A delayed wake-up.
    Wakeup(ReadyTask),
    /// A parked thread's deadline.
    Thread(u64),
    /// A call of [`Executor::call_at`], and its name in the trace.
    Call(&'static str, Box<dyn FnOnce() + Send>),
}

pub(super) struct Timer {
    key: TimerKey,
    action: Action,
}

#[derive(Default)]
pub(super) struct TimerList {
    /// By due time and number.
    waiting: BTreeMap<(u64, u64), (Node, Due)>,
    due_ns: BTreeMap<u64, u64>,
    /// Those being called.
    called: BTreeSet<TimerKey>,
    last_number: u64,
}

impl TimerList {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Adds what is no timer; returns its place.
    pub(super) fn insert(&mut self, due_ns: u64, node: Node, due: Due) -> (u64, u64) {
        let place = (due_ns, self.next_number());
        self.waiting.insert(place, (node, due));
        place
    }

    /// Adds what [`TimerList::take_due`] took.
    pub(super) fn insert_again(&mut self, due_ns: u64, node: Node, due: Due) {
        match due {
            Due::Timer(timer) => {
                // If it was cancelled since, it is gone.
                if self.called.remove(&timer.key) {
                    self.set(due_ns, node, timer);
                }
            }
            due => _ = self.insert(due_ns, node, due),
        }
    }

    /// Removes what [`TimerList::insert`] added.
    pub(super) fn remove_place(&mut self, place: (u64, u64)) {
        self.waiting.remove(&place);
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.waiting.keys().next().map(|(due_ns, _)| *due_ns)
    }

    /// Those due at the earliest time, if that has come.
    pub(super) fn count_due(&self, now_ns: u64) -> usize {
        match self.next_ns() {
            Some(due_ns) if due_ns <= now_ns => {
                self.waiting.range((due_ns, 0)..=(due_ns, u64::MAX)).count()
            }
            _ => 0,
        }
    }

    fn place_of_due(&self, index: usize) -> (u64, u64) {
        let place = self.waiting.keys().nth(index).copied();
        place.expect("one of the timers that are due")
    }

    pub(super) fn number_of_due(&self, index: usize) -> u64 {
        self.place_of_due(index).1
    }

    pub(super) fn node_of_due(&self, index: usize) -> Node {
        let waiting = self.waiting.values().nth(index);
        waiting.expect("one of the timers that are due").0
    }

    /// Takes one of those that [`TimerList::count_due`] counts.
    pub(super) fn take_due(&mut self, index: usize) -> (u64, Node, Due) {
        let place = self.place_of_due(index);
        let (node, due) = self.waiting.remove(&place).expect("just found");
        if let Due::Timer(timer) = &due {
            self.due_ns.remove(&place.1);
            self.called.insert(timer.key);
        }
        (place.0, node, due)
    }

    /// Takes all of a node.
    pub(super) fn extract_of(&mut self, node: Node) -> Vec<Due> {
        self.extract(|of, _| of == node)
    }

    pub(super) fn has_wakeup(&self, is_wanted: impl Fn(&ReadyTask) -> bool) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|(_, due)| matches!(due, Due::Wakeup(ready) if is_wanted(ready)))
    }

    pub(super) fn extract_wakeups(&mut self, is_wanted: impl Fn(&ReadyTask) -> bool) -> Vec<Due> {
        self.extract(|_, due| matches!(due, Due::Wakeup(ready) if is_wanted(ready)))
    }

    fn extract(&mut self, is_wanted: impl Fn(Node, &Due) -> bool) -> Vec<Due> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter(|(_, (node, due))| is_wanted(*node, due));
        let places: Vec<_> = waiting.map(|(place, _)| *place).collect();
        let take = |place: &(u64, u64)| {
            self.due_ns.remove(&place.1);
            self.waiting.remove(place).map(|(_, due)| due)
        };
        places.iter().filter_map(take).collect()
    }

    fn set(&mut self, due_ns: u64, node: Node, timer: Timer) {
        let number = timer.key.number();
        self.due_ns.insert(number, due_ns);
        let due = Due::Timer(timer);
        self.waiting.insert((due_ns, number), (node, due));
    }

    fn remove(&mut self, number: u64) -> Option<Due> {
        let due_ns = self.due_ns.remove(&number)?;
        self.waiting.remove(&(due_ns, number)).map(|(_, due)| due)
    }
}

/// The timers of one `Timers` among those of an executor.
pub(crate) struct OwnTimers {
    executor: Executor,
    /// Kept in the keys.
    owner: u32,
    is_shut_down: AtomicBool,
}

impl OwnTimers {
    pub(crate) fn new(executor: Executor) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Self {
            executor,
            // Ordering: Relaxed, each caller gets its own number.
            owner: LAST.fetch_add(1, Ordering::Relaxed),
            is_shut_down: AtomicBool::new(false),
        }
    }

    /// `None` after a shutdown.
    pub(crate) fn set(&self, due_ns: u64, action: impl FnOnce() -> Action) -> Option<TimerKey> {
        self.executor.check_thread();
        let mut state = self.executor.lock();
        // Ordering: Relaxed, under the executor's lock.
        if self.is_shut_down.load(Ordering::Relaxed) {
            return None;
        }
        let number = state.timers.next_number();
        let key = TimerKey::manual(number, self.owner);
        let action = action();
        let timer = Timer { key, action };
        state.timers.set(due_ns, self.executor.node, timer);
        Some(key)
    }

    pub(crate) fn cancel(&self, key: TimerKey) -> bool {
        let mut state = self.executor.lock();
        let timer = state.timers.remove(key.number());
        let was_set = timer.is_some() || state.timers.called.remove(&key);
        drop(state);
        // Its drop may run user code.
        drop(timer);
        was_set
    }

    pub(crate) fn is_pending(&self, due_ns: u64) -> bool {
        // Ordering: Relaxed: one thread runs the executor.
        !self.is_shut_down.load(Ordering::Relaxed) && due_ns > clock::now_ns()
    }

    pub(crate) fn len(&self) -> usize {
        let state = self.executor.lock();
        let keys = state
            .timers
            .waiting
            .values()
            .filter_map(|(_, due)| match due {
                Due::Timer(timer) => Some(&timer.key),
                Due::Wakeup(_) | Due::Thread(_) | Due::Call(..) => None,
            });
        let keys = keys.chain(&state.timers.called);
        keys.filter(|key| key.owner() == self.owner).count()
    }

    pub(crate) fn shutdown(&self) {
        let mut state = self.executor.lock();
        // Ordering: Relaxed, under the executor's lock.
        self.is_shut_down.store(true, Ordering::Relaxed);
        let is_own = |_, due: &Due| matches!(due, Due::Timer(it) if it.key.owner() == self.owner);
        let taken = state.timers.extract(is_own);
        state.timers.called.retain(|key| key.owner() != self.owner);
        drop(state);
        for due in taken {
            call(|| match due {
                Due::Timer(Timer {
                    action: Action::Wake(waker),
                    ..
                }) => waker.wake(),
                due => drop(due),
            });
        }
    }
}

/// Calls a timer that [`TimerList::take_due`] took.
pub(super) fn fire(executor: &Executor, now_ns: u64, due_ns: u64, timer: Timer) {
    let Timer { key, action } = timer;
    match action {
        Action::Wake(waker) => {
            executor.lock().timers.called.remove(&key);
            call(|| waker.wake());
        }
        Action::Call(mut function) => {
            let again = call(|| function(key)).flatten();
            let mut state = executor.lock();
            let is_set = state.timers.called.remove(&key);
            if let Some(period) = again.filter(|_| is_set) {
                // As in production: a timer that cannot keep its pace skips what it missed.
                let due_ns = due_after(due_ns, period).max(now_ns + 1);
                let action = Action::Call(function);
                let timer = Timer { key, action };
                state.timers.set(due_ns, executor.node, timer);
                return;
            }
            drop(state);
            call(|| drop(function));
        }
        Action::Called => unreachable!("a manual timer is taken while it is called"),
    }
}
