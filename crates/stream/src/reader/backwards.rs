//! Reads to the beginning.

use std::ops::Range;

use crate::{
    format::{ALIGNMENT, Records},
    scan::{Expected, Next},
};

use super::{
    error::ReadError,
    record::Record,
    stream_reader::{OpenSegment, StreamReader},
};

/// The records before a position, the youngest first. Ends after an error.
#[derive(Debug)]
pub struct Backwards {
    reader: StreamReader,
    /// Records from this sequence on are passed over.
    before: u64,
    /// Records before this sequence exist, or did; a reader may want one that is yet to come.
    known: u64,
    segment: Option<OpenSegment>,
    /// The segment's chunks that must still be read, and their offsets.
    chunks: Vec<(u64, Expected)>,
    /// The ranges in the scan's body of the records that must still be handed out.
    records: Vec<Range<usize>>,
    first_record: u64,
    time_ns: u64,
    is_done: bool,
}

impl StreamReader {
    /// All records before this position, the youngest first.
    #[must_use]
    pub fn backwards(self) -> Backwards {
        Backwards::new(self)
    }
}

impl Backwards {
    fn new(reader: StreamReader) -> Self {
        Self {
            before: reader.next_sequence(),
            known: reader.cursor.next.record,
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
            if let Some((offset, expected)) = self.chunks.pop() {
                self.read_chunk(offset, &expected)?;
            } else if !self.enter_previous()? {
                return Ok(None);
            }
        }
    }

    /// Enters the segment before, and lists its chunks. Returns whether there is one.
    fn enter_previous(&mut self) -> Result<bool, ReadError> {
        let number = match (&self.segment, &self.reader.segment) {
            (Some(segment), _) => {
                self.before = segment.header.first_record;
                self.known = self.before;
                segment.header.number - 1
            }
            (None, Some(segment)) => segment.header.number,
            (None, None) => return Ok(false),
        };
        let Some(Ok(header)) = self.reader.header_of(number)? else {
            // Retention has removed it, or there never was one.
            return match self.reader.numbers()?.first() {
                Some(oldest) if *oldest < number => {
                    let reason = "the segment's header does not hold";
                    Err(ReadError::damaged(number, 0, self.before - 1, reason))
                }
                _ => Ok(false),
            };
        };
        let segment = self.reader.open_segment(header)?;
        let (mut offset, mut next) = (ALIGNMENT as u64, Expected::first_of(&header));
        while next.record < self.before {
            let chunk = segment.scan.chunk_header(offset);
            let chunk = chunk.map_err(ReadError::segment_io("read", number))?;
            let Some(chunk) = chunk.filter(|chunk| next.check(chunk, &header).is_ok()) else {
                if next.record >= self.known {
                    break;
                }
                let reason = "the chunk that must follow is missing";
                return Err(ReadError::damaged(number, offset, next.record, reason));
            };
            self.chunks.push((offset, next));
            next = Expected::after(&chunk);
            offset += chunk.chunk_bytes();
        }
        self.segment = Some(segment);
        Ok(true)
    }

    fn read_chunk(&mut self, offset: u64, expected: &Expected) -> Result<(), ReadError> {
        let segment = self.segment.as_mut().expect("its chunks were listed");
        let number = segment.header.number;
        let damaged =
            |reason: String| Err(ReadError::damaged(number, offset, expected.record, reason));
        let next = segment.next(offset, expected);
        let header = match next.map_err(ReadError::segment_io("read", number))? {
            Next::Chunk(header) => header,
            Next::Nothing => return damaged("the chunk is no longer there".to_owned()),
            Next::Broken(broken) => return damaged(broken.reason),
        };
        let wanted = self.before.saturating_sub(header.first_record);
        self.records = Records::new(segment.scan.body(), header.record_tag_bytes())
            .take(usize::try_from(wanted).unwrap_or(usize::MAX))
            .map(|record| record.expect("the chunk was checked").payload_range())
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
