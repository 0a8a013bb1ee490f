//! `cargo xtask soak --hours N`: log server, fetcher, key-value store and a stream at once, as processes, for hours.
//!
//! ```text
//!   24 clients ── POST / ──▶ freeboard logd
//!   24 clients ── SET ─────▶ kvs
//!   lines ───────▶ freeboard stream append ──▶ files ──▶ freeboard stream tail ──▶ every line, in order
//!                  freeboard fetcher --load, on its own broker and Redis
//! ```
//!
//! The time has 20 cycles: 2/5 of each are quiet, 2/5 normal, 1/5 is three times the clients that take all a server can
//! do. In the first 12 cycles a process is killed with signal 9 after each cycle and a half, one after the other, and
//! starts again at once.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use super::load::{self, CLIENTS, Client, Counter, LINES, Level, Logger, Shared};
use super::process::{Metrics, Process, Sample, free_ports};
use crate::cargo::{Cargo, readable};

const CYCLES: u32 = 20;
const KILL_CYCLES: u32 = 12;
/// Kills in these cycles.
const KILLS: u32 = 8;
/// Of a process: so many cycles to get warm, then two windows with as many each, the first and the last.
const WINDOW_CYCLES: u32 = 2;
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(50);
/// Within this time the reader has seen all that was written.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// The fetcher's notifications a second.
const FETCHER_RATES: [u32; 3] = [100, 2_000, 20_000];

/// What a median may grow by, and be called flat: a quarter and so much more.
const GROWTH: [(&str, u64); 3] = [("RSS", 32 << 20), ("descriptors", 8), ("threads", 4)];

const LOGD: usize = 0;
const KVS: usize = 1;
const WRITER: usize = 2;
const READER: usize = 3;
const FETCHER: usize = 4;

/// First and last median of memory, descriptors and threads.
#[derive(Clone, Copy)]
struct Windows {
    age: Duration,
    medians: [(u64, u64); 3],
}

impl Windows {
    /// `None` if the samples do not span the time to get warm and two windows.
    fn of(samples: &[Sample], window: Duration) -> Option<Self> {
        let age = samples.last()?.age;
        let median = |from: Duration, to: Duration, index: usize| {
            let inside = samples.iter().filter(|it| (from..=to).contains(&it.age));
            let mut taken: Vec<u64> = inside.map(|it| it.taken[index]).collect();
            taken.sort_unstable();
            taken.get(taken.len() / 2).copied()
        };
        let last = age.checked_sub(window)?;
        if last < 2 * window {
            return None;
        }
        let mut medians = [(0, 0); 3];
        for (index, it) in medians.iter_mut().enumerate() {
            let first = median(window, 2 * window, index)?;
            *it = (first, median(last, age, index)?);
        }
        Some(Self { age, medians })
    }

    fn grown(&self) -> Vec<String> {
        let pairs = self.medians.iter().zip(GROWTH);
        let grown = pairs.filter(|((first, last), (_, more))| *last > first + first / 4 + more);
        grown
            .map(|((first, last), (name, _))| format!("{name} grew from {first} to {last}"))
            .collect()
    }
}

/// All processes, the threads that load them, and what was found.
struct Soak {
    folder: PathBuf,
    freeboard: PathBuf,
    ports: [u16; 4],
    /// The length of a window.
    window: Duration,
    processes: Vec<Process>,
    /// Of each process, of the start that lived longest.
    windows: Vec<Option<Windows>>,
    checks: u64,
    /// Notifications that the fetcher has acknowledged in its earlier starts, and in this one.
    fetched: [u64; 2],
    shared: Arc<Shared>,
    loggers: Vec<JoinHandle<Logger>>,
    counters: Vec<JoinHandle<Counter>>,
    behind: Arc<AtomicU64>,
    feeder: Option<JoinHandle<u64>>,
    follower: Option<JoinHandle<Option<(u64, u64)>>>,
}

pub(super) fn run(root: &Path, hours: f64, is_release: bool, is_json: bool) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "it samples processes by /proc");
    let profile = if is_release { "release" } else { "debug" };
    let flags = is_release.then_some("--release");
    Cargo::new([
        "build",
        "-p",
        "freeboard-lab",
        "-p",
        "freeboard-kvs",
        "--bins",
    ])
    .with_arguments(flags)
    .run(root)?;
    let programs = root.join("target").join(profile);
    let time = Duration::from_secs_f64(hours * 3600.0);
    let mut soak = Soak::start(root, &programs, time)?;
    soak.keep_on(time)?;
    let result = soak.end()?;
    if is_json {
        println!("{result:#}");
    } else {
        print(&result);
    }
    let violations = result["violations"].as_array().map_or(0, Vec::len);
    ensure!(
        violations == 0,
        "{violations} violations; the files are in target/soak"
    );
    fs::remove_dir_all(root.join("target/soak")).context("target/soak cannot be removed")
}

impl Soak {
    fn start(root: &Path, programs: &Path, time: Duration) -> Result<Self> {
        let folder = root.join("target/soak");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("target/soak cannot be removed")?;
        }
        fs::create_dir_all(&folder).context("target/soak cannot be created")?;
        let (freeboard, kvs) = (programs.join("freeboard"), programs.join("kvs"));
        let ports: [u16; 4] = free_ports()?;
        let [http, status, store, metrics] = ports;
        let fifth = (time / CYCLES / 5).as_secs().max(1);
        let stages = FETCHER_RATES.iter().zip([2, 2, 1]);
        let stages: Vec<_> = stages
            .map(|(rate, part)| format!("{rate}:{}", part * fifth))
            .collect();
        let stages = stages.join(",");
        let at = |name: &str| folder.join(name).display().to_string();
        let (log, data, stream) = (at("LOG"), at("KVS"), at("STREAM"));
        let starts = [
            (
                "logd",
                &freeboard,
                format!("logd {log} --http 127.0.0.1:{http} --status 127.0.0.1:{status}"),
            ),
            (
                "key-value store",
                &kvs,
                format!("{data} --listen 127.0.0.1:{store} --snapshot-after 100000"),
            ),
            (
                "stream writer",
                &freeboard,
                format!("stream append {stream} --keep-bytes 268435456 --json"),
            ),
            (
                "stream reader",
                &freeboard,
                format!("stream tail {stream} --follow -n 1000000"),
            ),
            (
                "fetcher",
                &freeboard,
                format!(
                    "fetcher --listen 127.0.0.1:{metrics} --load {stages} --users 1000 --store-ms 5"
                ),
            ),
        ];
        let mut soak = Self {
            folder,
            freeboard: freeboard.clone(),
            ports,
            window: time / CYCLES * WINDOW_CYCLES,
            windows: vec![None; starts.len()],
            processes: Vec::new(),
            checks: 0,
            fetched: [0; 2],
            shared: Arc::default(),
            loggers: Vec::new(),
            counters: Vec::new(),
            behind: Arc::default(),
            feeder: None,
            follower: None,
        };
        for (name, program, arguments) in starts {
            let arguments = arguments.split(' ').map(str::to_owned).collect();
            let process = Process::start(name, program, arguments, &soak.folder)?;
            soak.processes.push(process);
            if name == "stream writer" {
                soak.feed()?;
                let is_there = || stream_records(&soak.freeboard, &stream).is_ok();
                wait_until("the stream's first record", is_there)?;
            }
        }
        for client in 0..CLIENTS {
            let shared = soak.shared.clone();
            let logger = Logger {
                client,
                acknowledged: Vec::new(),
            };
            let run = move || logger.run(client, http, &shared);
            soak.loggers.push(thread::spawn(run));
            let shared = soak.shared.clone();
            let run = move || Counter::new(client).run(client, store, &shared);
            soak.counters.push(thread::spawn(run));
        }
        soak.follow(None)?;
        Ok(soak)
    }

    /// Loads the writer, which has just started.
    fn feed(&mut self) -> Result<()> {
        let writer = &mut self.processes[WRITER];
        let (stdin, start) = (writer.stdin().context("no pipe")?, writer.kills);
        let (shared, behind) = (self.shared.clone(), self.behind.clone());
        let run = move || load::feed(stdin, start, &shared, &behind);
        self.feeder = Some(thread::spawn(run));
        Ok(())
    }

    fn follow(&mut self, last: Option<(u64, u64)>) -> Result<()> {
        let stdout = self.processes[READER].stdout().context("no pipe")?;
        let (shared, behind) = (self.shared.clone(), self.behind.clone());
        let run = move || load::follow(stdout, last, &shared, &behind);
        self.follower = Some(thread::spawn(run));
        Ok(())
    }

    /// Loads, samples and kills until the time is over or something is wrong.
    fn keep_on(&mut self, time: Duration) -> Result<()> {
        let begun = Instant::now();
        let cycle = time / CYCLES;
        let interval = SAMPLE_INTERVAL_MAX.min(cycle / 5);
        let (mut next_sample, mut kills) = (interval, 0);
        while begun.elapsed() < time && self.shared.violations().is_empty() {
            thread::sleep(TICK);
            let now = begun.elapsed();
            let part = now.as_secs_f64() / cycle.as_secs_f64() % 1.0;
            let level = Level::ALL[(part * 2.5) as usize];
            self.shared.set(level);
            if now >= next_sample {
                next_sample += interval;
                self.sample();
                self.say(now, time, level);
            }
            if kills < KILLS && now >= cycle * KILL_CYCLES / KILLS * (kills + 1) {
                let victim = kills as usize % self.processes.len();
                self.kill(victim)?;
                kills += 1;
            }
        }
        Ok(())
    }

    fn sample(&mut self) {
        for process in &mut self.processes {
            if let Err(error) = process.sample() {
                self.shared
                    .violation(format!("{}: {error:#}", process.name));
            }
        }
        self.check_metrics(false);
    }

    /// One line of progress.
    fn say(&self, now: Duration, time: Duration, level: Level) {
        let rss = self.processes.iter().map(|process| {
            let bytes = process.samples.last().map_or(0, |it| it.taken[0]);
            format!("{} {} MB", process.name, bytes / 1_000_000)
        });
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        eprintln!(
            "{} of {}, {}: {} lines, {} changes, {} stream lines; {}",
            readable(now),
            readable(time),
            level.name(),
            counted(&self.shared.lines),
            counted(&self.shared.changes),
            counted(&self.shared.seen),
            rss.collect::<Vec<_>>().join(", ")
        );
    }

    fn kill(&mut self, victim: usize) -> Result<()> {
        eprintln!("kill -9: {}", self.processes[victim].name);
        self.check_flat(victim);
        self.processes[victim].kill()?;
        let last = match victim {
            WRITER => {
                joined(self.feeder.take())?;
                None
            }
            READER => joined(self.follower.take())?,
            FETCHER => {
                self.fetched = [self.fetched.iter().sum(), 0];
                None
            }
            _ => None,
        };
        self.processes[victim].restart()?;
        match victim {
            WRITER => self.feed(),
            READER => self.follow(last),
            _ => Ok(()),
        }
    }

    /// Compares the windows of the process's present start.
    fn check_flat(&mut self, index: usize) {
        let process = &self.processes[index];
        let Some(windows) = Windows::of(&process.samples, self.window) else {
            return;
        };
        self.checks += 1;
        for text in windows.grown() {
            self.shared.violation(format!("{}: {text}", process.name));
        }
        let longest = &mut self.windows[index];
        if longest.is_none_or(|it| it.age < windows.age) {
            *longest = Some(windows);
        }
    }

    /// The counters of servers that are up; at the end nothing may be under way.
    fn check_metrics(&mut self, is_end: bool) {
        let [_, status, _, fetcher] = self.ports;
        let violation = |text: String| self.shared.violation(text);
        // A server that has just started does not listen yet.
        if let Ok(metrics) = Metrics::read(status) {
            let of = |name: &str| metrics.sum(&format!("freeboard_logd_{name}"), "");
            let broken = of("sink_lost_total") + of("sink_dead") + of("sink_panics_total");
            if broken > 0 {
                violation("logd: a sink is dead, has panicked or has lost lines".to_owned());
            }
            let accepted = of("lines_accepted_total");
            let known = of("lines_taken_total") + of("lines_shed_total") + of("lines_held");
            if is_end && (accepted == 0 || accepted != known) {
                violation(format!(
                    "logd: {accepted} lines accepted, {known} accounted for"
                ));
            }
        } else if is_end {
            violation("logd: no metrics".to_owned());
        }
        if let Ok(metrics) = Metrics::read(fetcher) {
            let of =
                |name: &str, queue: &str| metrics.sum(&format!("fetcher_broker_{name}"), queue);
            let sum = |names: &[&str]| names.iter().map(|name| of(name, "")).sum::<u64>();
            let (published, concluded) = (
                of("published_total", ""),
                sum(&[
                    "confirmed_total",
                    "refused_total",
                    "unknown_total",
                    "unconfirmed",
                ]),
            );
            let (delivered, settled) = (
                of("delivered_total", ""),
                sum(&[
                    "acked_total",
                    "retried_total",
                    "dead_lettered_total",
                    "returned_total",
                    "unacked",
                ]),
            );
            self.fetched[1] =
                of("acked_total", "\"priority0\"") + of("acked_total", "\"priority1\"");
            if published != concluded || delivered != settled || is_end && published == 0 {
                violation(format!(
                    "fetcher: {published} published, {concluded} concluded; {delivered} delivered, {settled} settled"
                ));
            }
        } else if is_end {
            violation("fetcher: no metrics".to_owned());
        }
    }

    /// Ends all in order, and compares what is there with what was acknowledged.
    fn end(mut self) -> Result<Value> {
        for index in 0..self.processes.len() {
            self.check_flat(index);
        }
        self.shared.end();
        let mut acknowledged = Vec::new();
        for logger in self.loggers.drain(..) {
            acknowledged.push(joined(Some(logger))?.acknowledged);
        }
        self.check_metrics(true);
        self.check_store()?;
        self.check_stream()?;
        for index in [LOGD, KVS, FETCHER] {
            let process = &mut self.processes[index];
            if let Err(error) = process.terminate() {
                self.shared
                    .violation(format!("{}: {error:#}", process.name));
            }
        }
        self.check_log(&acknowledged)?;
        Ok(self.result())
    }

    fn check_store(&mut self) -> Result<()> {
        for counter in self.counters.drain(..) {
            let mut counter = joined(Some(counter))?;
            // It reads its keys.
            let read = counter.connect(self.ports[2], &self.shared);
            read.context("the key-value store does not answer")?;
        }
        Ok(())
    }

    /// The writer closes the stream, the reader sees its last line, and every record is whole.
    fn check_stream(&mut self) -> Result<()> {
        let stream = self.folder.join("STREAM").display().to_string();
        let fed = joined(self.feeder.take())?;
        let writer = &mut self.processes[WRITER];
        let status = writer.wait(CATCH_UP_MAX)?;
        let mut summary = String::new();
        let stdout = writer.stdout().context("no pipe")?;
        BufReader::new(stdout).read_to_string(&mut summary)?;
        let summary: Value = serde_json::from_str(&summary).unwrap_or_default();
        let records = &summary["records"];
        if !status.success() || *records != fed {
            let text = format!("streams: {status}; {fed} lines written, {records} records");
            self.shared.violation(text);
        }
        let records = stream_records(&self.freeboard, &stream)?;
        let seen = || self.shared.seen.load(Ordering::Relaxed);
        let caught_up = wait_until("the reader", || seen() >= records);
        self.processes[READER].terminate()?;
        joined(self.follower.take())?;
        if caught_up.is_err() || seen() != records {
            let text = format!("streams: {records} records, {} read", seen());
            self.shared.violation(text);
        }
        Ok(())
    }

    /// Every acknowledged line is in the log, and none twice.
    fn check_log(&self, acknowledged: &[Vec<bool>]) -> Result<()> {
        let mut printed = Command::new(&self.freeboard)
            .args(["logs", "--raw"])
            .arg(self.folder.join("LOG"))
            .stdout(Stdio::piped())
            .spawn()
            .context("freeboard logs cannot be started")?;
        let lines = |requests: &Vec<bool>| vec![false; requests.len() * LINES as usize];
        let mut found: Vec<Vec<bool>> = acknowledged.iter().map(lines).collect();
        let mut twice = 0_u64;
        let out = BufReader::new(printed.stdout.take().context("no pipe")?);
        for line in out.lines() {
            let line = line?;
            let mut numbers = line.split(' ').filter_map(|it| it.parse::<usize>().ok());
            let (Some(client), Some(number)) = (numbers.next(), numbers.next()) else {
                bail!("the log has the line {line:?}");
            };
            let slot = found.get_mut(client).and_then(|it| it.get_mut(number));
            let slot = slot.with_context(|| format!("nobody sent {line:?}"))?;
            twice += u64::from(*slot);
            *slot = true;
        }
        let status = printed.wait()?;
        let pairs = acknowledged.iter().zip(&found);
        let lost = pairs.flat_map(|(acknowledged, found)| {
            let requests = found.chunks(LINES as usize).zip(acknowledged);
            requests.filter(|(lines, is_acknowledged)| **is_acknowledged && lines.contains(&false))
        });
        let lost = lost.count();
        if lost > 0 || twice > 0 || !status.success() {
            self.shared.violation(format!(
                "logd: {lost} acknowledged requests are not whole, {twice} lines came twice; {status}"
            ));
        }
        Ok(())
    }

    fn result(&self) -> Value {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let done = [
            format!("{} lines acknowledged", counted(&self.shared.lines)),
            format!("{} changes acknowledged", counted(&self.shared.changes)),
            String::new(),
            format!("{} lines read", counted(&self.shared.seen)),
            format!("{} notifications done", self.fetched.iter().sum::<u64>()),
        ];
        let rows = self.processes.iter().zip(&self.windows).zip(done);
        let rows = rows.map(|((process, windows), done)| {
            let medians = windows.map(|it| it.medians);
            let pair = |index: usize, unit: u64| {
                medians.map(|it| json!([it[index].0 / unit, it[index].1 / unit]))
            };
            json!({
                "process": process.name,
                "kills": process.kills,
                "done": done,
                "seconds": windows.map(|it| it.age.as_secs()),
                "rss_kib": pair(0, 1 << 10),
                "descriptors": pair(1, 1),
                "threads": pair(2, 1),
            })
        });
        json!({
            "processes": rows.collect::<Vec<_>>(),
            "comparisons": self.checks,
            "violations": self.shared.violations(),
        })
    }
}

fn print(result: &Value) {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "process",
        "kills",
        "done",
        "compared over",
        "RSS, first and last window",
        "descriptors",
        "threads",
    ]);
    let pair = |value: &Value, unit: f64| match (value[0].as_f64(), value[1].as_f64()) {
        (Some(first), Some(last)) => format!("{:.0} → {:.0}", first / unit, last / unit),
        _ => "-".to_owned(),
    };
    for row in result["processes"].as_array().into_iter().flatten() {
        table.add_row([
            row["process"].as_str().unwrap_or_default().to_owned(),
            row["kills"].to_string(),
            row["done"].as_str().unwrap_or_default().to_owned(),
            row["seconds"]
                .as_u64()
                .map_or_else(|| "-".to_owned(), |it| format!("{it} s")),
            pair(&row["rss_kib"], 1024.0) + " MiB",
            pair(&row["descriptors"], 1.0),
            pair(&row["threads"], 1.0),
        ]);
    }
    println!("\n{table}");
    let violations = result["violations"].as_array();
    for text in violations.into_iter().flatten() {
        println!("violation: {text}");
    }
    let count = violations.map_or(0, Vec::len);
    println!(
        "{} comparisons of windows, {count} violations",
        result["comparisons"]
    );
}

/// The records that a stream has had so far: all are whole.
fn stream_records(freeboard: &Path, stream: &str) -> Result<u64> {
    let verified = Command::new(freeboard)
        .args(["stream", "verify", stream, "--json"])
        .output()?;
    let report: Value = serde_json::from_slice(&verified.stdout)?;
    ensure!(report["whole"] == true, "the stream is damaged: {report}");
    report["last_record"].as_u64().context("no last record")
}

fn joined<T>(thread: Option<JoinHandle<T>>) -> Result<T> {
    let joined = thread.context("not started")?.join();
    joined.map_err(|_| anyhow::anyhow!("a thread of the load has panicked"))
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + CATCH_UP_MAX;
    while !is_true() {
        ensure!(Instant::now() < until, "{what} did not come");
        thread::sleep(TICK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_between_the_windows_is_found_and_warming_up_is_not() {
        let samples = |rss: fn(u64) -> u64| -> Vec<Sample> {
            let sample = |second| Sample {
                age: Duration::from_secs(second),
                taken: [rss(second), 10, 4],
            };
            (0..60).map(sample).collect()
        };
        let window = Duration::from_secs(10);
        let grown = |samples: &[Sample]| Windows::of(samples, window).unwrap().grown();
        assert!(grown(&samples(|second| second.min(10) << 24)).is_empty());
        assert_eq!(grown(&samples(|second| second << 24)).len(), 1);
        assert!(Windows::of(&samples(|_| 0)[..25], window).is_none());
    }
}
