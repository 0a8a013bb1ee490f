//! The buckets of the simulated server: keys with revisions that expire by the server's clock.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use freeboard_meter::clock;

use crate::{
    engine::{BucketInfo, EngineError, Entry, Expected},
    names,
};

/// What a client asks of a bucket.
#[derive(Debug)]
pub(super) enum Operation {
    Open(Option<Duration>),
    Get(String),
    Put(String, Bytes, Expected),
    Delete(String, u64),
}

/// What the server answers.
#[derive(Debug)]
pub(super) enum Answer {
    Opened(BucketInfo),
    Got(Option<Entry>),
    /// The new revision.
    Changed(u64),
}

struct Stored {
    /// `None` for a key that was deleted.
    value: Option<Bytes>,
    revision: u64,
    written_ns: u64,
}

struct Bucket {
    created_ms: u64,
    ttl: Option<Duration>,
    last_revision: u64,
    keys: BTreeMap<String, Stored>,
}

impl Bucket {
    fn remove_expired(&mut self) {
        if let Some(ttl) = self.ttl {
            let now_ns = clock::now_ns();
            let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
            self.keys
                .retain(|_, it| it.written_ns.saturating_add(ttl_ns) > now_ns);
        }
    }

    fn entry(&self, key: &str) -> Option<Entry> {
        let stored = self.keys.get(key)?;
        Some(Entry {
            value: stored.value.clone()?,
            revision: stored.revision,
        })
    }

    fn write(&mut self, key: String, value: Option<Bytes>) -> u64 {
        self.last_revision += 1;
        let stored = Stored {
            value,
            revision: self.last_revision,
            written_ns: clock::now_ns(),
        };
        self.keys.insert(key, stored);
        self.last_revision
    }
}

/// All buckets of a server.
#[derive(Default)]
pub(super) struct Buckets {
    buckets: BTreeMap<String, Bucket>,
    /// A bucket that is created again has a later time, also at the same time of the clock.
    last_created_ms: u64,
}

impl Buckets {
    pub(super) fn call(&mut self, name: &str, operation: Operation) -> Result<Answer, EngineError> {
        if let Operation::Open(ttl) = operation {
            return self.open(name, ttl).map(Answer::Opened);
        }
        let bucket = self.buckets.get_mut(name);
        let bucket = bucket.ok_or_else(|| names::bucket_is_gone(name))?;
        bucket.remove_expired();
        match operation {
            Operation::Open(_) => unreachable!("handled above"),
            Operation::Get(key) => Ok(Answer::Got(bucket.entry(&key))),
            Operation::Put(key, value, expected) => {
                let revision = bucket.entry(&key).map(|entry| entry.revision);
                let is_expected = match expected {
                    Expected::Absent => revision.is_none(),
                    Expected::Revision(expected) => revision == Some(expected),
                };
                match is_expected {
                    true => Ok(Answer::Changed(bucket.write(key, Some(value)))),
                    false => Err(EngineError::Conflict),
                }
            }
            Operation::Delete(key, expected) => {
                let revision = bucket.entry(&key).map(|entry| entry.revision);
                match revision == Some(expected) {
                    true => Ok(Answer::Changed(bucket.write(key, None))),
                    false => Err(EngineError::Conflict),
                }
            }
        }
    }

    fn open(&mut self, name: &str, ttl: Option<Duration>) -> Result<BucketInfo, EngineError> {
        let known = self.buckets.get(name);
        if let Some(bucket) = known.filter(|bucket| bucket.ttl != ttl) {
            return Err(names::other_ttl(name, bucket.ttl, ttl));
        }
        let bucket = match known {
            Some(bucket) => bucket,
            None => {
                let now_ms = clock::since_1970().as_millis() as u64;
                let created_ms = now_ms.max(self.last_created_ms + 1);
                self.last_created_ms = created_ms;
                let bucket = Bucket {
                    created_ms,
                    ttl,
                    // As in the real engine, revisions grow over a loss of the data.
                    last_revision: created_ms - 1,
                    keys: BTreeMap::new(),
                };
                self.buckets.entry(name.to_owned()).or_insert(bucket)
            }
        };
        Ok(BucketInfo {
            created_ms: bucket.created_ms,
        })
    }

    /// The present keys in the order of their last changes; `None` if there is no such bucket.
    pub(super) fn entries(&mut self, name: &str) -> Option<Vec<(String, Entry)>> {
        let bucket = self.buckets.get_mut(name)?;
        bucket.remove_expired();
        let keys = bucket.keys.keys();
        let present = keys.filter_map(|key| Some((key.clone(), bucket.entry(key)?)));
        let mut entries: Vec<_> = present.collect();
        entries.sort_by_key(|(_, entry)| entry.revision);
        Some(entries)
    }

    pub(super) fn lose(&mut self, name: &str) {
        self.buckets.remove(name);
    }

    /// The server has lost its data.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }
}
