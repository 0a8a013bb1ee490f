//! Runs the built binary, and reads what it prints.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod log_server;
pub(crate) mod room;
pub(crate) mod service;

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Far beyond what any of the runs takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// `freeboard` with these arguments, separated by spaces.
pub(crate) fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeboard"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &str) -> Output {
    let command = command(arguments).stdin(Stdio::null()).output();
    command.expect("the binary was built")
}

/// Runs it with this on standard input.
pub(crate) fn run_with_input(arguments: &str, input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // It may end without reading all.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it was started");
    writer.join().expect("the writer does not panic");
    output
}

/// What a `--json -` of this scene that succeeded wrote.
pub(crate) fn json(output: &Output, scene: &str) -> Value {
    assert_eq!(code(output), 0, "{}", stderr(output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!(json["scene"], scene);
    json
}

/// The flood's runs in a `--json -` that succeeded.
pub(crate) fn runs(output: &Output) -> Vec<Value> {
    let json = json(output, "flood");
    json["runs"].as_array().expect("runs").clone()
}

/// The names of an object's fields.
pub(crate) fn fields(object: &Value) -> BTreeSet<&str> {
    let object = object.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// The only run of `lab flood --json -` with these further arguments.
pub(crate) fn flood(arguments: &str) -> Value {
    let mut runs = runs(&run(&format!("lab flood --no-peers --json - {arguments}")));
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// A count of a run.
pub(crate) fn count(run: &Value, field: &str) -> u64 {
    run[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is a count in {run}"))
}

/// The counts of an array.
pub(crate) fn counts(array: &Value) -> Vec<u64> {
    let array = array.as_array().expect("an array");
    let counts = array.iter().map(|it| it.as_u64().expect("a count"));
    counts.collect()
}

/// Every line that was accepted is written or counted as shed, and the file was found whole.
pub(crate) fn assert_adds_up(run: &Value) {
    let (accepted, written) = (count(run, "accepted"), count(run, "written"));
    assert_eq!(accepted, written + count(run, "shed"), "{run}");
    assert_eq!(run["verified"], true, "{run}");
}

/// As [`assert_adds_up`], and the whole flood came through.
pub(crate) fn assert_whole(run: &Value, lines: u64) {
    assert_adds_up(run);
    assert_eq!(count(run, "accepted"), lines, "{run}");
    assert_eq!(count(run, "written"), lines, "{run}");
}

/// Checks that the run is refused as bad usage, with these words, before anything is printed.
pub(crate) fn check_usage(arguments: &str, says: &str) {
    let output = run(arguments);
    let text = stderr(&output);
    assert_eq!(code(&output), 2, "{arguments}: {text}");
    // A busy machine may give warnings before.
    let error = text
        .split_inclusive('\n')
        .skip_while(|line| !line.starts_with("error: "));
    let error: String = error.collect();
    assert!(error.contains(says), "{arguments}: {text}");
    assert_eq!(stdout(&output), "", "{arguments}");
}

/// Exit code; a signal is none.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("it exits by itself")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `--nocapture` shows.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Sends a process a signal, if it is still there.
pub(crate) fn signal(process: u32, name: &str) {
    let kill = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .stderr(Stdio::null())
        .status();
    kill.expect("there is a kill(1)");
}

/// A run that goes on while a test looks at what it prints.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    deadline: Instant,
}

impl Running {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_with(arguments, Stdio::null())
    }

    /// One that reads what the test writes to it.
    pub(crate) fn feed(arguments: &str) -> (Self, ChildStdin) {
        let mut running = Self::start_with(arguments, Stdio::piped());
        let stdin = running.child.stdin.take().expect("piped");
        (running, stdin)
    }

    /// One that may have so many files open.
    pub(crate) fn start_with_files(arguments: &str, files: u32) -> Self {
        let mut shell = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_freeboard");
        shell.args([
            "-c",
            &format!("ulimit -n {files}; exec {program} {arguments}"),
        ]);
        Self::start_command(shell, Stdio::null())
    }

    fn start_with(arguments: &str, stdin: Stdio) -> Self {
        Self::start_command(command(arguments), stdin)
    }

    pub(crate) fn start_command(mut command: Command, stdin: Stdio) -> Self {
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self {
            child,
            lines,
            deadline: Instant::now() + DEADLINE,
        }
    }

    /// Waits for a printed line that contains `text`.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.line();
            let line = line.unwrap_or_else(|| panic!("it printed no {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The next line, waited for; none if there is none.
    pub(crate) fn line(&self) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left).ok()
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a Ctrl-C.
    pub(crate) fn interrupt(&self) {
        signal(self.child.id(), "INT");
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    /// Ends it with a SIGKILL, as the kernel does when memory is short.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it was started");
        let status = self.child.wait().expect("it was started");
        assert_eq!(status.code(), None, "it had ended by itself");
    }

    /// The exit code, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        assert!(Instant::now() < self.deadline, "it does not end");
        let status = self.child.try_wait().expect("it was started")?;
        Some(status.code().expect("it exits by itself"))
    }

    /// Waits for its end; the exit code.
    pub(crate) fn wait(mut self) -> i32 {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let status = self.child.wait().expect("it was started");
        status.code().expect("it exits by itself")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a test that failed leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
