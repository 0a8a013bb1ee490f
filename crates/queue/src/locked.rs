//! The locked lane: a mutex and a deque, for the policies under which a *producer* removes queued values, or the consumer
//! takes the newest one.
//!
//! Drop-oldest and coalesce remove values while the single consumer may be blocked for seconds. Only a lock lets the
//! producer do that and keeps the bound hard. A push costs some 20 ns more than on a [`crate::Lane`]. The consumer's
//! methods have the names of a lane's.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    Barrier, PLAIN_MARK, Popped, Refused,
    sync::{AtomicU64, Ordering, UnsafeCell},
};

struct Entry<T, K> {
    value: T,
    mark: u64,
    key: Option<K>,
}

struct State<T, K> {
    /// `None` where `take_first` took a value; at most about half of the entries, see `drop_holes`.
    queue: VecDeque<Option<Entry<T, K>>>,
    /// Index of the first entry.
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

/// A bounded queue from which producers may also remove: they evict the oldest value, or replace one by its key `K`.
pub struct LockedLane<T, K> {
    state: Mutex<State<T, K>>,
    /// Copies of the state's `held` and `accepted`, which readers load without the lock.
    held: AtomicU64,
    accepted: AtomicU64,
    bound: u64,
    /// The consumer's: the value that it popped in place.
    popped: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only `pop_in_place` touches the popped value, under its contract; a mutex guards the other values.
unsafe impl<T: Send, K: Send> Sync for LockedLane<T, K> {}

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
            popped: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, K>> {
        // A panic in a predicate or a drop leaves the state consistent: see the order in each method.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the counts; called under the lock after each change.
    fn store_counts(&self, state: &State<T, K>) {
        // Ordering: Relaxed, each count stands alone; decisions about the queue's content take the lock.
        self.held.store(state.held, Ordering::Relaxed);
        self.accepted.store(state.accepted, Ordering::Relaxed);
    }

    /// The numbers of queued and of accepted values, a moment ago; never waits for the lock.
    pub fn counts(&self) -> (u64, u64) {
        // Ordering: Relaxed, as in `store_counts`.
        let held = self.held.load(Ordering::Relaxed);
        (held, self.accepted.load(Ordering::Relaxed))
    }

    /// Appends a value. If the lane is full, it evicts the oldest value and returns it. While a [`Barrier`] is raised
    /// the lane counts as full.
    ///
    /// # Errors
    /// [`Refused::Full`] if a barrier is raised and the lane is empty, [`Refused::Closed`] after
    /// [`LockedLane::close`].
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
        self.store_counts(&state);
        Ok(evicted)
    }

    /// Replaces the queued value with the same key in its position, and returns it; appends if no key matches. A key of
    /// `None` never matches.
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
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed(value));
        }
        if let Some(index) = key.as_ref().and_then(|key| state.keys.get(key).copied()) {
            let offset = (index - state.head) as usize;
            let entry = state.queue[offset]
                .as_mut()
                .expect("a key's entry holds a value");
            let replaced = std::mem::replace(&mut entry.value, value);
            state.accepted += 1;
            self.store_counts(&state);
            return Ok(Some(replaced));
        }
        if state.barriers != 0 || state.held >= self.bound {
            return Err(Refused::Full(value));
        }
        state.append(value, mark, key);
        self.store_counts(&state);
        Ok(None)
    }

    /// Takes the oldest value. Never [`Popped::Pending`].
    pub fn pop(&self) -> Popped<T> {
        let mut state = self.lock();
        let popped = state.pop();
        self.store_counts(&state);
        match popped {
            Some((value, mark)) => Popped::Value(value, mark),
            None => Popped::Empty,
        }
    }

    /// Like [`LockedLane::pop`], but leaves the value in a slot of the lane; see
    /// [`Lane::pop_in_place`](crate::Lane::pop_in_place).
    ///
    /// # Safety
    /// As [`Lane::pop_in_place`](crate::Lane::pop_in_place).
    pub unsafe fn pop_in_place(&self) -> Popped<NonNull<T>> {
        let popped = match self.pop() {
            Popped::Value(value, mark) => Some((value, mark)),
            Popped::Empty | Popped::Pending => None,
        };
        // SAFETY: the caller's promise.
        unsafe { self.put_in_place(popped) }
    }

    /// # Safety
    /// As [`LockedLane::pop_in_place`].
    unsafe fn put_in_place(&self, popped: Option<(T, u64)>) -> Popped<NonNull<T>> {
        let Some((value, mark)) = popped else {
            return Popped::Empty;
        };
        self.popped.with_mut(|slot| {
            // SAFETY: only the consumer uses the slot, and has moved the value before out.
            let slot = unsafe { (*slot).write(value) };
            Popped::Value(NonNull::from(slot), mark)
        })
    }

    /// As [`LockedLane::pop_in_place`], but takes the newest value if `takes_newest`, which gets the mark of the oldest
    /// one, says so. It runs under the lane's lock: it must not use the lane.
    ///
    /// # Safety
    /// As [`LockedLane::pop_in_place`].
    pub unsafe fn pop_either_in_place(
        &self,
        takes_newest: impl FnOnce(u64) -> bool,
    ) -> Popped<NonNull<T>> {
        let popped = {
            let mut state = self.lock();
            let oldest = state.queue.iter().flatten().next().map(|entry| entry.mark);
            let popped = match oldest {
                Some(mark) if takes_newest(mark) => state.pop_newest(),
                _ => state.pop(),
            };
            self.store_counts(&state);
            popped
        };
        // SAFETY: the caller's promise.
        unsafe { self.put_in_place(popped) }
    }

    /// Whether [`LockedLane::pop`] would return a value.
    pub fn is_ready(&self) -> bool {
        self.depth() > 0
    }

    /// As [`LockedLane::depth`].
    pub fn queued(&self) -> u64 {
        self.depth()
    }

    /// Returns the remaining depth; there is nothing to publish.
    pub fn publish(&self) -> u64 {
        self.depth()
    }

    /// Takes the first value that `matches`, wherever it is queued, in time proportional to the depth. `matches` runs
    /// under the lane's lock: it must not use the lane.
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
        self.store_counts(&state);
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

    /// The number of queued values.
    pub fn depth(&self) -> u64 {
        self.lock().held
    }

    /// The most values that the lane ever holds.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Values accepted since the lane was created, including evicted and replaced ones.
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

    /// Drops the holes at the front, and all holes once they are more than half of the queue.
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
            if let Some(known) = entry.key.as_ref().and_then(|key| self.keys.get_mut(key)) {
                *known = index;
            }
        }
    }

    fn pop(&mut self) -> Option<(T, u64)> {
        loop {
            let entry = self.queue.pop_front()?;
            self.head += 1;
            if let Some(entry) = entry {
                return Some(self.taken(entry));
            }
        }
    }

    fn pop_newest(&mut self) -> Option<(T, u64)> {
        loop {
            if let Some(entry) = self.queue.pop_back()? {
                return Some(self.taken(entry));
            }
        }
    }

    fn taken(&mut self, entry: Entry<T, K>) -> (T, u64) {
        self.held -= 1;
        if let Some(key) = entry.key {
            self.keys.remove(&key);
        }
        (entry.value, entry.mark)
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
