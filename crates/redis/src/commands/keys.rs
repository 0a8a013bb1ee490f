//! Keys, whatever they hold.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    command::Command,
    error::RedisError,
    from_value::{FromValue, pairs},
    protocol::Value,
    redis::Redis,
    request::Request,
};

/// How long a key stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is no such key.
    NoKey,
    /// For good.
    Unlimited,
    /// So long.
    Left(Duration),
}

impl FromValue for Ttl {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        Ok(match i64::from_value(value)? {
            -2 => Self::NoKey,
            millis => u64::try_from(millis).map_or(Self::Unlimited, |millis| {
                Self::Left(Duration::from_millis(millis))
            }),
        })
    }
}

/// A part of many, and where the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// For the next call; 0 after the last part.
    pub cursor: u64,
    /// This part. May be empty, and may have what another part has too.
    pub items: Vec<T>,
}

impl<T: FromValue> FromValue for Page<T> {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let (cursor, items) = FromValue::from_value(value)?;
        Ok(Self { cursor, items })
    }
}

/// A part whose items come as an array in which first and second take turns.
pub(super) fn page_of_pairs<A: FromValue, B: FromValue>(
    value: Value,
) -> Result<Page<(A, B)>, RedisError> {
    let (cursor, items) = FromValue::from_value(value)?;
    let items = pairs(items)?;
    Ok(Page { cursor, items })
}

impl Redis {
    /// Deletes keys. How many there were.
    pub fn del<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Request<'_, u64> {
        self.request(Command::new("DEL").keys(keys))
    }

    /// Deletes keys, and frees their memory in the background. How many there were.
    pub fn unlink<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Request<'_, u64> {
        self.request(Command::new("UNLINK").keys(keys))
    }

    /// How many of the keys are there.
    pub fn exists<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Request<'_, u64> {
        self.request(Command::new("EXISTS").keys(keys))
    }

    /// Has a key go after this time. Whether it is there.
    #[doc(alias = "pexpire")]
    pub fn expire(&self, key: impl AsRef<[u8]>, after: Duration) -> Request<'_, bool> {
        self.request(Command::new("PEXPIRE").key(key).millis(after))
    }

    /// How long a key stays, to the millisecond.
    #[doc(alias = "pttl")]
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Request<'_, Ttl> {
        self.request(Command::new("PTTL").key(key))
    }

    /// Has a key stay. Whether it would have gone.
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Request<'_, bool> {
        self.request(Command::new("PERSIST").key(key))
    }

    /// What a key holds: `string`, `hash` and so on, `none` if it is not there.
    #[doc(alias = "type")]
    pub fn key_type(&self, key: impl AsRef<[u8]>) -> Request<'_, String> {
        self.request(Command::new("TYPE").key(key))
    }

    /// Has a key go at a time, in milliseconds since 1970. Whether it is there.
    #[doc(alias = "pexpireat")]
    pub fn expire_at(&self, key: impl AsRef<[u8]>, millis: i64) -> Request<'_, bool> {
        self.request(Command::new("PEXPIREAT").key(key).integer(millis))
    }

    /// Gives a key another name; what had that name is gone. An error if there is no such key.
    pub fn rename(&self, key: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Request<'_, ()> {
        self.request(Command::new("RENAME").key(key).key(to))
    }

    /// A part of all keys, of those that match `pattern` if it is given. Begins with cursor 0.
    pub fn scan(
        &self,
        cursor: u64,
        pattern: Option<&[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Page<Bytes>> {
        self.request(Command::new("SCAN").part(cursor, pattern, count))
    }
}

impl Command {
    /// Adds which part of many.
    pub(super) fn part(self, cursor: u64, pattern: Option<&[u8]>, count: Option<u32>) -> Self {
        let command = self.arg(itoa::Buffer::new().format(cursor));
        let command = match pattern {
            Some(pattern) => command.arg("MATCH").arg(pattern),
            None => command,
        };
        command.count(count)
    }
}
