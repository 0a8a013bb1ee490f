//! Lists.

use bytes::Bytes;

use crate::{command::Command, redis::Redis, request::Request};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Before the first value.
    First,
    /// Behind the last one.
    Last,
}

impl End {
    const fn name(self) -> &'static str {
        match self {
            Self::First => "LEFT",
            Self::Last => "RIGHT",
        }
    }
}

impl Redis {
    /// Puts values before the first, one after the other. The length.
    pub fn lpush<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        values: impl IntoIterator<Item = V>,
    ) -> Request<'_, u64> {
        self.request(Command::new("LPUSH").key(key).args(values))
    }

    /// Puts values behind the last. The length.
    pub fn rpush<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        values: impl IntoIterator<Item = V>,
    ) -> Request<'_, u64> {
        self.request(Command::new("RPUSH").key(key).args(values))
    }

    /// Takes the first.
    pub fn lpop(&self, key: impl AsRef<[u8]>) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("LPOP").key(key))
    }

    /// Takes the last.
    pub fn rpop(&self, key: impl AsRef<[u8]>) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("RPOP").key(key))
    }

    /// The length.
    pub fn llen(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("LLEN").key(key))
    }

    /// The values in places `first` to `last`; a negative place counts from the end.
    pub fn lrange(&self, key: impl AsRef<[u8]>, first: i64, last: i64) -> Request<'_, Vec<Bytes>> {
        self.request(Command::new("LRANGE").key(key).integer(first).integer(last))
    }

    /// The value in a place.
    pub fn lindex(&self, key: impl AsRef<[u8]>, place: i64) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("LINDEX").key(key).integer(place))
    }

    /// Sets the value in a place.
    pub fn lset(
        &self,
        key: impl AsRef<[u8]>,
        place: i64,
        value: impl AsRef<[u8]>,
    ) -> Request<'_, ()> {
        self.request(Command::new("LSET").key(key).integer(place).arg(value))
    }

    /// Keeps places `first` to `last` only.
    pub fn ltrim(&self, key: impl AsRef<[u8]>, first: i64, last: i64) -> Request<'_, ()> {
        self.request(Command::new("LTRIM").key(key).integer(first).integer(last))
    }

    /// Removes values equal to `value`: the first `count`, the last ones if negative, all if 0. How many
    /// there were.
    pub fn lrem(
        &self,
        key: impl AsRef<[u8]>,
        count: i64,
        value: impl AsRef<[u8]>,
    ) -> Request<'_, u64> {
        self.request(Command::new("LREM").key(key).integer(count).arg(value))
    }

    /// Takes a value at one end of a list and puts it to an end of another, or of the same one, in one step.
    pub fn lmove(
        &self,
        from: (impl AsRef<[u8]>, End),
        to: (impl AsRef<[u8]>, End),
    ) -> Request<'_, Option<Bytes>> {
        let command = Command::new("LMOVE").key(from.0).key(to.0);
        self.request(command.arg(from.1.name()).arg(to.1.name()))
    }
}
