//! The segments that a reader goes through.

use crate::{
    format::{FormatError, SegmentHeader},
    scan,
    seal::{SegmentFault, check_segment, keys_at},
    storage::Access,
};

use super::{
    error::ReadError,
    stream_reader::{Cursor, LostSegment, OpenSegment, StreamReader},
};

/// At most so many headers, evenly spaced, decide which stream this is: opening does not read all of many files.
const IDENTITY_HEADERS_MAX: usize = 1_024;

impl StreamReader {
    /// The number of the open segment.
    pub(super) fn number(&self) -> u64 {
        self.segment
            .as_ref()
            .map_or(0, |segment| segment.header.number)
    }

    pub(super) fn numbers(&self) -> Result<Vec<u64>, ReadError> {
        let listed = scan::segments(self.storage.as_ref());
        let mut numbers = listed.map_err(ReadError::io("list the directory"))?;
        numbers.retain(|number| !self.passed_over.contains(number));
        Ok(numbers)
    }

    /// The header of a segment: `None` if there is no such file, an error inside if the header does not hold.
    pub(super) fn header_of(
        &self,
        number: u64,
    ) -> Result<Option<Result<SegmentHeader, FormatError>>, ReadError> {
        if self.passed_over.contains(&number) {
            return Ok(None);
        }
        let read = scan::open_segment(self.storage.as_ref(), number, Access::Read)
            .and_then(|scan| scan.header());
        match read {
            Ok(Err(error @ (FormatError::Version { .. } | FormatError::Algorithm { .. }))) => {
                Err(ReadError::Format {
                    segment: number,
                    error,
                })
            }
            Ok(Ok(header)) if header.number != number => {
                Ok(Some(Err(FormatError::Field { field: "number" })))
            }
            Ok(header) => Ok(Some(header)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ReadError::segment_io("read", number)(error)),
        }
    }

    /// Whether a segment has zeros where its header will be. So has a prepared one that the writer has removed
    /// meanwhile, when it was closed.
    pub(super) fn is_blank(&self, number: u64) -> Result<bool, ReadError> {
        match scan::open_segment(self.storage.as_ref(), number, Access::Read)
            .and_then(|scan| scan.is_blank())
        {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            read => read.map_err(ReadError::segment_io("read", number)),
        }
    }

    /// Opens a segment, with its keys, which are checked.
    pub(super) fn open_segment(&mut self, header: SegmentHeader) -> Result<OpenSegment, ReadError> {
        let number = header.number;
        self.first.get_or_insert(header);
        let damaged =
            |reason: &str| Err(ReadError::damaged(number, 0, header.first_record, reason));
        if self.is_foreign(&header) {
            // A segment that says that it is not sealed needs no key to be forged.
            return damaged("the segment is of another stream, or sealed in another way");
        }
        if self.key.is_some() && !header.algorithm.is_sealed() {
            return Err(ReadError::NotSealed { segment: number });
        }
        let key = self.key.as_ref().filter(|_| header.algorithm.is_sealed());
        let (algorithm, stream) = (header.algorithm, header.stream);
        let keys = key.map(|key| keys_at(&mut self.ratchet, key, algorithm, stream, number));
        match keys.as_ref().map(|keys| check_segment(keys, &header)) {
            None | Some(Ok(())) => {}
            // The key was right before, so this segment was written with another one.
            Some(Err(SegmentFault::WrongKey)) if self.segment.is_some() => {
                return damaged("the segment was sealed with another key");
            }
            Some(Err(SegmentFault::WrongKey)) => {
                return Err(ReadError::WrongKey { segment: number });
            }
            Some(Err(SegmentFault::Tampered)) => {
                return damaged("the tag of the segment's header does not match");
            }
        }
        let scan = scan::open_segment(self.storage.as_ref(), number, Access::Read)
            .map_err(ReadError::segment_io("open", number))?;
        Ok(OpenSegment { header, scan, keys })
    }

    /// Whether a segment is of another stream, or sealed in another way.
    pub(super) fn is_foreign(&self, header: &SegmentHeader) -> bool {
        let is_other = |first: &SegmentHeader| scan::named(first) != scan::named(header);
        self.first.as_ref().is_some_and(is_other)
    }

    /// The header that identifies the stream, as [`stream_header`](crate::stream_header) finds it; `None` if there is
    /// none, or if headers differ and the key agrees with none.
    fn identity(&self, numbers: &[u64]) -> Option<SegmentHeader> {
        let step = numbers.len().div_ceil(IDENTITY_HEADERS_MAX).max(1);
        // A header that cannot be read is reported when reading gets there.
        let header_of = |number: &u64| self.header_of(*number).ok()??.ok();
        let mut headers: Vec<_> = numbers.iter().step_by(step).filter_map(header_of).collect();
        scan::sort_by_share(&mut headers);
        let (first, last) = (headers.first()?, headers.last()?);
        match &self.key {
            // Deriving keys takes many steps, so only where headers differ.
            Some(key) if scan::named(first) != scan::named(last) => {
                scan::agreed(&headers, *numbers.last()?, key)
            }
            _ => Some(*first),
        }
    }

    /// The header of another file that has the name of the open segment now. A failed sync may have lost the header of the
    /// open one; then the writer has gone on with another, while the open one still shows what is lost.
    pub(super) fn replaced_by(&self) -> Option<SegmentHeader> {
        let open = &self.segment.as_ref()?.header;
        // What cannot be read is reported when the open file cannot.
        let named = self.header_of(open.number).ok()??.ok()?;
        (named != *open).then_some(named)
    }

    /// Goes to the beginning of a segment.
    pub(super) fn enter(&mut self, segment: OpenSegment) {
        let header = &segment.header;
        self.cursor = Cursor::at(header, self.cursor.wanted.max(header.first_record));
        self.segment = Some(segment);
        self.searched = None;
    }

    /// Goes to the oldest segment of the stream that can be read. Returns whether there is one. Notes if one before it
    /// cannot be read, has lost its header, is of another stream, or does not agree with the key while a later one does.
    pub(super) fn open_oldest(&mut self) -> Result<bool, ReadError> {
        self.lost_before = None;
        let mut lost = None;
        let mut refused = None;
        let numbers = self.numbers()?;
        let identity = self.first.or_else(|| self.identity(&numbers));
        self.first = identity;
        for number in numbers {
            match self.header_of(number) {
                // Reading reports it.
                Err(error) => {
                    lost = lost.or(Some(number));
                    refused = refused.or(Some(error));
                }
                Ok(Some(Ok(header))) if self.is_foreign(&header) => lost = lost.or(Some(number)),
                Ok(Some(Ok(header))) => {
                    let segment = match self.open_segment(header) {
                        Err(error) if error.is_not_found() => continue,
                        Err(error @ (ReadError::WrongKey { .. } | ReadError::NotSealed { .. })) => {
                            self.first = identity;
                            self.ratchet = None;
                            lost = lost.or(Some(number));
                            refused = refused.or(Some(error));
                            continue;
                        }
                        segment => segment?,
                    };
                    self.enter(segment);
                    let error = refused.filter(|error| error.unreadable().is_some());
                    self.lost_before = lost.map(|number| LostSegment { number, error });
                    return Ok(true);
                }
                Ok(Some(Err(_))) => lost = lost.or(Some(number)),
                // Retention has removed it meanwhile.
                Ok(None) => {}
            }
        }
        if let Some(refused) = refused.filter(|_| !self.has_given_up) {
            return Err(refused);
        }
        // A first header that is being written may be seen half written; a reader that waits reads it again.
        if let Some(lost) = lost
            && !self.is_waiting
            && !self.is_blank(lost)?
        {
            self.lost_before = (!self.has_given_up).then_some(LostSegment {
                number: lost,
                error: None,
            });
        }
        Ok(false)
    }
}
