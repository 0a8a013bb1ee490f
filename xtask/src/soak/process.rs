//! A server that is sampled, killed and started again.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Ports below those that connections take for themselves.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const PAUSE: Duration = Duration::from_millis(20);

/// What a process takes at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) age: Duration,
    /// Resident memory, descriptors, threads.
    pub(crate) taken: [u64; 3],
}

/// A program and its arguments, which run again after each kill.
pub(crate) struct Process {
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    errors: PathBuf,
    child: Child,
    started: Instant,
    pub(crate) kills: u64,
    /// Of this start.
    pub(crate) samples: Vec<Sample>,
}

impl Process {
    /// Starts it. Its errors go to a file in `folder`.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        arguments: Vec<String>,
        folder: &Path,
    ) -> Result<Self> {
        let errors = folder.join(format!("{}.stderr", name.replace(' ', "-")));
        let child = spawn(program, &arguments, &errors)?;
        Ok(Self {
            name,
            program: program.to_owned(),
            arguments,
            errors,
            child,
            started: Instant::now(),
            kills: 0,
            samples: Vec::new(),
        })
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context(self.name)?;
        self.child.wait().context(self.name)?;
        self.kills += 1;
        Ok(())
    }

    /// Starts it again; the samples are those of the new start.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.program, &self.arguments, &self.errors)?;
        self.started = Instant::now();
        self.samples.clear();
        Ok(())
    }

    /// Reads what it takes. An error if it has ended by itself.
    pub(crate) fn sample(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("it ended by itself, {status}: {}", self.last_error());
        }
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(folder.join("status"))?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let kibibytes = number("VmRSS:").context("no VmRSS")?;
        let threads = number("Threads:").context("no Threads")?;
        let descriptors = fs::read_dir(folder.join("fd"))?.count() as u64;
        self.samples.push(Sample {
            age: self.age(),
            taken: [kibibytes << 10, descriptors, threads],
        });
        Ok(())
    }

    /// Asks it to end, as SIGTERM does, and waits.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status()?;
        ensure!(sent.success(), "{} has ended already", self.name);
        let status = self.wait(Duration::from_secs(60))?;
        // A follower is ended by the signal.
        let is_fine = status.success() || status.code() == Some(143);
        ensure!(is_fine, "after SIGTERM: {status}: {}", self.last_error());
        Ok(())
    }

    pub(crate) fn wait(&mut self, time: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + time;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < until,
                "it has not ended after {} s",
                time.as_secs()
            );
            thread::sleep(PAUSE);
        }
    }

    fn last_error(&self) -> String {
        let text = fs::read_to_string(&self.errors).unwrap_or_default();
        text.lines().next_back().unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, arguments: &[String], errors: &Path) -> Result<Child> {
    let errors = File::options().append(true).create(true).open(errors)?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))
}

/// Ports that are free now. No connection takes them while a server is down.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let first = PORTS.start + (std::process::id() % 9_000) as u16;
    let mut free =
        (first..PORTS.end).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free.next().context("no port is free")?;
    }
    Ok(ports)
}

/// The numbers of a page of metrics: the sums over all labels of `name` whose label text contains `label`.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn read(port: u16) -> Result<Self> {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        socket.read_to_string(&mut page)?;
        ensure!(page.starts_with("HTTP/1.1 200"), "/metrics: {page}");
        Ok(Self(page))
    }

    pub(crate) fn sum(&self, name: &str, label: &str) -> u64 {
        let of_line = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let is_whole_name = rest.starts_with(['{', ' ']);
            let (labels, value) = rest.rsplit_once(' ')?;
            let value = value.parse::<f64>().ok()?;
            (is_whole_name && labels.contains(label)).then_some(value as u64)
        };
        self.0.lines().filter_map(of_line).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_labels_and_names_are_whole() {
        let page = "a_total{queue=\"p0\"} 3\na_total{queue=\"p1\"} 4\na_total_more 9\na 5\n";
        let metrics = Metrics(page.to_owned());
        assert_eq!(metrics.sum("a_total", ""), 7);
        assert_eq!(metrics.sum("a_total", "\"p1\""), 4);
        assert_eq!(metrics.sum("a", ""), 5);
    }
}
