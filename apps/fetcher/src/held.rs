//! The memory that a fetcher holds, by owner: counts times sizes, without the allocator's overhead.

use freeboard::redis::RedisSnapshot;
use serde::Serialize;

/// Bytes by owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Messages in the mailboxes of actors.
    pub mailboxes: u64,
    /// Commands without a reply, and the notifications that wait for them.
    pub in_flight: u64,
    /// The cache in this process.
    pub cache: u64,
}

/// A key, without the prefix: `user:user-123456`.
pub(crate) const KEY_BYTES: u64 = 16;
/// What the client keeps for a command besides its bytes: its times and the callback for its reply.
const COMMAND_BYTES: u64 = 128;
/// An entry of the cache in this process: prefix and key, value, and the table's entry.
pub(crate) const CACHE_ENTRY_BYTES: u64 = 160;

/// The bytes of `count` values of type `T`, each of which owns a number of further bytes.
pub(crate) fn bytes_of<T>(count: u64, owned: u64) -> u64 {
    count * (size_of::<T>() as u64 + owned)
}

/// Commands of a client to Redis: their number, and what the client itself keeps for them.
pub(crate) fn of_client(redis: &RedisSnapshot) -> (u64, u64) {
    let of = redis.connections.iter();
    let commands = of.clone().map(|it| it.in_flight + it.waiting).sum();
    let bytes: u64 = of.map(|it| it.bytes_under_way).sum();
    (commands, bytes + commands * COMMAND_BYTES)
}
