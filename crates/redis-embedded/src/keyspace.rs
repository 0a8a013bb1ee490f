//! The keys: strings, each with the end of its time, within a bound in bytes.
//!
//! ```text
//!   table ──▶ entries, one behind the other: chosen by chance in one step, and walked by the sweep
//! ```
//!
//! What is over is removed when it is looked at, and by a sweep that looks at some in turn. Where there is no room
//! for a value, entries make way: of five chosen by chance the one that was used longest ago, as Redis'
//! `allkeys-lru` does.

use bytes::Bytes;
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::random::Random;

/// A time that does not come.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// What an entry takes beside its key and its value, in bytes: its places in two tables that may have just grown
/// to double their size, and what two allocations are rounded up by.
const ENTRY_BYTES: usize = 224;
/// Of so many entries the one that was used longest ago makes way.
const SAMPLES: usize = 5;

/// There is no room for a value, even with nothing beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

#[derive(Debug)]
pub(crate) struct Keyspace {
    entries: IndexMap<Box<[u8]>, Entry, RandomState>,
    bytes: usize,
    bytes_max: usize,
    /// Uses so far.
    uses: u64,
    /// Where the sweep goes on.
    swept: usize,
    random: Random,
    pub(crate) counts: Counts,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    expire_at_ms: u64,
    /// The use that was its last.
    used: u64,
}

/// What happened to entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Entries it looked at.
    pub(crate) seen: usize,
    /// Entries whose time was over.
    pub(crate) expired: usize,
}

fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

impl Keyspace {
    pub(crate) fn new(bytes_max: usize, seed: Option<u64>) -> Self {
        Self {
            entries: IndexMap::default(),
            bytes: 0,
            bytes_max,
            uses: 0,
            swept: 0,
            random: Random::new(seed),
            counts: Counts::default(),
        }
    }

    /// Entries, with those that are over and have not been looked at since.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes that keys and values take, never more than the bound.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a key holds, counted as a hit or a miss.
    pub(crate) fn read(&mut self, key: &[u8], now_ms: u64) -> Option<&Bytes> {
        let Some(index) = self.find(key, now_ms) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.entries.get_index(index).map(|(_, entry)| &entry.value)
    }

    /// What a key holds.
    pub(crate) fn value(&mut self, key: &[u8], now_ms: u64) -> Option<&Bytes> {
        let index = self.find(key, now_ms)?;
        self.entries.get_index(index).map(|(_, entry)| &entry.value)
    }

    /// When a key is over; [`NEVER_MS`] if it has no end.
    pub(crate) fn expire_at_ms(&mut self, key: &[u8], now_ms: u64) -> Option<u64> {
        let index = self.find(key, now_ms)?;
        let (_, entry) = self.entries.get_index(index)?;
        Some(entry.expire_at_ms)
    }

    /// Whether there is such a key, whose end this is now.
    pub(crate) fn set_expire_at(&mut self, key: &[u8], expire_at_ms: u64, now_ms: u64) -> bool {
        let index = self.find(key, now_ms);
        let Some((_, entry)) = index.and_then(|index| self.entries.get_index_mut(index)) else {
            return false;
        };
        entry.expire_at_ms = expire_at_ms;
        true
    }

    /// Puts a value under a key, whatever was there.
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
        self.make_room(cost);
        self.bytes += cost;
        self.entries.insert(key.into(), entry);
        Ok(())
    }

    /// Removes a key. What it held.
    pub(crate) fn remove(&mut self, key: &[u8], now_ms: u64) -> Option<Bytes> {
        let index = self.find(key, now_ms)?;
        self.remove_at(index)
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.entries = IndexMap::default();
        self.bytes = 0;
    }

    /// Removes what is over among the next `entries`.
    pub(crate) fn sweep(&mut self, entries: usize, now_ms: u64) -> Swept {
        let mut swept = Swept::default();
        while swept.seen < entries.min(swept.expired + self.entries.len()) {
            swept.seen += 1;
            // Backwards: what takes the place of a removed entry was seen already.
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

    /// Where a key stands that is not over; it was used now.
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

    /// Has entries make way until so many bytes more are within the bound.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max && !self.entries.is_empty() {
            let chosen = (0..SAMPLES).map(|_| self.random.below(self.entries.len()));
            let used = |index: &usize| self.entries.get_index(*index).map(|(_, it)| it.used);
            if let Some(index) = chosen.min_by_key(used) {
                self.remove_at(index);
                self.counts.evicted += 1;
            }
        }
    }
}
