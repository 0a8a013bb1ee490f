//! The locked lane: a mutex and a deque, for the policies by which a *producer* removes.
//!
//! Drop-oldest and coalesce take out what is queued already. With a single consumer that can be
//! blocked for seconds, only a lock lets the producer do it and the bound stay hard; a push costs
//! some 20 ns more than on a [`crate::Lane`].

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    Barrier, PLAIN_MARK, Popped, Refused, barrier,
    sync::{AtomicU64, Ordering},
};

struct Entry<T, K> {
    value: T,
    mark: u64,
    key: Option<K>,
}

struct State<T, K> {
    /// `None` where a value was taken out of turn; at most about half of them, see `drop_holes`.
    queue: VecDeque<Option<Entry<T, K>>>,
    /// Index of the queue's first entry.
    head: u64,
    /// Entries that hold a value.
    held: u64,
    /// Index of the entry that holds each key.
    keys: HashMap<K, u64>,
    accepted: u64,
    /// Bits of the raised barriers.
    barriers: u8,
    is_closed: bool,
}

/// A bounded queue that producers may also take from: evict the oldest, or replace by a key `K`.
pub struct LockedLane<T, K> {
    state: Mutex<State<T, K>>,
    /// `held` and `accepted` of the state, for those who only look and shall wait for nobody.
    held: AtomicU64,
    accepted: AtomicU64,
    bound: u64,
}

impl<T, K: Clone + Eq + Hash> LockedLane<T, K> {
    /// An empty lane that holds at most `bound` values.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn new(bound: u64) -> Self {
        assert!(bound > 0, "a lane's bound is at least 1");
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                head: 0,
                held: 0,
                keys: HashMap::new(),
                accepted: 0,
                barriers: 0,
                is_closed: false,
            }),
            held: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            bound,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, K>> {
        // A panic in a predicate or a drop leaves the state whole: see the order in each method.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call with the state locked, after each change.
    fn show(&self, state: &State<T, K>) {
        // Ordering: Relaxed, each is a reading by itself; what hangs on the queue's content takes the lock.
        self.held.store(state.held, Ordering::Relaxed);
        self.accepted.store(state.accepted, Ordering::Relaxed);
    }

    /// Values queued and accepted a moment ago, without waiting for anybody.
    pub fn glance(&self) -> (u64, u64) {
        // Ordering: Relaxed, as in `show`.
        let held = self.held.load(Ordering::Relaxed);
        (held, self.accepted.load(Ordering::Relaxed))
    }

    /// Appends a value; when the lane is full the oldest one makes room and is returned. While a
    /// [`Barrier`] is raised the lane counts as full, whatever its depth.
    ///
    /// # Errors
    /// [`Refused::Full`] if a barrier is raised and nothing is queued that could make room,
    /// [`Refused::Closed`] after [`LockedLane::close`].
    pub fn push_evicting(
        &self,
        value: T,
        mark: impl FnOnce(u64) -> u64,
    ) -> Result<Option<T>, Refused<T>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed(value));
        }
        let evicted = if state.barriers != 0 || state.held == self.bound {
            let Some((oldest, _)) = state.pop() else {
                return Err(Refused::Full(value));
            };
            Some(oldest)
        } else {
            None
        };
        state.append(value, mark, None);
        self.show(&state);
        Ok(evicted)
    }

    /// Replaces, in its place, the value that was queued with the same key, and returns it; without
    /// one, appends. A key of `None` never matches.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`] when no key matches, [`Refused::Closed`]
    /// after [`LockedLane::close`].
    pub fn push_coalescing(
        &self,
        value: T,
        mark: impl FnOnce(u64) -> u64,
        key: Option<K>,
    ) -> Result<Option<T>, Refused<T>> {
        self.push_unless(barrier::ALL, value, mark, key)
    }

    /// As [`LockedLane::push_coalescing`], for a sender that was let in from a queue of waiters: it
    /// passes [`Barrier::Waiters`]. It evicts nothing: the bound holds for it as for all.
    ///
    /// # Errors
    /// When no key matches, [`Refused::Full`] at the bound or while [`Barrier::Pause`] is raised;
    /// [`Refused::Closed`] after [`LockedLane::close`].
    pub fn push_past_waiters(
        &self,
        value: T,
        mark: impl FnOnce(u64) -> u64,
        key: Option<K>,
    ) -> Result<Option<T>, Refused<T>> {
        self.push_unless(Barrier::Pause.bit(), value, mark, key)
    }

    #[inline(always)]
    fn push_unless(
        &self,
        stops: u8,
        value: T,
        mark: impl FnOnce(u64) -> u64,
        key: Option<K>,
    ) -> Result<Option<T>, Refused<T>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed(value));
        }
        if let Some(place) = key.as_ref().and_then(|key| state.keys.get(key).copied()) {
            let offset = (place - state.head) as usize;
            let entry = state.queue[offset]
                .as_mut()
                .expect("a key's entry holds a value");
            let replaced = std::mem::replace(&mut entry.value, value);
            state.accepted += 1;
            self.show(&state);
            return Ok(Some(replaced));
        }
        if state.barriers & stops != 0 || state.held >= self.bound {
            return Err(Refused::Full(value));
        }
        state.append(value, mark, key);
        self.show(&state);
        Ok(None)
    }

    /// Takes the oldest value. Never [`Popped::Pending`].
    pub fn pop(&self) -> Popped<T> {
        let mut state = self.lock();
        let popped = state.pop();
        self.show(&state);
        match popped {
            Some((value, mark)) => Popped::Value(value, mark),
            None => Popped::Empty,
        }
    }

    /// Takes the first value that `matches`, wherever it is queued; time proportional to the depth.
    /// `matches` is called under the lane's lock: it must not use the lane.
    pub fn take_first(&self, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut state = self.lock();
        let found = state
            .queue
            .iter()
            .position(|entry| entry.as_ref().is_some_and(|entry| matches(&entry.value)))?;
        let entry = state.queue[found].take()?;
        state.held -= 1;
        if let Some(key) = entry.key {
            state.keys.remove(&key);
        }
        state.drop_holes();
        self.show(&state);
        Some(entry.value)
    }

    /// Raises a barrier, if it is not raised.
    pub fn raise(&self, barrier: Barrier) {
        self.lock().barriers |= barrier.bit();
    }

    /// Lowers a barrier, if it is raised.
    pub fn lower(&self, barrier: Barrier) {
        self.lock().barriers &= !barrier.bit();
    }

    /// Whether a barrier is raised.
    pub fn is_raised(&self, barrier: Barrier) -> bool {
        self.lock().barriers & barrier.bit() != 0
    }

    /// Refuses all further values. `true` for the call that closed the lane.
    pub fn close(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_closed, true)
    }

    /// Whether [`LockedLane::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Values that are queued now.
    pub fn depth(&self) -> u64 {
        self.lock().held
    }

    /// The most values that the lane ever holds.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Values accepted since the lane was made, those that were evicted or replaced later included.
    pub fn accepted(&self) -> u64 {
        self.lock().accepted
    }
}

impl<T, K: Clone + Eq + Hash> State<T, K> {
    fn append(&mut self, value: T, mark: impl FnOnce(u64) -> u64, key: Option<K>) {
        let mark = mark(self.accepted);
        debug_assert!(mark >= PLAIN_MARK, "a mark is never 0");
        if let Some(key) = key.clone() {
            self.keys.insert(key, self.head + self.queue.len() as u64);
        }
        self.queue.push_back(Some(Entry { value, mark, key }));
        self.held += 1;
        self.accepted += 1;
    }

    /// Drops the holes at the front, and all of them once they are more than half of the queue.
    fn drop_holes(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.head += 1;
        }
        if self.queue.len() as u64 <= 2 * self.held {
            return;
        }
        self.queue.retain(Option::is_some);
        for (index, entry) in (self.head..).zip(self.queue.iter().flatten()) {
            if let Some(place) = entry.key.as_ref().and_then(|key| self.keys.get_mut(key)) {
                *place = index;
            }
        }
    }

    fn pop(&mut self) -> Option<(T, u64)> {
        loop {
            let entry = self.queue.pop_front()?;
            self.head += 1;
            if let Some(entry) = entry {
                self.held -= 1;
                if let Some(key) = entry.key {
                    self.keys.remove(&key);
                }
                return Some((entry.value, entry.mark));
            }
        }
    }
}

impl<T, K: Clone + Eq + Hash> fmt::Debug for LockedLane<T, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LockedLane")
            .field("depth", &self.depth())
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}
