//! Limits, and failures of Redis: each has its own error and counter.

use std::{future::IntoFuture, time::Duration};

use bytes::Bytes;
use freeboard_cache::{Cache, CacheError, CacheOptions, CacheStartError, Fallback, Filled, Found};
use freeboard_redis::{Command, Redis, RedisError};

use crate::common::{
    Bench, LONG, eventually, fill, fresh, lease, pending, redis_options, refused, until_waiting,
    value,
};
use crate::real::start;

#[test]
fn waiters_of_a_key_are_bounded() {
    let Some(bench) = start() else { return };
    let cache = bench.cache_but(|options| options.waiters_max = 3);
    let holder = lease(&cache, "k");
    let waiters: Vec<_> = (0..3).map(|_| pending(&cache, "k")).collect();
    assert_eq!(refused(&cache, "k"), CacheError::WaitersFull);
    assert_eq!(fill(holder, "v"), Filled::Stored);
    for waiter in waiters {
        assert_eq!(waiter.value(), fresh("v"));
    }
    assert_eq!(cache.snapshot().shed.waiters_full, 1);
}

#[test]
fn waiters_that_have_gone_make_room() {
    let Some(bench) = start() else { return };
    let cache = bench.cache_but(|options| options.waiters_max = 3);
    let holder = lease(&cache, "k");
    let gone = [(); 2].map(|()| cache.get_or_lease("k").into_future());
    let waiter = pending(&cache, "k");
    drop(gone);
    let late = [(); 2].map(|()| pending(&cache, "k"));
    assert_eq!(refused(&cache, "k"), CacheError::WaitersFull);
    assert_eq!(fill(holder, "v"), Filled::Stored);
    for waiter in late.into_iter().chain([waiter]) {
        assert_eq!(waiter.value(), fresh("v"));
    }
}

#[test]
fn keys_under_way_are_bounded() {
    let Some(bench) = start() else { return };
    let cache = bench.cache_but(|options| options.flights_max = 2);
    let holders = [lease(&cache, "a"), lease(&cache, "b")];
    assert_eq!(refused(&cache, "c"), CacheError::FlightsFull);
    assert_eq!(cache.snapshot().flights, 2);
    drop(holders);
    assert_eq!(cache.snapshot().flights, 0);
    assert_eq!(fill(lease(&cache, "c"), "v"), Filled::Stored);
    assert_eq!(cache.snapshot().shed.flights_full, 1);
}

#[test]
fn keys_and_values_have_a_largest_size() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let long = vec![b'k'; 10 << 20];
    let outcome = cache.get(&long).wait();
    let max = 1_024;
    let bytes = long.len() + "cache:".len();
    assert_eq!(outcome, Err(CacheError::KeyTooLong { bytes, max }));
    assert_eq!(cache.snapshot().shed.key_too_long, 1);

    // Two wait for another process when one of them gets the lease.
    let elsewhere = lease(&bench.cache(), "");
    let (first, second) = (pending(&cache, ""), pending(&cache, ""));
    until_waiting(&cache);
    elsewhere.release();
    let large = Bytes::from(vec![0; (1 << 20) + 1]);
    let filled = first.lease().fill(Some(large.clone()));
    assert_eq!(filled.wait(), Ok(Filled::TooLarge));
    let Ok(Found::Cached(cached)) = second.outcome() else {
        panic!("who waited before the fetch began gets it all the same");
    };
    assert_eq!(cached.value, Some(large));
    let largest = Bytes::from(vec![7; 1 << 20]);
    let holder = lease(&cache, "");
    assert_eq!(
        holder.fill(Some(largest.clone())).wait(),
        Ok(Filled::Stored)
    );
    let found = cache.get("").wait().unwrap().unwrap();
    assert_eq!(found.value, Some(largest), "also under the empty key");
}

/// A cache whose Redis was stopped.
fn without_redis(bench: &mut Bench, change: impl FnOnce(&mut CacheOptions)) -> Cache {
    let cache = bench.cache_but(change);
    bench.server.kill();
    let redis = bench.redis.clone();
    eventually("it is noticed", || !redis.snapshot().connections[0].is_up);
    cache
}

#[test]
fn without_redis_it_fails_if_it_is_told_to() {
    let Some(mut bench) = start() else {
        return;
    };
    let cache = without_redis(&mut bench, |options| options.fallback = Fallback::Fail);
    let outcome = cache.get_or_lease("k").wait();
    let is_down = |error: &CacheError| matches!(error, CacheError::Redis(RedisError::Down(_)));
    assert!(outcome.as_ref().is_err_and(is_down), "{outcome:?}");
    let outcome = cache.get("k").wait();
    assert!(outcome.as_ref().is_err_and(is_down), "{outcome:?}");
    let outcome = cache.invalidate("k").wait();
    assert!(outcome.as_ref().is_err_and(is_down), "{outcome:?}");
    assert_eq!(cache.snapshot().redis_failures, 3);
}

#[test]
fn without_redis_a_bounded_number_fetches_and_it_comes_back() {
    let Some(mut bench) = start() else {
        return;
    };
    let cache = without_redis(&mut bench, |options| options.fetches_max = 2);
    let (a, b) = (lease(&cache, "a"), lease(&cache, "b"));
    assert!(a.is_direct() && b.is_direct());
    assert_eq!(cache.snapshot().direct_fetching, 2);
    let outcome = cache.get_or_lease("c").wait();
    let is_full = |error: &CacheError| matches!(error, CacheError::FetchesFull(_));
    assert!(outcome.as_ref().is_err_and(is_full), "{outcome:?}");

    // One fetch per key; a caller that joined meanwhile fetches next.
    let late = pending(&cache, "a");
    assert_eq!(fill(a, "v"), Filled::Unleased);
    assert_eq!(fill(late.lease(), "w"), Filled::Unleased);
    let late = pending(&cache, "b");
    b.release();
    late.lease().release();
    let figures = cache.snapshot();
    assert_eq!((figures.direct_fetching, figures.direct_fetches), (0, 4));
    assert_eq!((figures.shed.fetches_full, figures.flights), (1, 0));

    bench.server.restart();
    bench.redis.wait_up(LONG).unwrap();
    assert_eq!(fill(lease(&cache, "a"), "v"), Filled::Stored);
    assert_eq!(value(&cache, "a"), fresh("v"));
}

#[test]
fn a_thousand_callers_that_give_up_in_their_own_functions_are_no_deep_stack() {
    let Some(mut bench) = start() else {
        return;
    };
    let cache = without_redis(&mut bench, |_| {});
    let holder = lease(&cache, "k");
    for _ in 0..4_000 {
        cache.get_or_lease("k").then(drop);
    }
    drop(holder);
    eventually("each had its turn", || {
        cache.snapshot().leases_released == 4_001
    });
    assert_eq!(cache.snapshot().flights, 0);
}

#[test]
fn a_full_connection_is_as_good_as_none() {
    let Some(bench) = start() else { return };
    let mut options = redis_options(bench.server.port);
    options.credit_commands = 1;
    let redis = Redis::connect(&bench.system, &bench.poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    let cache = Cache::new(&bench.system, &redis, bench.options()).unwrap();
    let ping = || redis.cmd::<()>(Command::new("PING")).wait();
    // Its `SUBSCRIBE` has used the only credit, and has returned it.
    eventually("it is subscribed", || {
        let command = Command::new("PUBSUB").arg("NUMSUB");
        let subscribed = bench
            .redis
            .cmd(command.arg("freeboard-cache:cache:"))
            .wait();
        let (_, count): (String, u64) = subscribed.unwrap();
        count == 1 && ping().is_ok()
    });
    // `BLPOP` holds the only credit while the list is empty.
    let command = Command::new("BLPOP").key("list").integer(0);
    redis.cmd::<()>(command).then(|_| {});
    eventually("it is taken", || ping() == Err(RedisError::QueueFull));
    let holder = lease(&cache, "k");
    assert!(holder.is_direct());
    assert_eq!(cache.snapshot().direct_fetches, 1);
}

#[test]
fn settings_out_of_range_are_named() {
    let Some(bench) = crate::embedded::start() else {
        return;
    };
    let check = |change: fn(&mut CacheOptions), wanted: &str| {
        let mut options = bench.options();
        change(&mut options);
        let error = Cache::new(&bench.system, &bench.redis, options).unwrap_err();
        assert!(matches!(error, CacheStartError::Options(_)), "{error:?}");
        assert_eq!(error.to_string(), wanted);
    };
    check(
        |options| options.lease_time = Duration::ZERO,
        "lease_time in ms must be between 1 and 3153600000000",
    );
    check(
        |options| options.early_beta = f64::NAN,
        "early_beta must be between 0 and 1000000",
    );
    let of_local = |options: &mut CacheOptions| {
        let local = options.local.get_or_insert_default();
        local.entries_max = 0;
    };
    check(
        of_local,
        "local.entries_max must be between 1 and 4294967295",
    );
}
