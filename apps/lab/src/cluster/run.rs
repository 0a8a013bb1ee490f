//! One run: the server, the processes, the client, and what is done to the processes meanwhile.
//!
//! ```text
//!   client ──▶ NATS ◀──▶ link ◀──▶ process a ──▶ streams, in a folder that all processes see
//!                   ◀──▶ link ◀──▶ process b ──▶
//! ```

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use freeboard::{System, remote::Node};
use freeboard_test_servers::{JetStream, Server, nats};
use serde::Serialize;

use super::{
    Record,
    args::Plan,
    check,
    client::{self, Asked, Directory},
    device::{Devices, options},
    node::node_options,
    plots,
    process::{Process, Said, name},
};
use crate::{
    board, console::Console, figures::three_figures, interrupt::Interrupt, scene::Run,
    section::Side,
};

const SHUTDOWN_MAX: Duration = Duration::from_secs(10);
/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// The rates of the plots are those of parts of a run.
pub(super) const BIN: Duration = Duration::from_millis(250);

/// What is done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Deed {
    Kill,
    Add,
    Pause,
    Resume,
    Cut,
    Mend,
}

impl Deed {
    /// A fault lasts until the next deed.
    pub(super) const fn is_fault(self) -> bool {
        matches!(self, Self::Kill | Self::Pause | Self::Cut)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Add => "added",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Cut => "cut off",
            Self::Mend => "connected",
        }
    }
}

/// A deed, and what followed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Event {
    pub(super) deed: Deed,
    pub(super) process: String,
    /// Since the beginning of the load.
    pub(super) at_s: f64,
    /// Until the last report was due that failed before the next deed; 0 if none did.
    pub(super) recovered_s: f64,
    /// Reports that failed before the next deed.
    pub(super) failed: u64,
}

/// A status of a process, in figures.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) process: usize,
    pub(super) at_s: f64,
    pub(super) partitions: usize,
    /// The largest revision of an epoch.
    pub(super) revision: u64,
}

struct Cluster<'a> {
    plan: &'a Plan,
    server: Server,
    folder: &'a Path,
    processes: Vec<Process>,
    /// The numbers of those that were not killed, the oldest first.
    living: Vec<usize>,
    sender: mpsc::Sender<Said>,
}

impl Cluster<'_> {
    fn add(&mut self) -> Result<()> {
        let number = self.processes.len();
        let (address, folder) = (self.server.address(), self.folder);
        let process = Process::start(number, self.plan, address, folder, self.sender.clone())?;
        self.processes.push(process);
        self.living.push(number);
        Ok(())
    }

    /// The oldest process is killed; then the oldest one is paused, and the next one cut off.
    fn apply(&mut self, deed: Deed) -> Result<String> {
        let number = match deed {
            Deed::Kill => self.living.remove(0),
            Deed::Add => self.processes.len(),
            Deed::Pause | Deed::Resume => self.living[0],
            Deed::Cut | Deed::Mend => self.living[1 % self.living.len()],
        };
        match deed {
            Deed::Kill => self.processes[number].kill(),
            Deed::Add => self.add()?,
            Deed::Pause => self.processes[number].pause(true),
            Deed::Resume => self.processes[number].pause(false),
            Deed::Cut => self.processes[number].link.cut(true),
            Deed::Mend => self.processes[number].link.cut(false),
        }
        Ok(name(number))
    }
}

/// Waits, unless Ctrl-C comes. Returns whether it did not.
fn wait_until(until: Instant, interrupt: &Interrupt) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if interrupt.has_come() || left.is_zero() {
            return !interrupt.has_come();
        }
        thread::sleep(left.min(LOOK));
    }
}

/// The deeds, and when.
fn schedule(plan: &Plan) -> Vec<(Deed, Duration)> {
    let pairs = [
        (Deed::Kill, Deed::Add),
        (Deed::Pause, Deed::Resume),
        (Deed::Cut, Deed::Mend),
    ];
    let mut at = Duration::ZERO;
    let mut schedule = Vec::new();
    for (fault, end) in pairs.repeat(plan.rounds as usize) {
        at += plan.calm;
        schedule.push((fault, at));
        at += plan.fault;
        schedule.push((end, at));
    }
    schedule
}

/// Runs one plan.
///
/// # Errors
/// The server is not installed, a process does not start, or a stream cannot be read.
pub(super) fn run(plan: &Plan, console: &Console, interrupt: &Interrupt) -> Result<Run<Record>> {
    let server = nats(JetStream::On, "").context("the scene needs a NATS server")?;
    let url = format!("nats://{}", server.address());
    let folder = tempfile::tempdir().context("cannot make a folder for the streams")?;
    let (sender, said) = mpsc::channel();
    let mut cluster = Cluster {
        plan,
        server,
        folder: folder.path(),
        processes: Vec::new(),
        living: Vec::new(),
        sender,
    };
    for _ in 0..plan.nodes {
        cluster.add()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()?;
    let system = System::builder().name("front").workers(1).build()?;
    board::watch(&system);
    let node = Node::join(&system, node_options(&url, "front", plan.ttl))?;
    let directory: Directory = node.directory(
        options(plan).sends_only(),
        Devices::new(folder.path().into()),
    )?;

    let shown = node.clone();
    let _shown = board::show("remote", "front", move |text| shown.snapshot().render(text));

    let registered = client::register(&directory, plan, console, interrupt);
    let registered = runtime.block_on(registered);
    console.end_bars();
    let mut answered = registered?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    console.start_bar(&plan.title(), plan.time().as_millis() as u64);
    let (asked, events) = thread::scope(|scope| {
        let load = scope.spawn(|| runtime.block_on(client::load(&directory, plan, begin, &stop)));
        let mut events = Vec::new();
        let end = (None, plan.time());
        let deeds = schedule(plan).into_iter().map(|(it, at)| (Some(it), at));
        let mut outcome = Ok(());
        for (deed, at) in deeds.chain([end]) {
            if !wait_until(begin + at, interrupt) {
                break;
            }
            console.move_bar(at.as_millis() as u64, String::new());
            let Some(deed) = deed else { break };
            let at_s = begin.elapsed().as_secs_f64();
            match cluster.apply(deed) {
                Ok(process) => {
                    console.line(&format!("{at_s:6.1} s  {process} is {}", deed.name()));
                    events.push((deed, process, at_s));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // Ordering: Relaxed, a flag.
        stop.store(interrupt.has_come() || outcome.is_err(), Ordering::Relaxed);
        let asked = load
            .join()
            .map_err(|_| anyhow!("the client has panicked"))??;
        outcome.map(|()| (asked, events))
    })?;
    console.end_bars();
    for process in &mut cluster.processes {
        process.end();
    }
    node.leave(SHUTDOWN_MAX);
    system.shutdown(SHUTDOWN_MAX);
    drop(cluster);
    let is_answered = |it: &&Asked| it.error.is_none_or(|error| error == "late");
    answered.extend(asked.iter().filter(is_answered).map(|it| it.number));
    let found = check::check(folder.path(), plan.partitions, &answered)?;
    let kept: Vec<Kept> = said.into_iter().filter_map(|it| kept(it, begin)).collect();
    let events = follow(&events, &asked);
    let record = Record::new(plan, &asked, &events, &found);
    let side = match plan.nodes {
        1 => Side::Failure,
        _ => Side::Cure,
    };
    Ok(Run {
        title: plan.title(),
        side,
        parameters: plan.parameters(),
        figures: plots::all(plan, side, &asked, &events, &kept),
        tables: vec![table(&events)],
        failure: found.failure(),
        record,
    })
}

fn kept((process, at, status): Said, begin: Instant) -> Option<Kept> {
    let at = at.checked_duration_since(begin)?;
    let revision = |epoch: &String| epoch.split_once('.')?.1.parse().ok();
    let revisions = status.kept.iter().filter_map(|it| revision(&it.1));
    Some(Kept {
        process,
        at_s: at.as_secs_f64(),
        partitions: status.kept.len(),
        revision: revisions.max().unwrap_or(0),
    })
}

/// What followed each deed, until the next one. A report that was under way at a deed failed because of it.
fn follow(events: &[(Deed, String, f64)], asked: &[Asked]) -> Vec<Event> {
    let ends = events.iter().skip(1).map(|it| it.2);
    let ends = ends.chain([f64::INFINITY]);
    let event = |((deed, process, at_s), end_s): (&(Deed, String, f64), f64)| {
        let ended = |it: &&Asked| (*at_s..end_s).contains(&it.ended.as_secs_f64());
        let failed = asked.iter().filter(ended).filter(|it| it.error.is_some());
        let last = failed.clone().next_back();
        Event {
            deed: *deed,
            process: process.clone(),
            at_s: *at_s,
            recovered_s: last.map_or(0.0, |it| (it.due.as_secs_f64() - at_s).max(0.0)),
            failed: failed.count() as u64,
        }
    };
    events.iter().zip(ends).map(event).collect()
}

fn table(events: &[Event]) -> Vec<Vec<String>> {
    let header = ["process", "is", "at\ns", "failed", "the last one after\ns"];
    let row = |it: &Event| {
        vec![
            it.process.clone(),
            it.deed.name().to_owned(),
            three_figures(it.at_s),
            it.failed.to_string(),
            three_figures(it.recovered_s),
        ]
    };
    let header = header.map(str::to_owned).to_vec();
    [header].into_iter().chain(events.iter().map(row)).collect()
}

/// How many reports ended how.
pub(super) fn ends(asked: &[Asked]) -> BTreeMap<&'static str, u64> {
    let mut ends = BTreeMap::new();
    for it in asked {
        *ends.entry(it.error.unwrap_or("in time")).or_default() += 1;
    }
    ends
}
