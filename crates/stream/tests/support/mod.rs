//! Streams made chunk by chunk, without the writer: so that readers and verifiers are tested against
//! the format itself.

#![allow(dead_code)]

pub(crate) mod decode;
#[cfg(feature = "archive")]
pub(crate) mod fault_proxy;
pub(crate) mod fixtures;
pub(crate) mod gate;
pub(crate) mod memory;
pub(crate) mod mutation;
pub(crate) mod samples;

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use freeboard_stream::{
    format::{
        ALIGNMENT, Algorithm, ChunkHeader, HeadsSum, SealUnit, SegmentHeader, StreamId, SyncKind,
        TAG_BYTES, Tag, Truncation, write_record,
    },
    seal::{MasterKey, Ratchet, seal_chunk, seal_segment},
};
use memory::Memory;

/// The key of all streams made here.
pub(crate) const KEY: &[u8] = b"a key for tests, and only for tests";

pub(crate) fn key() -> MasterKey {
    MasterKey::new(KEY).expect("it is long enough")
}

/// All ways of sealing.
pub(crate) fn each_seal(mut run: impl FnMut(Algorithm, SealUnit)) {
    for algorithm in Algorithm::ALL {
        for unit in [SealUnit::Record, SealUnit::Batch] {
            run(algorithm, unit);
        }
    }
}

/// Waits until something is so; panics after a time that no load of the machine explains.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// Makes a stream's segments as bytes.
pub(crate) struct StreamMaker {
    pub(crate) algorithm: Algorithm,
    pub(crate) unit: SealUnit,
    pub(crate) sync: SyncKind,
    pub(crate) stream: StreamId,
    pub(crate) epoch: u64,
    pub(crate) time_ns: u64,
    pub(crate) is_recycled: bool,
    /// Of the segment that is begun next.
    pub(crate) truncation: Option<Truncation>,
    ratchet: Option<Ratchet>,
    previous: Tag,
    next_chunk: u64,
    next_record: u64,
    segments: Vec<Vec<u8>>,
}

impl StreamMaker {
    pub(crate) fn new(algorithm: Algorithm, unit: SealUnit) -> Self {
        Self::of(StreamId(*b"a stream of test"), algorithm, unit)
    }

    /// Makes a stream with this id.
    pub(crate) fn of(stream: StreamId, algorithm: Algorithm, unit: SealUnit) -> Self {
        let ratchet = || Ratchet::at(&key(), algorithm, stream, 1);
        Self {
            algorithm,
            unit,
            sync: SyncKind::Batch,
            stream,
            epoch: 1,
            time_ns: 1_700_000_000_000_000_000,
            is_recycled: false,
            truncation: None,
            ratchet: algorithm.is_sealed().then(ratchet),
            previous: [0; TAG_BYTES],
            next_chunk: 1,
            next_record: 1,
            segments: Vec::new(),
        }
    }

    /// Seals with another key; to be called first.
    pub(crate) fn key(&mut self, key: &[u8]) {
        let key = MasterKey::new(key).unwrap();
        let at = |_| Ratchet::at(&key, self.algorithm, self.stream, 1);
        self.ratchet = self.ratchet.take().map(at);
    }

    /// Appends three segments with three chunks of four records of 100 bytes each: 1 to 36. Each chunk takes 4 KiB.
    pub(crate) fn thirty_six(&mut self) -> &mut Self {
        for _ in 0..3 {
            self.segment();
            for chunk in 0..3_u8 {
                self.chunk((0..4_u8).map(|record| vec![chunk * 4 + record; 100]));
            }
        }
        self
    }

    /// Begins the next segment.
    pub(crate) fn segment(&mut self) -> &mut Self {
        let number = self.segments.len() as u64 + 1;
        if let Some(ratchet) = &mut self.ratchet
            && number > 1
        {
            ratchet.advance();
        }
        let mut header = SegmentHeader {
            algorithm: self.algorithm,
            unit: self.unit,
            is_recycled: self.is_recycled,
            stream: self.stream,
            number,
            epoch: self.epoch,
            first_chunk: self.next_chunk,
            first_record: self.next_record,
            created_ns: self.time_ns,
            segment_bytes: 1 << 20,
            previous: self.previous,
            key_check: [0; 32],
            tag: [0; TAG_BYTES],
            truncation: self.truncation.take(),
        };
        let keys = self.ratchet.as_ref().map(Ratchet::keys);
        seal_segment(keys.as_ref(), &mut header);
        self.segments.push(header.encode().to_vec());
        self
    }

    /// Appends a chunk with these records to the current segment.
    pub(crate) fn chunk<R: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = R>,
    ) -> &mut Self {
        if self.segments.is_empty() {
            self.segment();
        }
        let tag_bytes = self.unit.record_tag_bytes(self.algorithm);
        let (mut body, mut heads, mut count) = (Vec::new(), HeadsSum::default(), 0);
        for record in records {
            let head = write_record(&mut body, record.as_ref(), tag_bytes);
            heads.add(head, &[]);
            count += 1;
        }
        self.time_ns += 1_000_000;
        let mut header = ChunkHeader {
            algorithm: self.algorithm,
            unit: self.unit,
            sync: self.sync,
            stream: self.stream,
            epoch: self.epoch,
            sequence: self.next_chunk,
            first_record: self.next_record,
            count,
            body_bytes: body.len() as u32,
            durable: self.next_record - 1,
            time_ns: self.time_ns,
            heads_sum: HeadsSum::default(),
            previous: self.previous,
            tag: [0; TAG_BYTES],
        };
        let keys = self.ratchet.as_ref().map(Ratchet::keys);
        seal_chunk(keys.as_ref(), &mut header, &mut body, heads);
        self.previous = header.tag;
        self.next_chunk += 1;
        self.next_record += u64::from(count);
        let segment = self.segments.last_mut().unwrap();
        segment.extend_from_slice(&header.encode());
        segment.extend_from_slice(&body);
        segment.resize(segment.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// The tag of the last chunk.
    pub(crate) fn tag(&self) -> Tag {
        self.previous
    }

    /// The sequence of the last record.
    pub(crate) fn last_record(&self) -> u64 {
        self.next_record - 1
    }

    /// The bytes of each segment.
    pub(crate) fn segments(&self) -> &[Vec<u8>] {
        &self.segments
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory::of(&self.segments)
    }

    /// Writes the segments into a directory.
    pub(crate) fn write(&self, directory: &Path) {
        self.memory().write(directory);
    }
}
