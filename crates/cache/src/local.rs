//! The layer of this process: what was fresh a moment ago, bounded in entries and bytes.
//!
//! quick_cache (S3-FIFO in kind) and not moka: what it lacks, a time to live, is one comparison here, and it
//! needs no thread and no queue of its own.
//!
//! An answer may come after an invalidation that another connection has carried ahead of it. So whoever asks
//! remembers how often the key was removed, and what comes is put only if that is still so.

use std::{
    array,
    hash::{BuildHasher, RandomState},
};

use bytes::Bytes;
use freeboard_meter::now_ns;
use quick_cache::{Weighter, sync::Cache};

use crate::{
    options::{LocalOptions, nanos},
    sync::{AtomicU64, Ordering},
};

/// Keys of one hash share a count: a removal of one keeps a few others out once.
const COUNTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Local {
    entries: Cache<Bytes, Entry, Weight>,
    time_ns: u64,
    removals: [AtomicU64; COUNTS],
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Option<Bytes>,
    until_ns: u64,
}

/// One bound for both: an entry weighs its bytes, and at least its share of all bytes.
#[derive(Clone, Debug)]
struct Weight {
    least: u64,
}

impl Weighter<Bytes, Entry> for Weight {
    fn weight(&self, key: &Bytes, entry: &Entry) -> u64 {
        let value_bytes = entry.value.as_ref().map_or(0, Bytes::len);
        ((key.len() + value_bytes) as u64).max(self.least)
    }
}

impl Local {
    pub(crate) fn new(options: &LocalOptions) -> Self {
        let (entries, bytes) = (options.entries_max as u64, options.bytes_max as u64);
        let least = bytes.div_ceil(entries);
        Self {
            entries: Cache::with_weighter(options.entries_max, bytes, Weight { least }),
            time_ns: nanos(options.time),
            removals: array::from_fn(|_| AtomicU64::new(0)),
            hasher: RandomState::new(),
        }
    }

    /// The value, or that there is none.
    pub(crate) fn get(&self, key: &Bytes) -> Option<Option<Bytes>> {
        let entry = self.entries.get(key)?;
        (now_ns() < entry.until_ns).then_some(entry.value)
    }

    fn count(&self, key: &Bytes) -> &AtomicU64 {
        &self.removals[self.hasher.hash_one(key) as usize % COUNTS]
    }

    /// How often the key, or another of its hash, was removed.
    pub(crate) fn removals(&self, key: &Bytes) -> u64 {
        // Ordering: SeqCst here and below. Either `put` sees a removal's count, or that removal comes to the
        // entry after `put` has inserted it.
        self.count(key).load(Ordering::SeqCst)
    }

    /// Puts what was asked for when the key had been removed `removals` times.
    pub(crate) fn put(&self, key: Bytes, value: Option<Bytes>, removals: u64) {
        if self.removals(&key) != removals {
            return;
        }
        let until_ns = now_ns().saturating_add(self.time_ns);
        // Not a slice of the buffer that it was read into, which it would keep alive.
        let value = value.map(|value| Bytes::copy_from_slice(&value));
        self.entries.insert(key.clone(), Entry { value, until_ns });
        if self.removals(&key) != removals {
            self.entries.remove(&key);
        }
    }

    pub(crate) fn remove(&self, key: &Bytes) {
        self.count(key).fetch_add(1, Ordering::SeqCst);
        self.entries.remove(key);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
