//! The log servers, each as a process with a folder and a configuration of its own.
//!
//! Equal durability:
//!
//! | level | Freeboard | rsyslog | syslog-ng |
//! |---|---|---|---|
//! | cached: a line counts when the operating system has it | `--sync none` | omfile without `sync` | file() without `fsync` |
//! | durable: a line counts when the disk has it, one sync for a group of lines | `--sync batch` (its default) | `sync="on"`: fsync after each batch of up to 1,024 | `fsync(yes)`: fsync after each write of up to 1,000 |
//!
//! None of the two drops lines that a connection or a Unix socket brings: rsyslog's enqueueing waits for ten minutes
//! instead of two seconds, and syslog-ng's path has `flow-control`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use freeboard_test_servers::Guarded;
use tempfile::TempDir;

use super::LogWork;
use super::disk::DiskLimit;
use super::load::{Target, Transport};
use super::output::Output;
use crate::listening::{free_address, wait_until_it_listens};
use crate::{cpu_time, memory};

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Freeboard,
    Rsyslog,
    SyslogNg,
}

/// A running server. Dropping it kills it and removes what it wrote.
pub struct LogServer {
    process: Guarded,
    kind: Kind,
    target: Target,
    folder: TempDir,
    /// Dropped after the process.
    _disk: Option<DiskLimit>,
}

impl LogServer {
    /// Starts it; `program` is `freeboard`.
    pub fn start(kind: Kind, work: LogWork, program: &Path) -> Result<Self> {
        let (transport, is_durable) = (work.transport(), work.is_durable);
        // Not in a temporary folder, which may be in memory: on the disk of the build.
        let disk = std::env::current_exe()?;
        let disk = disk.parent().context("the program has a folder")?;
        let folder = tempfile::Builder::new().prefix("logd-").tempdir_in(disk)?;
        let target = Target {
            transport,
            address: free_address()?,
            path: folder.path().join("socket"),
        };
        let command = match kind {
            Kind::Freeboard => freeboard(program, folder.path(), &target, is_durable),
            Kind::Rsyslog => rsyslog(folder.path(), &target, is_durable)?,
            Kind::SyslogNg => syslog_ng(folder.path(), &target, is_durable)?,
        };
        let log = fs::File::create(folder.path().join("messages"))?;
        let process = Guarded::spawn(&command, log.try_clone()?.into(), Stdio::from(log))
            .with_context(|| format!("{kind:?} cannot be started"))?;
        let limit = |bytes| DiskLimit::new(folder.path(), bytes);
        let limit = work.disk_bytes_per_second().map(limit).transpose()?;
        if let Some(limit) = &limit {
            limit.add(process.id())?;
        }
        let server = Self {
            process,
            kind,
            target,
            folder,
            _disk: limit,
        };
        let ready = server.wait_until_ready();
        ready.with_context(|| {
            let said = fs::read_to_string(server.folder.path().join("messages"));
            format!("{kind:?} is not ready: {}", said.unwrap_or_default().trim())
        })?;
        Ok(server)
    }

    /// All listen on the address too, so that this shows that they are ready.
    fn wait_until_ready(&self) -> Result<()> {
        wait_until_it_listens("it", self.target.address)?;
        let begun = Instant::now();
        while self.target.transport.is_unix() && !self.target.path.exists() {
            ensure!(begun.elapsed() < PATIENCE, "there is no socket");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn output(&self) -> Result<Output> {
        match self.kind {
            Kind::Freeboard => Output::stream(&stream(self.folder.path())),
            Kind::Rsyslog | Kind::SyslogNg => Ok(Output::text(&file(self.folder.path()))),
        }
    }

    /// Processor time of all its threads so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_time::of(self.process.id())
    }

    /// The most memory that it had, in bytes.
    pub fn peak_bytes(&self) -> Result<u64> {
        memory::peak_bytes_of(self.process.id())
    }
}

fn stream(folder: &Path) -> PathBuf {
    folder.join("stream")
}

fn file(folder: &Path) -> PathBuf {
    folder.join("lines")
}

fn freeboard(program: &Path, folder: &Path, target: &Target, is_durable: bool) -> Command {
    let mut command = Command::new(program);
    let address = target.address.to_string();
    command.arg("logd").arg(stream(folder));
    command.args(["--sync", if is_durable { "batch" } else { "none" }]);
    match target.transport {
        Transport::Tcp => &mut command,
        Transport::Udp => command.args(["--udp", &address]),
        Transport::Unix => command.arg("--unix").arg(&target.path),
        Transport::UnixStream => command.arg("--unix-stream").arg(&target.path),
        Transport::Http => {
            command.args(["--http", &address]);
            return command;
        }
    };
    command.args(["--tcp", &address]);
    command
}

/// Its fast TCP input; queues and batches as its documentation advises for high rates.
fn rsyslog(folder: &Path, target: &Target, is_durable: bool) -> Result<Command> {
    let (port, socket) = (target.address.port(), target.path.display());
    let input = match target.transport {
        Transport::Tcp => String::new(),
        Transport::Udp => format!(
            "module(load=\"imudp\" threads=\"2\" batchSize=\"128\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{port}\")\n"
        ),
        Transport::Unix => format!(
            "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             input(type=\"imuxsock\" Socket=\"{socket}\" FlowControl=\"on\" RateLimit.Interval=\"0\")\n"
        ),
        Transport::UnixStream => format!("input(type=\"imptcp\" path=\"{socket}\")\n"),
        Transport::Http => bail!("its input for HTTP is in no package of Debian"),
    };
    let sync = if is_durable { "on" } else { "off" };
    let configuration = folder.join("rsyslog.conf");
    fs::write(
        &configuration,
        format!(
            "global(workDirectory=\"{folder}\")\n\
             main_queue(queue.type=\"FixedArray\" queue.size=\"100000\" queue.dequeueBatchSize=\"1024\"\n\
             \x20 queue.timeoutEnqueue=\"600000\")\n\
             module(load=\"imptcp\" threads=\"2\")\n\
             input(type=\"imptcp\" address=\"127.0.0.1\" port=\"{port}\")\n{input}\
             action(type=\"omfile\" file=\"{file}\" template=\"RSYSLOG_FileFormat\" ioBufferSize=\"256k\"\n\
             \x20 sync=\"{sync}\")\n",
            folder = folder.display(),
            file = file(folder).display(),
        ),
    )?;
    let mut command = Command::new("rsyslogd");
    command.arg("-n").arg("-f").arg(configuration);
    command.arg("-i").arg(folder.join("pid"));
    Ok(command)
}

fn syslog_ng(folder: &Path, target: &Target, is_durable: bool) -> Result<Command> {
    let (port, socket) = (target.address.port(), target.path.display());
    // The connections share the window: 5,000 lines each.
    let tcp = format!(
        "network(ip(127.0.0.1) port({port}) transport(tcp) max-connections(20) log-iw-size(100000)\n\
         \x20 log-fetch-limit(1000));"
    );
    let input = match target.transport {
        Transport::Tcp => String::new(),
        Transport::Udp => {
            format!("network(ip(127.0.0.1) port({port}) transport(udp) log-iw-size(100000));")
        }
        Transport::Unix => {
            format!("unix-dgram(\"{socket}\" log-iw-size(100000) log-fetch-limit(1000));")
        }
        Transport::UnixStream => format!(
            "unix-stream(\"{socket}\" max-connections(20) log-iw-size(100000) log-fetch-limit(1000));"
        ),
        Transport::Http => bail!("it has no input for HTTP"),
    };
    let fsync = if is_durable { "yes" } else { "no" };
    let configuration = folder.join("syslog-ng.conf");
    fs::write(
        &configuration,
        format!(
            "@version: 3.38\n\
             options {{ threaded(yes); stats-freq(0); keep-hostname(yes); use-dns(no); log-msg-size(65536); }};\n\
             source s {{ {tcp} {input} }};\n\
             destination d {{ file(\"{file}\" flush-lines(1000) log-fifo-size(400000) fsync({fsync})); }};\n\
             log {{ source(s); destination(d); flags(flow-control); }};\n",
            file = file(folder).display(),
        ),
    )?;
    let mut command = Command::new("syslog-ng");
    command.args(["-F", "--no-caps", "-f"]).arg(configuration);
    for (option, name) in [("-R", "persist"), ("-p", "pid"), ("-c", "control")] {
        command.arg(option).arg(folder.join(name));
    }
    Ok(command)
}
