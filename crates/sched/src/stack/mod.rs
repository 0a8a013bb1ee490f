//! The call stack of another thread of this process, such as a worker that is stuck in a long run.
//!
//! ```text
//!   capturer (monitor)                                target (worker)
//!   ask: thread, generation ─────> exchange
//!   tgkill(SIGURG) ──────────────────────────────────> handler: trace own stack
//!   wait, check, remind            exchange <───────── answer: addresses
//!   addresses to names, lines
//! ```
//!
//! **The signal.** SIGURG is ignored by default, so a late one does no harm, and neither does one in a program that does
//! not know it; Go uses it for preemption for the same reason. The first capture installs the handler, which calls the
//! previous handler and stays. It uses SA_RESTART. Calls that the kernel never restarts (`nanosleep`, `poll`,
//! `epoll_wait`) return EINTR, which the standard library and every correct event loop retry. Captures time out if a
//! later handler does not call ours, or if a thread blocks the signal.
//!
//! **The rules of the handler.** It allocates nothing, takes no lock, waits for nothing and preserves errno. It traces with
//! libgcc's `_Unwind_Backtrace`, which has three known faults in signal handlers (pprof-rs and gperftools describe them):
//! - Older versions walk the loaded objects by `dl_iterate_phdr`, under the loader's lock. Since glibc 2.35 and libgcc 12
//!   they use `_dl_find_object`, which is lock-free and async-signal-safe. Without that symbol captures are not supported.
//!   A libgcc before 12 beside such a glibc is not detected; no known distribution pairs them. Code that registers frames
//!   by hand (some JIT compilers) brings back a lock in libgcc 12.
//! - Its first call initialises tables and binds symbols. That call is made before the handler is installed.
//! - While libgcc enters a landing pad it overwrites its own frame, and the unwind tables of some kernels' vDSO are wrong:
//!   a trace from there may follow a wild pointer. A thread interrupted in either is not traced; the capturer reminds it
//!   until it is elsewhere.
//!
//! `tests/it/stacks.rs` captures threads in a loop that panic and catch, and that load and unload libraries. A thread in the
//! loader answers like any other: `_dl_find_object` reads the complete version of the object list, whatever the
//! interrupted thread does to the other version.
//!
//! Remaining risks: assembly with *wrong* unwind tables anywhere on the stack can crash the trace, as it would crash a
//! panic or a profiler; without tables the trace ends there. The trace needs some 4 KiB of the interrupted thread's stack,
//! and the kernel's frame with the wide registers up to 11 KiB more.
//!
//! `exchange` has the protocol between the two sides, and its proof.

#[cfg(any(
    all(
        feature = "stacks",
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ),
    all(loom, test)
))]
mod exchange;
#[cfg(all(
    feature = "stacks",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod platform;
#[cfg(not(all(
    feature = "stacks",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod platform {
    use super::{Duration, StackError};

    #[derive(Debug, Clone, Copy)]
    pub(super) struct Thread;

    impl Thread {
        pub(super) fn current() -> Self {
            Self
        }

        pub(super) fn capture(self, _timeout: Duration) -> Result<String, StackError> {
            Err(StackError::NotSupported)
        }
    }
}

#[cfg(all(loom, test))]
mod loom_tests;

use std::{io, time::Duration};

use thiserror::Error;

/// Why no call stack was captured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// The feature `stacks` is off, or the platform does not support it. It needs Linux on x86-64 or AArch64 with a shared
    /// glibc 2.35 or later and the shared libgcc.
    #[error("call stacks of other threads are not supported in this build or on this platform")]
    NotSupported,
    /// The system refused the signal handler.
    #[error("the signal handler for call stacks could not be installed")]
    NotInstalled(#[source] io::Error),
    /// The system refused to send the signal; ESRCH means that the thread has terminated.
    #[error("the signal could not be sent to the thread")]
    Signal(#[source] io::Error),
    /// The thread did not answer in time: it is in an uninterruptible sleep, gets no processor, blocks the signal, or was
    /// in the unwinder or the vDSO each time.
    #[error("the thread did not answer in time")]
    TimedOut,
    /// Another capture is in progress in this process, or a late answer is still being written.
    #[error("another call stack is being captured")]
    Busy,
}

/// A thread whose call stack can be captured from other threads.
///
/// Do not use it after its thread has terminated: the system may give the same number to a new thread of this process,
/// whose stack would then be captured. It never reaches another process. The scheduler drops the targets of its workers
/// before their threads terminate.
#[derive(Debug, Clone, Copy)]
pub struct StackTarget {
    thread: platform::Thread,
}

impl StackTarget {
    /// The calling thread. Costs one system call.
    pub fn current() -> Self {
        Self {
            thread: platform::Thread::current(),
        }
    }

    /// The call stack, innermost call first, up to 64 frames: lines of `function (file:line)`, as far as symbols and debug
    /// information exist. Inlined calls have their own lines.
    ///
    /// Interrupts the thread for some microseconds. Waits up to `timeout` for its answer, then resolves the addresses. The
    /// first capture of a process reads the program's debug information, which takes up to seconds in a large program and
    /// stays in memory.
    ///
    /// # Errors
    ///
    /// See [`StackError`]; [`Busy`](StackError::Busy) and [`TimedOut`](StackError::TimedOut) can be retried.
    pub fn capture(&self, timeout: Duration) -> Result<String, StackError> {
        self.thread.capture(timeout)
    }
}
