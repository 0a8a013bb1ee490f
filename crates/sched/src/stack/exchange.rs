//! The exchange between a capturer and the thread that it asks for its stack: a state word and a buffer.
//!
//! ```text
//!   63          34 33         2 1     0
//!   ┌─────────────┬────────────┬───────┐
//!   │ generation  │ thread     │ phase │
//!   └─────────────┴────────────┴───────┘
//!
//!            capturer             handler            handler
//!     Free ────────────> Asked ────────────> Writing ────────> Free
//!      ^                   │
//!      └───────────────────┘ capturer, timed out
//! ```
//!
//! Capturers hold a mutex from the request to the end of reading. The handler never waits: it runs in the interrupted
//! thread, which may hold any lock.
//!
//! **No answer is torn.** The buffer is written only in Writing, by the handler that moved the word there. That exchange
//! succeeds once per generation, and only its handler leaves Writing. A capturer asks only when the word is Free, so from
//! then on the only writer is the handler that claims its generation. It reads when the word is Free again (Release to
//! Acquire: the answer is complete). Only the next request allows further writing, and it needs the mutex that the
//! capturer still holds. If the capturer times out while the word is Writing, others are refused until that answer is
//! complete.
//!
//! **No late answer is taken for a new one.** A handler remembers the word that it saw as Asked, and traces before it
//! claims. If that request was withdrawn meanwhile, its exchange names an old generation and fails, even when the same
//! thread has been asked again. So every answer was traced after its own request. (A generation repeats after 2^30
//! requests, which would all have to fall within one handler's run.)
//!
//! **No request is lost.** It is stored before the signal is sent. SIGURG is blocked while its handler runs, so a signal
//! for a request is delivered after a handler that missed it. If it merges with an earlier pending signal, that signal's
//! handler sees the latest request.

use super::StackError;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// The most frames of an answer; outer frames are left out.
pub(super) const FRAMES_MAX: usize = if cfg!(loom) { 2 } else { 64 };

const PHASE_MASK: u64 = 0b11;
const FREE: u64 = 0;
const ASKED: u64 = 1;
const WRITING: u64 = 2;

const THREAD_SHIFT: u32 = 2;
const GENERATION_SHIFT: u32 = 34;

/// Generation and thread of one request: the state word in phase Free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request(u64);

impl Request {
    /// The request after that of `word`.
    fn following(word: u64, thread: u32) -> Self {
        let generation = (word >> GENERATION_SHIFT) + 1;
        Self(generation << GENERATION_SHIFT | u64::from(thread) << THREAD_SHIFT)
    }

    fn thread(self) -> u32 {
        (self.0 >> THREAD_SHIFT) as u32
    }
}

#[derive(Debug)]
pub(super) struct Exchange {
    capturer: Mutex<()>,
    word: AtomicU64,
    frames_count: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

impl Exchange {
    pub(super) fn new() -> Self {
        Self {
            capturer: Mutex::new(()),
            word: AtomicU64::new(FREE),
            frames_count: AtomicUsize::new(0),
            frames: std::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    /// The capturer's side: asks `thread` and calls `remind`, which signals the thread and pauses, until there is an
    /// answer or `remind` fails.
    ///
    /// # Errors
    ///
    /// Busy, or the error of `remind`.
    pub(super) fn ask(
        &self,
        thread: u32,
        mut remind: impl FnMut() -> Result<(), StackError>,
    ) -> Result<Vec<usize>, StackError> {
        let Ok(_capturer) = self.capturer.try_lock() else {
            return Err(StackError::Busy);
        };
        // Ordering: Acquire, with the end of `answer`: a late answer is complete before the next one.
        let last = self.word.load(Ordering::Acquire);
        if last & PHASE_MASK != FREE {
            return Err(StackError::Busy);
        }
        let request = Request::following(last, thread);
        // Ordering: Release, with the claim in `answer`: the last answer was read before the next one.
        self.word.store(request.0 | ASKED, Ordering::Release);
        loop {
            let reminded = remind();
            if self.is_answered(request) {
                return Ok(self.read());
            }
            if let Err(error) = reminded {
                return self.withdraw(request, error);
            }
        }
    }

    fn is_answered(&self, request: Request) -> bool {
        // Ordering: Acquire, with the end of `answer`.
        self.word.load(Ordering::Acquire) == request.0 | FREE
    }

    fn withdraw(&self, request: Request, error: StackError) -> Result<Vec<usize>, StackError> {
        // Ordering: Relaxed, nothing was written; Acquire on failure, with the end of `answer`.
        let withdrawn = self.word.compare_exchange(
            request.0 | ASKED,
            request.0 | FREE,
            Ordering::Relaxed,
            Ordering::Acquire,
        );
        match withdrawn {
            Err(word) if word & PHASE_MASK == FREE => Ok(self.read()),
            Ok(_) | Err(_) => Err(error),
        }
    }

    fn read(&self) -> Vec<usize> {
        // Ordering: Relaxed, the Acquire load that found the word Free orders these.
        let frames_count = self.frames_count.load(Ordering::Relaxed);
        self.frames[..frames_count]
            .iter()
            .map(|frame| frame.load(Ordering::Relaxed))
            .collect()
    }

    /// The handler's side: the request for `thread`, if there is one.
    pub(super) fn request_for(&self, thread: u32) -> Option<Request> {
        // Ordering: Relaxed, the claim in `answer` confirms it.
        let word = self.word.load(Ordering::Relaxed);
        let request = Request(word & !PHASE_MASK);
        (word & PHASE_MASK == ASKED && request.thread() == thread).then_some(request)
    }

    /// The handler's side: answers `request`, unless it was withdrawn.
    pub(super) fn answer(&self, request: Request, frames: &[usize]) {
        // Ordering: Acquire, with the Release store in `ask`.
        let claimed = self.word.compare_exchange(
            request.0 | ASKED,
            request.0 | WRITING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claimed.is_err() {
            return;
        }
        // Ordering: Relaxed, the claim and the Release store below enclose these.
        for (stored, &frame) in self.frames.iter().zip(frames) {
            stored.store(frame, Ordering::Relaxed);
        }
        self.frames_count
            .store(frames.len().min(FRAMES_MAX), Ordering::Relaxed);
        // Ordering: Release, with the capturer's Acquire loads.
        self.word.store(request.0 | FREE, Ordering::Release);
    }
}
