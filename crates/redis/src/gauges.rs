//! What a connection counts.
//!
//! Callers count what is refused; all else has the connection's actor as its one writer.

use freeboard_meter::{Counter, Histogram, OwnedCounter};

use crate::{
    error::RedisError,
    intake::DOWN,
    snapshot::{ConnectionSnapshot, ShedSnapshot},
    sync::{AtomicUsize, Ordering},
};

/// Counters of one connection.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    queue_full: Counter,
    too_large: Counter,
    down: Counter,
    expired: Counter,
    pub(crate) replies_refused: Counter,
    pub(crate) sent: OwnedCounter,
    pub(crate) sent_bytes: OwnedCounter,
    pub(crate) batches: OwnedCounter,
    pub(crate) replies: OwnedCounter,
    pub(crate) received_bytes: OwnedCounter,
    pub(crate) timed_out: OwnedCounter,
    pub(crate) lost: OwnedCounter,
    pub(crate) connects: OwnedCounter,
    pub(crate) connect_failures: OwnedCounter,
    pub(crate) stuck: OwnedCounter,
    pub(crate) pushes: OwnedCounter,
    pub(crate) pushes_shed: OwnedCounter,
    pub(crate) from_tell: Histogram,
    pub(crate) from_send: Histogram,
    /// Commands that were sent and have no reply, and those of them for which nobody waits.
    in_flight: AtomicUsize,
    tombstones: AtomicUsize,
}

impl Gauges {
    /// A command, or unit, has its outcome without a reply.
    pub(crate) fn failed(&self, error: &RedisError) {
        match error {
            RedisError::QueueFull => self.queue_full.add(1),
            RedisError::TooLarge => self.too_large.add(1),
            RedisError::Expired => self.expired.add(1),
            RedisError::Down(_) | RedisError::Closed => self.down.add(1),
            RedisError::TimedOut => self.timed_out.bump(1),
            RedisError::Lost(_) | RedisError::Protocol(_) => self.lost.bump(1),
            _ => {}
        }
    }

    pub(crate) fn set_in_flight(&self, in_flight: usize, tombstones: usize) {
        // Ordering: Relaxed, figures that publish nothing but themselves.
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.tombstones.store(tombstones, Ordering::Relaxed);
    }

    /// All of it, with the intake's figures.
    pub(crate) fn snapshot(&self, load: usize, bytes_under_way: usize) -> ConnectionSnapshot {
        let is_up = load != DOWN;
        let under_way = if is_up { load } else { 0 };
        // Ordering: Relaxed, as in `set_in_flight`.
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        ConnectionSnapshot {
            is_up,
            sent: self.sent.get(),
            sent_bytes: self.sent_bytes.get(),
            batches: self.batches.get(),
            replies: self.replies.get(),
            received_bytes: self.received_bytes.get(),
            in_flight: in_flight as u64,
            waiting: under_way.saturating_sub(in_flight) as u64,
            bytes_under_way: bytes_under_way as u64,
            tombstones: self.tombstones.load(Ordering::Relaxed) as u64,
            shed: ShedSnapshot {
                queue_full: self.queue_full.get(),
                too_large: self.too_large.get(),
                down: self.down.get(),
                expired: self.expired.get(),
            },
            timed_out: self.timed_out.get(),
            lost: self.lost.get(),
            replies_refused: self.replies_refused.get(),
            connects: self.connects.get(),
            connect_failures: self.connect_failures.get(),
            stuck: self.stuck.get(),
            pushes: self.pushes.get(),
            pushes_shed: self.pushes_shed.get(),
            from_tell: self.from_tell.summary(),
            from_send: self.from_send.summary(),
        }
    }
}
