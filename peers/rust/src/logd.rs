//! The logd suite: log servers under load, each writing to the disk at equal durability.
//!
//! ```text
//!   8 senders ── TCP | UDP | Unix | HTTP ──▶ server, a process ──▶ file or stream ──▶ reader
//!   one thread each, lines of 128 bytes                              counts each numbered line
//!
//!   flat      all lines as fast as they are taken: the loader always has more, so the server is overloaded
//!   rest      20,000 lines/s, which all can take
//!   quiet     1,000 lines/s on one connection, beside one of 100,000 lines/s
//!   overload  the same, beside eight that send 3 times what the disk takes, which the kernel limits to 10 MB/s
//!   loggen    syslog-ng's loader, 4 connections, as fast as they are taken
//! ```
//!
//! Loader and reader are this process; `loader_cpu_us` is what both need for a line. Times are from when a line was due
//! to when the reader saw it in the file; over HTTP to the answer. The reader polls 5,000 times a second. rsyslog and syslog-ng show a line to it
//! before they sync it, and Freeboard's stream when its durable write has reached the file: with durability the times
//! of the other two are too short by a sync.

mod disk;
mod load;
mod output;
mod servers;

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use crate::cpu_time;
use crate::outcome::Outcome;
pub use load::Transport;
use load::{LINE_BYTES, LOUD_SENDERS_MAX, Sender, Target, now_ns, times};
use output::{Found, Output};
pub use servers::Kind;
use servers::LogServer;

const SENDERS: u32 = 8;
/// Of the first line, which is not counted.
const WARM_UP_SENDER: u32 = 999;
/// Senders, and the lines/s of all.
const REST: (u32, u64) = (SENDERS, 20_000);
const LOUD: (u32, u64) = (1, 100_000);
/// Three times what the slow disk takes, without anything that a server adds to a line.
const OVERLOAD: (u32, u64) = (SENDERS, 3 * SLOW_DISK_BYTES_PER_SECOND / LINE_BYTES as u64);
const QUIET_SENDER: Option<u32> = Some(LOUD_SENDERS_MAX as u32);
const QUIET_LINES_PER_SECOND: u64 = 1_000;
/// Less than what any of the servers writes over TCP, so that the disk is the limit.
const SLOW_DISK_BYTES_PER_SECOND: u64 = 10_000_000;
const LOGGEN_CONNECTIONS: u64 = 4;
/// The reader waits so long at the end of the file.
const NAP: Duration = Duration::from_micros(200);
/// Lines that have not come so long after the last one are lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the loader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    Flat(Transport),
    Rest(Transport),
    Overload(Transport),
    Quiet,
    Loggen,
}

/// One work of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWork {
    pub load: Load,
    pub is_durable: bool,
}

impl LogWork {
    fn transport(self) -> Transport {
        match self.load {
            Load::Flat(transport) | Load::Rest(transport) | Load::Overload(transport) => transport,
            Load::Quiet | Load::Loggen => Transport::Tcp,
        }
    }

    fn disk_bytes_per_second(self) -> Option<u64> {
        matches!(self.load, Load::Overload(_)).then_some(SLOW_DISK_BYTES_PER_SECOND)
    }

    /// Whether the times of this sender count: where there is a quiet one, only its.
    fn is_timed(self, sender: u32) -> bool {
        let has_quiet = matches!(self.load, Load::Quiet | Load::Overload(_));
        !has_quiet || sender as usize == LOUD_SENDERS_MAX
    }
}

/// Measures one server; `units` are lines, or milliseconds of the paced works and of loggen's.
pub fn run(kind: Kind, work: LogWork, units: u64, program: &Path) -> Result<Outcome> {
    if work.transport() == Transport::Http && kind != Kind::Freeboard {
        return Ok(Outcome::Skipped("Debian has no input for HTTP of it"));
    }
    let server = LogServer::start(kind, work, program)?;
    let mut output = server.output()?;
    let time = Duration::from_millis(units);
    let target = server.target().clone();
    warm_up(&target, &mut output)?;
    let (begun, server_cpu, our_cpu) = (Instant::now(), server.cpu_seconds()?, cpu_time::used());
    let loader = thread::spawn(move || match work.load {
        Load::Flat(_) => flat(&target, units),
        Load::Rest(_) => paced(&target, REST, None, time),
        Load::Quiet => paced(&target, LOUD, QUIET_SENDER, time),
        Load::Overload(_) => paced(&target, OVERLOAD, QUIET_SENDER, time),
        Load::Loggen => loggen(&target, time),
    });
    let mut found = Found::default();
    let mut times = times();
    let mut sent = None;
    let mut loader = Some(loader);
    let mut last = Instant::now();
    loop {
        let mut now = 0;
        let has_read = output.read(|line| {
            if let Some(number) = found.add(line)
                && number.at_ns > 0
                && work.transport() != Transport::Http
                && work.is_timed(number.sender)
            {
                if now == 0 {
                    now = now_ns();
                }
                times.saturating_record(now.saturating_sub(number.at_ns));
            }
        })?;
        if has_read {
            last = Instant::now();
            continue;
        }
        if let Some(ended) = loader.take_if(|it| it.is_finished()) {
            let ended = ended
                .join()
                .map_err(|_| anyhow::anyhow!("the loader panicked"))??;
            sent = Some(ended.lines);
            for (sender, answered) in ended.answered {
                if work.is_timed(sender) {
                    times += answered;
                }
            }
            last = last.max(Instant::now());
            continue;
        }
        let all = |sent: u64| match work.load {
            Load::Loggen => found.unnumbered >= sent,
            _ => found.lines >= sent,
        };
        if sent.is_some_and(all) || sent.is_some() && last.elapsed() > PATIENCE {
            break;
        }
        thread::sleep(NAP);
    }
    let sent = sent.context("the loader has ended")?;
    let lines = match work.load {
        Load::Loggen => found.unnumbered.min(sent),
        _ => found.lines,
    };
    ensure!(lines > 0, "the server has written none of {sent} lines");
    // What was lost is not waited for.
    let seconds = (last - begun).as_secs_f64();
    let server_us = (server.cpu_seconds()? - server_cpu) * 1e6;
    let our_us = (cpu_time::used() - our_cpu).as_secs_f64() * 1e6;
    let mut outcome = Outcome::measured(lines, seconds)
        .with_field("qps", lines as f64 / seconds)
        .with_field("cpu_us", server_us / lines as f64)
        .with_field("loader_cpu_us", our_us / lines as f64)
        .with_field("rss_peak_mb", server.peak_bytes()? as f64 / 1e6)
        .with_field("lost", (sent - lines) as f64)
        .with_field("lost_percent", (sent - lines) as f64 * 100.0 / sent as f64)
        .with_field("repeated", found.repeated as f64);
    for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("max_us", 1.0)] {
        if !times.is_empty() {
            let time = times.value_at_quantile(quantile) as f64 / 1e3;
            outcome = outcome.with_field(name, time);
        }
    }
    Ok(outcome)
}

/// Sends a line, and waits until it was read. The first time that a reader of a stream comes to the end, it searches the rest
/// of the segment for later records, which takes some hundred milliseconds.
fn warm_up(target: &Target, output: &mut Output) -> Result<()> {
    let mut target = target.clone();
    if target.transport != Transport::Http {
        target.transport = Transport::Tcp;
    }
    let mut line = Sender::connect(&target, WARM_UP_SENDER)?;
    line.send_all(1)?;
    let (begun, mut lines) = (Instant::now(), 0);
    while output.read(|_| lines += 1)? || lines == 0 {
        ensure!(begun.elapsed() < PATIENCE, "the first line is not written");
    }
    Ok(())
}

/// What the loader has sent.
#[derive(Default)]
struct Sent {
    lines: u64,
    /// Times to the answers of HTTP, by sender.
    answered: Vec<(u32, Histogram<u64>)>,
}

/// Runs a sender in a thread of its own for each number.
fn all(
    target: &Target,
    numbers: impl IntoIterator<Item = u32>,
    send: impl Fn(&mut Sender, u32) -> Result<()> + Sync,
) -> Result<Sent> {
    // All connect first, so that none begins while others are not there.
    let senders: Vec<(u32, Sender)> = numbers
        .into_iter()
        .map(|number| Ok((number, Sender::connect(target, number)?)))
        .collect::<Result<_>>()?;
    thread::scope(|scope| {
        let send = &send;
        let started: Vec<_> = senders
            .into_iter()
            .map(|(number, mut sender)| {
                scope.spawn(move || send(&mut sender, number).map(|()| (number, sender)))
            })
            .collect();
        let mut sent = Sent::default();
        for it in started {
            let ended = it.join();
            let (number, sender) = ended.map_err(|_| anyhow::anyhow!("a sender panicked"))??;
            sent.lines += sender.sent();
            sent.answered.push((number, sender.answered));
        }
        Ok(sent)
    })
}

fn flat(target: &Target, lines: u64) -> Result<Sent> {
    let each = (lines / u64::from(SENDERS)).max(1);
    all(target, 0..SENDERS, |sender, _| sender.send_all(each))
}

/// So many senders send these lines/s together, beside the quiet one if there is one.
fn paced(
    target: &Target,
    (senders, lines_per_second): (u32, u64),
    quiet: Option<u32>,
    time: Duration,
) -> Result<Sent> {
    all(target, (0..senders).chain(quiet), |sender, number| {
        let rate = match quiet == Some(number) {
            true => QUIET_LINES_PER_SECOND,
            false => lines_per_second / u64::from(senders),
        };
        sender.send_paced(rate, time)
    })
}

/// Runs loggen, which says how many lines it has sent.
fn loggen(target: &Target, time: Duration) -> Result<Sent> {
    let output = Command::new("loggen")
        .args(["--inet", "--stream", "--quiet", "--rate", "1000000"])
        .args(["--interval", &time.as_secs().max(1).to_string()])
        .args(["--size", &load::LINE_BYTES.to_string()])
        .args(["--active-connections", &LOGGEN_CONNECTIONS.to_string()])
        .arg(target.address.ip().to_string())
        .arg(target.address.port().to_string())
        .output()
        .context("loggen cannot be started")?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let report = said
        .lines()
        .rev()
        .find(|line| line.starts_with("average rate"));
    let lines = report
        .and_then(|line| line.split("count=").nth(1)?.split(',').next()?.parse().ok())
        .with_context(|| format!("loggen does not say how many lines it sent: {said}"))?;
    Ok(Sent {
        lines,
        ..Sent::default()
    })
}
