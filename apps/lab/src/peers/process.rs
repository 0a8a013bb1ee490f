//! A program of another runtime, bounded in time and in what is kept of its output.

use std::{
    io::{self, BufRead, BufReader, Read},
    process::{ChildStderr, ChildStdout, Command, Stdio},
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
const LOG_BYTES: u64 = 64 << 10;
/// How long the last of the log may take to come, once the program has been killed.
const LOG_LIMIT: Duration = Duration::from_secs(1);
/// More than any of the programs prints.
const OUTPUT_BYTES: u64 = 16 << 20;

/// A program that still runs so long after the end of its output hangs.
const END_LIMIT: Duration = Duration::from_secs(5);
const END_CHECK_EVERY: Duration = Duration::from_millis(1);

const INTERRUPTED: &str = "it was interrupted";

/// A running program and its log.
#[derive(Debug)]
pub(crate) struct Program {
    process: Guarded,
    /// Gets the first bytes of the log when it ends.
    log: mpsc::Receiver<Vec<u8>>,
}

impl Program {
    pub(super) fn start(command: &Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy();
        let mut process = Guarded::spawn(command, Stdio::piped(), Stdio::piped())
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, log) = mpsc::channel();
        if let Some(stderr) = process.take_stderr() {
            thread::spawn(move || sender.send(read_log(stderr)));
        }
        Ok(Self { process, log })
    }

    /// Waits for its end, and returns its output. It is killed at the limit and at Ctrl-C.
    ///
    /// # Errors
    /// If it was killed or failed.
    pub(super) fn output(mut self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let text = self.read("did not end", limit, interrupt, |stdout| {
            let mut text = String::new();
            stdout
                .take(OUTPUT_BYTES)
                .read_to_string(&mut text)
                .map(|_| text)
        })?;
        ensure!(
            (text.len() as u64) < OUTPUT_BYTES,
            "it printed more than {}",
            figures::size(OUTPUT_BYTES)
        );
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
            BufReader::new(stdout.take(LOG_BYTES))
                .read_line(&mut line)
                .map(|_| line)
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
        self.process.kill();
        // A process that has left the group may keep it open.
        let text = self.log.recv_timeout(LOG_LIMIT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let words: Vec<&str> = lines.take(LOG_LINES).collect();
        match words.as_slice() {
            [] => "it said nothing".to_owned(),
            words => words.join("; "),
        }
    }
}

/// The first bytes; the others are read and dropped, so that the program does not wait.
fn read_log(mut log: ChildStderr) -> Vec<u8> {
    let mut text = Vec::new();
    // An error is the end.
    let _ = log.by_ref().take(LOG_BYTES).read_to_end(&mut text);
    let _ = io::copy(&mut log, &mut io::sink());
    text
}
