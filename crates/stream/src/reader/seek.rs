//! Finds the position where reading begins.

use crate::{
    format::{ALIGNMENT, ChunkHeader, SegmentHeader},
    index::{IndexEntry, read_index},
    scan::{Expected, Next},
};

use super::{
    error::ReadError,
    options::ReadFrom,
    stream_reader::{Cursor, OpenSegment, StreamReader},
};

impl StreamReader {
    pub(super) fn go_to(&mut self, from: ReadFrom) -> Result<(), ReadError> {
        self.segment = None;
        self.cursor.wanted = 1;
        if !self.open_oldest()? {
            if let ReadFrom::Sequence(sequence) = from {
                self.cursor.wanted = sequence.max(1);
            }
            return Ok(());
        }
        let oldest = self.cursor.next.record;
        let lost = self.lost_before.take();
        match from {
            ReadFrom::Start => self.lost_before = lost,
            ReadFrom::Sequence(wanted) if wanted < oldest => {
                // It is not removed if it is in a segment that cannot be read.
                let error = lost.and_then(|lost| lost.error);
                return Err(error.unwrap_or(ReadError::Gone { wanted, oldest }));
            }
            ReadFrom::Sequence(wanted) => {
                self.enter_last(|header| header.first_record <= wanted)?;
                self.hop(
                    |header| header.last_record() >= wanted,
                    |entry| entry.first_record <= wanted,
                )?;
                self.cursor.wanted = wanted;
            }
            ReadFrom::Time(time_ns) => {
                let is_before = |segment: &OpenSegment| segment.header.created_ns > time_ns;
                // The lost segment may have records of this time.
                self.lost_before = lost.filter(|_| self.segment.as_ref().is_some_and(is_before));
                self.enter_last(|header| header.created_ns <= time_ns)?;
                self.hop(
                    |header| header.time_ns >= time_ns,
                    |entry| entry.time_ns < time_ns,
                )?;
                self.cursor.wanted = self.cursor.next.record;
            }
            ReadFrom::Tail => {
                self.enter_last(|_| true)?;
                self.hop(|_| false, |_| true)?;
                self.cursor.wanted = self.cursor.next.record;
            }
            ReadFrom::Last(records) => {
                self.go_to(ReadFrom::Tail)?;
                let wanted = self.cursor.next.record.saturating_sub(records).max(oldest);
                self.go_to(ReadFrom::Sequence(wanted))?;
            }
        }
        Ok(())
    }

    /// Enters the last segment for which `is_before` holds, or the oldest if it holds for none. It holds for no segment
    /// after one for which it does not.
    fn enter_last(&mut self, is_before: impl Fn(&SegmentHeader) -> bool) -> Result<(), ReadError> {
        let numbers = self.numbers()?;
        let (mut low, mut high) = (0, numbers.len());
        let mut found = None;
        while low < high {
            let middle = (low + high) / 2;
            // Prepared, foreign, damaged or unreadable: reading gets there from the last segment before it.
            match self.header_of(numbers[middle]) {
                Ok(Some(Ok(header))) if !self.is_foreign(&header) && is_before(&header) => {
                    found = Some(header);
                    low = middle + 1;
                }
                _ => high = middle,
            }
        }
        if let Some(header) = found {
            let segment = self.open_segment(header)?;
            self.enter(segment);
        }
        Ok(())
    }

    /// Goes from header to header to the first chunk of the segment for which `is_it` holds, or to its end. `is_before`
    /// says which entries of the index are before it.
    fn hop(
        &mut self,
        is_it: impl Fn(&ChunkHeader) -> bool,
        is_before: impl Fn(&IndexEntry) -> bool,
    ) -> Result<(), ReadError> {
        let Some(segment) = &self.segment else {
            return Ok(());
        };
        let (number, stream) = (segment.header.number, segment.header.stream);
        // Reading reports what cannot be read.
        let header_at = |offset| segment.scan.chunk_header(offset).unwrap_or_default();
        let entries = read_index(self.storage.as_ref(), stream, number);
        let entry = entries.partition_point(is_before).checked_sub(1);
        if let Some(entry) = entry.map(|entry| &entries[entry])
            && entry.offset >= ALIGNMENT as u64
            && entry.offset.is_multiple_of(ALIGNMENT as u64)
            && let Some(header) = header_at(entry.offset)
            && entry.agrees(stream, &header)
            && header.sequence >= self.cursor.next.chunk
        {
            self.cursor = Cursor {
                offset: entry.offset,
                next: Expected::exactly(&header),
                ..self.cursor
            };
        }
        let mut last = None;
        while let Some(header) = header_at(self.cursor.offset) {
            let follows = header.stream == stream
                && header.sequence == self.cursor.next.chunk
                && header.first_record == self.cursor.next.record
                && header.epoch >= self.cursor.next.epoch;
            if follows && is_it(&header) {
                return Ok(());
            }
            if !follows {
                break;
            }
            last = Some(self.cursor);
            self.cursor.pass(&header);
        }
        // A header may be there before its chunk is: the end is after the last chunk that is whole.
        if let Some(last) = last {
            let next = std::mem::replace(&mut self.cursor, last);
            if matches!(self.look(), Ok(Next::Chunk(_))) {
                self.cursor = next;
            }
        }
        Ok(())
    }
}
