//! The pages that producers fill, each under a lock of its own.

use std::sync::{
    Arc, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use freeboard_platform::sync::{Mutex, MutexGuard};

use crate::{
    format::{CHUNK_HEADER_BYTES, HeadsSum, fill_record, record_bytes},
    log::Body,
    storage::AlignedBuffer,
};

use super::{
    batch::{Batch, Part},
    error::AppendError,
};

/// A producer's page, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    filling: Mutex<Filling>,
    /// The records accepted since the stream was opened or reopened.
    accepted: AtomicU64,
}

/// The data under a shard's lock.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pub(super) page: Option<Page>,
    /// The last batch that a record was appended to.
    pub(super) last: Option<Arc<Batch>>,
    /// Why nothing is accepted at present.
    pub(super) refusal: Option<AppendError>,
}

/// A page that is being filled. It has the layout of the chunk on disk.
#[derive(Debug)]
pub(super) struct Page {
    body: Body,
    batch: Arc<Batch>,
    /// When it was begun.
    pub(super) begun_ns: u64,
}

/// A page to which nothing will be added, or several in one.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) body: Body,
    /// The batches of its records, in order.
    pub(super) parts: Vec<Part>,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            filling: Mutex::default(),
            accepted: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Filling> {
        // No code under the lock leaves a half-made state when it panics.
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts records; the caller holds the lock.
    #[inline]
    pub(super) fn count(&self, records: u64) {
        // Ordering: Relaxed, a figure for readers; written under the lock only, so no addition is lost.
        let accepted = self.accepted.load(Ordering::Relaxed);
        self.accepted.store(accepted + records, Ordering::Relaxed);
    }

    pub(super) fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        self.accepted.load(Ordering::Relaxed)
    }

    /// Starts counting anew; nothing is accepted meanwhile.
    pub(super) fn reset(&self) {
        // Ordering: Relaxed, a figure.
        self.accepted.store(0, Ordering::Relaxed);
    }
}

impl Page {
    pub(super) fn new(mut buffer: AlignedBuffer, batch: Arc<Batch>, begun_ns: u64) -> Self {
        buffer.pad_to(CHUNK_HEADER_BYTES);
        let body = Body {
            buffer,
            count: 0,
            heads: HeadsSum::default(),
        };
        Self {
            body,
            batch,
            begun_ns,
        }
    }

    /// Whether records that take this many bytes, heads and tags included, fit.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.body.buffer.room()
    }

    /// Appends a record that fits; returns its batch and its index there.
    #[inline]
    pub(super) fn push(&mut self, payload: &[u8], tag_bytes: usize) -> (&Arc<Batch>, u32) {
        let room = record_bytes(payload.len(), tag_bytes);
        let body = &mut self.body;
        let head = body
            .buffer
            .append(room, |bytes| fill_record(bytes, payload));
        // With tags, sealing walks the records and sums them then.
        if tag_bytes == 0 {
            body.heads.add(head, &[]);
        }
        let index = body.count;
        body.count += 1;
        (&self.batch, index)
    }

    pub(super) fn finish(self) -> Filled {
        let part = Part {
            batch: self.batch,
            count: self.body.count,
            begun_ns: self.begun_ns,
        };
        Filled {
            body: self.body,
            parts: vec![part],
        }
    }
}
