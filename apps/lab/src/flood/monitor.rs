//! The monitor: a thread that reads both queues' lengths while a run goes on.
//!
//! It prints the watch, moves the progress bar, and keeps points for the plot. Reading a length
//! blocks nobody.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use freeboard::{ActorRef, Dam, DamGauge};
use jiff::Timestamp;

use super::{line::Line, log_server::LogServer, record::WatchSample, tally::Tally};
use crate::{console::Console, figures::count, track::Track};

/// Time between two points at first.
const POINT_EVERY: Duration = Duration::from_millis(4);
/// The samples that are kept: at one a second, those of a day.
const WATCH_SAMPLES_MAX: usize = 86_400;
const BAR_EVERY: Duration = Duration::from_millis(100);

/// What the watch's columns are.
pub(crate) const WATCH_HEADER: &str = "DateTime\tdam msgq (diff)\tserver msgq (diff)";

/// A dam and the reader of its reservoir.
#[derive(Debug, Clone)]
pub(crate) struct WatchedDam {
    pub(crate) actor: ActorRef<Dam<Line>>,
    pub(crate) gauge: DamGauge,
}

impl WatchedDam {
    /// Lines in its mailbox and its reservoir; 0 once it has ended.
    pub(crate) fn depth(&self) -> u64 {
        if self.actor.is_alive() {
            self.actor.depth() + self.gauge.depth()
        } else {
            0
        }
    }
}

/// What is read.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) server: ActorRef<LogServer>,
    pub(crate) dam: Option<WatchedDam>,
    pub(crate) tally: Arc<Tally>,
}

/// Both queues' lengths, so long after the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) at: Duration,
    pub(crate) dam: u64,
    pub(crate) server: u64,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) watch: Vec<WatchSample>,
    pub(crate) points: Vec<Point>,
    pub(crate) dam_peak: u64,
}

/// The running monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Monitor {
    /// Begins to look.
    pub(crate) fn start(
        queues: Queues,
        watch_every: Duration,
        prints_watch: bool,
        console: Console,
    ) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let mut watcher = Watcher {
            queues,
            console,
            watch_every,
            prints_watch,
            started: Instant::now(),
            last: None,
            track: Track::new(POINT_EVERY),
            watch_samples: Vec::new(),
            dam_peak: 0,
        };
        // The first sample is from before the flood, however late the thread comes to run.
        let first = watcher.look(watcher.started);
        watcher.sample(first);
        let thread = thread::Builder::new()
            .name("lab-monitor".into())
            .spawn(move || watcher.watch(&stopped))
            .context("cannot start the monitor's thread")?;
        Ok(Self { stop, thread })
    }

    /// Looks a last time and ends.
    pub(crate) fn stop(self) -> Result<Seen> {
        drop(self.stop);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the monitor panicked"))
    }
}

struct Watcher {
    queues: Queues,
    console: Console,
    watch_every: Duration,
    prints_watch: bool,
    started: Instant,
    last: Option<WatchSample>,
    track: Track<Point>,
    watch_samples: Vec<WatchSample>,
    dam_peak: u64,
}

impl Watcher {
    fn watch(mut self, stopped: &mpsc::Receiver<()>) -> Seen {
        let (mut next_watch, mut next_bar) = (self.started + self.watch_every, self.started);
        let mut is_running = true;
        while is_running {
            let now = Instant::now();
            let point = self.look(now);
            if now >= next_watch {
                self.sample(point);
                next_watch += self.watch_every;
            }
            if now >= next_bar {
                self.move_bar(point);
                next_bar = now + BAR_EVERY;
            }
            let pause = self
                .track
                .every()
                .min(next_watch.saturating_duration_since(now));
            is_running = stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout);
        }
        let last = self.look(Instant::now());
        self.sample(last);
        self.move_bar(last);
        Seen {
            watch: self.watch_samples,
            points: self.track.into_points(),
            dam_peak: self.dam_peak,
        }
    }

    fn look(&mut self, now: Instant) -> Point {
        let server = &self.queues.server;
        let point = Point {
            at: now - self.started,
            dam: self.queues.dam.as_ref().map_or(0, WatchedDam::depth),
            server: if server.is_alive() { server.depth() } else { 0 },
        };
        self.dam_peak = self.dam_peak.max(point.dam);
        self.track.push(point);
        point
    }

    fn sample(&mut self, point: Point) {
        let sample = WatchSample {
            time: format!("{:.3}", Timestamp::now()),
            dam: point.dam,
            server: point.server,
        };
        if self.prints_watch {
            let (dam, server) = match &self.last {
                Some(last) => (last.dam, last.server),
                None => (sample.dam, sample.server),
            };
            self.console.line(&format!(
                "{}\t{} ({})\t{} ({})",
                sample.time,
                sample.dam,
                i128::from(sample.dam) - i128::from(dam),
                sample.server,
                i128::from(sample.server) - i128::from(server),
            ));
        }
        if self.watch_samples.len() < WATCH_SAMPLES_MAX {
            self.watch_samples.push(sample.clone());
        }
        self.last = Some(sample);
    }

    fn move_bar(&self, point: Point) {
        let queued = point.dam + point.server;
        let handled = self.queues.tally.accepted().saturating_sub(queued);
        let queued = match point.dam {
            0 => count(point.server),
            dam => format!("{} (dam) + {}", count(dam), count(point.server)),
        };
        self.console.move_bar(handled, format!("{queued} queued"));
    }
}
