//! The segments that a reader goes through.

use crate::{
    format::{ALIGNMENT, FormatError, SegmentHeader},
    scan,
    seal::{Ratchet, SegmentFault, SegmentKeys, check_segment},
    storage::Access,
};

use super::{
    error::ReadError,
    stream_reader::{OpenSegment, Place, StreamReader},
};

impl StreamReader {
    /// The number of the open segment.
    pub(super) fn number(&self) -> u64 {
        self.segment
            .as_ref()
            .map_or(0, |segment| segment.header.number)
    }

    pub(super) fn numbers(&self) -> Result<Vec<u64>, ReadError> {
        scan::segments(self.storage.as_ref()).map_err(ReadError::io("list the directory"))
    }

    /// The header of a segment: `None` if there is no such file, an error inside if it has none.
    pub(super) fn header_of(
        &self,
        number: u64,
    ) -> Result<Option<Result<SegmentHeader, FormatError>>, ReadError> {
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
            Err(error) => Err(ReadError::io(format!("read segment {number}"))(error)),
        }
    }

    /// Opens a segment, with its keys, which are checked.
    pub(super) fn open_segment(&mut self, header: SegmentHeader) -> Result<OpenSegment, ReadError> {
        let number = header.number;
        let keys = self.keys(&header);
        if let Some(Err(fault)) = keys.as_ref().map(|keys| check_segment(keys, &header)) {
            return Err(match fault {
                SegmentFault::WrongKey => ReadError::WrongKey { segment: number },
                SegmentFault::Tampered => ReadError::Damaged {
                    segment: number,
                    offset: 0,
                    record: header.first_record,
                    reason: "the tag of the segment's header does not match".to_owned(),
                },
            });
        }
        let scan = scan::open_segment(self.storage.as_ref(), number, Access::Read)
            .map_err(ReadError::io(format!("open segment {number}")))?;
        Ok(OpenSegment { header, scan, keys })
    }

    fn keys(&mut self, header: &SegmentHeader) -> Option<SegmentKeys> {
        let key = self.key.as_ref().filter(|_| header.algorithm.is_sealed())?;
        let at = |number| Ratchet::at(key, header.algorithm, header.stream, number);
        let ratchet = self.ratchet.get_or_insert_with(|| at(header.number));
        if ratchet.number() > header.number {
            *ratchet = at(header.number);
        }
        while ratchet.number() < header.number {
            ratchet.advance();
        }
        Some(ratchet.keys())
    }

    /// Goes to the beginning of a segment.
    pub(super) fn enter(&mut self, segment: OpenSegment) {
        let header = &segment.header;
        self.place = Place {
            offset: ALIGNMENT as u64,
            chunk: header.first_chunk,
            record: header.first_record,
            previous: Some(header.previous),
            epoch: header.epoch,
            wanted: self.place.wanted.max(header.first_record),
        };
        self.segment = Some(segment);
        self.searched = None;
    }

    /// Goes to the oldest segment; whether there is one.
    pub(super) fn open_oldest(&mut self) -> Result<bool, ReadError> {
        for number in self.numbers()? {
            if let Some(Ok(header)) = self.header_of(number)? {
                let segment = self.open_segment(header)?;
                self.enter(segment);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
