//! Where people read: lines for them, and progress bars when they sit before a terminal.
//!
//! When standard output is kept for JSON everything goes to standard error. A reader that went away
//! is no failure of the run.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Fits 80 columns, with some left for the bar itself.
const BAR: &str = "{prefix} [{wide_bar}] {percent:>3} %, {msg}";
const ROW: &str = "{prefix} [{bar:30}] {percent:>3} %, {msg}";

/// For something of several parts, of which each may have bars of its own below.
const WHOLE: &str = "{msg} [{wide_bar}] {elapsed_precise}";
/// The time that has passed moves on by itself.
const TICK: Duration = Duration::from_millis(500);

/// One bar for the whole run, and below it one for each of its parts.
#[derive(Debug)]
struct Bars {
    whole: ProgressBar,
    rows: Vec<ProgressBar>,
}

#[derive(Debug)]
struct State {
    is_to_stderr: bool,
    /// Lines are left out.
    is_quiet: bool,
    /// Every bar on the terminal, whichever console's.
    all: MultiProgress,
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
        Self::with(is_to_stderr, false, MultiProgress::new())
    }

    /// One that shows bars below this one's, and no lines.
    pub(crate) fn quiet(&self) -> Self {
        Self::with(self.0.is_to_stderr, true, self.0.all.clone())
    }

    fn with(is_to_stderr: bool, is_quiet: bool, all: MultiProgress) -> Self {
        Self(Arc::new(State {
            is_to_stderr,
            is_quiet,
            all,
            bars: Mutex::new(None),
            failed: Mutex::new(None),
        }))
    }

    fn bars(&self) -> MutexGuard<'_, Option<Bars>> {
        self.0.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line, above the bars.
    pub(crate) fn line(&self, text: &str) {
        if self.0.is_quiet {
            return;
        }
        self.0.all.suspend(|| {
            if self.0.is_to_stderr {
                // Nobody may be there to read it.
                let _ = writeln!(io::stderr().lock(), "{text}");
            } else if let Err(error) = write_stdout(&format!("{text}\n")) {
                let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        });
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
        let whole = self.add_bar(total, title, BAR);
        let rows = rows.iter().map(|name| self.add_bar(100, name, ROW));
        let rows = rows.collect();
        *self.bars() = Some(Bars { whole, rows });
    }

    /// Shows a bar with the time that has passed, above those of [`quiet`](Self::quiet) ones.
    pub(crate) fn start_whole(&self, total: u64) {
        let whole = self.add_bar(total, "", WHOLE);
        whole.enable_steady_tick(TICK);
        let rows = Vec::new();
        *self.bars() = Some(Bars { whole, rows });
    }

    fn add_bar(&self, length: u64, name: &str, template: &str) -> ProgressBar {
        let bar = ProgressBar::new(length).with_prefix(name.to_owned());
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        self.0.all.add(bar)
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
                self.0.all.remove(bar);
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
