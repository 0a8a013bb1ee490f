//! Where reading comes to nothing: the end, or a gap with more behind it.

use crate::{
    format::{ALIGNMENT, ChunkHeader},
    scan::{self, Slot},
    seal::check_chunk,
    storage::Access,
};

use super::{
    cursor::{Cursor, is_alike},
    error::ReadError,
    stream_reader::StreamReader,
};

/// Whether a chunk says that a record had been durable when it was sealed.
fn is_proof(header: &ChunkHeader, record: u64) -> bool {
    header.durable >= record
}

impl StreamReader {
    /// What stands at the end, if it begins like a chunk that has to come next and is none that is whole.
    /// While a writer is at work that is what it is writing; else a crash has torn it, or somebody has
    /// cut it.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn torn_end(&mut self) -> Result<Option<ReadError>, ReadError> {
        let Some(segment) = &mut self.segment else {
            return Ok(None);
        };
        let read = ReadError::io(format!("read segment {}", segment.header.number));
        let cursor = self.cursor;
        let slot = segment.scan.refresh();
        let slot = slot.and_then(|()| segment.scan.read(cursor.offset));
        let header = match slot.map_err(read)? {
            Slot::End | Slot::Zeros => return Ok(None),
            // What an older stream has left in a file that is used again.
            Slot::NoHeader { .. } if segment.header.is_recycled => return Ok(None),
            Slot::NoHeader { .. } => None,
            Slot::Cut(header) | Slot::Chunk { header, .. } => Some(header),
        };
        if header.is_some_and(|header| !cursor.is_followed_by(&header, &segment.header)) {
            return Ok(None);
        }
        // A whole one has come meanwhile if nothing is wrong.
        let reason = self.read_chunk()?.flatten();
        self.chunk = None;
        self.cursor = cursor;
        Ok(reason.map(|reason| self.damaged(Some(reason))))
    }

    /// Whether the next segment is missing, or its header is lost, and a later one says that what is
    /// missing here had been durable. A header on its way to the disk may be seen half written.
    pub(super) fn is_cut_off(&self, numbers: &[u64]) -> Result<bool, ReadError> {
        let number = self.number();
        let later = &numbers[numbers.partition_point(|later| *later <= number)..];
        let behind_next = &numbers[numbers.partition_point(|later| *later <= number + 1)..];
        // Files come in order: a later one that was begun is proof enough.
        let mut is_proved = match self.header_of(number + 1)? {
            None => return self.is_begun(later),
            Some(Err(_)) => self.is_begun(behind_next)?,
            Some(Ok(_)) => return Ok(false),
        };
        if !is_proved && self.is_blank(number + 1)? {
            return Ok(false);
        }
        for &later in later {
            is_proved = is_proved || self.find_in(later, ALIGNMENT as u64, is_proof)?.is_some();
        }
        // It may have been written since it was looked at.
        Ok(is_proved && !matches!(self.header_of(number + 1)?, Some(Ok(_))))
    }

    fn is_last(&self, number: u64) -> Result<bool, ReadError> {
        Ok(self.numbers()?.last() == Some(&number))
    }

    /// Whether one of these segments was begun behind this place.
    fn is_begun(&self, later: &[u64]) -> Result<bool, ReadError> {
        for &number in later {
            if let Some(Ok(header)) = self.header_of(number)?
                && header.first_chunk >= self.cursor.chunk
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a chunk behind this place says that what is missing here had been durable.
    pub(super) fn is_proved_durable(&self) -> Result<bool, ReadError> {
        if self
            .find_in(self.number(), self.cursor.offset, is_proof)?
            .is_some()
        {
            return Ok(true);
        }
        // A next file that looks as if it were only made ready may have lost its header.
        let next = self.number() + 1;
        let has_lost_it = || Ok(matches!(self.header_of(next)?, Some(Err(_))));
        // It may be written while it is looked at.
        Ok(has_lost_it()?
            && self.find_in(next, ALIGNMENT as u64, is_proof)?.is_some()
            && has_lost_it()?)
    }

    /// The first whole chunk of a segment, from `offset` on, that is younger than this place and of
    /// which `wanted` holds.
    fn find_in(
        &self,
        number: u64,
        mut offset: u64,
        wanted: impl Fn(&ChunkHeader, u64) -> bool,
    ) -> Result<Option<(ChunkHeader, u64)>, ReadError> {
        let segment = self.segment.as_ref().expect("a segment is open");
        // Elsewhere the checksums will do: nothing is handed out of what is found there.
        let is_here = number == segment.header.number;
        let keys = segment.keys.as_ref().filter(|_| is_here);
        let mut find = || {
            let scan = scan::open_segment(self.storage.as_ref(), number, Access::Read)?;
            let mut scan = scan.windowed();
            let is_wanted = |header: &ChunkHeader| {
                is_alike(header, &segment.header)
                    && header.sequence >= self.cursor.chunk
                    && header.epoch >= self.cursor.epoch
                    && wanted(header, self.cursor.record)
            };
            while offset < scan.bytes() {
                match scan.search(offset, is_wanted)? {
                    Ok(Slot::End) => break,
                    Ok(Slot::Chunk {
                        header,
                        is_padding_zero: true,
                    }) if check_chunk(keys, &header, scan.body()).is_ok() => {
                        return Ok(Some((*header, offset)));
                    }
                    Ok(Slot::Zeros) => offset = scan.behind_zeros(offset)?,
                    _ => offset += ALIGNMENT as u64,
                }
            }
            Ok(None)
        };
        find().map_err(ReadError::io(format!("search segment {number}")))
    }

    /// Goes on behind damage, with the next whole chunk; returns the sequence of its first record. At
    /// the end of what there is, nothing is skipped.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn skip_damage(&mut self) -> Result<u64, ReadError> {
        self.chunk = None;
        let was_lost = self.lost_before.take().is_some();
        if was_lost || self.segment.is_none() {
            self.has_given_up |= self.segment.is_none();
            return Ok(self.next_sequence());
        }
        let found = self.find_in(self.number(), self.cursor.offset, |_, _| true)?;
        if let Some((header, offset)) = found {
            self.cursor = Cursor {
                offset,
                chunk: header.sequence,
                record: header.first_record,
                previous: None,
                epoch: header.epoch,
                wanted: self.cursor.wanted.max(header.first_record),
            };
            return Ok(header.first_record);
        }
        let number = self.number();
        for later in self.numbers()?.into_iter().filter(|later| *later > number) {
            let opened = match self.header_of(later)? {
                Some(Ok(next)) => Some(self.open_segment(next)),
                // It is made ready, or was just begun and is seen half written.
                Some(Err(_))
                    if self.is_last(later)? && (self.is_waiting || self.is_blank(later)?) =>
                {
                    continue;
                }
                Some(Err(_)) => None,
                None => continue,
            };
            match opened {
                Some(Ok(next)) => {
                    self.enter(next);
                    self.cursor.previous = None;
                    break;
                }
                // It is not of this stream, or its header is damaged.
                None | Some(Err(ReadError::Damaged { .. })) => {
                    self.passed_over.insert(later);
                }
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(self.next_sequence())
    }

    pub(super) fn damaged(&self, reason: Option<String>) -> ReadError {
        ReadError::Damaged {
            segment: self.number(),
            offset: self.cursor.offset,
            record: self.cursor.record,
            reason: reason.unwrap_or_else(|| "nothing is there".to_owned()),
        }
    }

    /// Retention has taken the segment that was being read. What is to be read next is no longer
    /// there, and the reader goes to the oldest record.
    pub(super) fn gone(&mut self, numbers: &[u64]) -> Result<ReadError, ReadError> {
        let wanted = self.next_sequence();
        self.segment = None;
        for number in numbers {
            if let Some(Ok(header)) = self.header_of(*number)? {
                let oldest = header.first_record;
                let segment = self.open_segment(header)?;
                self.enter(segment);
                return Ok(ReadError::Gone { wanted, oldest });
            }
        }
        Ok(ReadError::Gone { wanted, oldest: 0 })
    }
}
