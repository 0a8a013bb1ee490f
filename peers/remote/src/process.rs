//! One of the two processes: its commands and answers, its processor time and memory.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The longest time between a command and its answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// In which Linux shows the times of processes.
const TICKS_PER_SECOND: f64 = 100.0;
/// The first of user's and kernel's time in `stat`, counted from the field behind the name.
const TIMES: usize = 11;

/// A process that takes commands. Dropping it kills it.
pub struct Process {
    name: &'static str,
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    pub fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("the {name} cannot be started"))?;
        let commands = child.stdin.take().context("its input is piped")?;
        let output = child.stdout.take().context("its output is piped")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            name,
            child,
            commands,
            answers,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}").with_context(|| format!("the {} has ended", self.name))
    }

    /// The next line that it prints.
    pub fn answer(&self) -> Result<Value> {
        let line = self.answers.recv_timeout(ANSWER_TIME_MAX);
        let line = line.with_context(|| format!("the {} does not answer", self.name))?;
        serde_json::from_str(&line).with_context(|| format!("the {} says {line}", self.name))
    }

    pub fn ask(&mut self, command: &str) -> Result<Value> {
        self.tell(command)?;
        self.answer()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the kernel says of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Of user and kernel, in steps of 10 ms.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    /// Since [`forget_peak`], or ever.
    pub peak_bytes: u64,
}

impl Usage {
    pub fn of(process: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name, in brackets, may hold anything.
        let fields = stat.rsplit(')').next().context("a process has a name")?;
        let times: Vec<&str> = fields.split_whitespace().skip(TIMES).take(2).collect();
        ensure!(times.len() == 2, "a process has times");
        let ticks = times[0].parse::<f64>()? + times[1].parse::<f64>()?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self {
            cpu_seconds: ticks / TICKS_PER_SECOND,
            resident_bytes: bytes(&status, "VmRSS")?,
            peak_bytes: bytes(&status, "VmHWM")?,
        })
    }
}

/// Has the kernel begin anew with the peak.
pub fn forget_peak(process: u32) -> Result<()> {
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

fn bytes(status: &str, name: &str) -> Result<u64> {
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .with_context(|| format!("a process has {name} in kB"))?;
    Ok(kibibytes.trim().parse::<u64>()? * 1_024)
}
