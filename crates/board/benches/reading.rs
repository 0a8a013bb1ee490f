//! The cost of one reading of 10,000 and of 100,000 actors.
//!
//! ```text
//!                ┌─ survey ────────▶ counters of all actors              (twice a second)
//!   idle actors ─┤                   ... with quantiles of their times   (if a column asks for them)
//!   or actors    ├─ overview ──────▶ workers, poller, groups             (ten times a second)
//!   that have    ├─ Board::frame ──▶ overview + 50 rows ──▶ JSON         (ten times a second)
//!   histograms   │                   ... for a new query: filter and sort all
//!                └─ snapshot ──────▶ everything of all actors, for comparison
//! ```
//!
//! The system is idle: `cargo xtask peers board` measures the effect of readings on a busy one.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use freeboard_actor::{Actor, ActorRef, Context, Handler, StatsDetail, System};
use freeboard_board::{Board, BoardOptions, Query, SortKey};

const SOME: usize = 10_000;
const MANY: usize = 100_000;

/// One message in 128 is measured, so both histograms of an actor exist and have a few values.
const MESSAGES_OF_A_BUSY_ONE: usize = 512;

/// Short enough that the board, with half a processor for frames, need not wait for its budget.
const MEASUREMENT: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

struct Worker;
struct Task;
struct Done;

impl Actor for Worker {}

impl Handler<Task> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Task, _: &mut Context<Self>) {}
}

impl Handler<Done> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Done, _: &mut Context<Self>) {}
}

fn idle(count: usize) -> (System, Vec<ActorRef<Worker>>) {
    let system = System::builder().workers(2).build().expect("two threads");
    let workers: Vec<_> = (0..count).map(|_| system.spawn(Worker)).collect();
    wait_for(&workers);
    (system, workers)
}

/// Actors that have measured their times.
fn busy(count: usize) -> System {
    let (system, workers) = idle(count);
    for worker in &workers {
        for _ in 0..MESSAGES_OF_A_BUSY_ONE {
            worker.tell(Task).expect("its lane has capacity");
        }
    }
    wait_for(&workers);
    system
}

fn wait_for(workers: &[ActorRef<Worker>]) {
    for worker in workers {
        worker.ask(Done).wait().expect("it lives");
    }
}

fn board_of(system: &System) -> Board {
    let options = BoardOptions::new().share(1.0);
    let board = options.start().expect("one thread");
    board.watch(system);
    board
}

fn surveys(criterion: &mut Criterion, of: &str, system: &System) {
    let mut group = criterion.benchmark_group(of);
    group.measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    let mut readings = Vec::new();
    for (name, what) in [
        ("survey, counters", StatsDetail::Counters),
        ("survey, times", StatsDetail::Latencies),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| system.actor_stats_into(what, &mut readings));
        });
    }
    group.bench_function("overview", |bencher| bencher.iter(|| system.overview()));
    group.finish();
}

fn frames(criterion: &mut Criterion, of: &str, system: &System) {
    let mut group = criterion.benchmark_group(of);
    group.measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    let board = board_of(system);
    let frame = |query| board.frame(query).expect("the board is there");
    group.bench_function("frame of 50 rows", |bencher| {
        bencher.iter(|| frame(Query::default()));
    });
    // The selection of an unused query is dropped, so two alternating queries select again each time.
    let mut turn = 0;
    let mut other = |query: &Query| {
        turn ^= 1;
        let offset = turn;
        frame(Query {
            offset,
            ..query.clone()
        })
    };
    let by_handled = Query {
        sort: SortKey::Handled,
        ..Query::default()
    };
    group.bench_function("frame of 50 rows, sorted anew", |bencher| {
        bencher.iter(|| other(&by_handled));
    });
    let filtered = Query {
        filter: "work handled>=1 depth<1k".to_owned(),
        ..Query::default()
    };
    group.bench_function("frame of 50 rows, filtered anew", |bencher| {
        bencher.iter(|| other(&filtered));
    });
    let one = frame(Query::default());
    group.bench_function("JSON of a frame", |bencher| {
        bencher.iter(|| serde_json::to_vec(black_box(&one)));
    });
    group.finish();
}

/// Everything of all actors, for comparison.
fn snapshot(criterion: &mut Criterion, of: &str, system: &System) {
    let mut group = criterion.benchmark_group(of);
    group.measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    group.sample_size(10);
    group.bench_function("snapshot", |bencher| bencher.iter(|| system.snapshot()));
    group.finish();
}

fn reading(criterion: &mut Criterion) {
    let all = |criterion: &mut Criterion, of: &str, system: &System| {
        surveys(criterion, of, system);
        frames(criterion, of, system);
        snapshot(criterion, of, system);
    };
    all(criterion, "10,000 idle", &idle(SOME).0);
    all(criterion, "10,000 busy", &busy(SOME));
    let many = idle(MANY).0;
    surveys(criterion, "100,000 idle", &many);
    frames(criterion, "100,000 idle", &many);
}

criterion_group!(benches, reading);
criterion_main!(benches);
