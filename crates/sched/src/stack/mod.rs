//! The call stack of another thread of this process: what a worker does that is stuck in a long run.
//!
//! ```text
//!   capturer (monitor)                                target (worker)
//!   ask: thread, generation ─────> exchange
//!   tgkill(SIGURG) ──────────────────────────────────> handler: trace own stack
//!   wait, look, remind             exchange <───────── answer: addresses
//!   addresses to names, lines
//! ```
//!
//! **The signal.** SIGURG is ignored by default, so one that comes late, or to a program that has
//! never heard of it, does no harm; Go preempts by it for the same reason. The handler goes in with
//! the first capture, calls the handler that was there before, and stays. It uses SA_RESTART; calls
//! that the kernel never restarts (`nanosleep`, `poll`, `epoll_wait`) return EINTR, over which the
//! standard library and every sound event loop go on. A handler installed later that does not call
//! ours makes captures time out, and so does a thread that blocks the signal.
//!
//! **What the handler may do.** It allocates nothing, takes no lock, waits for nothing and leaves
//! errno as it was. The trace is libgcc's `_Unwind_Backtrace`. Called from a signal handler, it has
//! three known faults (pprof-rs and gperftools write of all of them), and each is dealt with:
//! - Older ones walk the loaded objects by `dl_iterate_phdr`, under the loader's lock. Since glibc
//!   2.35 and libgcc 12 they use `_dl_find_object`, which is lock-free and async-signal-safe. Without
//!   that symbol captures are not supported. A libgcc before 12 beside such a glibc is not found
//!   out; no distribution is known that pairs them. Code that registers frames by hand (some JIT
//!   compilers) brings back a lock in libgcc 12.
//! - Its first call initialises tables and binds symbols: it is made before the handler goes in.
//! - While libgcc enters a landing pad it overwrites its own frame, and in the vDSO the unwind tables
//!   of some kernels are wrong: a trace from there may follow a wild pointer. A thread interrupted in
//!   either is not traced; the capturer reminds it until it is elsewhere.
//!
//! Threads that panic and catch, and that load and unload libraries, are captured in a loop by
//! `tests/stacks.rs`: a thread in the loader answers as any other one, for `_dl_find_object` reads the
//! version of the object list that is complete, whatever the interrupted thread does to the other.
//!
//! What remains: assembly with *wrong* unwind tables anywhere on the stack can crash the trace, as it
//! would crash a panic or a profiler; with none at all, the trace ends there. The trace needs some
//! 4 KiB of the interrupted thread's stack, and the kernel's frame with the wide registers up to
//! 11 KiB more.
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
#[cfg_attr(
    not(all(
        feature = "stacks",
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "absent.rs"
)]
mod platform;

#[cfg(all(loom, test))]
mod loom_tests;

use std::{io, time::Duration};

use thiserror::Error;

/// Why there is no call stack.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// Built without the feature `stacks`, or the platform cannot: it takes Linux on x86-64 or
    /// AArch64 with a shared glibc 2.35 or later and the shared libgcc.
    #[error("call stacks of other threads are not supported in this build or on this platform")]
    NotSupported,
    /// The system refused the signal handler.
    #[error("the signal handler for call stacks could not be installed")]
    NotInstalled(#[source] io::Error),
    /// The system refused to send the signal; ESRCH means that the thread has ended.
    #[error("the signal could not be sent to the thread")]
    Signal(#[source] io::Error),
    /// The thread did not answer in time: it is in an uninterruptible sleep, gets no processor, blocks
    /// the signal, or was in the unwinder or the vDSO each time.
    #[error("the thread did not answer in time")]
    TimedOut,
    /// Another capture is under way in this process, or the answer to one that timed out is still
    /// being written.
    #[error("another call stack is being captured")]
    Busy,
}

/// A thread whose call stack can be captured from other threads.
///
/// Of no use after its thread has ended: the system may give the same number to a new thread of this
/// process, whose stack would then be captured. It never reaches another process. Who keeps targets
/// (the scheduler, for its workers) forgets them before it lets their threads end.
#[derive(Debug, Clone, Copy)]
pub struct StackTarget {
    thread: platform::Thread,
}

impl StackTarget {
    /// The calling thread. Costs one system call, and prepares nothing.
    pub fn current() -> Self {
        Self {
            thread: platform::Thread::current(),
        }
    }

    /// What the thread is doing now, innermost call first, up to 64 frames: lines of `function
    /// (file:line)`, as far as symbols and debug information are there. Inlined calls have their own
    /// lines.
    ///
    /// Interrupts the thread for some microseconds. Waits up to `timeout` for its answer, then turns
    /// addresses into names; the first time in a process that reads the program's debug information,
    /// which takes a large program's caller up to seconds and stays in memory.
    ///
    /// # Errors
    ///
    /// See [`StackError`]; after [`Busy`](StackError::Busy) and [`TimedOut`](StackError::TimedOut) it
    /// can be tried again.
    pub fn capture(&self, timeout: Duration) -> Result<String, StackError> {
        self.thread.capture(timeout)
    }
}
