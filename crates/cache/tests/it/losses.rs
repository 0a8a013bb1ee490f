//! Rows of the race table in which something is lost, late or overtaken, against a real Redis: behind a proxy that
//! holds answers back, or with a paused server.

use std::time::Duration;

use freeboard_cache::{Cache, CacheError, CacheOptions, Fallback, Filled, LocalOptions};
use freeboard_redis::{Command, Redis, RedisError, RedisOptions, Routing};

use crate::common::{
    LONG, eventually, fill, fresh, key_apart, lease, pending,
    proxy::{keeping, proxy},
    redis_options, until_waiting, value,
};
use crate::real::start;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_layer_of_the_process_does_not_bring_back_what_was_invalidated() {
    let Some(bench) = start() else { return };
    let (port, holds) = proxy(bench.server.port, 2);
    let options = RedisOptions {
        connections: 2,
        routing: Routing::PowerOfTwoChoices,
        ..redis_options(port)
    };
    let redis = Redis::connect(&bench.system, &bench.poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    let options = CacheOptions {
        lease_every: Duration::ZERO,
        ..bench.options()
    };
    let other = bench.cache_with(options.clone());
    let local = LocalOptions {
        time: LONG,
        ..LocalOptions::default()
    };
    let options = CacheOptions {
        local: Some(local),
        ..options
    };
    let reader = Cache::new(&bench.system, &redis, options).unwrap();
    // By chance a question takes the connection that is held, and the invalidation the other one.
    let is_overtaken = |number: u32| {
        let key = format!("k{number}");
        assert_eq!(fill(lease(&other, &key), "old"), Filled::Stored);
        let hits = reader.snapshot().hits;
        holds[0].hold();
        let asked = pending(&reader, &key);
        eventually("it is answered or held", || {
            holds[0].held_bytes() > 0 || reader.snapshot().hits > hits
        });
        let is_held = reader.snapshot().hits == hits;
        if is_held {
            reader.invalidate(&key).wait().unwrap();
        }
        holds[0].pass();
        assert_eq!(asked.value(), fresh("old"), "asked before");
        if is_held {
            lease(&reader, &key).release();
        }
        is_held
    };
    reader.invalidate("the script is known").wait().unwrap();
    assert!((0..64).any(is_overtaken), "never held");
}

#[test]
fn an_invalidation_between_get_and_lease_leaves_nothing_to_use() {
    let Some(bench) = start() else { return };
    let key = key_apart();
    let (redis, answers, _) = bench.behind_proxy(&key);
    let a = bench.cache();
    let b = Cache::new(&bench.system, &redis, bench.options()).unwrap();
    assert_eq!(fill(lease(&a, &key), "old"), Filled::Stored);
    bench.clock.advance(SECOND * 60);
    answers.hold();
    let late = pending(&b, &key);
    eventually("the stale value is held", || answers.held_bytes() > 0);
    a.invalidate(&key).wait().unwrap();
    answers.pass();
    assert!(late.lease().stale().is_none());
}

#[test]
fn a_lost_notification_costs_a_poll() {
    let Some(bench) = start() else { return };
    let key = key_apart();
    let (redis, _, notifications) = bench.behind_proxy(&key);
    let options = CacheOptions {
        poll: CacheOptions::default().poll,
        ..bench.options()
    };
    let a = bench.cache();
    let b = Cache::new(&bench.system, &redis, options).unwrap();
    notifications.hold();
    let holder = lease(&a, &key);
    let waiter = pending(&b, &key);
    until_waiting(&b);
    assert_eq!(fill(holder, "v"), Filled::Stored);
    assert_eq!(waiter.value(), fresh("v"));
    let figures = b.snapshot();
    assert!(figures.polled > 0 && figures.notified == 0, "{figures:?}");
    notifications.pass();
}

#[test]
fn a_notification_before_the_wait_began_is_not_lost() {
    let Some(bench) = start() else { return };
    let key = key_apart();
    let (redis, answers, _) = bench.behind_proxy(&key);
    let a = bench.cache();
    let b = Cache::new(&bench.system, &redis, bench.options()).unwrap();
    eventually("it is subscribed", || {
        let command = Command::new("PUBSUB").arg("NUMSUB");
        let channel = "freeboard-cache:cache:";
        let subscribed = bench.redis.cmd(command.arg(channel)).wait();
        let (_, count): (String, u64) = subscribed.unwrap();
        count == 2
    });
    let holder = lease(&a, &key);
    answers.hold();
    let waiter = pending(&b, &key);
    eventually("the answer to the GET is held", || answers.held_bytes() > 0);
    answers.step();
    eventually("the news that it must wait is held", || {
        answers.held_bytes() > 0
    });
    assert_eq!(fill(holder, "v"), Filled::Stored);
    let pushes = || -> u64 {
        redis
            .snapshot()
            .connections
            .iter()
            .map(|it| it.pushes)
            .sum()
    };
    eventually("it was notified", || 0 < pushes());
    answers.pass();
    // It never polls.
    assert_eq!(waiter.value(), fresh("v"));
    assert_eq!(b.snapshot().notified, 1);
}

#[test]
fn a_lease_whose_answer_was_lost_can_be_filled() {
    let Some(bench) = start() else { return };
    let key = key_apart();
    let (redis, answers, _) = bench.behind_proxy(&key);
    let a = bench.cache();
    let b = Cache::new(&bench.system, &redis, bench.options()).unwrap();
    // The server knows the script from here on.
    lease(&a, "another").release();
    answers.hold();
    let caller = pending(&b, &key);
    eventually("the answer to the GET is held", || answers.held_bytes() > 0);
    answers.step();
    eventually("the lease is held", || answers.held_bytes() > 0);
    answers.cut();
    let holder = caller.lease();
    assert!(holder.is_direct());
    redis.wait_up(LONG).unwrap();
    assert_eq!(fill(holder, "v"), Filled::Stored);
    assert_eq!(value(&a, &key), fresh("v"));
}

#[test]
fn an_unused_lease_is_given_back() {
    let Some(bench) = start() else { return };
    let redis_options = RedisOptions {
        timeout: SECOND,
        overdue: LONG,
        ..redis_options(bench.server.port)
    };
    let client = |arguments: &[&str]| {
        let command = Command::new("CLIENT").args(arguments);
        bench.redis.cmd::<()>(command).wait().unwrap();
    };
    for (fallback, fetches_max) in [(Fallback::Fail, 1), (Fallback::Fetch, 0)] {
        let redis = Redis::connect(&bench.system, &bench.poller, redis_options.clone()).unwrap();
        redis.wait_up(LONG).unwrap();
        let options = CacheOptions {
            fallback,
            fetches_max,
            ..bench.options()
        };
        let cache = Cache::new(&bench.system, &redis, options).unwrap();
        // The server knows the scripts from here on: the second one is given once the first is released.
        lease(&cache, "another").release();
        lease(&cache, "another").release();
        client(&["PAUSE", "60000", "WRITE"]);
        let outcome = cache.get_or_lease("k").wait();
        assert!(
            matches!(
                outcome,
                Err(CacheError::Redis(RedisError::TimedOut)
                    | CacheError::FetchesFull(RedisError::TimedOut))
            ),
            "{outcome:?}"
        );
        client(&["UNPAUSE"]);
        lease(&cache, "k").release();
    }
}

#[test]
fn a_script_that_runs_after_its_client_gave_up_leaves_no_lease() {
    let Some(bench) = start() else { return };
    // By the deadline, or by the loss of the connection.
    for is_lost in [false, true] {
        let network = keeping(bench.server.port);
        let redis_options = RedisOptions {
            timeout: SECOND * 2,
            overdue: LONG,
            connections: 1,
            ..redis_options(network.port)
        };
        let redis = Redis::connect(&bench.system, &bench.poller, redis_options).unwrap();
        redis.wait_up(LONG).unwrap();
        // It would hold the key up for longer than anybody waits.
        let options = CacheOptions {
            clock: None,
            fallback: Fallback::Fail,
            lease_time: LONG,
            wait_max: SECOND * 10,
            poll: CacheOptions::default().poll,
            ..bench.options()
        };
        let other = bench.cache_with(options.clone());
        let cache = Cache::new(&bench.system, &redis, options).unwrap();
        // The server knows the scripts, and the cache knows its time.
        let key = format!("known {is_lost}");
        assert_eq!(fill(lease(&other, &key), "v"), Filled::Stored);
        lease(&other, "another").release();
        assert!(cache.get(&key).wait().unwrap().is_some());
        let mut caller = None;
        let key = format!("k {is_lost}");
        let kept = network.keep(|| caller = Some(pending(&cache, &key)));
        if is_lost {
            kept.lose();
        }
        let outcome = caller.unwrap().outcome();
        let gave_up = |error: &RedisError| match is_lost {
            false => *error == RedisError::TimedOut,
            true => matches!(error, RedisError::Lost(_)),
        };
        assert!(
            matches!(&outcome, Err(CacheError::Redis(error)) if gave_up(error)),
            "{outcome:?}"
        );
        if !is_lost {
            // The error of the cache's time is at most one request for it.
            let now = bench.redis.time().wait().unwrap();
            eventually("a second has passed", || {
                bench.redis.time().wait().unwrap() > now + SECOND
            });
        }
        kept.arrive();
        lease(&other, &key).release();
    }
}

#[test]
fn a_fill_that_is_not_sent_gives_the_lease_back() {
    let Some(bench) = start() else { return };
    let options = RedisOptions {
        credit_bytes: 64 << 10,
        ..redis_options(bench.server.port)
    };
    let redis = Redis::connect(&bench.system, &bench.poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    let cache = Cache::new(&bench.system, &redis, bench.options()).unwrap();
    let large = Some(vec![0; 64 << 10].into());
    let outcome = lease(&cache, "k").fill(large).wait();
    assert_eq!(outcome, Err(CacheError::Redis(RedisError::TooLarge)));
    assert_eq!(fill(lease(&cache, "k"), "v"), Filled::Stored);
}
