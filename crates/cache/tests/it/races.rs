//! The race table of the crate's documentation, row by row. Each cache represents a process. Time is simulated, in a
//! year that this machine's clock does not show.

use std::{future::IntoFuture, sync::Mutex, time::Duration};

use freeboard_cache::{CacheError, CacheOptions, Filled, Found, Lease};
use freeboard_redis::Command;

use super::start;
use crate::common::{
    BEGIN_MS, NEVER, bytes, eventually, fill, fresh, lease, pending, refused, stale, until_waiting,
    value,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn two_misses_at_once_make_one_fetch() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let holder = lease(&a, "k");
    let waiter = pending(&b, "k");
    until_waiting(&b);
    assert_eq!(fill(holder, "v"), Filled::Stored);
    assert_eq!(waiter.value(), fresh("v"));
    let figures = b.snapshot();
    assert_eq!((figures.notified, figures.polled, figures.waits), (1, 0, 1));
    assert_eq!(a.snapshot().leases_granted + figures.leases_granted, 1);
    assert_eq!(figures.wait_time.count, 1);
}

#[test]
fn callers_of_one_process_share_one_lease_and_one_fetch() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let holder = lease(&cache, "k");
    let others: Vec<_> = (0..100).map(|_| pending(&cache, "k")).collect();
    assert_eq!(fill(holder, "v"), Filled::Stored);
    for other in others {
        assert_eq!(other.value(), fresh("v"));
    }
    let figures = cache.snapshot();
    assert_eq!((figures.leases_granted, figures.leases_refused), (1, 0));
    assert_eq!((figures.misses, figures.waits), (1, 100));
    assert_eq!(figures.flights, 0);
}

#[test]
fn a_fill_after_an_invalidation_is_refused() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let holder = lease(&a, "k");
    b.invalidate("k").wait().unwrap();
    assert_eq!(fill(holder, "old"), Filled::Refused);
    assert_eq!(a.get("k").wait(), Ok(None));
    assert_eq!(a.snapshot().fills_refused, 1);
}

#[test]
fn a_call_after_an_invalidation_never_gets_a_value_fetched_before() {
    let Some(bench) = start() else { return };
    let every = CacheOptions {
        lease_every: Duration::ZERO,
        ..bench.options()
    };
    let (a, b) = (bench.cache_with(every.clone()), bench.cache_with(every));
    let holder = lease(&a, "k");
    b.invalidate("k").wait().unwrap();
    // It waits for the holder, as one of the same process.
    let late = pending(&a, "k");
    assert_eq!(fill(holder, "old"), Filled::Refused);
    assert_eq!(fill(late.lease(), "new"), Filled::Stored);
    assert_eq!(value(&b, "k"), fresh("new"));
}

#[test]
fn an_invalidation_keeps_the_rate_limit() {
    let Some(bench) = start() else { return };
    let cache = bench.cache_but(|options| {
        (options.wait_max, options.lease_every) = (Duration::ZERO, SECOND * 10)
    });
    assert_eq!(fill(lease(&cache, "k"), "old"), Filled::Stored);
    cache.invalidate("k").wait().unwrap();
    bench.clock.advance(SECOND * 9);
    assert_eq!(refused(&cache, "k"), CacheError::WaitedTooLong);
    assert_eq!(cache.snapshot().waits_too_long, 1);
    bench.clock.advance(SECOND);
    assert_eq!(fill(lease(&cache, "k"), "new"), Filled::Stored);
}

#[test]
fn a_miss_right_after_an_invalidation_fetches_once_the_rate_limit_is_over() {
    let Some(bench) = start() else { return };
    // Neither a poll nor a timeout wakes it.
    let seldom = CacheOptions {
        poll: NEVER,
        wait_max: SECOND * 3_600,
        ..CacheOptions::default()
    };
    for (key, options) in [("k", CacheOptions::default()), ("l", seldom)] {
        let cache = bench.cache_with(options);
        assert_eq!(fill(lease(&cache, key), "old"), Filled::Stored);
        cache.invalidate(key).wait().unwrap();
        assert_eq!(fill(pending(&cache, key).lease(), "new"), Filled::Stored);
    }
}

#[test]
fn an_invalidation_may_leave_a_stale_value() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    assert_eq!(fill(lease(&a, "k"), "old"), Filled::Stored);
    a.expire("k").wait().unwrap();
    assert_eq!(value(&b, "k"), stale("old"), "under the rate limit");
    bench.clock.advance(SECOND * 10);
    let holder = lease(&b, "k");
    assert!(holder.stale().is_some_and(|cached| cached.is_stale));
    assert_eq!(value(&a, "k"), stale("old"));
    assert_eq!(value(&b, "k"), stale("old"), "in the holder's process too");
    assert_eq!(fill(holder, "new"), Filled::Stored);
    assert_eq!(value(&a, "k"), fresh("new"));
}

#[test]
fn a_stale_value_serves_while_one_refreshes() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    assert_eq!(fill(lease(&a, "k"), "v1"), Filled::Stored);
    bench.clock.advance(SECOND * 60);
    let holder = lease(&a, "k");
    let asked = b.snapshot().leases_refused;
    assert_eq!(value(&b, "k"), stale("v1"));
    assert_eq!(b.snapshot().leases_refused, asked, "the GET alone says so");
    assert_eq!(fill(holder, "v2"), Filled::Stored);
    assert_eq!(value(&b, "k"), fresh("v2"));
    bench.clock.advance(SECOND * 90);
    assert!(
        lease(&b, "k").stale().is_none(),
        "no value is used for longer"
    );
}

#[test]
fn a_costly_value_is_refreshed_early_by_one() {
    let Some(bench) = start() else { return };
    let options = CacheOptions {
        early_beta: 1.0,
        seed: Some(7),
        lease_every: SECOND,
        ..bench.options()
    };
    let (a, b) = (bench.cache_with(options.clone()), bench.cache_with(options));
    let costly = lease(&a, "k").cost(SECOND * 1_000_000);
    assert_eq!(fill(costly, "v1"), Filled::Stored);
    assert_eq!(value(&a, "k"), fresh("v1"), "not under the rate limit");
    bench.clock.advance(SECOND * 2);
    let holder = lease(&a, "k");
    assert!(holder.stale().is_some_and(|cached| !cached.is_stale));
    assert_eq!(value(&b, "k"), fresh("v1"), "one refreshes, not two");
    assert_eq!(a.snapshot().early_refreshes, 1);
    assert_eq!(fill(holder, "v2"), Filled::Stored);
}

#[test]
fn a_dead_holders_lease_ends_by_itself() {
    let Some(bench) = start() else { return };
    let options = CacheOptions {
        wait_max: Duration::ZERO,
        ..bench.options()
    };
    let (a, b) = (bench.cache(), bench.cache_with(options));
    // Its process ends without a word. The lease outlives the test where a leak detector finds it.
    static DEAD: Mutex<Option<Lease>> = Mutex::new(None);
    *DEAD.lock().unwrap() = Some(lease(&a, "k"));
    bench.clock.advance(Duration::from_millis(9_999));
    assert_eq!(refused(&b, "k"), CacheError::WaitedTooLong);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(fill(lease(&b, "k"), "v"), Filled::Stored);
    assert_eq!(b.snapshot().leases_expired, 1);
}

#[test]
fn a_fill_after_the_end_of_its_lease_is_refused() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let slow = lease(&cache, "k");
    bench.clock.advance(SECOND * 10);
    assert_eq!(fill(slow, "late"), Filled::Refused);
    assert_eq!(cache.get("k").wait(), Ok(None));
}

#[test]
fn a_fetch_that_hangs_holds_its_own_process_up_no_longer_than_its_lease() {
    let Some(bench) = start() else { return };
    let options = CacheOptions {
        clock: None,
        lease_time: Duration::from_millis(50),
        lease_every: Duration::ZERO,
        poll: CacheOptions::default().poll,
        ..bench.options()
    };
    let cache = bench.cache_with(options);
    let hung = lease(&cache, "k");
    let next = pending(&cache, "k").lease();
    assert_eq!(cache.snapshot().leases_expired, 1);
    drop(next);
    assert_eq!(fill(hung, "late"), Filled::Refused);
    eventually("nothing is left of it", || cache.snapshot().flights == 0);
}

#[test]
fn a_fill_after_another_holders_fill_changes_nothing() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let slow = lease(&a, "k");
    bench.clock.advance(SECOND * 10);
    assert_eq!(fill(lease(&b, "k"), "new"), Filled::Stored);
    assert_eq!(fill(slow, "late"), Filled::Refused);
    assert_eq!(value(&a, "k"), fresh("new"));
}

#[test]
fn a_release_after_its_lease_keeps_the_next_holders() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let slow = lease(&a, "k");
    bench.clock.advance(SECOND * 10);
    let holder = lease(&b, "k");
    slow.release();
    // Over the same connection, behind the release.
    assert_eq!(a.get("k").wait(), Ok(None));
    assert_eq!(fill(holder, "v"), Filled::Stored);
}

#[test]
fn a_release_gives_the_next_waiter_the_lease_at_once() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let holder = lease(&a, "k");
    let waiter = pending(&b, "k");
    until_waiting(&b);
    holder.release();
    assert_eq!(fill(waiter.lease(), "v"), Filled::Stored);
    assert_eq!(
        (a.snapshot().leases_released, b.snapshot().notified),
        (1, 1)
    );
}

#[test]
fn a_release_gives_the_next_caller_of_the_process_the_lease_at_once() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let holder = lease(&cache, "k");
    let waiters: Vec<_> = (0..20).map(|_| pending(&cache, "k")).collect();
    holder.release();
    for waiter in waiters {
        waiter.lease().release();
    }
    assert_eq!(cache.snapshot().leases_released, 21);
}

#[test]
fn that_there_is_no_value_is_known_for_a_while() {
    let Some(bench) = start() else { return };
    let options = CacheOptions {
        stale_time: Duration::ZERO,
        ..bench.options()
    };
    let (a, b) = (bench.cache_with(options.clone()), bench.cache_with(options));
    assert_eq!(lease(&a, "k").fill(None).wait(), Ok(Filled::Stored));
    assert_eq!(value(&b, "k"), (None, false));
    assert_eq!(b.snapshot().negative_hits, 1);
    bench.clock.advance(SECOND * 5);
    // Over in its own time: the rate limit does not hold it up.
    assert_eq!(fill(lease(&b, "k"), "v"), Filled::Stored);
    assert_eq!(value(&a, "k"), fresh("v"));
}

#[test]
fn the_clocks_of_clients_do_not_matter() {
    let Some(bench) = start() else { return };
    // The server's time is a simulated one, so all machines' clocks are wrong by decades.
    let cache = bench.cache();
    assert_eq!(fill(lease(&cache, "simulated"), "v"), Filled::Stored);
    bench.clock.advance(SECOND * 59);
    assert_eq!(value(&cache, "simulated"), fresh("v"));
    bench.clock.advance(SECOND);
    assert!(lease(&cache, "simulated").stale().is_some());
    assert_eq!(bench.clock.now_ms(), BEGIN_MS + 60_000);

    // And the server's clock: the entry's time lies between two times of the server.
    let cache = bench.cache_but(|options| options.clock = None);
    let holder = lease(&cache, "real");
    let before = bench.redis.time().wait().unwrap();
    assert_eq!(fill(holder, "v"), Filled::Stored);
    let after = bench.redis.time().wait().unwrap();
    let raw = bench.redis.get("cache:real").wait().unwrap().unwrap();
    let entry = freeboard_cache::entry::Entry::decode(&raw).unwrap();
    let filled_ms = u128::from(entry.fresh_until_ms - 60_000);
    assert!((before.as_millis()..=after.as_millis()).contains(&filled_ms));
    assert_eq!(value(&cache, "real"), fresh("v"));
}

#[test]
fn flushed_scripts_are_sent_again() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let flush = || {
        let command = Command::new("SCRIPT").arg("FLUSH");
        bench.redis.cmd::<()>(command).wait().unwrap();
    };
    flush();
    let holder = lease(&cache, "k");
    flush();
    assert_eq!(fill(holder, "v"), Filled::Stored);
    flush();
    cache.invalidate("k").wait().unwrap();
    assert_eq!(cache.get("k").wait(), Ok(None));
}

#[test]
fn a_foreign_value_is_a_miss_and_is_counted() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    bench.redis.set("cache:text", "not ours").wait().unwrap();
    let mut keys = vec!["text"];
    if bench.server.has_lists() {
        let list = Command::new("RPUSH").key("cache:list").arg("not ours");
        bench.redis.cmd::<()>(list).wait().unwrap();
        keys.push("list");
    }
    for key in &keys {
        assert_eq!(cache.get(key).wait(), Ok(None));
        cache.invalidate(key).wait().unwrap();
        let exists = Command::new("EXISTS").key(format!("cache:{key}"));
        let exists = bench.redis.cmd(exists).wait();
        assert_eq!(exists, Ok(true), "foreign values are not removed");
        assert_eq!(fill(lease(&cache, key), "v"), Filled::Stored);
        assert_eq!(value(&cache, key), fresh("v"));
    }
    // Two counts per key: `get` and the look-up.
    assert_eq!(cache.snapshot().foreign, 2 * keys.len() as u64);
}

#[test]
fn a_caller_that_goes_away_leaves_its_turn_to_others() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let holder = lease(&cache, "k");
    let gone = cache.get_or_lease("k").into_future();
    let next = pending(&cache, "k");
    drop(gone);
    drop(holder);
    assert_eq!(fill(next.lease(), "v"), Filled::Stored);
    assert_eq!(cache.snapshot().leases_released, 1);
}

#[test]
fn the_end_of_the_wait_is_an_outcome() {
    let Some(bench) = start() else { return };
    let options = CacheOptions {
        // Longer than a busy machine takes to begin to wait.
        wait_max: SECOND,
        poll: NEVER,
        ..bench.options()
    };
    let (a, b) = (bench.cache_with(options.clone()), bench.cache_with(options));
    let _holder = lease(&a, "k");
    for cache in [&a, &b] {
        assert_eq!(refused(cache, "k"), CacheError::WaitedTooLong);
    }
    assert_eq!(b.snapshot().polled, 1, "it asked once more at the end");
    let found = a.get_or_lease(bytes("other")).wait();
    assert!(matches!(found, Ok(Found::Lease(_))), "{found:?}");
}
