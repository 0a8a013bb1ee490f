//! The processes of a run, and what they say.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::Sender,
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use freeboard_test_servers::Guarded;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{args::Plan, link::Link, node::Status};

/// What a process said, when, and which one.
pub(super) type Said = (usize, Instant, Status);

/// A process, and the link between it and the server.
pub(super) struct Process {
    guarded: Guarded,
    pub(super) link: Link,
}

impl Process {
    /// Starts the process of this number.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn start(
        number: usize,
        plan: &Plan,
        server: std::net::SocketAddr,
        folder: &Path,
        said: Sender<Said>,
    ) -> Result<Self> {
        let name = name(number);
        let link = Link::start(server).context("cannot listen on loopback")?;
        let program = std::env::current_exe().context("this program's path is not known")?;
        let mut command = Command::new(program);
        command
            .arg("cluster-node")
            .args(["--url", &format!("nats://{}", link.address())])
            .args(["--name", &name, "--folder"])
            .arg(folder)
            .args(["--partitions", &plan.partitions.to_string()])
            .args(["--devices", &plan.devices.to_string()])
            .args(["--ttl", &plan.ttl.as_secs_f64().to_string()]);
        let started = Guarded::spawn(&command, Stdio::piped(), Stdio::inherit());
        let mut guarded = started.with_context(|| format!("cannot start process {name}"))?;
        let lines = guarded.take_stdout().map(BufReader::new);
        let listen = move || {
            for line in lines.into_iter().flat_map(BufRead::lines) {
                let status = line.ok().and_then(|it| serde_json::from_str(&it).ok());
                let Some(status) = status else { continue };
                if said.send((number, Instant::now(), status)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name(format!("from {name}"))
            .spawn(listen)?;
        Ok(Self { guarded, link })
    }

    pub(super) fn kill(&mut self) {
        self.guarded.kill();
    }

    /// Stops or continues it.
    pub(super) fn pause(&self, is_paused: bool) {
        let signal = if is_paused {
            Signal::STOP
        } else {
            Signal::CONT
        };
        if let Some(group) = self.pid() {
            // It fails only if the process has ended, which shows.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends it in order, if it lives.
    pub(super) fn end(&mut self) {
        // The number of one that has ended may be another's.
        let has_ended = self.guarded.has_ended().unwrap_or(true);
        if let Some(pid) = self.pid().filter(|_| !has_ended) {
            self.pause(false);
            self.link.cut(false);
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.guarded.wait();
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.guarded.id())
            .ok()
            .and_then(Pid::from_raw)
    }
}

/// a, b, c, …, z, a1, b1, …
pub(super) fn name(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}
