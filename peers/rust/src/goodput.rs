//! The goodput suite's load: a service that is asked for more than it can answer, and how many answers come in time.
//!
//! ```text
//!   schedule ──▶ clients (this thread, open loop) ──▶ queue of the peer ──▶ service (one worker, 200 us of CPU each)
//!                   ▲                                                          │
//!                   └──────────── replied | refused | given up ◄───────────────┘
//! ```
//!
//! First the capacity is measured: the answers a second when three times as much is asked for as the processor time of a
//! request allows. Then requests come at a multiple of it, a Poisson process. Latency counts from when a request was due.
//! Rates are those of requests that were due in the middle three fifths of the load. A peer whose queue has a bound gets
//! one that the service can answer within half a deadline, as ours.

use std::future::Future;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::Result;
use freeboard::flow::random;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::EnterGuard;

use crate::cpu_time;
use crate::memory;
use crate::outcome::Outcome;

const CPU: Duration = Duration::from_micros(200);
pub const DEADLINE: Duration = Duration::from_millis(50);
const CAPACITY_FACTOR: f64 = 3.0;
const CAPACITY_TIME: Duration = Duration::from_millis(500);
const CAPACITY_BOUND: usize = 64;
/// Nobody gives up while the capacity is measured.
const PATIENCE: Duration = Duration::from_secs(60);
/// A shorter pause is spent without sleeping: to wake a thread takes as long.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const SEED: u64 = 1;

/// What the service does with a request.
#[derive(Clone, Default)]
pub struct Work {
    is_over: Arc<AtomicBool>,
}

impl Work {
    pub fn handle(&self) {
        // Ordering: Relaxed, what is left in the queue is skipped sooner or later.
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let begun = cpu_time::used_by_thread();
        while cpu_time::used_by_thread() - begun < CPU {
            hint::spin_loop();
        }
    }
}

/// How a request ended for its client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Replied,
    Refused,
    /// Its deadline passed.
    GivenUp,
}

/// A service on a peer, with one worker.
pub trait Service: Sized {
    /// `bound` is that of its queue, if the peer has bounded ones.
    fn start(work: Work, bound: usize) -> Result<Self>;

    /// Sends a request. `left` is the time until its deadline, for peers whose requests have one.
    fn ask(&self, left: Duration) -> impl Future<Output = Answer>;

    /// The runtime that the clients' futures need for their timers.
    fn enter(&self) -> Option<EnterGuard<'_>> {
        None
    }
}

/// A request. Times count from the first.
#[derive(Clone, Copy)]
struct Asked {
    due: Duration,
    ended: Duration,
    /// `None` if it still waited when the load ended.
    answer: Option<Answer>,
}

/// Measures a load of `factor` capacities.
pub fn run<S: Service>(factor: u64, milliseconds: u64) -> Result<Outcome> {
    let rate = CAPACITY_FACTOR / CPU.as_secs_f64();
    let flooded = perform::<S>(rate, CAPACITY_TIME, CAPACITY_BOUND, PATIENCE)?;
    let replied = flooded
        .iter()
        .filter(|it| it.answer == Some(Answer::Replied));
    let seconds = flooded.iter().map(|it| it.ended).max().unwrap_or_default();
    let capacity = (replied.count() as f64 / seconds.as_secs_f64().max(1e-3)).max(1.0);

    memory::forget_peak()?;
    let bound = ((capacity * DEADLINE.as_secs_f64() / 2.0) as usize).max(1);
    let time = Duration::from_millis(milliseconds);
    let asked = perform::<S>(factor as f64 * capacity, time, bound, DEADLINE)?;
    Ok(outcome(&asked, time, capacity)?
        .with_field("rss_peak_mb", memory::peak_bytes()? as f64 / 1e6))
}

fn outcome(asked: &[Asked], time: Duration, capacity: f64) -> Result<Outcome> {
    let measured = time / 5..time * 4 / 5;
    let seconds = (measured.end - measured.start).as_secs_f64();
    let (mut in_time, mut late, mut refused) = (0_u64, 0_u64, 0_u64);
    let mut latencies = Vec::new();
    for it in asked.iter().filter(|it| measured.contains(&it.due)) {
        let latency = it.ended.saturating_sub(it.due);
        match it.answer {
            Some(Answer::Refused) => {
                refused += 1;
                continue;
            }
            Some(Answer::Replied) if latency <= DEADLINE => in_time += 1,
            _ => late += 1,
        }
        latencies.push(latency);
    }
    latencies.sort_unstable();
    let percentile = |share: f64| {
        let rank = (latencies.len() as f64 * share).ceil() as usize;
        let latency = latencies.get(rank.max(1) - 1);
        latency.map_or(0.0, |it| it.as_secs_f64() * 1e3)
    };
    let offered = in_time + late + refused;
    let rate = |count: u64| count as f64 / seconds;
    Ok(Outcome::measured(offered, seconds)
        .with_field("capacity_per_s", capacity)
        .with_field("offered_per_s", rate(offered))
        .with_field("goodput_per_s", rate(in_time))
        .with_field("goodput_over_capacity", rate(in_time) / capacity)
        .with_field("late_per_s", rate(late))
        .with_field("refused_per_s", rate(refused))
        .with_field("p50_ms", percentile(0.5))
        .with_field("p99_ms", percentile(0.99)))
}

/// Asks a service of its own at this rate for this time.
fn perform<S: Service>(
    rate: f64,
    time: Duration,
    bound: usize,
    deadline: Duration,
) -> Result<Vec<Asked>> {
    let mut asked = schedule(rate, time);
    let work = Work::default();
    let service = S::start(work.clone(), bound)?;
    let entered = service.enter();
    ask_all(&service, &mut asked, deadline);
    // Ordering: see where it is read.
    work.is_over.store(true, Ordering::Relaxed);
    drop(entered);
    Ok(asked)
}

fn schedule(rate: f64, time: Duration) -> Vec<Asked> {
    let mut all = Vec::new();
    let mut at = 0.0;
    for turn in 0.. {
        // Within (0, 1].
        let share = ((random::number(SEED, turn) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        at -= share.ln() / rate;
        if at >= time.as_secs_f64() {
            break;
        }
        all.push(Asked {
            due: Duration::from_secs_f64(at),
            ended: Duration::ZERO,
            answer: None,
        });
    }
    all
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Sends all requests when they are due, and takes answers for some time afterwards.
fn ask_all<S: Service>(service: &S, asked: &mut [Asked], deadline: Duration) {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut asking = FuturesUnordered::new();
    let begun = Instant::now();
    for number in 0..=asked.len() {
        let due = match asked.get(number) {
            Some(it) => it.due,
            None => begun.elapsed() + DEADLINE,
        };
        loop {
            while let Poll::Ready(Some((number, answer))) = asking.poll_next_unpin(&mut context) {
                let it: &mut Asked = &mut asked[number];
                (it.ended, it.answer) = (begun.elapsed(), Some(answer));
            }
            match due.saturating_sub(begun.elapsed()) {
                Duration::ZERO => break,
                left if left > PAUSE_MIN => thread::park_timeout(left - PAUSE_MIN),
                _ => thread::yield_now(),
            }
        }
        if number < asked.len() {
            let left = (due + deadline).saturating_sub(begun.elapsed());
            asking.push(async move { (number, service.ask(left).await) });
        }
    }
    let ended = begun.elapsed();
    for it in asked.iter_mut().filter(|it| it.answer.is_none()) {
        it.ended = ended;
    }
}
