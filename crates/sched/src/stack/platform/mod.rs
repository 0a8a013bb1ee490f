//! Linux with glibc: the capturer's side, from the signal to the names and lines.

mod handler;
mod untraceable;

use std::{
    fmt::Write as _,
    io, process, ptr, thread,
    time::{Duration, Instant},
};

use super::{StackError, exchange::FRAMES_MAX};

/// Time between two signals, after each of which the capturer checks for the answer.
const PAUSE: Duration = Duration::from_micros(500);

/// The kernel's number of a thread of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread(u32);

impl Thread {
    /// Safe in a signal handler.
    pub(super) fn current() -> Self {
        // SAFETY: gettid has no preconditions. Called by number: glibc has a function for it only since 2.30, and
        // programs must start on older ones too.
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
        Ok(text_of(&frames))
    }

    fn signal(self) -> io::Result<()> {
        // tgkill, so that a number that the system has reused in another process is never hit.
        // SAFETY: integers only; the handler is installed, and without one the signal is ignored.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, process::id(), self.0, handler::SIGNAL) };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// The names and lines of `frames`.
fn text_of(frames: &[usize]) -> String {
    let mut text = String::new();
    for (depth, &address) in frames.iter().enumerate() {
        // Names are resolved one byte before the address, because in callers that is the return address. The
        // interrupted instruction's own address is meant, so one byte is added.
        let is_interrupted = depth == 0;
        add_lines(&mut text, address + usize::from(is_interrupted));
    }
    if frames.len() == FRAMES_MAX {
        text.push_str("(further callers left out)\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Adds a line for the function at `address`, and one for each function into which it is inlined.
fn add_lines(text: &mut String, address: usize) {
    let length_before = text.len();
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        let Some(name) = symbol.name() else {
            return;
        };
        // `#` omits the hash at the end of a name. Writing to a string cannot fail.
        let _ = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => writeln!(text, "{name:#} ({}:{line})", file.display()),
            _ => writeln!(text, "{name:#}"),
        };
    });
    if text.len() == length_before {
        let _ = writeln!(text, "unknown function at {address:#x}");
    }
}
