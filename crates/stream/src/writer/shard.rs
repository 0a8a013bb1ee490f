//! A buffer that producers fill, under a lock of its own.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    format::{CHUNK_HEADER_BYTES, HeadsSum, record_bytes, write_record},
    log::{Filled, Part},
    storage::AlignedBuffer,
};

use super::{batch::Batch, error::AppendError};

/// One of a stream's buffers, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    filling: Mutex<Filling>,
    /// The records accepted since the stream was opened or reopened.
    accepted: AtomicU64,
}

/// What a shard's lock guards.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) page: Option<Page>,
    /// The last batch that a record was appended to.
    pub(super) last: Option<Arc<Batch>>,
    /// Why nothing is accepted at present.
    pub(super) refusal: Option<AppendError>,
}

/// A buffer that is being filled.
#[derive(Debug)]
pub(super) struct Page {
    buffer: AlignedBuffer,
    count: u32,
    heads: HeadsSum,
    batch: Arc<Batch>,
    /// When it was begun.
    pub(super) begun_ns: u64,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            filling: Mutex::new(Filling {
                page: None,
                last: None,
                refusal: None,
            }),
            accepted: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Filling> {
        // Nothing that runs under the lock leaves a half-made state when it panics.
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a record; the caller holds the lock.
    #[inline]
    pub(super) fn count(&self) {
        // Ordering: Relaxed, a figure for readers; written under the lock only, so no addition is
        // lost.
        let accepted = self.accepted.load(Ordering::Relaxed);
        self.accepted.store(accepted + 1, Ordering::Relaxed);
    }

    pub(super) fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        self.accepted.load(Ordering::Relaxed)
    }

    /// Begins to count anew; nothing is accepted meanwhile.
    pub(super) fn reset(&self) {
        // Ordering: Relaxed, a figure.
        self.accepted.store(0, Ordering::Relaxed);
    }
}

impl Page {
    pub(super) fn new(mut buffer: AlignedBuffer, batch: Arc<Batch>, begun_ns: u64) -> Self {
        buffer.pad_to(CHUNK_HEADER_BYTES);
        Self {
            buffer,
            count: 0,
            heads: HeadsSum::default(),
            batch,
            begun_ns,
        }
    }

    /// Whether a record of this many bytes finds room.
    #[inline]
    pub(super) fn has_room(&self, payload: usize, tag_bytes: usize) -> bool {
        record_bytes(payload, tag_bytes) <= self.buffer.room()
    }

    /// Appends a record that has room; returns its place.
    #[inline]
    pub(super) fn push(&mut self, payload: &[u8], tag_bytes: usize) -> (&Arc<Batch>, u32) {
        let room = record_bytes(payload.len(), tag_bytes);
        let head = self
            .buffer
            .append(room, |body| write_record(body, payload, tag_bytes));
        // With tags, whoever seals walks the records anyway and sums them then.
        if tag_bytes == 0 {
            self.heads.add(head, &[]);
        }
        let index = self.count;
        self.count += 1;
        (&self.batch, index)
    }

    pub(super) fn finish(self) -> Filled {
        Filled {
            buffer: self.buffer,
            count: self.count,
            heads: self.heads,
            batches: vec![Part {
                batch: self.batch,
                count: self.count,
                begun_ns: self.begun_ns,
            }],
        }
    }
}
