//! Sealing what has filled up, and giving it a place.
//!
//! A synchronous write to room that is reserved but was never written costs about twice one to room
//! that was: the file system must note that its content counts from now on. So a small write that
//! comes to such room carries zeros behind it, which take the place of those that reading gives
//! there anyway, and the small writes that follow find their room written.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, LazyLock},
};

use crate::{
    format::{
        ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, HeadsSum, SegmentHeader, TAG_BYTES, Tag,
        chunk_bytes,
    },
    seal::{MarkSealer, Ratchet, Secret, SegmentKeys, seal_chunk, seal_segment},
    storage::{AlignedBuffer, StorageFile},
    writer::{Batch, TicketError},
};

use super::{
    identity::Identity,
    recovery::Recovered,
    segment_file::SegmentFile,
    segments::{Finished, Prepared},
};

/// A write is small, and looks ahead, up to this size in bytes.
const SMALL_WRITE_BYTES: u64 = 64 << 10;

/// The zeros behind a small write, in bytes: of a hundred of 4 KiB less than one carries them.
const AHEAD_BYTES: u64 = 512 << 10;

/// Zeros to write, again and again.
static ZEROS: LazyLock<AlignedBuffer> = LazyLock::new(|| AlignedBuffer::zeroed(64 << 10));

/// A buffer of records, with room for a chunk's header in front of them.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) buffer: AlignedBuffer,
    /// How many records it holds.
    pub(crate) count: u32,
    /// The sum over the records' heads.
    pub(crate) heads: HeadsSum,
    /// Whose records these are, in order.
    pub(crate) batches: Vec<Part>,
}

/// A batch in a chunk, whole.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) batch: Arc<Batch>,
    /// How many records it has.
    pub(crate) count: u32,
    /// When its first record was appended, on the process's clock.
    pub(crate) begun_ns: u64,
}

impl Drop for Part {
    /// Nobody waits for ever for what was lost, as by a panic. What was settled stays so.
    fn drop(&mut self) {
        self.batch.settle(Err(TicketError::Unknown));
    }
}

impl Filled {
    /// The bytes of its records.
    pub(crate) fn body_bytes(&self) -> usize {
        self.buffer.len() - CHUNK_HEADER_BYTES
    }

    /// Whether the records of `other` find room behind its own.
    pub(crate) fn has_room_for(&self, other: &Self) -> bool {
        other.body_bytes() <= self.buffer.room()
    }

    /// Moves the records of `other` behind its own, so that small messages of several shards make
    /// one contiguous chunk; returns the emptied buffer.
    pub(crate) fn absorb(&mut self, other: Self) -> AlignedBuffer {
        let body = &other.buffer.as_slice()[CHUNK_HEADER_BYTES..];
        self.buffer
            .append(body.len(), |bytes| bytes.extend_from_slice(body));
        self.heads = self.heads.join(other.heads, other.count);
        self.count += other.count;
        self.batches.extend(other.batches);
        other.buffer
    }
}

/// Chunks that are to be written one behind the other.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) file: SegmentFile,
    /// Where the first of `chunks` goes; a segment's header, if there is one, goes to 0.
    pub(crate) offset: u64,
    pub(crate) segment_header: Option<AlignedBuffer>,
    pub(crate) chunks: Vec<Filled>,
    /// How many bytes of zeros follow the chunks. What comes next is written over them, so nothing
    /// else may be on its way together with this.
    pub(crate) zeros: u64,
    /// The sequence of the first record.
    pub(crate) first_record: u64,
    /// The sequence of the last record.
    pub(crate) last_record: u64,
}

impl Placed {
    /// The bytes that go to the disk.
    pub(crate) fn bytes(&self) -> u64 {
        let header = self.segment_header.as_ref().map_or(0, AlignedBuffer::len);
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.buffer.len()).sum();
        (header + chunks) as u64 + self.zeros
    }

    /// Writes it through `slot`, which nothing else uses meanwhile. Durable afterwards if the file is
    /// synchronous.
    pub(crate) fn write(&self, slot: usize) -> io::Result<()> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(self.chunks.len() + 1);
        let mut offset = self.offset;
        if let Some(header) = &self.segment_header {
            debug_assert_eq!(offset, ALIGNMENT as u64);
            parts.push(header.as_slice());
            offset = 0;
        }
        parts.extend(self.chunks.iter().map(|chunk| chunk.buffer.as_slice()));
        let mut zeros = self.zeros as usize;
        while zeros > 0 {
            let part = zeros.min(ZEROS.len());
            parts.push(&ZEROS.as_slice()[..part]);
            zeros -= part;
        }
        self.file.slot(slot).write_at(&parts, offset)
    }
}

/// The segment that grows.
#[derive(Debug)]
struct Active {
    number: u64,
    file: SegmentFile,
    /// Where the next chunk goes.
    offset: u64,
    /// The room there is, in bytes.
    bytes: u64,
    /// Up to where the file was ever written, as far as is known.
    written: u64,
}

/// The ratchets that a writer holds in place of the master key.
struct Secrets {
    /// Of the segment that grows, or after which the next is begun.
    current: Ratchet,
    /// Of the segment with the last durable record, from which the stream is read again when a write
    /// has failed.
    kept: Ratchet,
    /// The last records of the segments from the kept one to the one before the current.
    ends: VecDeque<u64>,
}

impl Secrets {
    fn new(ratchet: Ratchet) -> Self {
        Self {
            kept: ratchet.clone(),
            current: ratchet,
            ends: VecDeque::new(),
        }
    }

    /// Goes on to the next segment, behind one that ends with `last_record`.
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
pub(crate) struct Log {
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

impl Log {
    /// Goes on where recovery found the end. `file` is the active segment's, open to be written and
    /// with room for `bytes` bytes.
    pub(crate) fn new(
        identity: Identity,
        secret: Option<Secret<'_>>,
        recovered: &Recovered,
        file: Option<(SegmentFile, u64)>,
    ) -> Self {
        let active = recovered
            .active
            .zip(file)
            .map(|((number, offset), (file, bytes))| Active {
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
            secrets: ratchet.map(Secrets::new),
            next_segment: active
                .as_ref()
                .map_or(recovered.next_segment, |active| active.number + 1),
            active,
            next_chunk: recovered.next_chunk,
            next_record: recovered.next_record,
            previous: recovered.previous,
        }
    }

    /// The number of the segment that will be begun next.
    pub(crate) fn next_segment(&self) -> u64 {
        self.next_segment
    }

    /// The sequence of the last record that was placed; 0 for none.
    pub(crate) fn last_record(&self) -> u64 {
        self.next_record - 1
    }

    /// Seals what retention says while this segment is the active one.
    pub(crate) fn mark_sealer(&self) -> MarkSealer {
        MarkSealer {
            algorithm: self.identity.algorithm,
            stream: self.identity.stream,
            segment: self.secrets.as_ref().map_or(1, |it| it.current.number()),
            keys: self.keys.clone(),
        }
    }

    /// The tag of the last chunk that was placed.
    pub(crate) fn tag(&self) -> Tag {
        self.previous
    }

    /// The secret of the oldest segment that may have to be read again; `None` if it is not sealed.
    pub(crate) fn kept(&self) -> Option<Ratchet> {
        self.secrets.as_ref().map(|secrets| secrets.kept.clone())
    }

    /// The active segment's file and the end of what was placed in it.
    pub(crate) fn end(&self) -> Option<(Arc<dyn StorageFile>, u64)> {
        let active = self.active.as_ref()?;
        Some((active.file.file().clone(), active.offset))
    }

    /// Whether `filled` needs a new segment.
    pub(crate) fn must_roll(&self, filled: &Filled) -> bool {
        self.active.as_ref().is_none_or(|active| {
            active.offset + chunk_bytes(filled.body_bytes() as u32) > active.bytes
        })
    }

    /// Begins the prepared segment. Returns its header, which goes to the disk with the first
    /// chunk, and the segment that is finished thereby.
    pub(crate) fn roll(
        &mut self,
        prepared: Prepared,
        time_ns: u64,
    ) -> (AlignedBuffer, Option<Finished>) {
        assert_eq!(
            prepared.number, self.next_segment,
            "segments are begun in order"
        );
        if let Some(secrets) = &mut self.secrets {
            if secrets.current.number() < prepared.number {
                secrets.advance(self.next_record - 1);
            }
            let number = secrets.current.number();
            assert_eq!(number, prepared.number, "a key for each segment");
            self.keys = Some(Arc::new(secrets.current.keys()));
        }
        let mut header = SegmentHeader {
            algorithm: self.identity.algorithm,
            unit: self.identity.unit,
            is_recycled: prepared.is_recycled,
            stream: self.identity.stream,
            number: prepared.number,
            epoch: self.epoch,
            first_chunk: self.next_chunk,
            first_record: self.next_record,
            created_ns: time_ns,
            segment_bytes: prepared.bytes,
            previous: self.previous,
            key_check: [0; 32],
            tag: [0; TAG_BYTES],
        };
        seal_segment(self.keys.as_deref(), &mut header);
        let mut buffer = AlignedBuffer::zeroed(ALIGNMENT);
        buffer.as_mut_slice().copy_from_slice(&header.encode());
        let active = Active {
            number: prepared.number,
            file: prepared.file,
            offset: ALIGNMENT as u64,
            bytes: prepared.bytes,
            written: if prepared.is_recycled {
                prepared.bytes
            } else {
                0
            },
        };
        self.next_segment = prepared.number + 1;
        let finished = self.active.replace(active).map(|active| Finished {
            number: active.number,
            last_record: self.next_record - 1,
            ended_ns: time_ns,
            bytes: active.bytes,
        });
        (buffer, finished)
    }

    /// Seals as many of `waiting` as fit into the active segment, in order.
    ///
    /// `durable` is the last record that is known to be durable now.
    ///
    /// # Panics
    ///
    /// If not even the first fits.
    pub(crate) fn place(
        &mut self,
        waiting: &mut VecDeque<Filled>,
        durable: u64,
        time_ns: u64,
        segment_header: Option<AlignedBuffer>,
    ) -> Placed {
        if let Some(secrets) = &mut self.secrets {
            secrets.forget(durable);
        }
        let first_record = self.next_record;
        let active = self.active.as_ref().expect("a segment was begun");
        let (file, offset) = (active.file.clone(), active.offset);
        let mut chunks = Vec::with_capacity(waiting.len());
        while let Some(filled) = waiting.front() {
            if self.must_roll(filled) {
                break;
            }
            let mut filled = waiting.pop_front().expect("it is there");
            self.seal(&mut filled, durable, time_ns);
            let active = self.active.as_mut().expect("a segment was begun");
            active.offset += filled.buffer.len() as u64;
            chunks.push(filled);
        }
        assert!(!chunks.is_empty(), "room for one chunk was seen to");
        Placed {
            file,
            offset,
            segment_header,
            chunks,
            zeros: 0,
            first_record,
            last_record: self.next_record - 1,
        }
    }

    /// Lets `placed`, which nothing was placed behind and nothing is on its way beside, carry zeros
    /// if it is small and comes to room that was never written.
    pub(crate) fn look_ahead(&mut self, placed: &mut Placed) {
        let active = self.active.as_mut().expect("a segment was begun");
        if active.offset <= active.written {
            return;
        }
        if placed.bytes() <= SMALL_WRITE_BYTES && active.file.file().is_direct() {
            placed.zeros = AHEAD_BYTES.min(active.bytes - active.offset);
        }
        active.written = active.offset + placed.zeros;
    }

    fn seal(&mut self, filled: &mut Filled, durable: u64, time_ns: u64) {
        let body_bytes = filled.body_bytes();
        let mut header = ChunkHeader {
            algorithm: self.identity.algorithm,
            unit: self.identity.unit,
            sync: self.identity.sync,
            stream: self.identity.stream,
            epoch: self.epoch,
            sequence: self.next_chunk,
            first_record: self.next_record,
            count: filled.count,
            body_bytes: u32::try_from(body_bytes).expect("a chunk is below 1 GiB"),
            durable,
            time_ns,
            heads_sum: HeadsSum::default(),
            previous: self.previous,
            tag: [0; TAG_BYTES],
        };
        let (front, body) = filled
            .buffer
            .as_mut_slice()
            .split_at_mut(CHUNK_HEADER_BYTES);
        seal_chunk(self.keys.as_deref(), &mut header, body, filled.heads);
        front.copy_from_slice(&header.encode());
        filled.buffer.pad_to(header.chunk_bytes() as usize);
        self.previous = header.tag;
        self.next_chunk += 1;
        self.next_record += u64::from(filled.count);
    }
}
