//! Streams, and their consumer groups.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{
    command::Command, error::RedisError, from_value::FromValue, protocol::Value, redis::Redis,
    request::Request,
};

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Such as `1700000000000-0`.
    pub id: Bytes,
    /// In their order; none for one that was deleted since it was delivered.
    pub fields: Vec<(Bytes, Bytes)>,
}

impl FromValue for StreamEntry {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let (id, fields) = <(Bytes, Option<Vec<Bytes>>)>::from_value(value)?;
        let mut fields = fields.unwrap_or_default().into_iter();
        let pairs = std::iter::from_fn(|| Some((fields.next()?, fields.next()?)));
        Ok(Self {
            id,
            fields: pairs.collect(),
        })
    }
}

/// What a group has delivered and not seen acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSummary {
    /// How many entries.
    pub count: u64,
    /// The first one's id.
    pub first: Option<Bytes>,
    /// The last one's id.
    pub last: Option<Bytes>,
    /// How many of each consumer.
    pub consumers: Vec<(Bytes, u64)>,
}

impl FromValue for PendingSummary {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let values = Vec::<Value>::from_value(value)?;
        let wrong = |values: Vec<_>| RedisError::WrongType {
            wanted: "four parts",
            came: if values.is_empty() {
                "none"
            } else {
                "another number"
            },
        };
        let [count, first, last, consumers] = <[Value; 4]>::try_from(values).map_err(wrong)?;
        Ok(Self {
            count: FromValue::from_value(count)?,
            first: FromValue::from_value(first)?,
            last: FromValue::from_value(last)?,
            consumers: Option::from_value(consumers)?.unwrap_or_default(),
        })
    }
}

/// Entries of several streams, by key; `None` if there are none.
type Streams = Option<HashMap<Bytes, Vec<StreamEntry>>>;

impl Command {
    /// Adds `COUNT`.
    pub(super) fn count(self, count: Option<u32>) -> Self {
        match count {
            Some(count) => self.arg("COUNT").integer(count.into()),
            None => self,
        }
    }

    fn streams<K: AsRef<[u8]>, I: AsRef<[u8]>>(
        self,
        streams: impl IntoIterator<Item = (K, I)>,
    ) -> Self {
        let (keys, ids): (Vec<K>, Vec<I>) = streams.into_iter().unzip();
        self.arg("STREAMS").keys(keys).args(ids)
    }
}

impl Redis {
    /// Appends an entry; id `*` lets the server choose. Its id.
    pub fn xadd<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        id: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Request<'_, Bytes> {
        self.request(Command::new("XADD").key(key).arg(id).pairs(fields))
    }

    /// How many entries there are.
    pub fn xlen(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("XLEN").key(key))
    }

    /// Deletes the oldest entries beyond about `length`: a few more may stay, which costs the server
    /// less. How many were deleted.
    pub fn xtrim(&self, key: impl AsRef<[u8]>, length: u32) -> Request<'_, u64> {
        let command = Command::new("XTRIM").key(key).arg("MAXLEN").arg("~");
        self.request(command.integer(length.into()))
    }

    /// Up to `count` entries from id `first` to id `last`; `-` and `+` are the ends.
    pub fn xrange(
        &self,
        key: impl AsRef<[u8]>,
        first: impl AsRef<[u8]>,
        last: impl AsRef<[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Vec<StreamEntry>> {
        let command = Command::new("XRANGE").key(key).arg(first).arg(last);
        self.request(command.count(count))
    }

    /// Entries behind an id of each stream, without waiting for any.
    pub fn xread<K: AsRef<[u8]>, I: AsRef<[u8]>>(
        &self,
        streams: impl IntoIterator<Item = (K, I)>,
        count: Option<u32>,
    ) -> Request<'_, Streams> {
        self.request(Command::new("XREAD").count(count).streams(streams))
    }

    /// Entries for a consumer of a group, without waiting for any: new ones with id `>`.
    pub fn xreadgroup<K: AsRef<[u8]>, I: AsRef<[u8]>>(
        &self,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        streams: impl IntoIterator<Item = (K, I)>,
        count: Option<u32>,
    ) -> Request<'_, Streams> {
        let command = Command::new("XREADGROUP").arg("GROUP").arg(group);
        self.request(command.arg(consumer).count(count).streams(streams))
    }

    /// Acknowledges entries. How many were pending.
    pub fn xack<I: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        ids: impl IntoIterator<Item = I>,
    ) -> Request<'_, u64> {
        self.request(Command::new("XACK").key(key).arg(group).args(ids))
    }

    /// Deletes entries. How many there were.
    pub fn xdel<I: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        ids: impl IntoIterator<Item = I>,
    ) -> Request<'_, u64> {
        self.request(Command::new("XDEL").key(key).args(ids))
    }

    /// Makes a group that begins behind id `after` (`$`: the end), and the stream if it is not there.
    pub fn xgroup_create(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        after: impl AsRef<[u8]>,
    ) -> Request<'_, ()> {
        let command = Command::new("XGROUP").arg("CREATE").key(key);
        self.request(command.arg(group).arg(after).arg("MKSTREAM"))
    }

    /// What a group has delivered and not seen acknowledged.
    pub fn xpending(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
    ) -> Request<'_, PendingSummary> {
        self.request(Command::new("XPENDING").key(key).arg(group))
    }

    /// Gives a consumer what others have not acknowledged for `idle`, from id `start` on: the next start,
    /// the entries, and the ids of those that were deleted.
    pub fn xautoclaim(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        idle: std::time::Duration,
        start: impl AsRef<[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Value> {
        let command = Command::new("XAUTOCLAIM").key(key).arg(group).arg(consumer);
        self.request(command.millis(idle).arg(start).count(count))
    }
}
