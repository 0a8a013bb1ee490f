//! A system with a poller, a Redis, and proxies between the two.

pub(crate) mod proxy;
pub(crate) mod server;

use std::sync::mpsc;

use ::bytes::Bytes;
use freeboard_actor::System;
use freeboard_cache::{Cache, CacheError, CacheOptions, Filled, Found, Lease, SimulatedClock};
use freeboard_flow::Backoff;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{Redis, RedisOptions, hash_slot};
pub(crate) use freeboard_test_servers::{LONG, eventually};
use proxy::{Hold, proxy};
use server::Server;

const MILLI_NS: u64 = 1_000_000;

/// Disables polls.
pub(crate) const NEVER: Backoff = Backoff {
    min_ns: 3_600_000 * MILLI_NS,
    max_ns: 3_600_000 * MILLI_NS,
    factor: 1,
};

/// Two workers, and the poller that they share.
pub(crate) fn system() -> (System, Poller) {
    let poller = Poller::new(2, Policy::default()).unwrap();
    let system = System::builder().workers(2).driver(poller.driver());
    (system.build().unwrap(), poller)
}

/// Options with a short back-off and a long timeout.
pub(crate) fn redis_options(port: u16) -> RedisOptions {
    RedisOptions {
        port,
        timeout: LONG,
        backoff: Backoff {
            min_ns: MILLI_NS,
            max_ns: 20 * MILLI_NS,
            factor: 2,
        },
        ..RedisOptions::default()
    }
}

/// Start of simulated clocks: in 2001, unlike any machine's clock.
pub(crate) const BEGIN_MS: u64 = 1_000_000_000_000;

/// A Redis, a simulated clock, and caches; each cache represents a process.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) system: System,
    pub(crate) poller: Poller,
    pub(crate) redis: Redis,
    pub(crate) clock: SimulatedClock,
}

impl Bench {
    pub(crate) fn start(server: Server) -> Self {
        let (system, poller) = system();
        let redis = Redis::connect(&system, &poller, redis_options(server.port)).unwrap();
        redis.wait_up(LONG).unwrap();
        Self {
            server,
            system,
            poller,
            redis,
            clock: SimulatedClock::new(BEGIN_MS),
        }
    }

    /// Long waits, no polls, no early refreshes.
    pub(crate) fn options(&self) -> CacheOptions {
        CacheOptions {
            wait_max: LONG,
            poll: NEVER,
            early_beta: 0.0,
            clock: Some(self.clock.clone()),
            ..CacheOptions::default()
        }
    }

    pub(crate) fn cache(&self) -> Cache {
        self.cache_with(self.options())
    }

    /// A cache whose options are changed.
    pub(crate) fn cache_but(&self, change: impl FnOnce(&mut CacheOptions)) -> Cache {
        let mut options = self.options();
        change(&mut options);
        self.cache_with(options)
    }

    pub(crate) fn cache_with(&self, options: CacheOptions) -> Cache {
        Cache::new(&self.system, &self.redis, options).unwrap()
    }

    /// A client with two connections through a proxy: the hold of the answers about `key`, and the hold of the
    /// notifications.
    pub(crate) fn behind_proxy(&self, key: &str) -> (Redis, Hold, Hold) {
        let (port, holds) = proxy(self.server.port, 2);
        let options = RedisOptions {
            connections: 2,
            ..redis_options(port)
        };
        let redis = Redis::connect(&self.system, &self.poller, options).unwrap();
        redis.wait_up(LONG).unwrap();
        holds.iter().for_each(Hold::hold);
        redis.get(format!("cache:{key}")).then(|_| {});
        let mut of_key = None;
        eventually("an answer is held", || {
            of_key = holds.iter().position(|hold| hold.held_bytes() > 0);
            of_key.is_some()
        });
        holds.iter().for_each(Hold::pass);
        let of_key = of_key.unwrap();
        (redis, holds[of_key].clone(), holds[1 - of_key].clone())
    }
}

/// A key whose requests use the one of two connections that has no notifications.
pub(crate) fn key_apart() -> String {
    let channel = hash_slot(b"freeboard-cache:cache:") % 2;
    let keys = (0..).map(|number| format!("key{number}"));
    let mut apart = keys.filter(|key| hash_slot(format!("cache:{key}").as_bytes()) % 2 != channel);
    apart.next().unwrap()
}

/// Expects a lease.
#[track_caller]
pub(crate) fn lease(cache: &Cache, key: &str) -> Lease {
    match cache.get_or_lease(key).wait().unwrap() {
        Found::Lease(lease) => lease,
        found => panic!("{found:?}, and no lease"),
    }
}

/// Expects an error.
#[track_caller]
pub(crate) fn refused(cache: &Cache, key: &str) -> CacheError {
    cache.get_or_lease(key).wait().unwrap_err()
}

/// Expects a value: the value, and whether it is stale.
#[track_caller]
pub(crate) fn cached(found: Result<Found, CacheError>) -> (Option<String>, bool) {
    match found.unwrap() {
        Found::Cached(cached) => (cached.value.map(text), cached.is_stale),
        found => panic!("{found:?}, and no value"),
    }
}

/// Looks up a value.
#[track_caller]
pub(crate) fn value(cache: &Cache, key: &str) -> (Option<String>, bool) {
    cached(cache.get_or_lease(key).wait())
}

pub(crate) fn fresh(value: &str) -> (Option<String>, bool) {
    (Some(value.to_owned()), false)
}

pub(crate) fn stale(value: &str) -> (Option<String>, bool) {
    (Some(value.to_owned()), true)
}

#[track_caller]
pub(crate) fn fill(lease: Lease, value: &str) -> Filled {
    lease.fill(Some(bytes(value))).wait().unwrap()
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text(value: Bytes) -> String {
    String::from_utf8(value.into()).unwrap()
}

/// A look-up in progress.
pub(crate) struct Pending(mpsc::Receiver<Result<Found, CacheError>>);

pub(crate) fn pending(cache: &Cache, key: &str) -> Pending {
    let (sender, receiver) = mpsc::channel();
    let send = move |found| drop(sender.send(found));
    cache.get_or_lease(key).then(send);
    Pending(receiver)
}

impl Pending {
    #[track_caller]
    pub(crate) fn outcome(self) -> Result<Found, CacheError> {
        self.0.recv_timeout(LONG).unwrap()
    }

    #[track_caller]
    pub(crate) fn value(self) -> (Option<String>, bool) {
        cached(self.outcome())
    }

    #[track_caller]
    pub(crate) fn lease(self) -> Lease {
        match self.outcome().unwrap() {
            Found::Lease(lease) => lease,
            found => panic!("{found:?}, and no lease"),
        }
    }
}

/// Waits until a look-up waits.
pub(crate) fn until_waiting(cache: &Cache) {
    eventually("it waits", || cache.snapshot().leases_refused > 0);
}
