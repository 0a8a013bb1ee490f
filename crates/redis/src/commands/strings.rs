//! Strings, and numbers in them.

use std::time::Duration;

use bytes::Bytes;

use crate::{command::Command, redis::Redis, request::Request};

/// When a key goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// As it was.
    Keep,
    /// After this time, to the millisecond.
    After(Duration),
    /// At this time, in milliseconds since 1970.
    AtMillis(i64),
}

/// Whether a key is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetIf {
    /// Only if it is not there (`NX`).
    Absent,
    /// Only if it is there (`XX`).
    Present,
}

/// How a key is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// When it goes.
    pub expiry: Expiry,
    /// Whether it is set at all.
    pub condition: Option<SetIf>,
}

impl SetOptions {
    fn add_to(self, command: Command) -> Command {
        let command = match self.condition {
            None => command,
            Some(SetIf::Absent) => command.arg("NX"),
            Some(SetIf::Present) => command.arg("XX"),
        };
        match self.expiry {
            Expiry::Never => command,
            Expiry::Keep => command.arg("KEEPTTL"),
            Expiry::After(time) => command.arg("PX").millis(time),
            Expiry::AtMillis(millis) => command.arg("PXAT").integer(millis),
        }
    }
}

impl Redis {
    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("GET").key(key))
    }

    /// Sets a key.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Request<'_, ()> {
        self.request(Command::new("SET").key(key).arg(value))
    }

    /// Sets a key with options. Whether it was set.
    pub fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Request<'_, bool> {
        self.request(options.add_to(Command::new("SET").key(key).arg(value)))
    }

    /// Sets a key with options. What was there before, whether it was set or not.
    pub fn set_get(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Request<'_, Option<Bytes>> {
        self.request(
            options
                .add_to(Command::new("SET").key(key).arg(value))
                .arg("GET"),
        )
    }

    /// The values of several keys, in their order.
    pub fn mget<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Request<'_, Vec<Option<Bytes>>> {
        self.request(Command::new("MGET").keys(keys))
    }

    /// Sets several keys.
    pub fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Request<'_, ()> {
        let add = |command: Command, (key, value): (K, V)| command.key(key).arg(value);
        self.request(pairs.into_iter().fold(Command::new("MSET"), add))
    }

    /// Adds one. The sum.
    pub fn incr(&self, key: impl AsRef<[u8]>) -> Request<'_, i64> {
        self.request(Command::new("INCR").key(key))
    }

    /// Adds a number. The sum.
    pub fn incr_by(&self, key: impl AsRef<[u8]>, number: i64) -> Request<'_, i64> {
        self.request(Command::new("INCRBY").key(key).integer(number))
    }

    /// Adds a number with a fraction. The sum.
    pub fn incr_by_float(&self, key: impl AsRef<[u8]>, number: f64) -> Request<'_, f64> {
        self.request(Command::new("INCRBYFLOAT").key(key).double(number))
    }

    /// Takes one away. The rest.
    pub fn decr(&self, key: impl AsRef<[u8]>) -> Request<'_, i64> {
        self.request(Command::new("DECR").key(key))
    }

    /// Takes a number away. The rest.
    pub fn decr_by(&self, key: impl AsRef<[u8]>, number: i64) -> Request<'_, i64> {
        self.request(Command::new("DECRBY").key(key).integer(number))
    }

    /// Appends to a value. Its length in bytes.
    pub fn append(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("APPEND").key(key).arg(value))
    }

    /// The length of a value in bytes, 0 for no key.
    pub fn strlen(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("STRLEN").key(key))
    }

    /// The value of a key, which is deleted.
    pub fn getdel(&self, key: impl AsRef<[u8]>) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("GETDEL").key(key))
    }

    /// The value of a key, which goes at another time from now on.
    pub fn getex(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Request<'_, Option<Bytes>> {
        let command = Command::new("GETEX").key(key);
        self.request(match expiry {
            Expiry::Never => command.arg("PERSIST"),
            Expiry::Keep => command,
            Expiry::After(time) => command.arg("PX").millis(time),
            Expiry::AtMillis(millis) => command.arg("PXAT").integer(millis),
        })
    }
}
