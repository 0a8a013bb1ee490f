//! A hundred callers in each of two processes miss the same key concurrently: how often is it fetched?
//!
//! It starts its own `redis-server` on a free port of localhost.
//!
//! ```text
//!   cargo run --release -p freeboard-cache --example stampede
//! ```
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::System;
use freeboard_cache::{Cache, CacheOptions};
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{Redis, RedisOptions};

const CALLERS: u32 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = freeboard_test_servers::redis(&[])?;

    let poller = Poller::new(2, Policy::default())?;
    let system = System::builder()
        .workers(2)
        .driver(poller.driver())
        .build()?;
    let options = RedisOptions {
        port: server.address().port(),
        ..RedisOptions::default()
    };
    let redis = Redis::connect(&system, &poller, options)?;
    redis.wait_up(Duration::from_secs(10))?;
    // Two caches know of each other no more than two processes do.
    let caches = [0, 1].map(|_| Cache::new(&system, &redis, CacheOptions::default()));
    let [a, b] = caches;
    let caches = [a?, b?];

    let fetches = AtomicU32::new(0);
    let slow_store = || {
        fetches.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(100));
        Ok::<_, Infallible>(Some(Bytes::from_static(b"a value that costs 100 ms")))
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        let callers = (0..CALLERS)
            .flat_map(|_| &caches)
            .map(|cache| scope.spawn(|| cache.get_or_fetch_blocking("hot", slow_store)));
        let callers: Vec<_> = callers.collect();
        callers.into_iter().for_each(|caller| {
            let found = caller.join().expect("no caller panics");
            assert!(found.is_ok_and(|value| value.is_some()));
        });
    });
    let took = begun.elapsed();
    let count = fetches.load(Ordering::Relaxed);
    println!("{} callers, {count} fetch, {took:.0?} for all", 2 * CALLERS);
    for (index, cache) in caches.iter().enumerate() {
        let figures = cache.snapshot();
        println!(
            "process {index}: {} leases, {} waited (p99 {:.0?}), {} hits, {} notified, {} polled",
            figures.leases_granted,
            figures.waits,
            Duration::from_nanos(figures.wait_time.p99),
            figures.hits,
            figures.notified,
            figures.polled,
        );
    }
    Ok(())
}
