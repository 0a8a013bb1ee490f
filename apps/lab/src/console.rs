//! Where people read: lines for them, and progress bars when they sit before a terminal.
//!
//! When standard output is kept for JSON everything goes to standard error. A reader that went away
//! is no failure of the run.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Fits 80 columns, with some left for the bar itself.
const BAR: &str = "{prefix} [{wide_bar}] {percent:>3} %, {msg}";
const ROW: &str = "{prefix} [{bar:30}] {percent:>3} %, {msg}";

/// One bar for the whole run, and below it one for each of its parts.
#[derive(Debug)]
struct Bars {
    all: MultiProgress,
    whole: ProgressBar,
    rows: Vec<ProgressBar>,
}

#[derive(Debug)]
struct State {
    is_to_stderr: bool,
    bars: Mutex<Option<Bars>>,
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
            bars: Mutex::new(None),
            failed: Mutex::new(None),
        }))
    }

    fn bars(&self) -> MutexGuard<'_, Option<Bars>> {
        self.0.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line, above the bars.
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
        match self.bars().as_ref() {
            Some(bars) => bars.all.suspend(write),
            None => write(),
        }
    }

    /// What came of a run: a table, and what it says in words.
    pub(crate) fn result(&self, table: &str, verdict: &[String]) {
        self.line("");
        self.line(table);
        self.line("");
        verdict.iter().for_each(|text| self.line(text));
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
    pub(crate) fn start_bar(&self, title: &str, total: u64) {
        self.start_bars(title, total, &[]);
    }

    /// Shows a bar and below it a row for each of these, with a share of a hundred.
    pub(crate) fn start_bars(&self, title: &str, total: u64, rows: &[String]) {
        let all = MultiProgress::new();
        let add = |length: u64, name: &str, template: &str| {
            let bar = ProgressBar::new(length).with_prefix(name.to_owned());
            let bar = match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                Err(_) => bar,
            };
            all.add(bar)
        };
        let whole = add(total, title, BAR);
        let rows = rows.iter().map(|name| add(100, name, ROW)).collect();
        *self.bars() = Some(Bars { all, whole, rows });
    }

    /// So much of the whole is done.
    pub(crate) fn move_bar(&self, done: u64, message: String) {
        if let Some(bars) = self.bars().as_ref() {
            bars.whole.set_message(message);
            // Counts that are read one after the other may seem to run backwards; the bar does not.
            bars.whole.set_position(done.max(bars.whole.position()));
        }
    }

    /// A row's share.
    pub(crate) fn move_row(&self, row: usize, percent: u64, message: String) {
        if let Some(bar) = self.bars().as_ref().and_then(|bars| bars.rows.get(row)) {
            bar.set_message(message);
            bar.set_position(percent);
        }
    }

    /// Takes the bars away.
    pub(crate) fn end_bars(&self) {
        if let Some(bars) = self.bars().take() {
            for bar in bars.rows.iter().chain([&bars.whole]) {
                bar.finish_and_clear();
            }
        }
    }
}

/// A line on standard error, for who watches.
pub(crate) fn say(line: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{line}");
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
