//! A thread slot: what other threads see of a worker thread. Its queue, its next slot, its counters, its state.
//!
//! A thread keeps its slot for life. The *worker slot* that it occupies can be taken from it (`worker_slots/README.md`).

use std::{
    sync::{Mutex as StdMutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use freeboard_meter::{CurrentRun, OwnedCounter, WorkerState};

use crate::{
    accounting::{Accounting, Tally},
    label::RunLabel,
    local::LocalQueue,
    parker::Parker,
    settings::THREADS_MAX,
    stack::StackTarget,
    sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering},
    task::{Header, Task},
    thread_stat::ThreadStat,
};

/// How long a thread may take to answer with its stack.
const STACK_TIMEOUT: Duration = Duration::from_millis(50);

const DISPLACED: u32 = u32::MAX;
const RETIRED: u32 = u32::MAX - 1;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// It is the worker with this index.
    Worker(usize),
    /// It has no worker slot: it finishes its run and becomes a spare.
    Displaced,
    /// It terminates.
    Retired,
}

/// The state in one word. Its thread reads it between two runs and at each push; others write it when a worker slot is
/// handed over.
pub(crate) struct SlotStateWord(AtomicU32);

impl SlotStateWord {
    #[inline]
    pub(crate) fn get(&self) -> SlotState {
        // Ordering: SeqCst, a plain load on x86-64 and AArch64. See S3, P2' and H2 in `worker_slots/README.md`.
        match self.0.load(Ordering::SeqCst) {
            DISPLACED => SlotState::Displaced,
            RETIRED => SlotState::Retired,
            worker => SlotState::Worker(worker as usize),
        }
    }

    /// Called only under the lock of [`WorkerSlots`](crate::worker_slots::WorkerSlots).
    pub(crate) fn set(&self, state: SlotState) {
        let word = match state {
            SlotState::Worker(worker) => worker as u32,
            SlotState::Displaced => DISPLACED,
            SlotState::Retired => RETIRED,
        };
        // Ordering: SeqCst, as in `get`.
        self.0.store(word, Ordering::SeqCst);
    }
}

/// The system's view of a thread.
struct SystemThread {
    stat: ThreadStat,
    stack: StackTarget,
}

// Aligned to cache lines, so that the counters of neighbours do not share one.
#[repr(align(128))]
pub(crate) struct ThreadSlot {
    pub(crate) state: SlotStateWord,
    /// The thread waits here, as a sleeping worker or as a spare, never as both at once.
    pub(crate) parker: Parker,
    pub(crate) queue: LocalQueue,
    pub(crate) next_slot: NextSlot,
    pub(crate) label: RunLabel,
    pub(crate) accounting: Accounting,
    pub(crate) runs: OwnedCounter,
    pub(crate) steals: OwnedCounter,
    pub(crate) wakes: OwnedCounter,
    pub(crate) parks: OwnedCounter,
    pub(crate) budget_expiries: OwnedCounter,
    /// `None` before the thread starts and after it terminates.
    system: StdMutex<Option<SystemThread>>,
}

impl ThreadSlot {
    fn new() -> Self {
        Self {
            state: SlotStateWord(AtomicU32::new(DISPLACED)),
            parker: Parker::default(),
            queue: LocalQueue::new(),
            next_slot: NextSlot::default(),
            label: RunLabel::default(),
            accounting: Accounting::new(WorkerState::Park),
            runs: OwnedCounter::new(),
            steals: OwnedCounter::new(),
            wakes: OwnedCounter::new(),
            parks: OwnedCounter::new(),
            budget_expiries: OwnedCounter::new(),
            system: StdMutex::new(None),
        }
    }

    /// Tasks in the ring and the next slot.
    pub(crate) fn depth(&self) -> u64 {
        u64::from(self.queue.len()) + u64::from(!self.next_slot.is_empty())
    }

    /// The calling thread takes the slot.
    pub(crate) fn enter(&self) {
        *self.lock_system() = Some(SystemThread {
            stat: ThreadStat::of_current_thread(),
            stack: StackTarget::current(),
        });
    }

    /// The thread leaves the slot; the system's view of it must not be used any more.
    pub(crate) fn leave(&self) {
        *self.lock_system() = None;
    }

    /// Reads a statistic of the slot's thread. `None` without a thread, or if the system has no such statistic.
    pub(crate) fn read_stat<T>(&self, read: impl FnOnce(&ThreadStat) -> Option<T>) -> Option<T> {
        read(&self.lock_system().as_ref()?.stat)
    }

    /// The call stack of the slot's thread, if it still runs `run`.
    pub(crate) fn stack(&self, run: &CurrentRun) -> Option<String> {
        // Captured without the lock, which the monitor needs each millisecond.
        let target = self.lock_system().as_ref()?.stack;
        let stack = target.capture(STACK_TIMEOUT).ok()?;
        let is_same = self.label.read().is_some_and(|now| now.actor == run.actor);
        is_same.then_some(stack)
    }

    fn lock_system(&self) -> MutexGuard<'_, Option<SystemThread>> {
        self.system.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            times: self.accounting.times(),
            runs: self.runs.get(),
            steals: self.steals.get(),
            wakes: self.wakes.get(),
            parks: self.parks.get(),
            budget_expiries: self.budget_expiries.get(),
        }
    }
}

/// Slots of the first block; each further block is twice as large as the one before.
const FIRST_BLOCK: usize = 16;
/// Blocks for [`THREADS_MAX`] slots.
const BLOCKS: usize = (THREADS_MAX / FIRST_BLOCK).ilog2() as usize + 1;

type Block = Box<[OnceLock<Box<ThreadSlot>>]>;

/// All thread slots, created one by one as threads start. A slot never moves.
pub(crate) struct ThreadSlots {
    blocks: [OnceLock<Block>; BLOCKS],
    slots_max: usize,
    used: AtomicUsize,
}

impl ThreadSlots {
    /// For up to `slots_max` slots, at most [`THREADS_MAX`].
    pub(crate) fn new(slots_max: usize) -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            slots_max,
            used: AtomicUsize::new(0),
        }
    }

    /// The most slots there may be.
    pub(crate) fn max(&self) -> usize {
        self.slots_max
    }

    /// The number of slots that were ever created.
    pub(crate) fn used(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `create`: those slots are visible.
        self.used.load(Ordering::Acquire)
    }

    /// Creates the slot with the next index, which the caller has reserved under its lock.
    pub(crate) fn create(&self, index: usize) {
        let (block, offset) = block_of(index);
        let block = self.blocks[block]
            .get_or_init(|| (0..FIRST_BLOCK << block).map(|_| OnceLock::new()).collect());
        block[offset].get_or_init(|| Box::new(ThreadSlot::new()));
        // Ordering: Release, as in `used`.
        self.used.store(index + 1, Ordering::Release);
    }

    /// # Panics
    /// If the slot was never created.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &ThreadSlot {
        let (block, offset) = block_of(index);
        let slot = self.blocks[block].get().and_then(|it| it[offset].get());
        slot.expect("a slot in use was created")
    }
}

/// The block of a slot, and its offset there.
fn block_of(index: usize) -> (usize, usize) {
    let position = index + FIRST_BLOCK;
    let block = (position / FIRST_BLOCK).ilog2() as usize;
    (block, position - (FIRST_BLOCK << block))
}

/// One task, put by the owner, taken by any thread.
#[derive(Default)]
pub(crate) struct NextSlot(AtomicPtr<Header>);

impl NextSlot {
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Relaxed, a hint; `take` acquires.
        self.0.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    pub(crate) fn replace(&self, task: Task) -> Option<Task> {
        // Ordering: SeqCst, before the owner reads its state (P2'). The thread that takes the task sees what its waker
        // wrote.
        Task::from_raw(self.0.swap(task.into_raw(), Ordering::SeqCst))
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        // Ordering: AcqRel, as in `replace`.
        Task::from_raw(self.0.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }
}
