//! The watch: a thread that reads the workers while the run goes on.
//!
//! It prints the samples that changed and the collapses, moves the bars, counts the native calls of
//! each interval, and keeps points for the plot.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use freeboard::{
    System,
    meter::{Balance, SchedulerSnapshot, StateTimes, WorkerSnapshot},
};
use jiff::Timestamp;

use super::{daytime, plan::Plan, tally::Tally};
use crate::{console::Console, figures::count, track::Track};

/// Time between the first two checks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const BARS_EVERY: Duration = Duration::from_millis(200);
/// The samples that are kept: at two a second, those of half a day.
const SAMPLES_MAX: usize = 86_400;

/// What is watched.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) system: System,
    pub(crate) tally: Arc<Tally>,
}

/// A sample that was printed.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// ISO 8601, UTC, with milliseconds.
    pub(crate) time: String,
    pub(crate) balance: Balance,
}

/// Lengths of the workers' queues, so long after the start.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) at: Duration,
    pub(crate) queues: Vec<u64>,
    /// Of the queue that all workers take from.
    pub(crate) shared: u64,
}

/// Native calls of each worker within an interval.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    /// Its time of day at the end.
    pub(crate) daytime: String,
    pub(crate) length: Duration,
    pub(crate) calls: Vec<u64>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) samples: Vec<Sample>,
    pub(crate) points: Vec<Point>,
    pub(crate) intervals: Vec<Interval>,
}

/// The running watch.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Begins to look.
    pub(crate) fn start(subject: Subject, plan: &Plan, console: Console) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let started = Instant::now();
        let watcher = Watcher {
            console,
            sample_every: plan.sample_every,
            interval: plan.interval,
            started,
            interval_started: started,
            calls_before: vec![0; plan.schedulers],
            times_before: subject
                .system
                .workers_snapshot()
                .iter()
                .map(|worker| worker.times)
                .collect(),
            collapses: 0,
            samples: Vec::new(),
            track: Track::new(LOOK_EVERY),
            intervals: Vec::new(),
            subject,
        };
        let thread = thread::Builder::new()
            .name("lab-watch".into())
            .spawn(move || watcher.watch(&stopped))
            .context("cannot start the watch's thread")?;
        Ok(Self { stop, thread })
    }

    /// Looks a last time and ends.
    pub(crate) fn stop(self) -> Result<Seen> {
        drop(self.stop);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the watch panicked"))
    }
}

struct Watcher {
    subject: Subject,
    console: Console,
    sample_every: Duration,
    interval: Duration,
    started: Instant,
    interval_started: Instant,
    calls_before: Vec<u64>,
    times_before: Vec<StateTimes>,
    collapses: u64,
    samples: Vec<Sample>,
    track: Track<Point>,
    intervals: Vec<Interval>,
}

impl Watcher {
    fn watch(mut self, stopped: &mpsc::Receiver<()>) -> Seen {
        let mut next_sample = self.started + self.sample_every;
        let mut next_interval = self.started + self.interval;
        let mut next_bars = self.started;
        let mut is_running = true;
        while is_running {
            let now = Instant::now();
            let workers = self.subject.system.workers_snapshot();
            let scheduler = self.look_for_collapse();
            self.track.push(Point {
                at: now - self.started,
                queues: workers.iter().map(|worker| worker.queue_depth).collect(),
                shared: scheduler.injector_depth,
            });
            if now >= next_bars {
                self.move_bars(&workers);
                next_bars = now + BARS_EVERY;
            }
            if now >= next_sample {
                self.sample(&workers);
                next_sample += self.sample_every;
            }
            if now >= next_interval {
                self.end_interval(now);
                next_interval += self.interval;
            }
            let due = next_sample.min(next_interval);
            let pause = self.track.every().min(due.saturating_duration_since(now));
            is_running = stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout);
        }
        self.look_for_collapse();
        self.end_interval(Instant::now());
        Seen {
            samples: self.samples,
            points: self.track.into_points(),
            intervals: self.intervals,
        }
    }

    fn sample(&mut self, workers: &[WorkerSnapshot]) {
        let Some(balance) = Balance::of_workers(workers) else {
            return;
        };
        if self.samples.last().map(|last| &last.balance) == Some(&balance) {
            return;
        }
        let shared = self.subject.system.scheduler_snapshot().injector_depth;
        self.console.line(&format!(
            "{} {balance}{}",
            daytime::now(),
            in_words(&balance, shared)
        ));
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(Sample {
                time: format!("{:.3}", Timestamp::now()),
                balance,
            });
        }
    }

    fn look_for_collapse(&mut self) -> SchedulerSnapshot {
        let scheduler = self.subject.system.scheduler_snapshot();
        if scheduler.collapses > self.collapses {
            self.console
                .line(&format!("{} {}", daytime::now(), collapse(&scheduler)));
            self.collapses = scheduler.collapses;
        }
        scheduler
    }

    fn end_interval(&mut self, now: Instant) {
        let calls = self.subject.tally.calls_by_worker();
        let added = calls.iter().zip(&self.calls_before);
        self.intervals.push(Interval {
            daytime: daytime::now(),
            length: now - self.interval_started,
            calls: added.map(|(now, before)| now - before).collect(),
        });
        self.calls_before = calls;
        self.interval_started = now;
    }

    fn move_bars(&mut self, workers: &[WorkerSnapshot]) {
        for (worker, before) in workers.iter().zip(&mut self.times_before) {
            let busy = worker.times.since(before).utilisation();
            *before = worker.times;
            self.console.move_row(
                worker.index,
                (busy * 100.0).round() as u64,
                format!(
                    "{}, {} queued",
                    worker.state.name(),
                    count(worker.queue_depth)
                ),
            );
        }
        let calls = self.subject.tally.calls();
        self.console
            .move_bar(calls, format!("{} native calls", count(calls)));
    }
}

/// What the original's rule leaves open: who of the workers with an empty queue is idle.
fn in_words(balance: &Balance, shared: u64) -> String {
    let list = |workers: &[usize]| {
        let workers: Vec<String> = workers.iter().map(usize::to_string).collect();
        workers.join(", ")
    };
    let mut text = String::new();
    if !balance.empty_busy.is_empty() {
        text += &format!("; empty but busy: {}", list(&balance.empty_busy));
    }
    if !balance.empty_idle.is_empty() {
        text += &format!("; empty and idle: {}", list(&balance.empty_idle));
    }
    if shared > 0 {
        text += &format!("; {} more in the shared queue", count(shared));
    }
    text
}

fn collapse(scheduler: &SchedulerSnapshot) -> String {
    format!(
        "COLLAPSE: a worker slept while there was work; {} so far, each seen within {:.1} ms, {} us \
         of workers' time lost",
        count(scheduler.collapses),
        scheduler.collapse_detect_ns_max as f64 / 1e6,
        count(scheduler.wasted_core_ns / 1_000),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_says_whose_queue_is_empty_and_who_is_idle() {
        let mut balance = Balance::of_queues(vec![0, 0, 5]);
        assert_eq!(in_words(&balance, 0), "");
        balance.empty_busy = vec![0];
        balance.empty_idle = vec![1];
        assert_eq!(
            in_words(&balance, 1_200),
            "; empty but busy: 0; empty and idle: 1; 1,200 more in the shared queue"
        );
    }
}
