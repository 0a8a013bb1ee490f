//! Hashes: fields with values, under one key.

use std::collections::HashMap;

use bytes::Bytes;

use super::keys::{Page, page_of_pairs};
use crate::{command::Command, protocol::Value, redis::Redis, request::Request};

impl Redis {
    /// The value of a field.
    pub fn hget(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("HGET").key(key).arg(field))
    }

    /// Sets fields. How many are new.
    pub fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Request<'_, u64> {
        self.request(Command::new("HSET").key(key).pairs(fields))
    }

    /// Sets a field that is not there. Whether it was set.
    pub fn hsetnx(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Request<'_, bool> {
        self.request(Command::new("HSETNX").key(key).arg(field).arg(value))
    }

    /// The values of several fields, in their order.
    pub fn hmget<F: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = F>,
    ) -> Request<'_, Vec<Option<Bytes>>> {
        self.request(Command::new("HMGET").key(key).args(fields))
    }

    /// All fields.
    pub fn hgetall(&self, key: impl AsRef<[u8]>) -> Request<'_, HashMap<Bytes, Bytes>> {
        self.request(Command::new("HGETALL").key(key))
    }

    /// Deletes fields. How many there were.
    pub fn hdel<F: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = F>,
    ) -> Request<'_, u64> {
        self.request(Command::new("HDEL").key(key).args(fields))
    }

    /// Whether a field is there.
    pub fn hexists(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Request<'_, bool> {
        self.request(Command::new("HEXISTS").key(key).arg(field))
    }

    /// Adds a number to a field. The sum.
    pub fn hincr_by(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        number: i64,
    ) -> Request<'_, i64> {
        self.request(Command::new("HINCRBY").key(key).arg(field).integer(number))
    }

    /// How many fields there are.
    pub fn hlen(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("HLEN").key(key))
    }

    /// The names of all fields.
    pub fn hkeys(&self, key: impl AsRef<[u8]>) -> Request<'_, Vec<Bytes>> {
        self.request(Command::new("HKEYS").key(key))
    }

    /// The values of all fields.
    pub fn hvals(&self, key: impl AsRef<[u8]>) -> Request<'_, Vec<Bytes>> {
        self.request(Command::new("HVALS").key(key))
    }

    /// A part of all fields with their values, of those that match `pattern` if it is given. Begins with
    /// cursor 0.
    pub fn hscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        pattern: Option<&[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Page<(Bytes, Bytes)>> {
        let command = Command::new("HSCAN").key(key).part(cursor, pattern, count);
        self.request::<Value>(command).decoded(page_of_pairs)
    }
}
