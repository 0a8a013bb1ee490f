//! Freeboard's floods: many senders, one log server, direct or behind a dam.
//!
//! The works of the other peers are done as they do them: the senders flood while the server writes.
//! The rates at a given depth come from a second pass, in which the server is held until all is
//! queued, so that there is such a depth at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use freeboard::{
    Actor, ActorRef, AsyncHandler, Context, Dam, Handler, SpawnOptions, System,
    flow::{LaneConfig, ReservoirBound},
};

use crate::finish::{self, Finish};
use crate::log_file::{self, LogFile};
use crate::outcome::Outcome;
use crate::stopwatch::Stopwatch;
use crate::work::{SENDERS_MANY, Scale, Work};

use super::freeboard::{Hold, spawn_deep, start, start_all};

/// The original dam's rule.
const DAM_THRESHOLD: u64 = 10_000;
const DAM_WAIT: Duration = Duration::from_millis(100);
const DAM_CREDIT: u64 = 1_024;
/// How long the scan is watched: to its end it would take hours.
const SCAN_LIMIT: Duration = Duration::from_secs(5);

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    match work {
        Work::FloodDirectScan => scan(work, scale),
        Work::FloodDamPoll | Work::FloodDamCredit => dammed(work, scale),
        _ => direct(work, scale),
    }
}

struct Line(String);

/// Writes lines to its file.
struct LogServer(LogFile);

impl Actor for LogServer {}

impl Handler<Line> for LogServer {
    type Reply = ();

    fn handle(&mut self, line: Line, _: &mut Context<Self>) {
        self.0.write(&line.0);
    }
}

fn flood<F: Fn(Line) + Clone + Send + 'static>(
    system: &System,
    units: u64,
    stopwatch: &Stopwatch,
    send: F,
) {
    start_all(system, SENDERS_MANY, |number| {
        let (send, clock) = (send.clone(), stopwatch.clone());
        move || {
            clock.start();
            for value in 0..units {
                send(Line(log_file::line(number, value)));
            }
        }
    });
}

fn direct(work: Work, scale: Scale) -> Result<Outcome> {
    let system = start()?;
    let (log_file, check) = log_file::create(work, scale)?;
    let stopwatch = Stopwatch::default();
    let server = spawn_deep(&system, LogServer(log_file))?;
    let units = scale.units(work);
    flood(&system, units, &stopwatch, move |line| {
        server.tell(line).expect("the lane is deep enough");
    });
    let outcome = check.into_outcome(&stopwatch)?;
    let rates = held_pass(work, scale)?;
    Ok(outcome
        .with_field("drain_rate_deep", rates.deep)
        .with_field("drain_rate_shallow", rates.shallow))
}

/// Messages per second while more than 90 % of the flood is queued, and while less than 1 % is.
struct Rates {
    deep: f64,
    shallow: f64,
}

/// A log server that notes when it comes past certain lines.
struct HeldServer {
    log: LogFile,
    written: u64,
    total: u64,
    marks: Marks,
    finish: Finish,
}

#[derive(Clone, Default)]
struct Marks(Arc<std::sync::Mutex<Vec<Instant>>>);

impl Marks {
    fn note(&self) {
        self.0
            .lock()
            .expect("nobody panics here")
            .push(Instant::now());
    }
}

impl Actor for HeldServer {}

impl AsyncHandler<Hold> for HeldServer {
    type Reply = ();

    async fn handle(&mut self, hold: Hold, _: &mut Context<Self>) {
        let _ = hold.0.await;
        self.marks.note();
    }
}

impl Handler<Line> for HeldServer {
    type Reply = ();

    fn handle(&mut self, line: Line, _: &mut Context<Self>) {
        self.log.write(&line.0);
        self.written += 1;
        let is_mark = self.written == self.total / 10
            || self.written == self.total - self.total / 100
            // Not the last one: with it the file is flushed.
            || self.written == self.total - 1;
        if is_mark {
            self.marks.note();
        }
        if self.written == self.total {
            self.finish.report(self.total, 0);
        }
    }
}

fn held_pass(work: Work, scale: Scale) -> Result<Rates> {
    let system = start()?;
    let (log, check) = log_file::create(work, scale)?;
    let (finish, waiting) = finish::line();
    let units = scale.units(work);
    let total = SENDERS_MANY * units;
    let marks = Marks::default();
    let server = spawn_deep(
        &system,
        HeldServer {
            log,
            written: 0,
            total,
            marks: marks.clone(),
            finish,
        },
    )?;
    let (release, held) = tokio::sync::oneshot::channel();
    server.tell(Hold(held))?;
    let stopwatch = Stopwatch::default();
    let receiver = server.clone();
    flood(&system, units, &stopwatch, move |line| {
        receiver.tell(line).expect("the lane is deep enough");
    });
    while server.depth() < total {
        std::thread::yield_now();
    }
    let _ = release.send(());
    waiting.wait(total, 0)?;
    check.into_outcome(&stopwatch)?;
    let marks = marks.0.lock().expect("nobody panics here").clone();
    let seconds = |from: usize, to: usize| (marks[to] - marks[from]).as_secs_f64();
    Ok(Rates {
        deep: (total / 10) as f64 / seconds(0, 1),
        shallow: (total / 100 - 1) as f64 / seconds(2, 3),
    })
}

/// What the server posts to itself after each write, and looks for from its mailbox's head.
struct Written(u64);

struct ScanServer {
    log: LogFile,
    me: Option<ActorRef<Self>>,
    written: u64,
    is_over: Arc<AtomicBool>,
}

impl Actor for ScanServer {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.me = Some(cx.actor_ref());
    }
}

impl AsyncHandler<Hold> for ScanServer {
    type Reply = ();

    async fn handle(&mut self, hold: Hold, _: &mut Context<Self>) {
        let _ = hold.0.await;
    }
}

impl Handler<Written> for ScanServer {
    type Reply = ();

    fn handle(&mut self, _: Written, _: &mut Context<Self>) {
        unreachable!("each answer is taken out of turn");
    }
}

impl Handler<Line> for ScanServer {
    type Reply = ();

    fn handle(&mut self, line: Line, cx: &mut Context<Self>) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.log.write(&line.0);
        self.written += 1;
        let tag = self.written;
        let me = self.me.as_ref().expect("it has started");
        me.tell(Written(tag)).expect("the lane is deep enough");
        cx.receive_matching::<Written>(|answer| answer.0 == tag)
            .expect("the answer is queued");
    }
}

/// Asks how many lines were written, past the mailbox: by stopping the server and looking.
impl Drop for ScanServer {
    fn drop(&mut self) {
        SCANNED.store(self.written, Ordering::SeqCst);
    }
}

static SCANNED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn scan(work: Work, scale: Scale) -> Result<Outcome> {
    let system = start()?;
    let (log, _check) = log_file::create(work, scale)?;
    let units = scale.units(work);
    let total = SENDERS_MANY * units;
    let is_over = Arc::new(AtomicBool::new(false));
    let server = spawn_deep(
        &system,
        ScanServer {
            log,
            me: None,
            written: 0,
            is_over: is_over.clone(),
        },
    )?;
    let (release, held) = tokio::sync::oneshot::channel();
    server.tell(Hold(held))?;
    let stopwatch = Stopwatch::default();
    let receiver = server.clone();
    flood(&system, units, &stopwatch, move |line| {
        receiver.tell(line).expect("the lane is deep enough");
    });
    while server.depth() < total {
        std::thread::yield_now();
    }
    let released = Instant::now();
    let _ = release.send(());
    while released.elapsed() < SCAN_LIMIT && server.depth() > total / 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let seconds = released.elapsed().as_secs_f64();
    server.stop();
    server.join();
    let written = SCANNED.load(Ordering::SeqCst);
    Ok(Outcome::measured(written, seconds).with_field("drain_rate_deep", written as f64 / seconds))
}

fn dammed(work: Work, scale: Scale) -> Result<Outcome> {
    let system = start()?;
    let (log_file, check) = log_file::create(work, scale)?;
    let stopwatch = Stopwatch::default();
    let server = spawn_deep(&system, LogServer(log_file))?;
    let (builder, limit) = if work == Work::FloodDamPoll {
        (Dam::polling(DAM_THRESHOLD, DAM_WAIT), DAM_THRESHOLD + 1)
    } else {
        (Dam::credit(DAM_CREDIT), DAM_CREDIT)
    };
    let dam = builder
        .reservoir(ReservoirBound {
            messages: 1 << 24,
            bytes: 1 << 34,
        })
        .in_front_of(server.recipient::<Line>())?;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1 << 24));
    let dam = system.spawn_once(options, dam)?;
    flood(&system, scale.units(work), &stopwatch, move |line| {
        dam.tell(line).expect("the lane is deep enough");
    });
    let outcome = check.into_outcome(&stopwatch)?;
    let peak = server.snapshot().lanes[0].high_water;
    Ok(outcome
        .with_field("peak_server_queue", peak as f64)
        .with_field("server_queue_limit", limit as f64))
}
