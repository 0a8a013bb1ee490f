//! A program of another runtime, bounded in time.

use std::{
    fs::File,
    io::{Read, Seek},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use freeboard_test_servers::Guarded;
pub(crate) use freeboard_test_servers::is_on_path;

use crate::{figures, interrupt::Interrupt};

/// The lines of its log that an error shows.
const LOG_LINES: usize = 3;

/// A running program and its log.
#[derive(Debug)]
pub(crate) struct Program {
    process: Guarded,
    log: File,
}

impl Program {
    pub(super) fn start(command: &Command) -> Result<Self> {
        let log = tempfile::tempfile().context("cannot make a temporary file")?;
        let stderr = log.try_clone()?.into();
        let name = command.get_program().to_string_lossy();
        let process = Guarded::spawn(command, Stdio::piped(), stderr)
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { process, log })
    }

    /// Waits for its end, and returns its output. It is killed at the limit and at Ctrl-C.
    ///
    /// # Errors
    /// If it was killed or failed.
    pub(super) fn output(mut self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let mut stdout = self.process.take_stdout().context("it has no output")?;
        let (sender, ended) = mpsc::channel();
        let interrupted = sender.clone();
        let _listening = interrupt.listen(move || {
            let _ = interrupted.send(Err(anyhow!("it was interrupted")));
        });
        // It ends when the program is killed.
        thread::spawn(move || {
            let mut text = String::new();
            let read = stdout.read_to_string(&mut text).context("its output");
            let _ = sender.send(read.map(|_| text));
        });
        let text = match ended.recv_timeout(limit) {
            Ok(text) => text?,
            Err(_) => bail!(
                "it did not end within {}",
                figures::seconds(limit.as_secs_f64())
            ),
        };
        let status = self.process.wait()?;
        if !status.success() {
            bail!("it failed ({status}): {}", self.last_words());
        }
        Ok(text)
    }

    fn last_words(&mut self) -> String {
        let mut text = Vec::new();
        let read = self
            .log
            .rewind()
            .and_then(|()| self.log.read_to_end(&mut text));
        if read.is_err() {
            return "its log cannot be read".to_owned();
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let words: Vec<&str> = lines.take(LOG_LINES).collect();
        match words.as_slice() {
            [] => "it said nothing".to_owned(),
            words => words.join("; "),
        }
    }
}
