//! The redis suite's load: GETs or SETs to a Redis of its own, as many under way as there are chains.
//!
//! ```text
//!   chain 0, 4, 8 ..   command ──► outcome ──► command ──► ..   connection 0 ──┐
//!   chain 1, 5, 9 ..                                            connection 1   ├──► Redis
//!   ..                                                          ..             │
//!   4 x depth chains                                            4 connections ─┘
//! ```
//!
//! `redis-benchmark` does the same in its own way: it writes a batch of its depth on a connection, and the
//! next one when all of it is answered; its latencies are those of a batch's first reply. Server and client
//! share two cores, and each client has one thread to work with, as `redis-benchmark` does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use freeboard::redis::hash_slot;
use freeboard_test_servers::{RedisCluster, Server};
use hdrhistogram::Histogram;

use crate::cpu_time;
use crate::outcome::Outcome;

pub const CONNECTIONS_COUNT: usize = 4;
/// Of every client in Rust.
pub const THREADS_COUNT: usize = 1;
/// Named as `redis-benchmark` names them.
pub const KEYS_COUNT: u64 = 10_000;
const NODES_COUNT: usize = 3;
/// How long the server may take to answer, or to be reached.
pub const PATIENCE: Duration = Duration::from_secs(10);

const VALUE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
/// A prime, so that a chain's steps come by all keys.
const KEY_STEP: u64 = 7_919;
/// One command in this many is timed: reading the clock takes up to a tenth of a command's time.
const TIMED_EVERY: u64 = 8;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisWork {
    Flood(Flood),
    /// The same, on a cluster of three nodes. Each of the 4 clients has a connection to each node.
    Cluster(Flood),
    /// See [`crate::redis_stall`].
    Stalled,
}

/// They run as long as this is kept.
enum Servers {
    One(#[expect(dead_code)] Server),
    Cluster(#[expect(dead_code)] RedisCluster),
}

/// Commands of one kind, answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood {
    pub verb: Verb,
    /// Under way on each connection.
    pub depth: usize,
    /// At most 64.
    pub value_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Set,
}

/// A key of 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Key([u8; 16]);

impl Key {
    /// Numbers go round after [`KEYS_COUNT`].
    pub fn new(number: u64) -> Self {
        let mut key = *b"key:000000000000";
        let mut rest = number % KEYS_COUNT;
        for digit in key.iter_mut().rev().take(4) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self(key)
    }

    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("letters and digits")
    }
}

/// A value of this length.
pub fn value(bytes: usize) -> &'static str {
    &VALUE[..bytes]
}

/// A Redis or a cluster that runs and has all keys, and what is to be asked of it.
pub struct Bed {
    _servers: Servers,
    addresses: Vec<SocketAddr>,
    flood: Flood,
    count: u64,
}

impl Bed {
    pub fn start(flood: Flood, count: u64) -> Result<Self> {
        let server = freeboard_test_servers::redis(&[])?;
        let addresses = vec![server.address()];
        Self::filled(Servers::One(server), addresses, flood, count, |_| 0)
    }

    pub fn start_cluster(flood: Flood, count: u64) -> Result<Self> {
        let cluster = RedisCluster::start(NODES_COUNT)?;
        let addresses = cluster.addresses();
        let owners: Vec<usize> = (0..1 << 14).map(|slot| cluster.owner(slot)).collect();
        let owner = |key: &Key| owners[usize::from(hash_slot(key.as_str().as_bytes()))];
        Self::filled(Servers::Cluster(cluster), addresses, flood, count, owner)
    }

    fn filled(
        servers: Servers,
        addresses: Vec<SocketAddr>,
        flood: Flood,
        count: u64,
        owner: impl Fn(&Key) -> usize,
    ) -> Result<Self> {
        for (index, address) in addresses.iter().enumerate() {
            let keys = (0..KEYS_COUNT).map(Key::new);
            let keys: Vec<Key> = keys.filter(|key| owner(key) == index).collect();
            fill(*address, &keys, value(flood.value_bytes))?;
        }
        Ok(Self {
            _servers: servers,
            addresses,
            flood,
            count,
        })
    }

    /// Of the server, or of the nodes of the cluster.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn flood(&self) -> Flood {
        self.flood
    }

    /// Commands in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Measures `run`, which takes each chain to its end and gives it back.
    pub fn measure(&self, run: impl FnOnce(Vec<Chain>) -> Result<Vec<Chain>>) -> Result<Outcome> {
        let chains_count = (CONNECTIONS_COUNT * self.flood.depth) as u64;
        let commands_each = (self.count / chains_count).max(1);
        let chains = (0..chains_count)
            .map(|index| Chain::new(self.flood, index, commands_each))
            .collect();
        let cpu_before = cpu_time::used();
        let begun = Instant::now();
        let chains = run(chains)?;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = cpu_time::used() - cpu_before;
        let is_whole = chains.iter().all(|chain| chain.left == 0);
        ensure!(
            is_whole && chains.len() as u64 == chains_count,
            "some commands are missing"
        );
        let mut latencies = Histogram::<u64>::new(3)?;
        for nanoseconds in chains.iter().flat_map(|chain| &chain.latencies) {
            latencies.record(*nanoseconds)?;
        }
        let microseconds = |share| latencies.value_at_quantile(share) as f64 / 1e3;
        let count = chains_count * commands_each;
        Ok(Outcome::measured(count, seconds)
            .with_field("qps", count as f64 / seconds)
            .with_field("p50_us", microseconds(0.5))
            .with_field("p99_us", microseconds(0.99))
            .with_field("cpu_us", cpu.as_secs_f64() * 1e6 / count as f64))
    }
}

/// Commands one after the other, each sent at the outcome of the one before.
pub struct Chain {
    flood: Flood,
    index: u64,
    key_number: u64,
    left: u64,
    /// Since when the command that is timed is under way.
    begun: Option<Instant>,
    latencies: Vec<u64>,
}

impl Chain {
    fn new(flood: Flood, index: u64, commands_count: u64) -> Self {
        Self {
            flood,
            index,
            key_number: index,
            left: commands_count,
            begun: None,
            latencies: Vec::with_capacity((commands_count / TIMED_EVERY + 1) as usize),
        }
    }

    /// Which connection its commands take.
    pub fn connection(&self) -> usize {
        self.index as usize % CONNECTIONS_COUNT
    }

    pub fn flood(&self) -> Flood {
        self.flood
    }

    /// The key of the next command, which is sent at once; none at the end.
    #[inline]
    pub fn begin(&mut self) -> Option<Key> {
        if self.left == 0 {
            return None;
        }
        self.key_number += KEY_STEP;
        // By the index, or all chains would time the same ones.
        if (self.left + self.index).is_multiple_of(TIMED_EVERY) {
            self.begun = Some(Instant::now());
        }
        Some(Key::new(self.key_number))
    }

    /// The outcome of what [`Chain::begin`] began: the length of the key's value, if it is a GET.
    #[inline]
    pub fn end(&mut self, value_bytes: Option<usize>) -> Result<()> {
        let wanted = (self.flood.verb == Verb::Get).then_some(self.flood.value_bytes);
        ensure!(value_bytes == wanted, "the reply is not the key's value");
        if let Some(begun) = self.begun.take() {
            self.latencies.push(begun.elapsed().as_nanos() as u64);
        }
        self.left -= 1;
        Ok(())
    }
}

/// Sets these keys.
fn fill(address: SocketAddr, keys: &[Key], value: &str) -> Result<()> {
    const OK: &[u8] = b"+OK\r\n";
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut commands = Vec::new();
    for key in keys {
        write!(commands, "SET {} {value}\r\n", key.as_str())?;
    }
    // The replies, 50 KB, fit into the sockets' buffers.
    stream.write_all(&commands)?;
    let mut replies = vec![0; OK.len() * keys.len()];
    stream
        .read_exact(&mut replies)
        .context("Redis does not answer")?;
    ensure!(
        replies.chunks(OK.len()).all(|reply| reply == OK),
        "Redis refused a key"
    );
    Ok(())
}
