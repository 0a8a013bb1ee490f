//! The memory of a stream: buffers in use and free buffers, under one bound.

use std::task::Waker;

use freeboard_flow::{Admission, LaneConfig, admit};

use crate::storage::AlignedBuffer;

/// The buffers of a stream.
#[derive(Debug, Default)]
pub(super) struct Pool {
    lane: LaneConfig,
    /// The bytes of all buffers there are, free ones included.
    used_bytes: u64,
    free: Vec<AlignedBuffer>,
    /// The producers that wait for capacity.
    waiting: Vec<Waker>,
    above_high: u64,
}

impl Pool {
    pub(super) fn new(lane: LaneConfig) -> Self {
        Self {
            lane,
            ..Self::default()
        }
    }

    /// A buffer of at least `bytes`, or the policy's decision.
    pub(super) fn take(&mut self, bytes: usize) -> Result<AlignedBuffer, Admission> {
        // Not a far larger one: it would hold memory that other producers wait for.
        let fits = |buffer: &AlignedBuffer| (bytes..=4 * bytes).contains(&buffer.capacity());
        let reused = self.free.iter().rposition(fits);
        if reused.is_none() {
            while self.used_bytes + bytes as u64 > self.lane.bound()
                && let Some(buffer) = self.free.pop()
            {
                self.used_bytes -= buffer.capacity() as u64;
            }
        }
        let free_bytes: usize = self.free.iter().map(AlignedBuffer::capacity).sum();
        let has_room = reused.is_some() || self.used_bytes + bytes as u64 <= self.lane.bound();
        let depth = if has_room {
            self.used_bytes - free_bytes as u64
        } else {
            self.lane.bound()
        };
        let admission = admit(&self.lane, depth, self.above_high);
        if self.lane.is_flooded_at(depth) {
            self.above_high += 1;
        }
        if admission != Admission::Accept {
            return Err(admission);
        }
        Ok(match reused {
            Some(index) => self.free.swap_remove(index),
            None => {
                let buffer = AlignedBuffer::with_capacity(bytes);
                self.used_bytes += buffer.capacity() as u64;
                buffer
            }
        })
    }

    /// Takes a buffer back; returns the producers that wait for capacity, to be woken.
    #[must_use]
    pub(super) fn put(&mut self, mut buffer: AlignedBuffer) -> Vec<Waker> {
        buffer.clear();
        self.free.push(buffer);
        std::mem::take(&mut self.waiting)
    }

    /// Has `waker` woken when a buffer comes back.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// The producers that wait for capacity, to be woken because there will be none.
    #[must_use]
    pub(super) fn give_up(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiting)
    }

    /// The bytes of all buffers there are.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }
}
