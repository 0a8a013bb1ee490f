//! The ways of using a cache: async, blocking, from an actor, with a function; and its end.

use std::{
    convert::Infallible,
    future::{Future, IntoFuture},
    hint,
    pin::{Pin, pin},
    sync::{Arc, Mutex, mpsc},
    task::{Context, Waker},
    thread,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use freeboard_actor::{Actor, Handler, Recipient};
use freeboard_cache::{Cache, CacheError, FetchError, Filled, Found, LocalOptions};
use freeboard_flow::random;
use freeboard_meter::Exposition;

use super::start;
use crate::common::{LONG, bytes, eventually, fill, fresh, lease, pending, value};

type Fetched<E> = Result<Option<Bytes>, E>;

#[test]
fn an_async_caller_fetches_once() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let fetch = async || Fetched::<Infallible>::Ok(Some(bytes("v")));
    let found = freeboard_platform::thread::block_on(cache.get_or_fetch("k", fetch));
    assert_eq!(found, Ok(Some(bytes("v"))));
    let not_again = async || Fetched::<Infallible>::Ok(Some(bytes("w")));
    let found = freeboard_platform::thread::block_on(cache.get_or_fetch("k", not_again));
    assert_eq!(found, Ok(Some(bytes("v"))));
    eventually("it is counted", || cache.snapshot().fills_stored == 1);
}

#[test]
fn a_failed_fetch_is_its_callers_alone() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let fails = || Fetched::Err("the store is down");
    let failed = cache.get_or_fetch_blocking("k", fails);
    assert_eq!(failed, Err(FetchError::Fetch("the store is down")));
    let fetch = || Fetched::<Infallible>::Ok(Some(bytes("v")));
    let found = cache.get_or_fetch_blocking("k", fetch);
    assert_eq!(found, Ok(Some(bytes("v"))), "the lease was given back");
    eventually("it is stored", || cache.snapshot().fills_stored == 1);
    assert_eq!(
        cache.get("k").wait().unwrap().unwrap().value,
        Some(bytes("v"))
    );
    // With a stale value there, that is used.
    bench.clock.advance(LONG);
    let found = cache.get_or_fetch_blocking("k", fails);
    assert_eq!(found, Ok(Some(bytes("v"))));
    assert_eq!(cache.snapshot().fetches_excused, 1);
}

#[test]
fn a_future_that_is_dropped_while_it_fetches_gives_its_lease_back() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let (fetching, begun) = mpsc::channel();
    let fetch = || async move {
        fetching.send(()).unwrap();
        std::future::pending::<Fetched<Infallible>>().await
    };
    {
        let mut future = pin!(cache.get_or_fetch("k", fetch));
        let mut context = Context::from_waker(Waker::noop());
        eventually("it fetches", || {
            assert!(future.as_mut().poll(&mut context).is_pending());
            begun.try_recv().is_ok()
        });
    }
    assert_eq!(fill(lease(&cache, "k"), "v"), Filled::Stored);
}

#[test]
fn a_call_that_is_dropped_while_its_outcome_comes_gives_its_lease_back() {
    let Some(bench) = start() else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let keys = ["k", "l", "m"];
    let cache = bench.cache_but(|options| options.lease_every = Duration::ZERO);
    let run = |thread: u64| {
        let cache = cache.clone();
        thread::spawn(move || {
            for turn in 0..1_000 {
                let number = random::number(seed, thread << 32 | turn);
                let key = keys[random::below(number, keys.len())];
                let mut call = cache.get_or_lease(key).into_future();
                let mut context = Context::from_waker(Waker::noop());
                let choice = number % 4;
                let is_polled = choice > 0;
                let is_done = is_polled && Pin::new(&mut call).poll(&mut context).is_ready();
                (0..number % 10_000).for_each(|_| hint::spin_loop());
                if choice == 3 && !is_done {
                    match freeboard_platform::thread::block_on(call).unwrap() {
                        Found::Cached(_) => cache.invalidate(key).wait().unwrap(),
                        Found::Lease(lease) if number % 8 == 7 => drop(lease),
                        Found::Lease(lease) => drop(lease.fill(Some(bytes("v"))).wait().unwrap()),
                    }
                }
            }
        })
    };
    let threads: Vec<_> = (0..3).map(run).collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    for key in keys {
        cache.invalidate(key).wait().unwrap();
        assert_eq!(fill(lease(&cache, key), "v"), Filled::Stored);
    }
    eventually("no look-up is left", || cache.snapshot().flights == 0);
}

#[test]
fn a_fetch_that_panics_gives_its_lease_back() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let of_thread = cache.clone();
    let panics = move || {
        let fetch = || -> Fetched<Infallible> { panic!("on purpose") };
        of_thread.get_or_fetch_blocking("k", fetch)
    };
    assert!(thread::spawn(panics).join().is_err());
    assert_eq!(fill(lease(&cache, "k"), "v"), Filled::Stored);
}

#[test]
fn a_panicking_function_affects_no_other_caller() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    let holder = lease(&cache, "k");
    cache.get_or_lease("k").then(|_| panic!("on purpose"));
    let other = pending(&cache, "k");
    assert_eq!(fill(holder, "v"), Filled::Stored);
    assert_eq!(other.value(), fresh("v"));
}

/// Looks keys up for others, and fetches what is missing by itself.
struct Fetcher {
    cache: Cache,
    done: Arc<Mutex<Vec<String>>>,
}

struct Wanted(&'static str);
struct Looked(Result<Found, CacheError>);

impl Actor for Fetcher {}

impl Handler<Wanted> for Fetcher {
    type Reply = ();

    fn handle(&mut self, wanted: Wanted, cx: &mut freeboard_actor::Context<Self>) {
        let me: Recipient<Looked> = cx.actor_ref().recipient();
        self.cache.get_or_lease(wanted.0).tell(&me, Looked);
    }
}

impl Handler<Looked> for Fetcher {
    type Reply = ();

    fn handle(&mut self, looked: Looked, _: &mut freeboard_actor::Context<Self>) {
        let done = match looked.0.unwrap() {
            Found::Cached(cached) => format!("{:?}", cached.value.unwrap()),
            Found::Lease(lease) => {
                let key = String::from_utf8(lease.key().to_vec()).unwrap();
                lease.fill(Some(bytes(&key))).then(|_| {});
                format!("fetched {key}")
            }
        };
        self.done.lock().unwrap().push(done);
    }
}

#[test]
fn an_actor_is_told_and_fetches() {
    let Some(bench) = start() else { return };
    let done = Arc::new(Mutex::new(Vec::new()));
    let fetcher = bench.system.spawn(Fetcher {
        cache: bench.cache(),
        done: done.clone(),
    });
    for _ in 0..3 {
        fetcher.tell(Wanted("k")).unwrap();
    }
    eventually("all are done", || done.lock().unwrap().len() == 3);
    assert_eq!(*done.lock().unwrap(), ["fetched k", "b\"k\"", "b\"k\""]);
}

#[test]
fn an_actor_that_has_ended_gives_its_lease_back() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    struct Gone;
    impl Actor for Gone {
        fn started(&mut self, cx: &mut freeboard_actor::Context<Self>) {
            cx.stop();
        }
    }
    impl Handler<Looked> for Gone {
        type Reply = ();
        fn handle(&mut self, _: Looked, _: &mut freeboard_actor::Context<Self>) {}
    }
    let gone = bench.system.spawn(Gone);
    eventually("it has ended", || !gone.is_alive());
    cache.get_or_lease("k").tell(&gone.recipient(), Looked);
    assert_eq!(fill(lease(&cache, "k"), "v"), Filled::Stored);
    assert_eq!(cache.snapshot().replies_refused, 1);
}

#[test]
fn the_local_layer_answers_for_a_while_and_forgets_what_is_invalidated() {
    let Some(bench) = start() else { return };
    let mut options = bench.options();
    options.lease_every = Duration::ZERO;
    options.local = Some(LocalOptions {
        entries_max: 64,
        bytes_max: 64 << 10,
        time: LONG,
    });
    let (a, b) = (bench.cache_with(options.clone()), bench.cache_with(options));
    assert_eq!(fill(lease(&a, "k"), "v1"), Filled::Stored);
    let sent = bench.redis.snapshot().connections[0].sent;
    assert_eq!(value(&a, "k"), fresh("v1"));
    assert_eq!(a.get("k").wait().unwrap().unwrap().value, Some(bytes("v1")));
    assert_eq!(bench.redis.snapshot().connections[0].sent, sent);
    assert_eq!(a.snapshot().local_hits, 2);
    // Another's invalidation goes unnoticed for the layer's time, its own does not.
    b.invalidate("k").wait().unwrap();
    assert_eq!(value(&a, "k"), fresh("v1"));
    a.invalidate("k").wait().unwrap();
    assert_eq!(fill(lease(&a, "k"), "v2"), Filled::Stored);
    for number in 0..1_000 {
        assert_eq!(fill(lease(&a, &number.to_string()), "v"), Filled::Stored);
    }
    let entries = a.snapshot().local_entries;
    assert!((1..=64).contains(&entries), "{entries} entries");
}

#[test]
fn the_end_of_the_system_is_an_outcome_too() {
    let Some(bench) = start() else { return };
    let (a, b) = (bench.cache(), bench.cache());
    let holder = lease(&a, "k");
    let here = pending(&a, "k");
    let there = pending(&b, "k");
    crate::common::until_waiting(&b);
    assert!(bench.system.shutdown(LONG).is_clean());
    for waiter in [here, there] {
        let outcome = waiter.outcome();
        assert!(matches!(outcome, Err(CacheError::Closed)), "{outcome:?}");
    }
    drop(holder);
    let outcome = a.get_or_lease("k").wait();
    assert!(matches!(outcome, Err(CacheError::Closed)), "{outcome:?}");
}

#[test]
fn the_last_handle_ends_the_actor_and_all_waits() {
    let Some(bench) = start() else { return };
    let alive = bench.system.actors_alive();
    let (a, b) = (bench.cache(), bench.cache());
    let holder = lease(&a, "k");
    let there = pending(&b, "k");
    crate::common::until_waiting(&b);
    drop(b);
    let outcome = there.outcome();
    assert!(matches!(outcome, Err(CacheError::Closed)), "{outcome:?}");
    drop(a);
    eventually("the lease keeps its own", || {
        bench.system.actors_alive() == alive + 1
    });
    drop(holder);
    eventually("no actor is left", || bench.system.actors_alive() == alive);
}

#[test]
fn figures_are_rendered_for_prometheus() {
    let Some(bench) = start() else { return };
    let cache = bench.cache();
    assert_eq!(fill(lease(&cache, "k"), "v"), Filled::Stored);
    assert_eq!(value(&cache, "k"), fresh("v"));
    let mut text = Exposition::new();
    cache.snapshot().render("users", &mut text);
    let text = text.finish();
    for line in [
        "freeboard_cache_hits_total{cache=\"users\"} 1",
        "freeboard_cache_fills_stored_total{cache=\"users\"} 1",
        "freeboard_cache_shed_total{cache=\"users\",reason=\"waiters_full\"} 0",
        "freeboard_cache_wait_seconds_count{cache=\"users\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
