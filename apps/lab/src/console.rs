//! Where people read: lines for them, and a progress bar when they sit before a terminal.
//!
//! When standard output is kept for JSON everything goes to standard error. A reader that went away
//! is no failure of the run.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::figures::count;

/// Fits 80 columns, with some left for the bar itself.
const BAR: &str = "{prefix} [{wide_bar}] {percent:>3} %, {msg} queued";

#[derive(Debug)]
struct State {
    is_to_stderr: bool,
    bar: Mutex<Option<ProgressBar>>,
    /// The first write that failed for another reason than a reader who went away.
    failed: Mutex<Option<io::Error>>,
}

/// Cheap to clone; every clone writes to the same place.
#[derive(Debug, Clone)]
pub(crate) struct Console(Arc<State>);

impl Console {
    /// Lines go to standard output, or all to standard error.
    pub(crate) fn new(is_to_stderr: bool) -> Self {
        Self(Arc::new(State {
            is_to_stderr,
            bar: Mutex::new(None),
            failed: Mutex::new(None),
        }))
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.0.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line, above the bar.
    pub(crate) fn line(&self, text: &str) {
        let write = || {
            if self.0.is_to_stderr {
                // Nobody may be there to read it.
                let _ = writeln!(io::stderr().lock(), "{text}");
            } else if let Err(error) = write_stdout(&format!("{text}\n")) {
                let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        };
        match self.bar().as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Whether all lines could be written.
    ///
    /// # Errors
    /// The first failure, but for a reader that went away.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// Shows a bar, if standard error is a terminal.
    pub(crate) fn start_bar(&self, title: &str, lines: u64) {
        let mut bar = ProgressBar::new(lines)
            .with_prefix(title.to_owned())
            .with_message("0");
        if let Ok(style) = ProgressStyle::with_template(BAR) {
            bar = bar.with_style(style.progress_chars("=> "));
        }
        *self.bar() = Some(bar);
    }

    /// So many lines are handled, and so many queued.
    pub(crate) fn move_bar(&self, handled: u64, dam: u64, server: u64) {
        if let Some(bar) = self.bar().as_ref() {
            let queued = match dam {
                0 => count(server),
                _ => format!("{} (dam) + {}", count(dam), count(server)),
            };
            bar.set_message(queued);
            // What is queued is read a moment after what was accepted: never let it run backwards.
            bar.set_position(handled.max(bar.position()));
        }
    }

    /// Takes the bar away.
    pub(crate) fn end_bar(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }
}

/// Writes to standard output what is meant for a program.
///
/// # Errors
/// Any but that the reader has gone.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
