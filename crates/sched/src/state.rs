//! The state word of a task: who may run it, who must schedule it, and which signals it must handle.
//!
//! ```text
//!   31                         8 7              0
//!   ┌───────────────────────────┬────────────────┐
//!   │ signals, meaning set by   │ phase          │
//!   │ the owner of the task     │                │
//!   └───────────────────────────┴────────────────┘
//!
//!            message or signal                taken by a worker
//!     Idle ───────────────────────> Queued ────────────────────> Running
//!      ^                              ^  ^                        │ │ │
//!      │                      signal  │  └── budget spent ────────┘ │ │
//!      │                              │                             │ │
//!      │                        Suspended <── waits for a signal ───┘ │
//!      └──────────────────────── no more work ────────────────────────┘ ──> Terminated
//! ```
//!
//! A message schedules an idle task. A suspended one (muted, or awaiting a future) is scheduled by signals only. A message
//! for a running task sets [`Signals::MESSAGE`], once until the worker takes it.
//!
//! **No message is left behind.** The sender reserves an index of the lane (SeqCst read-modify-write), then loads this word.
//! If it sees
//! - *Idle*: it moves the word to Queued and enqueues the task.
//! - *Queued*: the worker that starts the task reads the lane afterwards.
//! - *Suspended*: the next run reads the lane.
//! - *Running without MESSAGE*: it sets MESSAGE; if the word has become Idle meanwhile, it schedules the task.
//! - *Running with MESSAGE*: it does nothing. The worker takes the signals (SeqCst read-modify-write) before its last read
//!   of the lane's end. In the single order of these four operations, either the sender's load comes after the worker
//!   took the signals, and does not see that MESSAGE; or the worker's read comes after the reservation, and the worker
//!   sees that the lane is not drained.
//!
//! **No signal is left behind.** Signals are in the same word: the exchange from Running to Idle or Suspended fails if a
//! signal has come. That exchange is the worker's last access to the task, which may be freed right after it.

use crate::sync::{AtomicU32, Ordering, fence_for_loom};

const PHASE_MASK: u32 = 0xff;

const IDLE: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const SUSPENDED: u32 = 3;
const TERMINATED: u32 = 4;

/// The phase of a task, for readers that do not run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has no work; a message or a signal schedules it.
    Idle,
    /// In a run queue.
    Queued,
    /// On a worker.
    Running,
    /// Waiting for a signal; messages do not schedule it.
    Suspended,
    /// It is never scheduled again.
    Terminated,
}

/// The phase of a task that rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Until a message or a signal comes.
    Idle,
    /// Until a signal comes.
    Suspended,
}

/// Whether the caller must put the task into a run queue.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The caller moved it to Queued, and alone has to enqueue it.
    Enqueue,
    /// It is queued, running, suspended or terminated: nothing to do.
    Nothing,
}

/// A set of signals; the task's owner defines the meaning of the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals(u32);

impl Signals {
    /// A message came while the task was running; set by [`RunState::notify`].
    pub const MESSAGE: Self = Self(1 << 8);

    /// The signal with this number, 1..=23; 0 is [`Signals::MESSAGE`].
    pub const fn bit(number: u32) -> Self {
        assert!(
            number > 0 && number < 24,
            "a state word has signals 1 to 23"
        );
        Self(1 << (number + 8))
    }

    /// No signal.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Whether no signal is among these.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of `other` is among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// All of both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The state word.
#[derive(Debug)]
pub struct RunState(AtomicU32);

impl Default for RunState {
    fn default() -> Self {
        Self::new()
    }
}

impl RunState {
    /// An idle task without signals.
    pub fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// A new task that its creator is about to enqueue.
    pub fn new_queued() -> Self {
        Self(AtomicU32::new(QUEUED))
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        // Ordering: Acquire: a reader that sees Terminated sees what the last run wrote.
        match self.0.load(Ordering::Acquire) & PHASE_MASK {
            IDLE => Phase::Idle,
            QUEUED => Phase::Queued,
            RUNNING => Phase::Running,
            SUSPENDED => Phase::Suspended,
            _ => Phase::Terminated,
        }
    }

    /// Called after a message was put into a lane: schedules an idle task, signals a running one.
    #[inline]
    pub fn notify(&self) -> Wake {
        fence_for_loom();
        // Ordering: SeqCst, the sender's load of the proof above.
        let state = self.0.load(Ordering::SeqCst);
        match state & PHASE_MASK {
            IDLE => self.move_to_queued(),
            RUNNING if state & Signals::MESSAGE.0 == 0 => self.notify_running(),
            _ => Wake::Nothing,
        }
    }

    #[cold]
    fn notify_running(&self) -> Wake {
        // Ordering: SeqCst, in one order with the worker's `take_signals`.
        let state = self.0.fetch_or(Signals::MESSAGE.0, Ordering::SeqCst);
        match state & PHASE_MASK {
            IDLE => self.move_to_queued(),
            _ => Wake::Nothing,
        }
    }

    /// Sets signals, and schedules the task if it is idle or suspended.
    #[inline]
    pub fn signal(&self, signals: Signals) -> Wake {
        // Ordering: Relaxed: the exchange decides.
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            let (phase, wake) = match state & PHASE_MASK {
                IDLE | SUSPENDED => (QUEUED, Wake::Enqueue),
                phase => (phase, Wake::Nothing),
            };
            // Ordering: SeqCst, pairs with `start`, `take_signals` and `rest`: the thread that takes the signal sees what
            // the signaller wrote before. A worker that starts the task also sees what its last run wrote before `rest`.
            match self.0.compare_exchange_weak(
                state,
                state & !PHASE_MASK | phase | signals.0,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return wake,
                Err(seen) => state = seen,
            }
        }
    }

    #[inline]
    fn move_to_queued(&self) -> Wake {
        let mut state = self.0.load(Ordering::Relaxed);
        while state & PHASE_MASK == IDLE {
            // Ordering: AcqRel: through us the next worker sees what the last one wrote.
            match self.0.compare_exchange_weak(
                state,
                state & !PHASE_MASK | QUEUED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Wake::Enqueue,
                Err(seen) => state = seen,
            }
        }
        Wake::Nothing
    }

    /// A worker took the task from a run queue. Takes the signals.
    #[inline]
    pub fn start(&self) -> Signals {
        // Ordering: AcqRel, acquires what the last worker and the signallers wrote; SeqCst for the sender that saw Queued.
        let state = self.0.swap(RUNNING, Ordering::SeqCst);
        fence_for_loom();
        debug_assert_eq!(state & PHASE_MASK, QUEUED, "only a queued task starts");
        Signals(state & !PHASE_MASK)
    }

    /// Whether a signal other than [`Signals::MESSAGE`] has come since the run started; one load, to be called between two
    /// messages.
    #[inline]
    pub fn has_signals(&self) -> bool {
        // Ordering: Relaxed, `take_signals` acquires.
        self.0.load(Ordering::Relaxed) & !(PHASE_MASK | Signals::MESSAGE.0) != 0
    }

    /// Like [`RunState::has_signals`], without `signal`.
    #[inline]
    pub fn has_signals_besides(&self, signal: Signals) -> bool {
        // Ordering: Relaxed, `take_signals` acquires.
        self.0.load(Ordering::Relaxed) & !(PHASE_MASK | Signals::MESSAGE.0 | signal.0) != 0
    }

    /// Takes the signals while the task runs.
    pub fn take_signals(&self) -> Signals {
        // Ordering: SeqCst, the worker's read-modify-write of the proof above.
        let state = self.0.fetch_and(PHASE_MASK, Ordering::SeqCst);
        fence_for_loom();
        Signals(state & !PHASE_MASK)
    }

    /// The running task has no work and rests.
    ///
    /// # Errors
    /// The signals that have come, which are taken; the task is still running.
    #[inline]
    pub fn rest(&self, rest: Rest) -> Result<(), Signals> {
        let phase = match rest {
            Rest::Idle => IDLE,
            Rest::Suspended => SUSPENDED,
        };
        // Ordering: SeqCst, in one order with the senders' loads; releases the run's writes.
        match self
            .0
            .compare_exchange(RUNNING, phase, Ordering::SeqCst, Ordering::Relaxed)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(self.take_signals()),
        }
    }

    /// The running task returns to a run queue: the caller enqueues it next. Signals stay.
    #[inline]
    pub fn requeue(&self) {
        // Ordering: AcqRel, releases the run's writes to the next worker. The exclusive or moves Running to Queued and
        // keeps the signals.
        let state = self.0.fetch_xor(RUNNING ^ QUEUED, Ordering::AcqRel);
        debug_assert_eq!(state & PHASE_MASK, RUNNING, "only a running task requeues");
    }

    /// The running task terminates.
    pub fn terminate(&self) {
        // Ordering: SeqCst/AcqRel: releases the last run's writes.
        self.0.swap(TERMINATED, Ordering::SeqCst);
    }
}
