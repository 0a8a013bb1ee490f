//! Linux with glibc: the capturer's side, from the signal to the text.

mod handler;
mod text;
mod untraceable;

use std::{
    io, process, thread,
    time::{Duration, Instant},
};

use super::StackError;

/// Between two looks for the answer, each of which reminds the thread.
const PAUSE: Duration = Duration::from_micros(500);

/// The kernel's number of a thread of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread(u32);

impl Thread {
    /// Safe in a signal handler.
    pub(super) fn current() -> Self {
        // SAFETY: gettid has no preconditions. By number, since glibc has had a function for it only
        // since 2.30, and programs must start on older ones too.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        // The kernel's numbers are positive and below 2^22.
        Self(id as u32)
    }

    pub(super) fn capture(self, timeout: Duration) -> Result<String, StackError> {
        let exchange = handler::install()?;
        let started = Instant::now();
        let frames = exchange.ask(self.0, || {
            self.signal().map_err(StackError::Signal)?;
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(StackError::TimedOut);
            }
            thread::sleep(PAUSE.min(left));
            Ok(())
        })?;
        Ok(text::of(&frames))
    }

    fn signal(self) -> io::Result<()> {
        // tgkill, so that a number that the system has given to another process is never hit.
        // SAFETY: integers only; the handler is in, and without one the signal is ignored.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, process::id(), self.0, handler::SIGNAL) };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
