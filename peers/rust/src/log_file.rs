//! The log server's file: written raw or through a buffer, and read back when all is done.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use anyhow::{Context, Result, ensure};
use tempfile::{NamedTempFile, TempPath};

use crate::finish::{self, Finish, Waiting};
use crate::outcome::Outcome;
use crate::stopwatch::Stopwatch;
use crate::work::{SENDERS_MANY, Scale, Work};

/// As the original's delayed writes.
const BUFFER_BYTES: usize = 64 * 1024;

/// How a line reaches the kernel.
enum Sink {
    /// One write(2) for each line.
    Raw(File),
    Buffered(BufWriter<File>),
}

/// The receiver's side: writes lines until all are there, then flushes and reports.
pub struct LogFile {
    sink: Sink,
    lines_expected: u64,
    lines_written: u64,
    finish: Finish,
}

/// The main thread's side: waits, and reads the file back.
pub struct LogCheck {
    path: TempPath,
    lines_expected: u64,
    waiting: Waiting,
}

/// Creates the file for the flood work `work`.
pub fn create(work: Work, scale: Scale) -> Result<(LogFile, LogCheck)> {
    let (file, path) = NamedTempFile::new()
        .context("no temporary file")?
        .into_parts();
    let sink = match work {
        Work::FloodDirectRaw => Sink::Raw(file),
        _ => Sink::Buffered(BufWriter::with_capacity(BUFFER_BYTES, file)),
    };
    let lines_expected = SENDERS_MANY * scale.units(work);
    let (finish, waiting) = finish::line();
    let log_file = LogFile {
        sink,
        lines_expected,
        lines_written: 0,
        finish,
    };
    Ok((
        log_file,
        LogCheck {
            path,
            lines_expected,
            waiting,
        },
    ))
}

/// A line of 31 bytes, as a sender makes it.
pub fn line(sender: u64, number: u64) -> String {
    format!("sender {sender:03} message {number:07} ok.\n")
}

impl LogFile {
    /// Writes a line. True when it was the last one and all are with the kernel.
    ///
    /// # Panics
    /// If the file cannot be written: then there is nothing to measure.
    pub fn write(&mut self, line: &str) -> bool {
        match &mut self.sink {
            Sink::Raw(file) => file.write_all(line.as_bytes()),
            Sink::Buffered(buffer) => buffer.write_all(line.as_bytes()),
        }
        .expect("the log file can be written");
        self.lines_written += 1;
        let is_last = self.lines_written == self.lines_expected;
        if is_last {
            if let Sink::Buffered(buffer) = &mut self.sink {
                buffer.flush().expect("the log file can be flushed");
            }
            self.finish.report(self.lines_written, 0);
        }
        is_last
    }
}

impl LogCheck {
    /// Waits for the last line and checks that every line is in the file, whole.
    pub fn into_outcome(self, stopwatch: &Stopwatch) -> Result<Outcome> {
        let ended = self.waiting.wait(self.lines_expected, 0)?;
        let mut lines_found = 0;
        for read in BufReader::new(File::open(&self.path)?).lines() {
            let text = read.context("the log file cannot be read back")?;
            ensure!(
                text.len() == line(0, 0).len() - 1,
                "a line is not whole: {text:?}"
            );
            lines_found += 1;
        }
        ensure!(
            lines_found == self.lines_expected,
            "{lines_found} of {} lines are in the file",
            self.lines_expected
        );
        Ok(Outcome::measured(
            lines_found,
            stopwatch.seconds_until(ended)?,
        ))
    }
}
