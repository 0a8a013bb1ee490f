//! The keys: strings with an expiry, within a limit in bytes.
//!
//! ```text
//!   table ──▶ dense array of entries: random access for evictions, scanned by the sweep
//! ```
//!
//! Expired keys are removed on access, and by a sweep. To stay within the limit, a write evicts the least recently
//! used of five random entries, as Redis' `allkeys-lru` does.

use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::RandomState;
use freeboard_flow::random;
use indexmap::IndexMap;

/// The expiry of a key without one.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// Memory of an entry in addition to its key and value: its slots in two tables that may just have doubled, and the
/// rounding of two allocations.
const ENTRY_BYTES: usize = 224;
/// Random entries from which an eviction chooses.
const SAMPLES: usize = 5;

/// The value alone exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

#[derive(Debug)]
pub(crate) struct Keyspace {
    entries: IndexMap<Box<[u8]>, Entry, RandomState>,
    bytes: usize,
    bytes_max: usize,
    /// Uses so far.
    uses: u64,
    /// Position of the sweep.
    swept: usize,
    /// Seed of the evictions, and random numbers drawn so far.
    random: (u64, u64),
    pub(crate) counts: Counts,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    expire_at_ms: u64,
    /// Number of its last use.
    used: u64,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Entries checked.
    pub(crate) seen: usize,
    /// Expired entries removed.
    pub(crate) expired: usize,
}

fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

impl Keyspace {
    /// Without a seed, evictions differ from run to run.
    pub(crate) fn new(bytes_max: usize, seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0));
        Self {
            entries: IndexMap::default(),
            bytes: 0,
            bytes_max,
            uses: 0,
            swept: 0,
            random: (seed, 0),
            counts: Counts::default(),
        }
    }

    /// Number of keys, including expired keys that were not removed yet.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory of keys and values, never more than the limit.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a key, counted as a hit or a miss.
    pub(crate) fn read(&mut self, key: &[u8], now_ms: u64) -> Option<&Bytes> {
        let Some(index) = self.find(key, now_ms) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.entries.get_index(index).map(|(_, entry)| &entry.value)
    }

    /// The value of a key.
    pub(crate) fn value(&mut self, key: &[u8], now_ms: u64) -> Option<&Bytes> {
        let index = self.find(key, now_ms)?;
        self.entries.get_index(index).map(|(_, entry)| &entry.value)
    }

    /// The expiry of a key; [`NEVER_MS`] if it has none.
    pub(crate) fn expire_at_ms(&mut self, key: &[u8], now_ms: u64) -> Option<u64> {
        let index = self.find(key, now_ms)?;
        let (_, entry) = self.entries.get_index(index)?;
        Some(entry.expire_at_ms)
    }

    /// Sets a key.
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: Bytes,
        expire_at_ms: u64,
    ) -> Result<(), OutOfMemory> {
        let cost = cost(key, &value);
        if cost > self.bytes_max {
            return Err(OutOfMemory);
        }
        self.uses += 1;
        let entry = Entry {
            value,
            expire_at_ms,
            used: self.uses,
        };
        if let Some((index, _, present)) = self.entries.get_full_mut(key) {
            let bytes = self.bytes - present.value.len() + entry.value.len();
            if bytes <= self.bytes_max {
                self.bytes = bytes;
                *present = entry;
                return Ok(());
            }
            self.remove_at(index);
        }
        self.evict_for(cost);
        self.bytes += cost;
        self.entries.insert(key.into(), entry);
        Ok(())
    }

    /// Removes a key. Returns its value.
    pub(crate) fn remove(&mut self, key: &[u8], now_ms: u64) -> Option<Bytes> {
        let index = self.find(key, now_ms)?;
        self.remove_at(index)
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.entries = IndexMap::default();
        self.bytes = 0;
    }

    /// Removes the expired among the next `entries`.
    pub(crate) fn sweep(&mut self, entries: usize, now_ms: u64) -> Swept {
        let mut swept = Swept::default();
        while swept.seen < entries.min(swept.expired + self.entries.len()) {
            swept.seen += 1;
            // Backwards: the entry that replaces a removed one was checked already.
            self.swept = self.swept.min(self.entries.len());
            self.swept = self.swept.checked_sub(1).unwrap_or(self.entries.len() - 1);
            let entry = self.entries.get_index(self.swept);
            if entry.is_some_and(|(_, entry)| entry.expire_at_ms <= now_ms) {
                self.remove_at(self.swept);
                self.counts.expired += 1;
                swept.expired += 1;
            }
        }
        swept
    }

    /// The index of a live key, which counts as used.
    fn find(&mut self, key: &[u8], now_ms: u64) -> Option<usize> {
        let (index, _, entry) = self.entries.get_full_mut(key)?;
        if entry.expire_at_ms <= now_ms {
            self.remove_at(index);
            self.counts.expired += 1;
            return None;
        }
        self.uses += 1;
        entry.used = self.uses;
        Some(index)
    }

    fn remove_at(&mut self, index: usize) -> Option<Bytes> {
        let (key, entry) = self.entries.swap_remove_index(index)?;
        self.bytes -= cost(&key, &entry.value);
        Some(entry.value)
    }

    /// Evicts entries until `bytes` more are within the limit.
    fn evict_for(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max && !self.entries.is_empty() {
            let (seed, turn) = &mut self.random;
            let entries = self.entries.len();
            let chosen = (0..SAMPLES).map(|_| {
                *turn += 1;
                random::below(random::number(*seed, *turn), entries)
            });
            let used = |index: &usize| self.entries.get_index(*index).map(|(_, it)| it.used);
            if let Some(index) = chosen.min_by_key(used) {
                self.remove_at(index);
                self.counts.evicted += 1;
            }
        }
    }
}
