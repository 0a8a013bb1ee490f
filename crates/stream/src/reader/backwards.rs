//! From a place to the beginning.

use std::ops::Range;

use crate::{format::Records, scan::Slot, seal::check_chunk};

use super::{
    cursor::Cursor,
    error::ReadError,
    record::Record,
    stream_reader::{OpenSegment, StreamReader},
};

/// The records before a place, the youngest first. Ends after an error.
#[derive(Debug)]
pub struct Backwards {
    reader: StreamReader,
    /// Records from this sequence on are passed over.
    before: u64,
    /// Records before this sequence are there, or were; a reader may want one that is yet to come.
    known: u64,
    segment: Option<OpenSegment>,
    /// The offsets of the segment's chunks that are still to be read.
    chunks: Vec<u64>,
    /// The places in the scan's body of the records that are still to be handed out.
    records: Vec<Range<usize>>,
    first_record: u64,
    time_ns: u64,
    is_done: bool,
}

impl Backwards {
    pub(super) fn new(reader: StreamReader) -> Self {
        Self {
            before: reader.next_sequence(),
            known: reader.cursor.record,
            reader,
            segment: None,
            chunks: Vec::new(),
            records: Vec::new(),
            first_record: 0,
            time_ns: 0,
            is_done: false,
        }
    }

    fn step(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let (Some(payload), Some(segment)) = (self.records.pop(), &self.segment) {
                return Ok(Some(Record {
                    sequence: self.first_record + self.records.len() as u64,
                    time_ns: self.time_ns,
                    payload: segment.scan.body()[payload].to_vec(),
                }));
            }
            if let Some(offset) = self.chunks.pop() {
                self.read_chunk(offset)?;
            } else if !self.enter_previous()? {
                return Ok(None);
            }
        }
    }

    /// Enters the segment before, and lists its chunks; whether there is one.
    fn enter_previous(&mut self) -> Result<bool, ReadError> {
        let next = match (&self.segment, &self.reader.segment) {
            (Some(segment), _) => {
                self.before = segment.header.first_record;
                self.known = self.before;
                segment.header.number - 1
            }
            (None, Some(segment)) => segment.header.number,
            (None, None) => return Ok(false),
        };
        let Some(Ok(header)) = self.reader.header_of(next)? else {
            // Retention has taken it, or there never was one.
            return match self.reader.numbers()?.first() {
                Some(oldest) if *oldest < next => Err(ReadError::Damaged {
                    segment: next,
                    offset: 0,
                    record: self.before - 1,
                    reason: "the segment's header does not hold".to_owned(),
                }),
                _ => Ok(false),
            };
        };
        let segment = self.reader.open_segment(header)?;
        let mut cursor = Cursor::at(&header, header.first_record);
        while cursor.record < self.before {
            let found = segment.scan.chunk_header(cursor.offset);
            let found = found.map_err(ReadError::io(format!("read segment {next}")))?;
            let Some(found) = found.filter(|found| cursor.is_followed_by(found, &header)) else {
                if cursor.record >= self.known {
                    break;
                }
                return Err(ReadError::Damaged {
                    segment: next,
                    offset: cursor.offset,
                    record: cursor.record,
                    reason: "no chunk that follows is there".to_owned(),
                });
            };
            self.chunks.push(cursor.offset);
            cursor.pass(&found);
        }
        self.segment = Some(segment);
        Ok(true)
    }

    fn read_chunk(&mut self, offset: u64) -> Result<(), ReadError> {
        let segment = self.segment.as_mut().expect("its chunks were listed");
        let number = segment.header.number;
        let damaged = |record, reason: String| ReadError::Damaged {
            segment: number,
            offset,
            record,
            reason,
        };
        let slot = segment.scan.read(offset);
        let slot = slot.map_err(ReadError::io(format!("read segment {number}")))?;
        let Slot::Chunk {
            header,
            is_padding_zero,
        } = slot
        else {
            return Err(damaged(0, "the chunk is no longer there".to_owned()));
        };
        if !is_padding_zero {
            let reason = "the bytes behind its records are not zero".to_owned();
            return Err(damaged(header.first_record, reason));
        }
        if let Err(fault) = check_chunk(segment.keys.as_ref(), &header, segment.scan.body()) {
            return Err(damaged(header.first_record, fault.to_string()));
        }
        let wanted = self.before.saturating_sub(header.first_record);
        self.records = Records::new(segment.scan.body(), header.record_tag_bytes())
            .take(usize::try_from(wanted).unwrap_or(usize::MAX))
            .map(|record| {
                let record = record.expect("the chunk was checked");
                let begin = record.payload_at();
                begin..begin + record.payload.len()
            })
            .collect();
        self.first_record = header.first_record;
        self.time_ns = header.time_ns;
        Ok(())
    }
}

impl Iterator for Backwards {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let record = self.step().transpose();
        self.is_done = !matches!(record, Some(Ok(_)));
        record
    }
}
