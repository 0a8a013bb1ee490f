//! How late are timers when 100,000 of them fire per second?
//!
//! ```text
//!   2 threads ── wake_at, 20 ms ahead ──▶ Timers ──▶ waker: the time now, less the time when it was due
//!   0 to 2 busy threads per processor
//! ```
//!
//! It prints percentiles, so it does without criterion. A timer that its thread could only set after it was due counts from
//! then: this measures the timers, not the threads that set them. Other programs on the machine are part of the figures.
//!
//! `cargo bench -p freeboard-sched --bench lateness [timers per second] [seconds]`

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::{
    env,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Wake, Waker},
    thread,
    time::Duration,
};

use freeboard_meter::{Histogram, clock};
use freeboard_sched::Timers;

const SETTERS: u64 = 2;
const AHEAD_NS: u64 = 20_000_000;
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];
const PAUSE: Duration = Duration::from_millis(1);

struct Fired {
    lateness: Histogram,
    count: AtomicU64,
}

struct Alarm {
    due_ns: u64,
    fired: Arc<Fired>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let late_ns = clock::now_ns().saturating_sub(self.due_ns);
        self.fired.lateness.record_shared(late_ns);
        // Ordering: Relaxed, a count.
        self.fired.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets every `SETTERS`th of `count` timers, each when its time is [`AHEAD_NS`] away.
fn set_timers(
    timers: &Timers,
    fired: &Arc<Fired>,
    first: u64,
    count: u64,
    gap_ns: u64,
    start_ns: u64,
) {
    for number in (first..count).step_by(SETTERS as usize) {
        let planned_ns = start_ns + number * gap_ns;
        while clock::now_ns() + AHEAD_NS < planned_ns {
            thread::sleep(PAUSE);
        }
        let due_ns = planned_ns.max(clock::now_ns());
        let fired = fired.clone();
        let waker = Waker::from(Arc::new(Alarm { due_ns, fired }));
        timers.wake_at(due_ns, waker).expect("a thread");
    }
}

/// The lateness at [`QUANTILES`], in nanoseconds.
fn measure(per_second: u64, seconds: u64, busy_threads: usize) -> [u64; 5] {
    let timers = Timers::new();
    let fired = Arc::new(Fired {
        lateness: Histogram::new(),
        count: AtomicU64::new(0),
    });
    let (count, gap_ns) = (per_second * seconds, 1_000_000_000 / per_second);
    let start_ns = clock::now_ns() + 2 * AHEAD_NS;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..busy_threads {
            scope.spawn(|| {
                let mut number = 0_u64;
                // Ordering: Relaxed, it only ends the loop.
                while !is_over.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_mul(31) + 1);
                }
            });
        }
        for first in 0..SETTERS {
            let (timers, fired) = (&timers, &fired);
            scope.spawn(move || set_timers(timers, fired, first, count, gap_ns, start_ns));
        }
        while fired.count.load(Ordering::Relaxed) < count {
            thread::sleep(PAUSE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    timers.shutdown();
    let lateness = fired.lateness.values_at(QUANTILES);
    lateness.expect("timers have fired")
}

fn main() {
    let numbers: Vec<u64> = env::args().filter_map(|it| it.parse().ok()).collect();
    let per_second = numbers.first().copied().unwrap_or(100_000);
    let seconds = numbers.get(1).copied().unwrap_or(3);
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    println!("{per_second} timers per second, lateness in us");
    println!("busy threads     p50     p90     p99   p99.9     max");
    for busy_threads in [0, processors, 2 * processors] {
        let [p50, p90, p99, p999, max] =
            measure(per_second, seconds, busy_threads).map(|ns| ns / 1_000);
        println!("{busy_threads:12} {p50:7} {p90:7} {p99:7} {p999:7} {max:7}");
    }
}
