//! The state word of a task: who may run it, who must schedule it, and what it is told to look at.
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
//!      │                             Held <── waits for a signal ───┘ │
//!      └───────────────────────── nothing left ───────────────────────┘ ──> Ended
//! ```
//!
//! A message schedules an idle task; a held one (muted, or awaiting a future) only a signal does.
//! A message for a running task sets [`Signals::MESSAGE`], once until the worker takes it.
//!
//! **No message is left behind.** The sender draws an index of the lane (SeqCst read-modify-write),
//! then loads this word. If it sees
//! - *Idle*: it moves the word to Queued and enqueues the task.
//! - *Queued*: the worker that starts the task looks at the lane afterwards.
//! - *Held*: the run that follows looks at the lane.
//! - *Running without MESSAGE*: it sets MESSAGE, and if the word had gone Idle meanwhile, schedules.
//! - *Running with MESSAGE*: it does nothing. The worker takes the signals (SeqCst read-modify-write)
//!   before its last look at the lane's end. In the single order of these four, either the sender's
//!   load comes after the worker's taking, and does not see that MESSAGE any more; or the worker's
//!   look comes after the sender's drawing, and the worker sees that the lane is not drained.
//!
//! **No signal is left behind.** Signals are in the same word: the exchange from Running to Idle or
//! Held fails if one has come. That exchange is the worker's last touch of the task, which may be
//! freed right after it.

use crate::sync::{AtomicU32, Ordering, fence_for_loom};

const PHASE_MASK: u32 = 0xff;

const IDLE: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const HELD: u32 = 3;
const ENDED: u32 = 4;

/// What a task is doing, as a bystander sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing to do; a message or a signal schedules it.
    Idle,
    /// In a run queue.
    Queued,
    /// On a worker.
    Running,
    /// Waiting for a signal; messages do not schedule it.
    Held,
    /// Over; it is never scheduled again.
    Ended,
}

/// Where a running task goes when it has nothing to do for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Until a message or a signal comes.
    Idle,
    /// Until a signal comes.
    Held,
}

/// Whether the caller must put the task into a run queue.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The caller moved it to Queued, and alone has to enqueue it.
    Enqueue,
    /// It is queued, running, held or over: nothing to do.
    Nothing,
}

/// Signals that have come; the bits' meaning is the task owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals(u32);

impl Signals {
    /// A message came while the task was running; set by [`RunState::notify`].
    pub const MESSAGE: Self = Self(1 << 8);

    /// The signal with this number, 1..=23; 0 is [`Signals::MESSAGE`].
    pub const fn bit(number: u32) -> Self {
        assert!(
            number > 0 && number < 24,
            "a state word has room for signals 1 to 23"
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

    /// A task that its maker is about to enqueue.
    pub fn new_queued() -> Self {
        Self(AtomicU32::new(QUEUED))
    }

    /// What the task is doing now.
    pub fn phase(&self) -> Phase {
        // Ordering: Acquire: who sees Ended sees what the last run wrote.
        match self.0.load(Ordering::Acquire) & PHASE_MASK {
            IDLE => Phase::Idle,
            QUEUED => Phase::Queued,
            RUNNING => Phase::Running,
            HELD => Phase::Held,
            _ => Phase::Ended,
        }
    }

    /// After a message was put into a lane: schedules an idle task, tells a running one.
    #[inline]
    pub fn notify(&self) -> Wake {
        fence_for_loom();
        // Ordering: SeqCst, the sender's load of the proof above.
        let state = self.0.load(Ordering::SeqCst);
        match state & PHASE_MASK {
            IDLE => self.move_to_queued(|phase| phase == IDLE),
            RUNNING if state & Signals::MESSAGE.0 == 0 => self.notify_running(),
            _ => Wake::Nothing,
        }
    }

    #[cold]
    fn notify_running(&self) -> Wake {
        // Ordering: SeqCst, one order with the worker's taking of the signals.
        let state = self.0.fetch_or(Signals::MESSAGE.0, Ordering::SeqCst);
        match state & PHASE_MASK {
            IDLE => self.move_to_queued(|phase| phase == IDLE),
            _ => Wake::Nothing,
        }
    }

    /// Sets signals, and schedules the task if it is idle or held.
    #[inline]
    pub fn signal(&self, signals: Signals) -> Wake {
        // Ordering: SeqCst/AcqRel: what the signaller wrote before is seen by who takes the signal.
        let state = self.0.fetch_or(signals.0, Ordering::SeqCst);
        match state & PHASE_MASK {
            IDLE | HELD => self.move_to_queued(|phase| phase == IDLE || phase == HELD),
            _ => Wake::Nothing,
        }
    }

    #[inline]
    fn move_to_queued(&self, may_move: impl Fn(u32) -> bool) -> Wake {
        let mut state = self.0.load(Ordering::Relaxed);
        while may_move(state & PHASE_MASK) {
            // Ordering: AcqRel, the next worker sees what the last one wrote, through us.
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

    /// A worker took the task from a run queue. Takes the signals that have come.
    #[inline]
    pub fn start(&self) -> Signals {
        // Ordering: AcqRel, acquire what the last worker and the signallers wrote.
        // SeqCst for the sender that saw Queued.
        let state = self.0.swap(RUNNING, Ordering::SeqCst);
        fence_for_loom();
        debug_assert_eq!(state & PHASE_MASK, QUEUED, "only a queued task starts");
        Signals(state & !PHASE_MASK)
    }

    /// Whether a signal other than [`Signals::MESSAGE`] has come since the run started; one load,
    /// for between two messages.
    #[inline]
    pub fn has_signals(&self) -> bool {
        // Ordering: Relaxed, `take_signals` acquires.
        self.0.load(Ordering::Relaxed) & !(PHASE_MASK | Signals::MESSAGE.0) != 0
    }

    /// As [`RunState::has_signals`], of all but this one.
    #[inline]
    pub fn has_signals_besides(&self, signal: Signals) -> bool {
        // Ordering: Relaxed, `take_signals` acquires.
        self.0.load(Ordering::Relaxed) & !(PHASE_MASK | Signals::MESSAGE.0 | signal.0) != 0
    }

    /// Takes the signals that have come while the task runs.
    pub fn take_signals(&self) -> Signals {
        // Ordering: SeqCst, the worker's taking of the proof above.
        let state = self.0.fetch_and(PHASE_MASK, Ordering::SeqCst);
        fence_for_loom();
        Signals(state & !PHASE_MASK)
    }

    /// The running task has nothing to do for now.
    ///
    /// # Errors
    /// The signals that have come, taken; the task is still running.
    #[inline]
    pub fn rest(&self, rest: Rest) -> Result<(), Signals> {
        let phase = match rest {
            Rest::Idle => IDLE,
            Rest::Held => HELD,
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

    /// The running task goes back to a run queue, which its worker does next. Signals stay.
    #[inline]
    pub fn requeue(&self) {
        // Ordering: AcqRel, releases the run's writes to the next worker. The exclusive or moves
        // Running to Queued and leaves the signals alone.
        let state = self.0.fetch_xor(RUNNING ^ QUEUED, Ordering::AcqRel);
        debug_assert_eq!(state & PHASE_MASK, RUNNING, "only a running task requeues");
    }

    /// The running task is over.
    pub fn end(&self) {
        // Ordering: SeqCst/AcqRel: releases the last run's writes.
        self.0.swap(ENDED, Ordering::SeqCst);
    }
}
