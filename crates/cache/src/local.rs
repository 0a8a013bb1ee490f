//! The local layer: recently read fresh values, bounded in entries and bytes.
//!
//! It uses quick_cache (similar to S3-FIFO), not moka: the missing time to live is one comparison here, and it needs
//! no thread and no queue.
//!
//! An answer may arrive after an invalidation that overtook it on another connection. So each request remembers how
//! often the key was removed, and its answer is kept only if that count is unchanged.

use std::{
    array,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use bytes::Bytes;
use freeboard_meter::now_ns;
use freeboard_platform::planted;
use quick_cache::{Weighter, sync::Cache};

use crate::{
    options::{LocalOptions, nanos},
    sync::{AtomicU64, Ordering},
};

/// Number of counts. Keys with the same hash share one, so a removal can keep other keys out once.
const COUNTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Local {
    entries: Cache<Bytes, Entry, Weight>,
    time_ns: u64,
    removals: [AtomicU64; COUNTS],
    /// Always the same, so that a seed repeats its run: with a random one, keys share a count only in some runs.
    hasher: BuildHasherDefault<DefaultHasher>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Option<Bytes>,
    until_ns: u64,
}

/// One limit for entries and bytes: an entry weighs its bytes, but at least `bytes_max / entries_max`.
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
            hasher: BuildHasherDefault::default(),
        }
    }

    /// The value, or `Some(None)` if it is known that there is none.
    pub(crate) fn get(&self, key: &Bytes) -> Option<Option<Bytes>> {
        let entry = self.entries.get(key)?;
        (now_ns() < entry.until_ns).then_some(entry.value)
    }

    fn count(&self, key: &Bytes) -> &AtomicU64 {
        &self.removals[self.hasher.hash_one(key) as usize % COUNTS]
    }

    /// How often the key, or another with its hash, was removed.
    pub(crate) fn removals(&self, key: &Bytes) -> u64 {
        // Ordering: SeqCst here and below. Either `put` sees a removal's count, or that removal comes to the
        // entry after `put` has inserted it.
        self.count(key).load(Ordering::SeqCst)
    }

    /// Keeps a value that was requested when `removals` was the count.
    pub(crate) fn put(&self, key: Bytes, value: Option<Bytes>, removals: u64) {
        if self.removals(&key) != removals {
            return;
        }
        let until_ns = now_ns().saturating_add(self.time_ns);
        // A copy, because a slice would keep the read buffer alive.
        let value = value.map(|value| Bytes::copy_from_slice(&value));
        self.entries.insert(key.clone(), Entry { value, until_ns });
        if self.removals(&key) != removals {
            self.entries.remove(&key);
        }
    }

    pub(crate) fn remove(&self, key: &Bytes) {
        if planted!("local-value-not-removed") {
            return;
        }
        self.count(key).fetch_add(1, Ordering::SeqCst);
        self.entries.remove(key);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
