//! A program of another runtime, bounded in time.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    process::{ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use freeboard_test_servers::Guarded;
pub(super) use freeboard_test_servers::is_on_path;

use crate::{figures, interrupt::Interrupt};

/// The lines of its log that an error shows.
const LOG_LINES: usize = 3;

/// A program that still runs so long after the end of its output hangs.
const END_LIMIT: Duration = Duration::from_secs(5);
const END_CHECK_EVERY: Duration = Duration::from_millis(1);

const INTERRUPTED: &str = "it was interrupted";

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
        let text = self.read("did not end", limit, interrupt, |stdout| {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        })?;
        let begun = Instant::now();
        while !self.process.has_ended()? {
            ensure!(!interrupt.has_come(), INTERRUPTED);
            ensure!(
                begun.elapsed() < END_LIMIT,
                "it closed its output and did not end"
            );
            thread::sleep(END_CHECK_EVERY);
        }
        let status = self.process.wait()?;
        if !status.success() {
            bail!("it failed ({status}): {}", self.last_words());
        }
        Ok(text)
    }

    /// Waits for the first line of its output, and leaves it running.
    ///
    /// # Errors
    /// If there is none before its end, the limit and Ctrl-C.
    pub(crate) fn line(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let line = self.read("printed no line", limit, interrupt, |stdout| {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        })?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => bail!("it ended early: {}", self.last_words()),
        }
    }

    /// Reads its output in another thread, which ends when the program does.
    fn read(
        &mut self,
        failure: &str,
        limit: Duration,
        interrupt: &Interrupt,
        read: impl FnOnce(&mut ChildStdout) -> io::Result<String> + Send + 'static,
    ) -> Result<String> {
        let mut stdout = self.process.take_stdout().context("it has no output")?;
        let (sender, ended) = mpsc::channel();
        let interrupted = sender.clone();
        let _listening = interrupt.listen(move || {
            let _ = interrupted.send(Err(anyhow!(INTERRUPTED)));
        });
        // It may have come before it was listened for.
        ensure!(!interrupt.has_come(), INTERRUPTED);
        thread::spawn(move || {
            let read = read(&mut stdout).context("its output");
            let _ = sender.send(read);
        });
        match ended.recv_timeout(limit) {
            Ok(text) => text,
            Err(_) => bail!(
                "it {failure} within {}",
                figures::seconds(limit.as_secs_f64())
            ),
        }
    }

    /// The process, which is also the group.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Does `work` with it. It is killed at the limit and at Ctrl-C; then `work` must end by that.
    pub(crate) fn during<T>(
        &mut self,
        limit: Duration,
        interrupt: &Interrupt,
        work: impl FnOnce() -> T,
    ) -> T {
        let (sender, ended) = mpsc::channel();
        let interrupted = sender.clone();
        let _listening = interrupt.listen(move || {
            let _ = interrupted.send(false);
        });
        if interrupt.has_come() {
            // It came before it was listened for.
            let _ = sender.send(false);
        }
        thread::scope(|scope| {
            scope.spawn(move || {
                if ended.recv_timeout(limit) != Ok(true) {
                    self.process.kill();
                }
            });
            let done = work();
            let _ = sender.send(true);
            done
        })
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
