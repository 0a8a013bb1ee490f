//! What does a deadline cost that seldom passes: a timer set and cancelled?
//!
//! ```text
//!   1 or 2 threads ── wake_at, cancel ──▶ Timers (0, 1,000 or 1,000,000 timers pending)
//!                 └── insert, remove ───▶ Mutex<BTreeMap>, the simplest design, without a thread
//! ```

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::{Barrier, Mutex},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use freeboard_meter::clock;
use freeboard_sched::Timers;

const MINUTE_NS: u64 = 60_000_000_000;
const MEASUREMENT: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

/// Deadlines of pending timers, spread over an hour that the bench does not reach.
fn pending(count: u64) -> impl Iterator<Item = u64> {
    let start_ns = clock::now_ns() + 60 * MINUTE_NS;
    (0..count)
        .map(move |number| start_ns + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (60 * MINUTE_NS))
}

/// Time of `count` operations in each of `threads` threads at once.
fn time(threads: usize, count: u64, operation: impl Fn(u64) + Sync) -> Duration {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let started = Instant::now();
                    (0..count).for_each(&operation);
                    started.elapsed()
                })
            })
            .collect();
        let times = running.into_iter().map(|it| it.join().expect("it returns"));
        times.max().unwrap_or_default()
    })
}

fn check(criterion: &mut Criterion, name: &str, count: u64, operation: impl Fn(u64) + Sync) {
    let mut group = criterion.benchmark_group(name);
    group.measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    for threads in [1, 2] {
        let id = BenchmarkId::new(format!("{threads} threads"), count);
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|iterations| time(threads, iterations, &operation));
        });
    }
    group.finish();
}

fn timers(criterion: &mut Criterion) {
    for count in [0, 1_000, 1_000_000] {
        let timers = Timers::new();
        for due_ns in pending(count) {
            timers
                .wake_at(due_ns, Waker::noop().clone())
                .expect("a thread");
        }
        let due_ns = clock::now_ns() + 90 * MINUTE_NS;
        check(criterion, "wake_at and cancel", count, |number| {
            let key = timers.wake_at(due_ns + number, Waker::noop().clone());
            assert!(timers.cancel(key.expect("a thread")));
        });
        check(criterion, "after and cancel", count, |number| {
            let delay = Duration::from_nanos(90 * MINUTE_NS + number);
            let key = timers.after(delay, move |_| {
                black_box(number);
                None
            });
            assert!(timers.cancel(key.expect("a thread")));
        });
        timers.shutdown();
    }
}

fn tree(criterion: &mut Criterion) {
    for count in [0, 1_000, 1_000_000] {
        let waker = || Waker::noop().clone();
        let timers: BTreeMap<_, _> = pending(count)
            .zip(0_u64..)
            .map(|it| (it, waker()))
            .collect();
        let timers = Mutex::new((timers, count));
        let due_ns = clock::now_ns() + 90 * MINUTE_NS;
        check(criterion, "tree, insert and remove", count, |number| {
            let mut lock = timers.lock().expect("no panic");
            lock.1 += 1;
            let key = (due_ns + number, lock.1);
            lock.0.insert(key, waker());
            drop(lock);
            let removed = timers.lock().expect("no panic").0.remove(&key);
            assert!(removed.is_some());
        });
    }
}

criterion_group!(benches, timers, tree);
criterion_main!(benches);
