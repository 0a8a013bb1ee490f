//! Caches on a cluster of three nodes under load, while slots move and while a node is killed.
//!
//! Each of three caches represents a process, with a client of its own. Even keys only expire; odd ones are invalidated
//! all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use freeboard_cache::{Cache, CacheOptions, CacheSnapshot, Cached, Filled, Found};
use freeboard_flow::random;
use freeboard_redis::{Cluster, ClusterOptions, hash_slot};
use freeboard_test_servers::{RedisCluster, if_installed};

use crate::common::{LONG, NEVER, eventually, redis_options, system};

const NODES: usize = 3;
const PROCESSES: usize = 3;
/// Callers of a process. One more thread of each invalidates.
const CALLERS: usize = 2;
const KEYS: usize = 24;
/// Hash tags, and so slots. Each node has two of them.
const TAGS: usize = 6;
/// Operations of each thread from one step to the next.
const STEP: u64 = 20;

fn key(index: usize) -> String {
    format!("{{{}}}{index}", index % TAGS)
}

fn slot(tag: usize) -> u16 {
    hash_slot(tag.to_string().as_bytes())
}

/// The store behind the caches, and what callers may see.
struct World {
    /// The value of each key in the store.
    versions: [AtomicU64; KEYS],
    /// The value at the last invalidation: nobody may get an older one afterwards.
    floors: [AtomicU64; KEYS],
    /// Holders of each key's lease.
    holders: [AtomicI64; KEYS],
    /// Tags of the node that is killed: what it granted before is forgotten.
    killed: Vec<usize>,
    is_over: AtomicBool,
    /// Operations of each thread.
    progress: [AtomicU64; PROCESSES * (CALLERS + 1)],
}

/// The outcomes of one process.
#[derive(Default)]
struct Tally {
    cached: AtomicU64,
    leases: AtomicU64,
    errors: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
}

impl World {
    fn call(&self, cache: &Cache, tally: &Tally, index: usize) {
        let floor = self.floors[index].load(SeqCst);
        match cache.get_or_lease(key(index)).wait() {
            Ok(Found::Cached(cached)) => {
                tally.cached.fetch_add(1, SeqCst);
                let version = version(&cached);
                assert!(version >= floor, "key {index}: {version} after {floor}");
            }
            Ok(Found::Lease(lease)) => {
                tally.leases.fetch_add(1, SeqCst);
                // An invalidation voids a lease, so that another one is granted.
                let is_alone = index.is_multiple_of(2) && !self.killed.contains(&(index % TAGS));
                let is_counted = is_alone && !lease.is_direct();
                let others = self.holders[index].fetch_add(is_counted.into(), SeqCst);
                assert!(!is_counted || others == 0, "key {index} has two leases");
                let version = self.versions[index].load(SeqCst);
                thread::yield_now();
                self.holders[index].fetch_sub(is_counted.into(), SeqCst);
                match lease.fill(Some(version.to_string().into())).wait() {
                    Ok(Filled::Stored) => tally.stored.fetch_add(1, SeqCst),
                    Ok(Filled::Refused) => tally.refused.fetch_add(1, SeqCst),
                    Ok(_) | Err(_) => 0,
                };
            }
            Err(_) => drop(tally.errors.fetch_add(1, SeqCst)),
        }
    }

    fn invalidate(&self, cache: &Cache, index: usize) {
        let version = self.versions[index].fetch_add(1, SeqCst) + 1;
        if cache.invalidate(key(index)).wait().is_ok() {
            self.floors[index].fetch_max(version, SeqCst);
        }
    }

    /// Waits until no thread hangs.
    fn step(&self) {
        let now = || self.progress.each_ref().map(|it| it.load(SeqCst));
        let before = now();
        eventually("all callers go on", || {
            let mut pairs = before.into_iter().zip(now());
            pairs.all(|(before, now)| now >= before + STEP)
        });
    }
}

fn version(cached: &Cached) -> u64 {
    let text: Bytes = cached.value.clone().expect("all keys have a value");
    String::from_utf8_lossy(&text).parse().expect("a number")
}

/// Runs the load during `scene`. Returns the sums of the caches' counters.
fn run(
    nodes: &mut RedisCluster,
    killed: Option<usize>,
    options: &CacheOptions,
    scene: impl FnOnce(&mut RedisCluster, &World),
) -> CacheSnapshot {
    let (system, poller) = system();
    let new_cache = |_| {
        let cluster = ClusterOptions::from_url(&nodes.url()).unwrap();
        let cluster = ClusterOptions {
            node: redis_options(0),
            refresh_interval: Duration::from_millis(50),
            ..cluster
        };
        let cluster = Cluster::connect(&system, &poller, cluster).unwrap();
        cluster.wait_up(LONG).unwrap();
        let cache = Cache::new(&system, &cluster, options.clone()).unwrap();
        (cache, Tally::default())
    };
    let processes: Arc<Vec<_>> = Arc::new((0..PROCESSES).map(new_cache).collect());
    let channels =
        || (0..NODES).filter(|node| nodes.has_subscriber(*node, "freeboard-cache:cache:"));
    eventually("they are subscribed", || channels().count() > 0);
    let world = Arc::new(World {
        versions: Default::default(),
        floors: Default::default(),
        holders: Default::default(),
        killed: (0..TAGS)
            .filter(|tag| killed == Some(nodes.owner(slot(*tag))))
            .collect(),
        is_over: AtomicBool::new(false),
        progress: Default::default(),
    });
    let load = |thread: usize| {
        let (world, processes) = (world.clone(), processes.clone());
        thread::spawn(move || {
            let (cache, tally) = &processes[thread % PROCESSES];
            while !world.is_over.load(SeqCst) {
                let turn = world.progress[thread].fetch_add(1, SeqCst);
                let index = random::below(random::number(thread as u64, turn), KEYS);
                match thread / PROCESSES {
                    CALLERS => world.invalidate(cache, index | 1),
                    _ => world.call(cache, tally, index),
                }
            }
        })
    };
    let threads: Vec<_> = (0..PROCESSES * (CALLERS + 1)).map(load).collect();
    scene(nodes, &world);
    world.is_over.store(true, SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    let mut sum = CacheSnapshot::default();
    for (cache, tally) in processes.iter() {
        let figures = cache.snapshot();
        let cached = figures.hits + figures.stale_hits + figures.waits;
        assert_eq!(cached, tally.cached.load(SeqCst), "{figures:?}");
        let leases = tally.leases.load(SeqCst);
        assert_eq!(figures.misses + figures.refreshes, leases, "{figures:?}");
        let given = figures.leases_granted + figures.direct_fetches;
        assert_eq!(given, leases, "{figures:?}");
        assert_eq!(figures.fills_stored, tally.stored.load(SeqCst));
        assert_eq!(figures.fills_refused, tally.refused.load(SeqCst));
        assert_eq!(figures.flights, 0);
        sum.waits += figures.waits;
        sum.notified += figures.notified;
        sum.direct_fetches += figures.direct_fetches;
        sum.waits_too_long += figures.waits_too_long + tally.errors.load(SeqCst);
    }
    sum
}

/// Values and leases that change all the time.
fn options() -> CacheOptions {
    CacheOptions {
        fresh_time: Duration::from_millis(5),
        stale_time: Duration::from_millis(5),
        lease_time: LONG,
        lease_every: Duration::ZERO,
        wait_max: LONG,
        ..CacheOptions::default()
    }
}

#[test]
fn slots_that_move_make_no_difference() {
    let Some(mut nodes) = if_installed(RedisCluster::start(NODES)) else {
        return;
    };
    // Without polls: a notification that is lost would stop a caller for a minute.
    let options = CacheOptions {
        poll: NEVER,
        ..options()
    };
    let sum = run(&mut nodes, None, &options, |nodes, world| {
        for tag in 0..TAGS {
            let from = nodes.owner(slot(tag));
            let to = (from + 1) % NODES;
            nodes.migrate(slot(tag), [from, to], || world.step());
            nodes.migrate(slot(tag), [to, from], || world.step());
        }
    });
    assert_eq!((sum.direct_fetches, sum.waits_too_long), (0, 0), "{sum:?}");
    assert!(sum.waits > 0 && sum.notified > 0, "{sum:?}");
}

#[test]
fn a_killed_node_stops_no_caller() {
    let Some(mut nodes) = if_installed(RedisCluster::start(NODES)) else {
        return;
    };
    const KILLED: usize = 2;
    let sum = run(&mut nodes, Some(KILLED), &options(), |nodes, world| {
        let moving = (0..TAGS).find(|tag| nodes.owner(slot(*tag)) == 0).unwrap();
        world.step();
        nodes.node(KILLED).kill();
        world.step();
        // The others go on, also with their slots.
        nodes.migrate(slot(moving), [0, 1], || world.step());
        nodes.node(KILLED).restart().unwrap();
        nodes.wait_up();
        nodes.migrate(slot(moving), [1, 0], || world.step());
    });
    assert!(sum.direct_fetches > 0, "{sum:?}");
}
