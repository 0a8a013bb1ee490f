//! A server that reads nothing, under a flood. It has its own process because it measures the memory of the
//! process.

#[path = "it/common/mod.rs"]
mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use freeboard_redis::{RedisError, RedisOptions};
use freeboard_test_servers::resident_bytes;

use common::{
    client, echo, eventually,
    fake::{Fake, Gate},
    figures, options,
};

#[test]
fn a_stalled_server_sheds_a_million_tells_and_is_replaced() {
    const TELLS: usize = 1_000_000;
    let gates = [Gate::default(), Gate::default()];
    let at_server = gates.clone();
    let fake = Fake::start(move |connection, peer| {
        peer.hello();
        // It reads nothing more; nor does its successor, until all is counted.
        if connection < 2 {
            at_server[connection].wait();
        }
        peer.echo_all();
    });
    let options = RedisOptions {
        timeout: Duration::from_millis(1_500),
        overdue: Duration::from_secs(2),
        ..options(fake.port)
    };
    let credit = options.credit_commands;
    let (_system, redis) = client(options);
    let [full, late, lost, answered] = [(); 4].map(|()| counter());
    let before = resident_bytes();
    let value = vec![b'x'; 1_000];
    for _ in 0..TELLS {
        let [full, late, lost, answered] = [&full, &late, &lost, &answered].map(Arc::clone);
        echo(&redis, &value).then(move |outcome| {
            let counter = match outcome {
                Err(RedisError::QueueFull) => full,
                Err(RedisError::Expired | RedisError::TimedOut) => late,
                Err(RedisError::Down(_) | RedisError::Lost(_)) => lost,
                Ok(_) => answered,
                other => panic!("{other:?}"),
            };
            counter.fetch_add(1, Ordering::Relaxed);
        });
    }
    let grown = resident_bytes().saturating_sub(before);
    // Under a sanitizer freed memory stays resident for a while.
    let is_measured = std::env::var_os("FREEBOARD_SANITIZER").is_none();
    assert!(!is_measured || grown < 64 << 20, "grown by {grown} bytes");
    let count = |counter: &Arc<AtomicUsize>| counter.load(Ordering::Relaxed);
    eventually("an outcome each", || {
        count(&full) + count(&late) + count(&lost) + count(&answered) == TELLS
    });
    assert!(count(&late) >= credit, "{} late", count(&late));
    let shed = figures(&redis).shed;
    assert_eq!(shed.queue_full, count(&full) as u64, "each is counted");
    // Some did not get as far as the socket's buffers: they were not sent.
    assert!(shed.expired > 0);
    eventually("the stuck connection is replaced", || {
        let figures = figures(&redis);
        figures.stuck >= 1 && figures.connects >= 2
    });
    gates[1].open();
    eventually("the other one answers", || {
        echo(&redis, "1").wait().is_ok_and(|reply| reply == "1")
    });
    gates[0].open();
}

fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}
