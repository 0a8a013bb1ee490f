//! Worker slots: which thread is which worker, and how a worker slot is handed over from one thread to another.
//!
//! `README.md` beside this file has the states, the steps named below and the proof.

mod worker_slot;

use std::sync::Arc;

use crate::{
    accounting::Tally,
    sleep::Sleep,
    sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering},
    thread_slot::{SlotState, ThreadSlots},
};
use worker_slot::WorkerSlot;
pub(crate) use worker_slot::{HandOverReason, WorkerSlotReading};

/// The result of a hand-over.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// A spare has the worker slot, and is being woken.
    ToSpare,
    /// There is no spare: the thread keeps its worker slot.
    NoSpare,
    /// The thread had no worker slot any more.
    NotWorker,
}

/// How a thread without a worker slot continues.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// It is a worker now, and searching. After a stuck run: since when that run was stuck.
    Worker { stuck_since_ns: Option<u64> },
    /// It was retired, or the scheduler shuts down.
    Retired,
}

struct State {
    workers: Vec<WorkerSlot>,
    /// Threads without a worker slot that wait for their token, the latest last.
    spares: Vec<usize>,
    /// The fewest spares since the last [`WorkerSlots::retire`].
    spares_low: usize,
    /// Thread slots whose thread has terminated.
    free: Vec<usize>,
    /// Threads, started or about to be.
    threads: usize,
    /// Those of them that are about to be started.
    starting: usize,
    /// Threads that wait for [`WorkerSlots::started`].
    waiting_for_start: usize,
    is_closed: bool,
}

impl State {
    /// The thread has terminated.
    fn leave(&mut self, thread: usize) {
        self.threads -= 1;
        self.free.push(thread);
    }

    fn take_spare(&mut self) -> Option<usize> {
        let spare = self.spares.pop();
        self.spares_low = self.spares_low.min(self.spares.len());
        spare
    }
}

/// Numbers of threads and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) online: usize,
    pub(crate) threads: usize,
    pub(crate) spares: usize,
    /// Threads in a run, without a worker slot.
    pub(crate) displaced: usize,
    /// Threads that are about to be started.
    pub(crate) starting: usize,
    /// On-line worker slots without a thread.
    pub(crate) vacant: usize,
}

/// The occupant of a worker slot without a thread.
const NOBODY: u32 = u32::MAX;

pub(crate) struct WorkerSlots {
    state: Mutex<State>,
    /// Signalled when a thread was started, or could not be.
    started: Condvar,
    threads: Arc<ThreadSlots>,
    /// The thread of each worker slot. Written under the lock.
    occupants: Box<[AtomicU32]>,
}

impl WorkerSlots {
    /// `count` worker slots, on-line and vacant, for the threads of `threads`.
    pub(crate) fn new(count: usize, threads: Arc<ThreadSlots>) -> Self {
        Self {
            state: Mutex::new(State {
                workers: (0..count).map(|_| WorkerSlot::new()).collect(),
                spares: Vec::new(),
                spares_low: 0,
                free: Vec::new(),
                threads: 0,
                starting: 0,
                waiting_for_start: 0,
                is_closed: false,
            }),
            started: Condvar::new(),
            threads,
            occupants: (0..count).map(|_| AtomicU32::new(NOBODY)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn state_of(&self, thread: usize) -> SlotState {
        self.threads.get(thread).state.get()
    }

    fn set_state(&self, thread: usize, state: SlotState) {
        self.threads.get(thread).state.set(state);
    }

    fn unpark(&self, thread: usize) {
        self.threads.get(thread).parker.unpark();
    }

    fn tally_of(&self, thread: usize) -> Tally {
        self.threads.get(thread).tally()
    }

    /// The thread that is this worker, if there is one.
    #[inline]
    pub(crate) fn occupant(&self, worker: usize) -> Option<usize> {
        // Ordering: SeqCst, as in `set_occupant`: the scan of all queues in S3 and F2 begins here.
        let thread = self.occupants[worker].load(Ordering::SeqCst);
        (thread != NOBODY).then_some(thread as usize)
    }

    /// The threads that are workers.
    pub(crate) fn occupants(&self) -> impl Iterator<Item = usize> {
        (0..self.occupants.len()).filter_map(|worker| self.occupant(worker))
    }

    fn set_occupant(&self, worker: usize, thread: Option<usize>) {
        let thread = thread.map_or(NOBODY, |thread| thread as u32);
        // Ordering: SeqCst, after the stores of the slot states and before the reads of the ring.
        self.occupants[worker].store(thread, Ordering::SeqCst);
    }

    /// B1: a thread slot for a thread to be started; `None` at the limit or after [`WorkerSlots::close`].
    /// [`WorkerSlots::add_thread`] or [`WorkerSlots::forget_thread`] follows.
    pub(crate) fn reserve_thread(&self) -> Option<usize> {
        let mut state = self.lock();
        if state.is_closed || state.threads == self.threads.max() {
            return None;
        }
        let thread = state.free.pop().unwrap_or_else(|| {
            let thread = self.threads.used();
            self.threads.create(thread);
            thread
        });
        state.threads += 1;
        state.starting += 1;
        self.set_state(thread, SlotState::Displaced);
        Some(thread)
    }

    /// B2: the thread could not be started.
    pub(crate) fn forget_thread(&self, thread: usize) {
        {
            let mut state = self.lock();
            state.starting -= 1;
            state.leave(thread);
        }
        self.started.notify_all();
    }

    /// B3: the thread was started. It gets a vacant worker slot, or becomes a spare; it waits for its token first
    /// ([`WorkerSlots::wait`]).
    pub(crate) fn add_thread(&self, thread: usize, sleep: &Sleep) {
        let (has_token, is_awaited) = {
            let mut state = self.lock();
            state.starting -= 1;
            let vacant = state.workers.iter().position(WorkerSlot::is_vacant);
            match vacant {
                _ if state.is_closed => self.set_state(thread, SlotState::Retired),
                Some(worker) => self.assign(&mut state.workers[worker], worker, thread, sleep),
                None => state.spares.push(thread),
            }
            let has_token = state.is_closed || vacant.is_some();
            (has_token, state.waiting_for_start > 0)
        };
        if is_awaited {
            self.started.notify_all();
        }
        if has_token {
            self.unpark(thread);
        }
    }

    /// The thread has terminated.
    pub(crate) fn leave(&self, thread: usize) {
        self.lock().leave(thread);
    }

    /// H1 to H3: takes the worker slot from `thread` and gives it to a spare. Without a spare it calls `start`, which
    /// starts a thread and returns `false` if the system refuses.
    pub(crate) fn hand_over(
        &self,
        thread: usize,
        reason: HandOverReason,
        sleep: &Sleep,
        mut start: impl FnMut() -> bool,
    ) -> HandOver {
        loop {
            match self.hand_to_spare(thread, reason, sleep) {
                Some(outcome) => return outcome,
                // Another caller may take the new spare first. Then it has used up a thread, and their number is
                // limited.
                None if start() => {}
                None => return HandOver::NoSpare,
            }
        }
    }

    /// `None` if there is no spare, and a further thread is allowed.
    fn hand_to_spare(
        &self,
        thread: usize,
        reason: HandOverReason,
        sleep: &Sleep,
    ) -> Option<HandOver> {
        let spare = {
            let mut state = self.lock();
            let (worker, spare) = loop {
                let SlotState::Worker(worker) = self.state_of(thread) else {
                    return Some(HandOver::NotWorker);
                };
                if let Some(spare) = state.take_spare() {
                    break (worker, spare);
                }
                let may_grow = state.threads < self.threads.max();
                if state.is_closed || (!may_grow && state.starting == 0) {
                    return Some(HandOver::NoSpare);
                }
                if may_grow {
                    return None;
                }
                // Another caller is starting the last thread that is allowed.
                state.waiting_for_start += 1;
                let waited = self.started.wait(state);
                state = waited.expect("nothing panics under this lock");
                state.waiting_for_start -= 1;
            };
            self.set_state(thread, SlotState::Displaced);
            let slot = &mut state.workers[worker];
            slot.leave(self.tally_of(thread), reason);
            self.assign(slot, worker, spare, sleep);
            spare
        };
        self.unpark(spare);
        Some(HandOver::ToSpare)
    }

    /// H2: from here on `thread` is the worker, and counts as a searcher.
    fn assign(&self, slot: &mut WorkerSlot, worker: usize, thread: usize, sleep: &Sleep) {
        slot.enter(thread, self.tally_of(thread));
        self.set_state(thread, SlotState::Worker(worker));
        self.set_occupant(worker, Some(thread));
        sleep.join();
    }

    /// R2 to R4: `thread` has no worker slot. It takes a vacant one, or waits as a spare until it gets one.
    pub(crate) fn rest(&self, thread: usize, sleep: &Sleep) -> Rested {
        {
            let mut state = self.lock();
            if state.is_closed {
                return Rested::Retired;
            }
            match state.workers.iter().position(WorkerSlot::is_vacant) {
                Some(worker) => {
                    let slot = &mut state.workers[worker];
                    self.assign(slot, worker, thread, sleep);
                    let stuck_since_ns = slot.take_stuck();
                    return Rested::Worker { stuck_since_ns };
                }
                None => state.spares.push(thread),
            }
        }
        self.wait(thread)
    }

    /// Waits for the token of a spare, or of a thread that was just started.
    pub(crate) fn wait(&self, thread: usize) -> Rested {
        self.threads.get(thread).parker.park();
        match self.state_of(thread) {
            SlotState::Worker(worker) => {
                let stuck_since_ns = self.lock().workers[worker].take_stuck();
                Rested::Worker { stuck_since_ns }
            }
            // It became a worker and was displaced again before it woke: it still counts as a searcher.
            SlotState::Displaced => Rested::Worker {
                stuck_since_ns: None,
            },
            SlotState::Retired => Rested::Retired,
        }
    }

    /// Makes the first `online` worker slots the on-line ones. Returns the displaced threads, which the caller drains
    /// and wakes.
    pub(crate) fn set_online(&self, online: usize, sleep: &Sleep) -> Vec<usize> {
        let mut displaced = Vec::new();
        let mut assigned = Vec::new();
        {
            let mut state = self.lock();
            for worker in 0..state.workers.len() {
                let is_wanted = worker < online;
                if is_wanted == state.workers[worker].is_online() {
                    continue;
                }
                if is_wanted {
                    state.workers[worker].go_online();
                    if let Some(spare) = state.take_spare() {
                        self.assign(&mut state.workers[worker], worker, spare, sleep);
                        assigned.push(spare);
                    }
                    continue;
                }
                let tally_of = |thread| self.tally_of(thread);
                if let Some(thread) = state.workers[worker].go_offline(tally_of) {
                    self.set_state(thread, SlotState::Displaced);
                    self.set_occupant(worker, None);
                    displaced.push(thread);
                }
            }
        }
        for spare in assigned {
            self.unpark(spare);
        }
        displaced
    }

    /// Retires half of the spares beyond `keep` that were not needed since the last call, those that waited longest.
    pub(crate) fn retire(&self, keep: usize) {
        let retired: Vec<usize> = {
            let mut state = self.lock();
            let count = state.spares_low.saturating_sub(keep).div_ceil(2);
            let retired = state.spares.drain(..count);
            let retired = retired
                .inspect(|&thread| self.set_state(thread, SlotState::Retired))
                .collect();
            state.spares_low = state.spares.len();
            retired
        };
        for thread in retired {
            self.unpark(thread);
        }
    }

    /// From now on no thread gets a worker slot or a thread slot; spares terminate.
    pub(crate) fn close(&self) {
        let spares = {
            let mut state = self.lock();
            state.is_closed = true;
            let spares = std::mem::take(&mut state.spares);
            for &thread in &spares {
                self.set_state(thread, SlotState::Retired);
            }
            spares
        };
        for thread in spares {
            self.unpark(thread);
        }
    }

    pub(crate) fn census(&self) -> Census {
        let state = self.lock();
        let count = |is: fn(&WorkerSlot) -> bool| state.workers.iter().filter(|it| is(it)).count();
        let (online, vacant) = (count(WorkerSlot::is_online), count(WorkerSlot::is_vacant));
        let spares = state.spares.len();
        Census {
            online,
            threads: state.threads,
            spares,
            starting: state.starting,
            displaced: state
                .threads
                .saturating_sub(spares + state.starting + online - vacant),
            vacant,
        }
    }

    /// Reads each worker slot.
    pub(crate) fn read(&self) -> Vec<WorkerSlotReading> {
        let mut state = self.lock();
        let workers = state.workers.iter_mut();
        workers
            .map(|slot| slot.read(|thread| self.tally_of(thread)))
            .collect()
    }

    /// The run of `thread` blocks: counts `time_ns` of it as blocked and not as running.
    pub(crate) fn add_blocked(&self, thread: usize, time_ns: u64) {
        self.with_slot_of(thread, |slot| slot.add_blocked(time_ns));
    }

    /// The blocked run of `thread` is over.
    pub(crate) fn end_blocked(&self, thread: usize) {
        self.with_slot_of(thread, WorkerSlot::end_blocked);
    }

    fn with_slot_of(&self, thread: usize, change: impl FnOnce(&mut WorkerSlot)) {
        let mut state = self.lock();
        if let SlotState::Worker(worker) = self.state_of(thread) {
            change(&mut state.workers[worker]);
        }
    }
}
