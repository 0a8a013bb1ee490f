//! A seat: what other threads see of a worker thread. Its queue, its next slot, its counters.
//!
//! A thread keeps its seat for life; the worker's *place* that it has is another thing, and can be
//! taken from it (see `places/README.md`).

use std::{
    sync::{Mutex as StdMutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use freeboard_meter::{CurrentRun, OwnedCounter, WorkerState};

use crate::{
    accounting::Accounting,
    label::RunLabel,
    local::LocalQueue,
    parker::Parker,
    places::StandingWord,
    settings::THREADS_MAX,
    stack::StackTarget,
    sync::{AtomicPtr, AtomicUsize, Ordering},
    tally::Tally,
    task::{Header, Task},
    thread_stat::ThreadStat,
};

/// How long a thread may take to show its stack.
const STACK_PATIENCE: Duration = Duration::from_millis(50);

/// A thread as others can look at it.
struct Thread {
    stat: ThreadStat,
    stack: StackTarget,
}

// A seat of its own cache lines, so that neighbours' counters do not share one.
#[repr(align(128))]
pub(crate) struct Seat {
    pub(crate) standing: StandingWord,
    /// Where the thread waits, as a sleeping worker or as a spare: never as both at once.
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
    /// The thread that has the seat, from its start to its end.
    thread: StdMutex<Option<Thread>>,
}

impl Seat {
    fn new() -> Self {
        Self {
            standing: StandingWord::new(),
            parker: Parker::new(),
            queue: LocalQueue::new(),
            next_slot: NextSlot::new(),
            label: RunLabel::new(),
            accounting: Accounting::new(WorkerState::Park),
            runs: OwnedCounter::new(),
            steals: OwnedCounter::new(),
            wakes: OwnedCounter::new(),
            parks: OwnedCounter::new(),
            budget_expiries: OwnedCounter::new(),
            thread: StdMutex::new(None),
        }
    }

    /// Tasks in its ring and its next slot.
    pub(crate) fn depth(&self) -> u64 {
        u64::from(self.queue.len()) + u64::from(!self.next_slot.is_empty())
    }

    /// The calling thread has the seat from now on.
    pub(crate) fn take(&self) {
        self.set_thread(Some(Thread {
            stat: ThreadStat::of_current_thread(),
            stack: StackTarget::current(),
        }));
    }

    /// It has it no longer, and is not asked any more.
    pub(crate) fn leave(&self) {
        self.set_thread(None);
    }

    fn set_thread(&self, thread: Option<Thread>) {
        *self.lock_thread() = thread;
    }

    /// What `ask` learns of the thread that has the seat, if there is one and the system tells.
    pub(crate) fn ask_thread<T>(&self, ask: impl FnOnce(&ThreadStat) -> Option<T>) -> Option<T> {
        ask(&self.lock_thread().as_ref()?.stat)
    }

    /// The call stack of the thread that has the seat, while it runs `run`.
    pub(crate) fn stack(&self, run: &CurrentRun) -> Option<String> {
        // Not under the lock: the monitor needs it each millisecond.
        let target = self.lock_thread().as_ref()?.stack;
        let stack = target.capture(STACK_PATIENCE).ok()?;
        let is_same = self.label.read().is_some_and(|now| now.actor == run.actor);
        is_same.then_some(stack)
    }

    fn lock_thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Seats of the first block; each further one is twice as large as the one before.
const FIRST_BLOCK: usize = 16;
/// Blocks for [`THREADS_MAX`] seats.
const BLOCKS: usize = (THREADS_MAX / FIRST_BLOCK).ilog2() as usize + 1;

type Block = Box<[OnceLock<Box<Seat>>]>;

/// All seats, made one after the other as threads start. A seat stays where it was made.
pub(crate) struct Seats {
    blocks: [OnceLock<Block>; BLOCKS],
    seats_max: usize,
    used: AtomicUsize,
}

impl Seats {
    /// For up to `seats_max` seats, at most [`THREADS_MAX`].
    pub(crate) fn new(seats_max: usize) -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            seats_max,
            used: AtomicUsize::new(0),
        }
    }

    /// The most seats there may be.
    pub(crate) fn max(&self) -> usize {
        self.seats_max
    }

    /// Seats that were ever taken.
    pub(crate) fn used(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `make`: those seats are there.
        self.used.load(Ordering::Acquire)
    }

    /// Makes the seat with the next number, which the caller, under its lock, has drawn.
    pub(crate) fn make(&self, index: usize) {
        let (block, offset) = block_of(index);
        let block = self.blocks[block]
            .get_or_init(|| (0..FIRST_BLOCK << block).map(|_| OnceLock::new()).collect());
        block[offset].get_or_init(|| Box::new(Seat::new()));
        // Ordering: Release, as in `used`.
        self.used.store(index + 1, Ordering::Release);
    }

    /// # Panics
    /// If the seat was never taken.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Seat {
        let (block, offset) = block_of(index);
        let seat = self.blocks[block].get().and_then(|it| it[offset].get());
        seat.expect("a seat in use was made")
    }
}

/// The block of a seat, and where in it the seat is.
fn block_of(index: usize) -> (usize, usize) {
    let position = index + FIRST_BLOCK;
    let block = (position / FIRST_BLOCK).ilog2() as usize;
    (block, position - (FIRST_BLOCK << block))
}

/// One task, put by the owner, taken by anybody.
pub(crate) struct NextSlot(AtomicPtr<Header>);

impl NextSlot {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Relaxed, a hint; `take` acquires.
        self.0.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    pub(crate) fn replace(&self, task: Task) -> Option<Task> {
        // Ordering: SeqCst, before the owner's look at its standing (P2'). The taker sees what the
        // waker of the task wrote.
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
