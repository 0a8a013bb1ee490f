//! How many GETs per second go over n connections at a depth each, in a closed loop: each reply sends the
//! next. To be set beside `redis-benchmark -t get -P depth -c connections`.
//!
//! ```text
//!   cargo run --release -p freeboard-redis --example get_flood -- --port 6379 --count 2000000
//! ```
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use clap::Parser;
use freeboard_actor::System;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{Redis, RedisOptions};

/// As redis-benchmark has it, when it is not told to take several.
const KEY: &str = "key:__rand_int__";

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 6379)]
    port: u16,
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Commands under way on each connection.
    #[arg(long, default_value_t = 128)]
    depth: u64,
    /// Commands in all.
    #[arg(long, default_value_t = 2_000_000)]
    count: u64,
    #[arg(long, default_value_t = 1)]
    workers: usize,
}

/// One loop: as many as its depth are under way.
struct Loop {
    redis: Redis,
    left: AtomicU64,
    unanswered: AtomicU64,
    done: mpsc::Sender<()>,
}

fn send(flood: &'static Loop) {
    flood.redis.get(KEY).then(move |reply| {
        reply.expect("a reply");
        let is_one_left = |left: u64| left.checked_sub(1);
        let relaxed = Ordering::Relaxed;
        if flood
            .left
            .fetch_update(relaxed, relaxed, is_one_left)
            .is_ok()
        {
            send(flood);
        } else if flood.unanswered.fetch_sub(1, relaxed) == 1 {
            flood.done.send(()).expect("somebody waits");
        }
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let poller = Poller::new(arguments.workers, Policy::default())?;
    let system = System::builder()
        .workers(arguments.workers)
        .driver(poller.driver())
        .build()?;
    let options = RedisOptions {
        port: arguments.port,
        ..RedisOptions::default()
    };
    // A client each, so that every loop has a connection of its own.
    let clients: Vec<Redis> = (0..arguments.connections)
        .map(|_| Redis::connect(&system, &poller, options.clone()))
        .collect::<Result<_, _>>()?;
    for redis in &clients {
        redis.wait_up(Duration::from_secs(5))?;
    }
    clients[0].set(KEY, "xxx").wait()?;
    let (done, all) = mpsc::channel();
    let begin = Instant::now();
    for redis in &clients {
        let each = arguments.count / arguments.connections as u64;
        // It lives to the end of the program.
        let flood = Box::leak(Box::new(Loop {
            redis: redis.clone(),
            left: AtomicU64::new(each.saturating_sub(arguments.depth)),
            unanswered: AtomicU64::new(arguments.depth),
            done: done.clone(),
        }));
        (0..arguments.depth).for_each(|_| send(flood));
    }
    for _ in &clients {
        all.recv()?;
    }
    let took = begin.elapsed();
    let rate = arguments.count as f64 / took.as_secs_f64();
    println!("GET: {rate:.0} requests per second");
    let figures = clients[0].snapshot().connections.swap_remove(0);
    let per_batch = figures.sent as f64 / figures.batches as f64;
    let p50 = Duration::from_nanos(figures.from_tell.p50);
    let p99 = Duration::from_nanos(figures.from_tell.p99);
    println!("{per_batch:.1} commands per batch, from tell p50 {p50:?} p99 {p99:?}");
    Ok(())
}
