//! The growing end of a stream: seals chunks and says where they go.
//!
//! A synchronous write to space that is reserved but was never written costs about twice as much as one to written
//! space: the file system must record that its content counts from now on. So a small write to such space is followed
//! by zeros, and the next small writes find their space written.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, HeadsSum, SealUnit, SegmentHeader,
        StreamId, SyncKind, TAG_BYTES, Tag, chunk_bytes,
    },
    head::Head,
    seal::{MarkSealer, Ratchet, Secret, SegmentKeys, seal_chunk, seal_segment},
    storage::{AlignedBuffer, StorageFile},
};

use super::{
    files::{Finished, Prepared},
    recovery::Recovered,
    segment_file::SegmentFile,
};

/// A write of up to this many bytes is small, and zeros follow it.
const SMALL_WRITE_BYTES: u64 = 64 << 10;

/// The zeros after a small write, in bytes. Of a hundred writes of 4 KiB less than one carries them.
const AHEAD_BYTES: u64 = 512 << 10;

/// The fields that every header of a stream shares. Only the mode may change from one opening to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) stream: StreamId,
    pub(crate) algorithm: Algorithm,
    pub(crate) unit: SealUnit,
    pub(crate) sync: SyncKind,
}

/// The records of a chunk that is to be sealed, after the space of its header.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) buffer: AlignedBuffer,
    /// How many records it holds.
    pub(crate) count: u32,
    /// The sum over the records' heads.
    pub(crate) heads: HeadsSum,
}

impl Body {
    /// The bytes of its records.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len() - CHUNK_HEADER_BYTES
    }

    /// Moves the records of `other` behind its own, if they fit: small records of several shards make one contiguous
    /// chunk. Returns the emptied buffer.
    pub(crate) fn absorb(&mut self, other: Self) -> Result<AlignedBuffer, Self> {
        if other.bytes() > self.buffer.room() {
            return Err(other);
        }
        let body = &other.buffer.as_slice()[CHUNK_HEADER_BYTES..];
        self.buffer
            .append(body.len(), |bytes| bytes.copy_from_slice(body));
        self.heads = self.heads.join(other.heads, other.count);
        self.count += other.count;
        Ok(other.buffer)
    }
}

/// The segment to which chunks are added.
#[derive(Debug)]
struct Active {
    number: u64,
    file: SegmentFile,
    /// Where the next chunk goes.
    offset: u64,
    /// The size of the file, in bytes.
    bytes: u64,
    /// The offset up to which the file was written, as far as is known.
    written: u64,
}

/// The ratchets that a writer holds in place of the master key.
struct Secrets {
    /// Of the active segment, or of the last one.
    current: Ratchet,
    /// Of the segment with the last durable record. The stream is read again from there when a write has failed.
    kept: Ratchet,
    /// The last records of the segments from the kept one to the one before the current.
    ends: VecDeque<u64>,
}

impl Secrets {
    /// Goes on to the next segment, after one that ends with `last_record`.
    fn advance(&mut self, last_record: u64) {
        self.current.advance();
        self.ends.push_back(last_record);
    }

    /// Forgets the segments before the one with the record `durable`.
    fn forget(&mut self, durable: u64) {
        while self.ends.front().is_some_and(|end| *end < durable) {
            self.ends.pop_front();
            self.kept.advance();
        }
    }
}

/// The growing end of a stream.
pub(crate) struct LogEnd {
    identity: Identity,
    epoch: u64,
    secrets: Option<Secrets>,
    keys: Option<Arc<SegmentKeys>>,
    active: Option<Active>,
    next_segment: u64,
    next_chunk: u64,
    next_record: u64,
    previous: Tag,
}

impl LogEnd {
    /// Continues at the end that recovery found. `file` is the active segment's, open to be written, and its size in
    /// bytes.
    pub(crate) fn new(
        identity: Identity,
        secret: Option<Secret<'_>>,
        recovered: &Recovered,
        file: Option<(SegmentFile, u64)>,
    ) -> Self {
        let active = recovered.active.zip(file);
        let active = active.map(|((number, offset), (file, bytes))| Active {
            number,
            file,
            offset,
            bytes,
            written: offset,
        });
        // Of the last segment, whether it is added to or not: it is read again if a write fails.
        let number = (recovered.next_segment - 1).max(1);
        let ratchet = secret
            .filter(|_| identity.algorithm.is_sealed())
            .and_then(|secret| secret.at(identity.algorithm, identity.stream, number));
        Self {
            identity,
            epoch: recovered.epoch,
            keys: ratchet.as_ref().map(|ratchet| Arc::new(ratchet.keys())),
            secrets: ratchet.map(|ratchet| Secrets {
                kept: ratchet.clone(),
                current: ratchet,
                ends: VecDeque::new(),
            }),
            next_segment: recovered.next_segment,
            active,
            next_chunk: recovered.next_chunk,
            next_record: recovered.next_record,
            previous: recovered.previous,
        }
    }

    /// The number of the segment that is begun next.
    pub(crate) fn next_segment(&self) -> u64 {
        self.next_segment
    }

    /// The length of the active segment's file; 0 without one.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.bytes)
    }

    /// The sequence of the last record that was sealed; 0 for none.
    pub(crate) fn last_record(&self) -> u64 {
        self.next_record - 1
    }

    /// The last record that was sealed, and the tag of its chunk.
    pub(crate) fn head(&self) -> Option<Head> {
        let sequence = self.last_record();
        (sequence > 0).then(|| Head::new(sequence, self.previous, self.identity.algorithm))
    }

    /// Seals retention marks while this segment is the active one.
    pub(crate) fn mark_sealer(&self) -> MarkSealer {
        MarkSealer {
            algorithm: self.identity.algorithm,
            stream: self.identity.stream,
            segment: self.secrets.as_ref().map_or(1, |it| it.current.number()),
            keys: self.keys.clone(),
        }
    }

    /// The secret of the oldest segment that may have to be read again; `None` if the stream is not sealed.
    pub(crate) fn kept(&self) -> Option<Ratchet> {
        self.secrets.as_ref().map(|secrets| secrets.kept.clone())
    }

    /// The active segment's file and the end of its chunks.
    pub(crate) fn end(&self) -> Option<(Arc<dyn StorageFile>, u64)> {
        let active = self.active.as_ref()?;
        Some((active.file.file().clone(), active.offset))
    }

    /// Where the next chunk goes.
    pub(crate) fn position(&self) -> (SegmentFile, u64) {
        let active = self.active.as_ref().expect("a segment was begun");
        (active.file.clone(), active.offset)
    }

    /// Whether the next chunk, with this body, needs a new segment.
    pub(crate) fn must_roll(&self, body: &Body) -> bool {
        let bytes = chunk_bytes(body.bytes() as u32);
        let active = self.active.as_ref();
        active.is_none_or(|active| active.offset + bytes > active.bytes)
    }

    /// Begins the prepared segment. Returns its header, which goes to the disk with the first chunk, and the segment
    /// that is finished thereby.
    pub(crate) fn roll(
        &mut self,
        prepared: Prepared,
        time_ns: u64,
    ) -> (AlignedBuffer, Option<Finished>) {
        let (number, bytes) = (prepared.number, prepared.bytes);
        assert_eq!(number, self.next_segment, "segments are begun in order");
        let last_record = self.last_record();
        if let Some(secrets) = &mut self.secrets {
            if secrets.current.number() < number {
                secrets.advance(last_record);
            }
            assert_eq!(secrets.current.number(), number, "a key for each segment");
            self.keys = Some(Arc::new(secrets.current.keys()));
        }
        let mut header = SegmentHeader {
            algorithm: self.identity.algorithm,
            unit: self.identity.unit,
            is_recycled: prepared.is_recycled,
            stream: self.identity.stream,
            number,
            epoch: self.epoch,
            first_chunk: self.next_chunk,
            first_record: self.next_record,
            created_ns: time_ns,
            segment_bytes: bytes,
            previous: self.previous,
            key_check: [0; 32],
            tag: [0; TAG_BYTES],
            truncation: None,
        };
        seal_segment(self.keys.as_deref(), &mut header);
        let mut buffer = AlignedBuffer::zeroed(ALIGNMENT);
        buffer.as_mut_slice().copy_from_slice(&header.encode());
        let active = Active {
            number,
            file: prepared.file,
            offset: ALIGNMENT as u64,
            bytes,
            written: if prepared.is_recycled { bytes } else { 0 },
        };
        self.next_segment = number + 1;
        let finished = self.active.replace(active).map(|active| Finished {
            number: active.number,
            last_record,
            ended_ns: time_ns,
            bytes: active.bytes,
        });
        (buffer, finished)
    }

    /// Seals the next chunk, which fits into the active segment. `durable` is the last record that is known to be
    /// durable.
    pub(crate) fn seal(&mut self, body: &mut Body, durable: u64, time_ns: u64) {
        if let Some(secrets) = &mut self.secrets {
            secrets.forget(durable);
        }
        let mut header = ChunkHeader {
            algorithm: self.identity.algorithm,
            unit: self.identity.unit,
            sync: self.identity.sync,
            stream: self.identity.stream,
            epoch: self.epoch,
            sequence: self.next_chunk,
            first_record: self.next_record,
            count: body.count,
            body_bytes: u32::try_from(body.bytes()).expect("a chunk is below 1 GiB"),
            durable,
            time_ns,
            heads_sum: HeadsSum::default(),
            previous: self.previous,
            tag: [0; TAG_BYTES],
        };
        let (front, records) = body.buffer.as_mut_slice().split_at_mut(CHUNK_HEADER_BYTES);
        seal_chunk(self.keys.as_deref(), &mut header, records, body.heads);
        front.copy_from_slice(&header.encode());
        body.buffer.pad_to(header.chunk_bytes() as usize);
        self.previous = header.tag;
        self.next_chunk += 1;
        self.next_record += u64::from(body.count);
        let active = self.active.as_mut().expect("a segment was begun");
        active.offset += header.chunk_bytes();
    }

    /// How many bytes of zeros the last write, of `bytes` bytes, carries. Nothing may be in flight beside it.
    pub(crate) fn zeros_after(&mut self, bytes: u64) -> u64 {
        let active = self.active.as_mut().expect("a segment was begun");
        if active.offset <= active.written {
            return 0;
        }
        let is_ahead = bytes <= SMALL_WRITE_BYTES && active.file.file().is_direct();
        let zeros = if is_ahead {
            AHEAD_BYTES.min(active.bytes - active.offset)
        } else {
            0
        };
        active.written = active.offset + zeros;
        zeros
    }
}
