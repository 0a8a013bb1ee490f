//! Where no chunk follows: at the end, or at a gap.

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader},
    scan::{self, Expected, Found, Next},
    seal::check_chunk,
    storage::Access,
};

use super::{
    error::ReadError,
    stream_reader::{Cursor, StreamReader},
};

/// Whether a chunk says that a record had been durable when it was sealed.
fn is_proof(header: &ChunkHeader, record: u64) -> bool {
    header.durable >= record
}

impl StreamReader {
    /// The fault of the bytes at the end, if they begin like the chunk that must come next and it is not whole. While a
    /// writer works it is writing that chunk. Otherwise a crash has torn it, or it was cut.
    pub fn torn_end(&mut self) -> Result<Option<ReadError>, ReadError> {
        let Some(segment) = &self.segment else {
            return Ok(None);
        };
        if self.passed_over.contains(&self.number()) {
            return Ok(None);
        }
        let is_recycled = segment.header.is_recycled;
        let Next::Broken(broken) = self.look()? else {
            return Ok(None);
        };
        Ok(match broken.found {
            Found::Other(_) => None,
            // Stale bytes of the file's former life.
            Found::Bytes(_) if is_recycled => None,
            Found::Bytes(_) | Found::Chunk => Some(self.damaged(Some(broken.reason))),
        })
    }

    /// Whether the next segment is missing, or its header is lost, and a later one says that the missing record had been
    /// durable. A header that is being written may be seen half written.
    pub(super) fn is_cut_off(&self, numbers: &[u64]) -> Result<bool, ReadError> {
        let number = self.number();
        let later = &numbers[numbers.partition_point(|later| *later <= number)..];
        let behind_next = &numbers[numbers.partition_point(|later| *later <= number + 1)..];
        // Segments are begun in order: a later one that was begun is proof enough.
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
        // It may have been written meanwhile.
        Ok(is_proved && !matches!(self.header_of(number + 1)?, Some(Ok(_))))
    }

    fn is_last(&self, number: u64) -> Result<bool, ReadError> {
        Ok(self.numbers()?.last() == Some(&number))
    }

    /// Whether one of these segments was begun after this position.
    fn is_begun(&self, later: &[u64]) -> Result<bool, ReadError> {
        for &number in later {
            if let Some(Ok(header)) = self.header_of(number)?
                && header.first_chunk >= self.cursor.next.chunk
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a later chunk says that the missing record had been durable.
    pub(super) fn is_proved_durable(&self) -> Result<bool, ReadError> {
        if self
            .find_in(self.number(), self.cursor.offset, is_proof)?
            .is_some()
        {
            return Ok(true);
        }
        // A next file that looks like a prepared one may have lost its header.
        let next = self.number() + 1;
        let has_lost_it = || Ok(matches!(self.header_of(next)?, Some(Err(_))));
        // It may be written meanwhile.
        Ok(has_lost_it()?
            && self.find_in(next, ALIGNMENT as u64, is_proof)?.is_some()
            && has_lost_it()?)
    }

    /// The first whole chunk of a segment, from `offset` on, that comes after this position and of which `wanted` holds.
    /// None if the segment was removed meanwhile.
    fn find_in(
        &self,
        number: u64,
        offset: u64,
        wanted: impl Fn(&ChunkHeader, u64) -> bool,
    ) -> Result<Option<(ChunkHeader, u64)>, ReadError> {
        if self.passed_over.contains(&number) {
            return Ok(None);
        }
        let segment = self.segment.as_ref().expect("a segment is open");
        let next = &self.cursor.next;
        // In another segment the checksums are enough: no record of it is handed out.
        let is_here = number == segment.header.number;
        let keys = segment.keys.as_ref().filter(|_| is_here);
        let is_wanted = |chunk: &ChunkHeader| {
            let expected = Expected::exactly(chunk);
            expected.check(chunk, &segment.header).is_ok()
                && !next.is_after(chunk)
                && wanted(chunk, next.record)
        };
        let found =
            scan::open_segment(self.storage.as_ref(), number, Access::Read).and_then(|scan| {
                scan.windowed().find(offset, is_wanted, |chunk, body| {
                    check_chunk(keys, chunk, body).is_ok()
                })
            });
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map_err(ReadError::segment_io("search", number)),
        }
    }

    /// Continues after damage, with the next whole chunk; returns the sequence of its first record. At the end of the
    /// stream nothing is skipped. If the last call failed with [`ReadError::Io`] or [`ReadError::Format`], and the segment
    /// that this error names still cannot be read, the reader passes over this segment for good.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] or [`ReadError::Format`] if the directory or another segment cannot be read, and
    /// [`ReadError::NotSealed`]. The reader stays where it is. The error may be temporary: then reading on and skipping
    /// again succeeds. A second call without reading passes over the segment that the first call's error names.
    pub fn skip_damage(&mut self) -> Result<u64, ReadError> {
        let unreadable = self.unreadable;
        let skipped = self.skip(unreadable);
        self.note(skipped)
    }

    /// Passes over `unreadable` if it still cannot be read.
    fn skip(&mut self, unreadable: Option<u64>) -> Result<u64, ReadError> {
        self.chunk = None;
        let was_lost = self.lost_before.take().is_some();
        if was_lost || self.segment.is_none() {
            self.has_given_up |= self.segment.is_none();
            return Ok(self.next_sequence());
        }
        let number = self.number();
        match self.find_in(number, self.cursor.offset, |_, _| true) {
            Ok(Some((header, offset))) => {
                self.cursor = Cursor {
                    offset,
                    next: Expected::exactly(&header),
                    wanted: self.cursor.wanted.max(header.first_record),
                };
                return Ok(header.first_record);
            }
            Ok(None) => {}
            Err(_) if unreadable == Some(number) => drop(self.passed_over.insert(number)),
            Err(error) => return Err(error),
        }
        for later in self.numbers()?.into_iter().filter(|later| *later > number) {
            let opened = match self.header_of(later) {
                Ok(Some(Ok(next))) => self.open_segment(next).map(Some),
                // It is prepared, or was just begun and is seen half written.
                Ok(Some(Err(_)))
                    if self.is_last(later)? && (self.is_waiting || self.is_blank(later)?) =>
                {
                    continue;
                }
                Ok(Some(Err(_))) => Ok(None),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match opened {
                Ok(Some(next)) => {
                    self.enter(next);
                    self.cursor.next.previous = None;
                    break;
                }
                // Retention has removed it meanwhile.
                Err(error) if error.is_not_found() => {}
                // It is not of this stream, or its header is damaged.
                Ok(None) | Err(ReadError::Damaged { .. }) => drop(self.passed_over.insert(later)),
                Err(error) if unreadable.is_some() && error.unreadable() == unreadable => {
                    self.passed_over.insert(later);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.next_sequence())
    }

    pub(super) fn damaged(&self, reason: Option<String>) -> ReadError {
        let reason = reason.unwrap_or_else(|| "nothing is there".to_owned());
        let Cursor { offset, next, .. } = self.cursor;
        ReadError::damaged(self.number(), offset, next.record, reason)
    }

    /// Retention has removed the segment that was being read: goes to the oldest record.
    pub(super) fn gone(&mut self, numbers: &[u64]) -> Result<ReadError, ReadError> {
        let wanted = self.next_sequence();
        self.segment = None;
        for number in numbers {
            if let Some(Ok(header)) = self.header_of(*number)? {
                let oldest = header.first_record;
                let segment = match self.open_segment(header) {
                    // Retention has removed it meanwhile.
                    Err(error) if error.is_not_found() => continue,
                    segment => segment?,
                };
                self.enter(segment);
                return Ok(ReadError::Gone { wanted, oldest });
            }
        }
        Ok(ReadError::Gone { wanted, oldest: 0 })
    }
}
