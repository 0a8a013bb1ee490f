//! Sorted sets: members by their scores.

use bytes::Bytes;

use super::keys::{Page, page_of_pairs};
use crate::{command::Command, protocol::Value, redis::Redis, request::Request};

/// Which members of a sorted set are added or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreIf {
    /// Only those that are not there (`NX`).
    Absent,
    /// Only those that are there (`XX`).
    Present,
    /// New ones, and those whose score becomes greater (`GT`).
    Greater,
    /// New ones, and those whose score becomes less (`LT`).
    Less,
}

/// Adds scores with their members.
fn scored<M: AsRef<[u8]>>(
    command: Command,
    members: impl IntoIterator<Item = (f64, M)>,
) -> Command {
    let add = |command: Command, (score, member): (f64, M)| command.double(score).arg(member);
    members.into_iter().fold(command, add)
}

impl Redis {
    /// Adds members, or changes their scores. How many are new.
    pub fn zadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = (f64, M)>,
    ) -> Request<'_, u64> {
        self.request(scored(Command::new("ZADD").key(key), members))
    }

    /// Adds members, or changes their scores, on a condition. How many are new or changed.
    pub fn zadd_if<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        condition: ScoreIf,
        members: impl IntoIterator<Item = (f64, M)>,
    ) -> Request<'_, u64> {
        let condition = match condition {
            ScoreIf::Absent => "NX",
            ScoreIf::Present => "XX",
            ScoreIf::Greater => "GT",
            ScoreIf::Less => "LT",
        };
        let command = Command::new("ZADD").key(key).arg(condition).arg("CH");
        self.request(scored(command, members))
    }

    /// Removes members. How many there were.
    pub fn zrem<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Request<'_, u64> {
        self.request(Command::new("ZREM").key(key).args(members))
    }

    /// The score of a member.
    pub fn zscore(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Request<'_, Option<f64>> {
        self.request(Command::new("ZSCORE").key(key).arg(member))
    }

    /// Adds a number to a member's score. The sum.
    pub fn zincr_by(
        &self,
        key: impl AsRef<[u8]>,
        number: f64,
        member: impl AsRef<[u8]>,
    ) -> Request<'_, f64> {
        self.request(Command::new("ZINCRBY").key(key).double(number).arg(member))
    }

    /// How many members there are.
    pub fn zcard(&self, key: impl AsRef<[u8]>) -> Request<'_, u64> {
        self.request(Command::new("ZCARD").key(key))
    }

    /// How many members have a score from `min` to `max`.
    pub fn zcount(&self, key: impl AsRef<[u8]>, min: f64, max: f64) -> Request<'_, u64> {
        self.request(Command::new("ZCOUNT").key(key).double(min).double(max))
    }

    /// A member's place, from 0 for the lowest score.
    pub fn zrank(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Request<'_, Option<u64>> {
        self.request(Command::new("ZRANK").key(key).arg(member))
    }

    /// The members in places `first` to `last`; a negative place counts from the end.
    pub fn zrange(
        &self,
        key: impl AsRef<[u8]>,
        first: i64,
        last: i64,
    ) -> Request<'_, Vec<(Bytes, f64)>> {
        let command = Command::new("ZRANGE").key(key).integer(first).integer(last);
        self.request(command.arg("WITHSCORES"))
    }

    /// As [`Redis::zrange`] with the highest score first: places 0 to n - 1 are the top n.
    pub fn zrevrange(
        &self,
        key: impl AsRef<[u8]>,
        first: i64,
        last: i64,
    ) -> Request<'_, Vec<(Bytes, f64)>> {
        let command = Command::new("ZRANGE").key(key).integer(first).integer(last);
        self.request(command.arg("REV").arg("WITHSCORES"))
    }

    /// Up to `count` members with a score from `min` to `max`, lowest first.
    pub fn zrange_by_score(
        &self,
        key: impl AsRef<[u8]>,
        min: f64,
        max: f64,
        count: u32,
    ) -> Request<'_, Vec<(Bytes, f64)>> {
        let command = Command::new("ZRANGE").key(key).double(min).double(max);
        let command = command.arg("BYSCORE").arg("LIMIT").integer(0);
        self.request(command.integer(count.into()).arg("WITHSCORES"))
    }

    /// Removes up to `count` members, those with the lowest scores.
    pub fn zpopmin(&self, key: impl AsRef<[u8]>, count: u32) -> Request<'_, Vec<(Bytes, f64)>> {
        self.request(Command::new("ZPOPMIN").key(key).integer(count.into()))
    }

    /// Removes up to `count` members, those with the highest scores.
    pub fn zpopmax(&self, key: impl AsRef<[u8]>, count: u32) -> Request<'_, Vec<(Bytes, f64)>> {
        self.request(Command::new("ZPOPMAX").key(key).integer(count.into()))
    }

    /// Removes members with a score from `min` to `max`. How many there were.
    pub fn zremrange_by_score(
        &self,
        key: impl AsRef<[u8]>,
        min: f64,
        max: f64,
    ) -> Request<'_, u64> {
        let command = Command::new("ZREMRANGEBYSCORE").key(key);
        self.request(command.double(min).double(max))
    }

    /// A part of all members with their scores, of those that match `pattern` if it is given. Begins with
    /// cursor 0.
    pub fn zscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        pattern: Option<&[u8]>,
        count: Option<u32>,
    ) -> Request<'_, Page<(Bytes, f64)>> {
        let command = Command::new("ZSCAN").key(key).part(cursor, pattern, count);
        self.request::<Value>(command).decoded(page_of_pairs)
    }
}
