//! Sets.

use std::collections::HashSet;

use bytes::Bytes;

use super::keys::Page;
use crate::{command::Command, redis::Redis, request::Request};

impl Redis {
    /// Adds members. How many are new.
    pub fn sadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Request<'_, u64> {
        self.request(Command::new("SADD").key(key).args(members))
    }

    /// Removes members. How many there were.
    pub fn srem<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Request<'_, u64> {
        self.request(Command::new("SREM").key(key).args(members))
    }

    /// All members.
    pub fn smembers(&self, key: impl AsRef<[u8]>) -> Request<'_, HashSet<Bytes>> {
        self.request(Command::new("SMEMBERS").key(key))
    }

    /// Whether a member is there.
    pub fn sismember(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Request<'_, bool> {
        self.request(Command::new("SISMEMBER").key(key).arg(member))
    }

    /// How many members there are.
    pub fn scard(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("SCARD").key(key))
    }

    /// Removes up to `count` members at random.
    pub fn spop(&self, key: impl AsRef<[u8]>, count: u32) -> Request<'_, HashSet<Bytes>> {
        self.request(Command::new("SPOP").key(key).integer(count.into()))
    }

    /// Members of all of the sets.
    pub fn sinter<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Request<'_, HashSet<Bytes>> {
        self.request(Command::new("SINTER").keys(keys))
    }

    /// Members of any of the sets.
    pub fn sunion<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Request<'_, HashSet<Bytes>> {
        self.request(Command::new("SUNION").keys(keys))
    }

    /// Members of the first set and none of the others.
    pub fn sdiff<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Request<'_, HashSet<Bytes>> {
        self.request(Command::new("SDIFF").keys(keys))
    }

    /// A part of all members, of those that match `pattern` if it is given. Begins with cursor 0.
    pub fn sscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        pattern: Option<&[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Page<Bytes>> {
        self.request(Command::new("SSCAN").key(key).part(cursor, pattern, count))
    }
}
