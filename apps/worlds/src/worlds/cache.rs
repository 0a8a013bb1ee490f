//! Processes share a cache on one Redis, in front of a slow store whose values change, while connections break and nodes
//! crash.
//!
//! It holds: each call has one outcome; one caller at a time has the lease of a key; nobody sees a value that was
//! invalidated before the call, except in the local layer for its time; no value is older than its times allow. Afterwards
//! all callers get the current value.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use freeboard::{
    ActorRef,
    cache::{Cache, CacheError, CacheOptions, Cached, Filled, Found, Lease, LocalOptions},
    meter::now_ns,
    prelude::*,
    redis::RedisOptions,
    sim::{FaultRates, Random, World},
};

use super::redis::{PORT, connect, rates, start_server};
use crate::record::{Mistakes, Record};

const RUN_TIME: Duration = Duration::from_secs(7);
/// A half-open connection is replaced within it.
const SETTLE_TIME: Duration = Duration::from_secs(9);
/// The rate limit of leases, and the local layer's time, are over then.
const CHANGE_TIME: Duration = Duration::from_secs(2);
const LAST_TIME: Duration = Duration::from_secs(3);
/// Calls of each client for each key behind the faults.
const LAST_CALLS: usize = 3;

const LEASE_TIME: Duration = Duration::from_secs(1);
const LEASE_EVERY: Duration = Duration::from_millis(200);
const FRESH_TIME: Duration = Duration::from_millis(1_500);
const STALE_TIME: Duration = Duration::from_secs(1);
const LOCAL_TIME: Duration = Duration::from_millis(500);
/// The error of a client's idea of the server's time, which is half of a round trip that a pause made long.
const CLOCK_ERROR: Duration = Duration::from_secs(4);
/// An answer with a value may have waited so long before the local layer took it.
const ANSWER_TIME: Duration = Duration::from_secs(7);

/// Instead of both, in a run in which nothing is slow.
const CALM_TIME: Duration = Duration::from_millis(100);

/// A version of a key's value, in the order of changes from 0.
type Version = u64;

/// A key of the slow store.
#[derive(Debug, Default)]
struct Stored {
    /// When each version began.
    since_ns: Vec<u64>,
    /// Versions that were invalidated before, who did it, and when the answer came.
    invalidated: Vec<(Version, (usize, u64), u64)>,
    /// The same, of those that may be used as stale values.
    expired: Vec<(Version, (usize, u64), u64)>,
    /// Invalidations that may still be executed, now or later.
    pending: BTreeSet<usize>,
    last_invalidated_ns: u64,
    holders: Vec<Holder>,
}

impl Stored {
    fn version(&self) -> Version {
        self.since_ns.len() as Version - 1
    }
}

/// A caller that has the lease.
#[derive(Clone, Copy, Debug)]
struct Holder {
    number: usize,
    asked_ns: u64,
    granted_ns: u64,
    server_start: u64,
    /// Whether an invalidation may have voided the lease.
    is_void: bool,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    client: (usize, u64),
    key: usize,
    asked_ns: u64,
    server_start: u64,
    outcomes: usize,
    is_last: bool,
}

#[derive(Debug, Default)]
struct Account {
    keys: Vec<Stored>,
    calls: Vec<Call>,
    server_start: u64,
}

#[derive(Clone)]
struct Shared {
    account: Record<Account>,
    mistakes: Mistakes,
    has_local: bool,
    /// Nothing is slow, so times are exact.
    is_calm: bool,
    actions: usize,
    period: Duration,
}

struct Client {
    shared: Shared,
    /// Its number, and the start of its node.
    id: (usize, u64),
    cache: Cache,
    random: Random,
    actions: usize,
    /// Its fetches: the lease and what the store had, by the number of the call.
    fetches: BTreeMap<usize, (Lease, Version)>,
}

struct Got {
    number: usize,
    outcome: Result<Found, CacheError>,
}

struct Fetched(usize);

struct Changed {
    number: usize,
    version: Version,
    is_stale_left: bool,
    outcome: Result<(), CacheError>,
}

struct Stores {
    number: usize,
    outcome: Result<Filled, CacheError>,
}

/// What the test wants behind the faults.
#[derive(Clone, Copy)]
enum Last {
    Change,
    Get,
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn text(key: usize, version: Version) -> String {
    format!("{key}:{version}")
}

impl Client {
    fn act(&mut self, cx: &mut Context<Self>) {
        let keys = self.shared.account.lock().keys.len();
        let key = self.random.below(keys);
        match self.random.below(8) {
            0 => self.change(key, false, false, cx),
            1 => self.change(key, true, false, cx),
            _ => {
                for _ in 0..self.random.within(1..=3) {
                    self.get(key, false, cx);
                }
            }
        }
        self.actions += 1;
        if self.actions < self.shared.actions && now_ns() < ns(RUN_TIME) {
            let period = self.random.time(self.shared.period);
            cx.wake_after(period, Self::act).expect("a timer");
        }
    }

    /// The number of a new call.
    fn call(&self, key: usize, is_last: bool) -> usize {
        let account = &mut *self.shared.account.lock();
        account.calls.push(Call {
            client: self.id,
            key,
            asked_ns: now_ns(),
            server_start: account.server_start,
            outcomes: 0,
            is_last,
        });
        account.calls.len() - 1
    }

    fn get(&self, key: usize, is_last: bool, cx: &Context<Self>) {
        let number = self.call(key, is_last);
        let me = cx.actor_ref().recipient();
        let call = self.cache.get_or_lease(key.to_string());
        call.tell(&me, move |outcome| Got { number, outcome });
    }

    /// Changes the value in the store, and then invalidates it.
    fn change(&self, key: usize, is_stale_left: bool, is_last: bool, cx: &Context<Self>) {
        let number = self.call(key, is_last);
        let version = {
            let stored = &mut self.shared.account.lock().keys[key];
            stored.since_ns.push(now_ns());
            stored.pending.insert(number);
            stored.holders.iter_mut().for_each(|it| it.is_void = true);
            stored.version()
        };
        let me = cx.actor_ref().recipient();
        let name = key.to_string();
        let call = match is_stale_left {
            true => self.cache.expire(name),
            false => self.cache.invalidate(name),
        };
        call.tell(&me, move |outcome| Changed {
            number,
            version,
            is_stale_left,
            outcome,
        });
    }

    /// An outcome came.
    fn answered(&self, number: usize) -> Result<Call, String> {
        let call = &mut self.shared.account.lock().calls[number];
        call.outcomes += 1;
        match call.outcomes {
            1 => Ok(*call),
            _ => Err("a second outcome".to_owned()),
        }
    }

    fn check_value(&self, call: &Call, cached: &Cached) -> Result<(), String> {
        let Call { key, asked_ns, .. } = *call;
        let account = self.shared.account.lock();
        let stored = &account.keys[key];
        let (clock_error, answer_time) = match self.shared.is_calm {
            true => (CALM_TIME, CALM_TIME),
            false => (CLOCK_ERROR, ANSWER_TIME),
        };
        let value = cached.value.as_deref().unwrap_or_default();
        let value = std::str::from_utf8(value).unwrap_or_default();
        let parts = value.split_once(':');
        let version = parts.filter(|(name, _)| *name == key.to_string());
        let version = version.and_then(|(_, version)| version.parse::<Version>().ok());
        let Some(version) = version.filter(|it| *it <= stored.version()) else {
            return Err(format!("key {key} never had the value {value:?}"));
        };
        // What must not be seen any more. The local layer takes part only in fresh values.
        let is_over = |(_, client, done_ns): &&(Version, (usize, u64), u64)| {
            let is_own = *client == self.id;
            let may_be_local = self.shared.has_local && !cached.is_stale && !is_own;
            let bound = match may_be_local {
                true => LOCAL_TIME + answer_time,
                false => Duration::ZERO,
            };
            done_ns + ns(bound) <= asked_ns
        };
        let newest = |list: &[(Version, (usize, u64), u64)]| {
            list.iter()
                .filter(is_over)
                .map(|(version, ..)| *version)
                .max()
        };
        let mut least = newest(&stored.invalidated);
        if !cached.is_stale {
            least = least.max(newest(&stored.expired));
        }
        if least.is_some_and(|least| version < least) {
            return Err(format!(
                "{value}, but {least:?} was invalidated: {cached:?}"
            ));
        }
        let over_ns = stored.since_ns.get(version as usize + 1);
        let age = LEASE_TIME + FRESH_TIME + STALE_TIME + LOCAL_TIME + clock_error;
        match over_ns {
            Some(over_ns) if over_ns + ns(age) < asked_ns => Err(format!("{value} is too old")),
            _ => Ok(()),
        }
    }

    /// Whether no other caller can have the lease at the same time.
    fn check_lease(&self, number: usize, call: &Call) -> Result<(), String> {
        let account = &mut *self.shared.account.lock();
        let server_start = account.server_start;
        let stored = &mut account.keys[call.key];
        let (now_ns, lease_ns) = (now_ns(), ns(LEASE_TIME));
        stored.holders.retain(|it| now_ns < it.asked_ns + lease_ns);
        let holder = Holder {
            number,
            asked_ns: call.asked_ns,
            granted_ns: now_ns,
            server_start: call.server_start,
            is_void: !stored.pending.is_empty() || stored.last_invalidated_ns >= call.asked_ns,
        };
        // The server granted each at some time between its question and its answer.
        let excludes = |it: &&Holder| {
            let is_same_server =
                it.server_start == server_start && it.server_start == call.server_start;
            is_same_server && !it.is_void && it.granted_ns < call.asked_ns + lease_ns
        };
        let other = stored.holders.iter().find(excludes).copied();
        stored.holders.push(holder);
        match other {
            Some(other) if !holder.is_void => Err(format!("two leases: {other:?} and {holder:?}")),
            _ => Ok(()),
        }
    }

    fn got(
        &mut self,
        number: usize,
        outcome: Result<Found, CacheError>,
        cx: &mut Context<Self>,
    ) -> Result<(), String> {
        let call = self.answered(number)?;
        match outcome {
            Ok(Found::Cached(cached)) => {
                let current = {
                    let account = self.shared.account.lock();
                    text(call.key, account.keys[call.key].version())
                };
                if call.is_last && cached.value.as_deref() != Some(current.as_bytes()) {
                    return Err(format!("{cached:?} after the faults"));
                }
                self.check_value(&call, &cached)
            }
            Ok(Found::Lease(lease)) => {
                let stale = lease.stale().map(|stale| self.check_value(&call, stale));
                let version = self.shared.account.lock().keys[call.key].version();
                let is_direct = lease.is_direct();
                self.fetches.insert(number, (lease, version));
                let time = match self.random.below(8) {
                    0 if !call.is_last => LEASE_TIME * 3 / 2,
                    _ => self.random.time(LEASE_TIME / 3),
                };
                cx.send_after(time, Fetched(number)).expect("a timer");
                stale.unwrap_or(Ok(()))?;
                match is_direct {
                    true => Ok(()),
                    false => self.check_lease(number, &call),
                }
            }
            Err(error) if call.is_last => Err(format!("after the faults: {error}")),
            Err(CacheError::WaitedTooLong | CacheError::Redis(_) | CacheError::FetchesFull(_)) => {
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn changed(&self, changed: Changed) -> Result<(), String> {
        let Changed {
            number,
            version,
            is_stale_left,
            outcome,
        } = changed;
        let call = self.answered(number)?;
        let stored = &mut self.shared.account.lock().keys[call.key];
        let done = (version, self.id, now_ns());
        match outcome {
            Ok(()) => {
                stored.pending.remove(&number);
                stored.last_invalidated_ns = now_ns();
                match is_stale_left {
                    true => stored.expired.push(done),
                    false => stored.invalidated.push(done),
                }
                Ok(())
            }
            Err(error) if call.is_last => Err(format!("after the faults: {error}")),
            Err(CacheError::Redis(error)) => {
                if error.is_unsent() {
                    stored.pending.remove(&number);
                }
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn noted(&self, number: usize, checked: Result<(), String>) {
        if let Err(text) = checked {
            let call = self.shared.account.lock().calls[number];
            self.shared
                .mistakes
                .note(format!("call {number} ({call:?}): {text}"));
        }
    }
}

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        let period = self.random.time(self.shared.period);
        cx.wake_after(period, Self::act).expect("a timer");
    }
}

impl Handler<Got> for Client {
    type Reply = ();

    fn handle(&mut self, Got { number, outcome }: Got, cx: &mut Context<Self>) {
        let checked = self.got(number, outcome, cx);
        self.noted(number, checked);
    }
}

impl Handler<Fetched> for Client {
    type Reply = ();

    fn handle(&mut self, Fetched(number): Fetched, cx: &mut Context<Self>) {
        let (lease, version) = self.fetches.remove(&number).expect("a fetch");
        let call = {
            let account = &mut *self.shared.account.lock();
            let call = account.calls[number];
            let holders = &mut account.keys[call.key].holders;
            holders.retain(|it| it.number != number);
            call
        };
        if !call.is_last && self.random.once_in(8) {
            return lease.release();
        }
        let number = self.call(call.key, call.is_last);
        let me = cx.actor_ref().recipient();
        let fill = lease.fill(Some(text(call.key, version).into()));
        fill.tell(&me, move |outcome| Stores { number, outcome });
    }
}

impl Handler<Stores> for Client {
    type Reply = ();

    fn handle(&mut self, Stores { number, outcome }: Stores, _: &mut Context<Self>) {
        let checked = self.answered(number).and_then(|call| match outcome {
            Ok(Filled::Stored) => Ok(()),
            Err(CacheError::Redis(_)) | Ok(_) if !call.is_last => Ok(()),
            other => Err(format!("{other:?}")),
        });
        self.noted(number, checked);
    }
}

impl Handler<Changed> for Client {
    type Reply = ();

    fn handle(&mut self, changed: Changed, _: &mut Context<Self>) {
        let number = changed.number;
        let checked = self.changed(changed);
        self.noted(number, checked);
    }
}

impl Handler<Last> for Client {
    type Reply = ();

    fn handle(&mut self, last: Last, cx: &mut Context<Self>) {
        let keys = self.shared.account.lock().keys.len();
        for key in 0..keys {
            match last {
                Last::Change => self.change(key, false, true, cx),
                Last::Get => (0..LAST_CALLS).for_each(|_| self.get(key, true, cx)),
            }
        }
    }
}

fn options(shared: &Shared, seed: u64) -> CacheOptions {
    CacheOptions {
        fresh_time: FRESH_TIME,
        stale_time: STALE_TIME,
        lease_time: LEASE_TIME,
        lease_every: LEASE_EVERY,
        seed: Some(seed),
        local: shared.has_local.then(|| LocalOptions {
            time: LOCAL_TIME,
            ..LocalOptions::default()
        }),
        ..CacheOptions::default()
    }
}

pub(crate) fn run(world: &mut World) {
    let mut random = world.random("cache");
    let shared = Shared {
        account: Record::default(),
        mistakes: Mistakes::watched(world),
        has_local: random.once_in(2),
        is_calm: random.once_in(2),
        actions: world.size("actions", 1..=20),
        period: Duration::from_millis(world.size("period_ms", 50..=1_000) as u64),
    };
    for _ in 0..world.size("keys", 1..=2) {
        let stored = Stored {
            since_ns: vec![0],
            ..Stored::default()
        };
        shared.account.lock().keys.push(stored);
    }
    let account = shared.account.clone();
    let server = world.node("server", move |machine| {
        account.lock().server_start = machine.starts;
        start_server(machine)
    });
    let clients = world.size("clients", 1..=3);
    let clients: Vec<_> = (0..clients)
        .map(|id| {
            let name = format!("client-{id}");
            let (shared, at, random) = (shared.clone(), server.at(PORT), world.random(&name));
            world.node(&name, move |machine| {
                let redis = connect(machine, at, RedisOptions::default());
                let cache = Cache::new(&machine.system, &redis, options(&shared, machine.starts));
                let cache = cache.expect("valid options");
                let client = Client {
                    shared: shared.clone(),
                    id: (id, machine.starts),
                    cache: cache.clone(),
                    random: random.clone(),
                    actions: 0,
                    fetches: BTreeMap::new(),
                };
                let options = SpawnOptions::new().lane(LaneConfig::bounded(1_024));
                let client = machine.system.spawn_once(options, client);
                let client: ActorRef<Client> = client.expect("valid options");
                (client, cache, machine.starts)
            })
        })
        .collect();
    let rates = match shared.is_calm {
        true => FaultRates {
            kills: 12.0,
            resets: 24.0,
            ..FaultRates::default()
        },
        false => rates(),
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    world.advance(SETTLE_TIME);
    let tell = |last: Last, client: usize| {
        let (client, ..) = clients[client].state().expect("it is up");
        client.tell(last).expect("it is alive");
    };
    // A holder that was killed does not hold its lease any more.
    (0..clients.len()).for_each(|client| tell(Last::Get, client));
    world.advance(LAST_TIME);
    tell(Last::Change, 0);
    world.advance(CHANGE_TIME);
    (0..clients.len()).for_each(|client| tell(Last::Get, client));
    world.advance(LAST_TIME);

    let account = shared.account.lock();
    let states = clients.iter().map(|it| it.state().expect("it is up"));
    let states: Vec<_> = states.collect();
    for (number, call) in account.calls.iter().enumerate() {
        let (client, start) = call.client;
        let is_here = states[client].2 == start;
        assert!(
            call.outcomes == 1 || !is_here,
            "call {number} has no outcome: {call:?}"
        );
    }
    for (_, cache, _) in &states {
        let snapshot = cache.snapshot();
        assert_eq!((snapshot.flights, snapshot.direct_fetching), (0, 0));
    }
}
