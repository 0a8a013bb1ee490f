//! Finding the end of a stream after whatever happened.
//!
//! Segments are read from the last whose header holds, and from the one before it while nothing
//! says that all before was durable. The walk ends at the first chunk that does not follow. If a
//! later chunk proves that what is missing had been durable, that is damage and nothing is touched;
//! if not, it is what a crash leaves behind, and is cut off and kept aside.

use std::{collections::VecDeque, io};

use crate::{
    format::{
        Algorithm, ChunkHeader, FormatError, RETENTION_MARK, SealUnit, SegmentHeader, StreamId,
        TAG_BYTES, Tag, segment_name,
    },
    scan::{self, SegmentScan},
    seal::{Ratchet, Secret, SegmentFault, SegmentKeys, check_chunk, check_segment},
    storage::{Access, Storage},
};

use super::{
    damage::TailDamage,
    error::OpenError,
    search::{Behind, Missing, search},
    segments::{Finished, remove_unfinished},
    tail,
    walk::{Position, WalkEnd},
};

/// The largest sequence or epoch behind which a stream goes on.
const COUNT_MAX: u64 = u64::MAX / 2;

/// Where a stream goes on.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The header of its last segment; `None` for a new stream.
    pub(crate) header: Option<SegmentHeader>,
    /// The number and the end of the segment that can be added to.
    pub(crate) active: Option<(u64, u64)>,
    pub(crate) finished: VecDeque<Finished>,
    pub(crate) next_segment: u64,
    pub(crate) next_chunk: u64,
    pub(crate) next_record: u64,
    pub(crate) previous: Tag,
    /// The epoch that this opening has.
    pub(crate) epoch: u64,
}

/// Finds the end, and makes the files agree with it.
///
/// It reads from the device: the page cache may hold what a failed sync of an earlier writer has lost.
///
/// `durable` is the last record that is known to be durable, by who has written it: what is before it
/// was proved, and must be there.
///
/// # Errors
///
/// What the file system says, a key that is missing or wrong, or damage that is not a crash's; then
/// nothing was changed.
pub(crate) fn recover(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    asked: (Algorithm, SealUnit),
    durable: u64,
) -> Result<Recovered, OpenError> {
    Recovery {
        storage,
        secret,
        asked,
        durable,
    }
    .run()
}

struct Recovery<'a> {
    storage: &'a dyn Storage,
    secret: Option<Secret<'a>>,
    /// How the stream is to be sealed; it must be sealed so already.
    asked: (Algorithm, SealUnit),
    /// The last record that is known to be durable.
    durable: u64,
}

/// The segments of the directory.
struct Found {
    /// Those whose headers hold, in order, up to the first that does not.
    known: Vec<SegmentHeader>,
    /// The others, in order.
    later: Vec<u64>,
    /// What is wrong with the first of those.
    fault: Option<FormatError>,
}

/// Where what follows is missing.
struct Hole {
    reason: String,
    /// The offset past what is known to be its remains.
    end: u64,
}

impl Recovery<'_> {
    fn run(&self) -> Result<Recovered, OpenError> {
        let found = self.find()?;
        let Some(last) = found.known.last().copied() else {
            if self.durable > 0 {
                return Err(self.lost(1, 0, 1));
            }
            self.clear(&found)?;
            self.remove_mark()?;
            return Ok(new_stream());
        };
        if self.asked != (last.algorithm, last.unit) {
            return Err(OpenError::OtherSeal {
                found: last.algorithm,
                found_unit: last.unit,
                asked: self.asked.0,
                asked_unit: self.asked.1,
            });
        }
        if last.algorithm.is_sealed() && self.secret.is_none() {
            return Err(OpenError::KeyMissing {
                algorithm: last.algorithm,
            });
        }
        let mut first = found.known.len() - 1;
        let (position, hole) = loop {
            let (position, hole) = self.walk(&found.known[first..])?;
            let is_proved =
                position.durable.max(self.durable) + 1 >= found.known[first].first_record;
            if is_proved || first == 0 {
                break (position, hole);
            }
            first -= 1;
        };
        if position.record <= self.durable {
            return Err(self.lost(position.segment, position.offset, position.record));
        }
        // Only a forger has brought counts near to their end, where nothing can be added.
        let counts = [position.chunk, position.record, position.epoch];
        if counts.into_iter().any(|count| count > COUNT_MAX) {
            return Err(OpenError::Format {
                segment: position.segment,
                error: FormatError::Field { field: "sequence" },
            });
        }
        let end = found
            .known
            .partition_point(|header| header.number <= position.segment);
        let mut behind: Vec<u64> = found.known[end..]
            .iter()
            .map(|header| header.number)
            .collect();
        behind.extend(&found.later);
        self.mend(&position, hole, &behind)?;
        // What a process left in the page cache must not be called durable by the next chunk.
        for header in &found.known[first..end] {
            self.sync(header.number)?;
        }
        let recovered = self.recovered(&found.known[..end], &position)?;
        remove_unfinished(self.storage).map_err(OpenError::io("remove unfinished files"))?;
        Ok(recovered)
    }

    /// What is known to be durable is not there.
    fn lost(&self, segment: u64, offset: u64, record: u64) -> OpenError {
        damaged(TailDamage {
            segment,
            offset,
            record,
            reason: "the stream ends too early".to_owned(),
            behind: format!("record {} had been durable", self.durable),
        })
    }

    fn find(&self) -> Result<Found, OpenError> {
        let numbers = scan::segments(self.storage).map_err(OpenError::io("list the directory"))?;
        let mut found = Found {
            known: Vec::with_capacity(numbers.len()),
            later: Vec::new(),
            fault: None,
        };
        for (index, &number) in numbers.iter().enumerate() {
            if index > 0 && numbers[index - 1] + 1 != number {
                let before = numbers[index - 1];
                return Err(damaged(TailDamage {
                    segment: before + 1,
                    offset: 0,
                    record: 0,
                    reason: "the segment is missing".to_owned(),
                    behind: format!("segment {number} is there"),
                }));
            }
            let read = self.scan(number)?.header();
            match read.map_err(OpenError::io(format!("read segment {number}")))? {
                Ok(header) if found.fault.is_none() && header.number == number => {
                    found.known.push(header);
                }
                Ok(_) => {
                    found.later.push(number);
                    found
                        .fault
                        .get_or_insert(FormatError::Field { field: "number" });
                }
                Err(error @ (FormatError::Version { .. } | FormatError::Algorithm { .. })) => {
                    return Err(OpenError::Format {
                        segment: number,
                        error,
                    });
                }
                Err(error) => {
                    found.later.push(number);
                    found.fault.get_or_insert(error);
                }
            }
        }
        Ok(found)
    }

    /// A new stream has let nothing go: the mark of one whose segments somebody removed is not its own.
    fn remove_mark(&self) -> Result<(), OpenError> {
        match self.storage.remove(RETENTION_MARK) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(OpenError::io("remove the mark of retention")(error))
            }
            _ => Ok(()),
        }
    }

    fn sync(&self, number: u64) -> Result<(), OpenError> {
        self.storage
            .open(&segment_name(number), Access::Cached)
            .and_then(|file| file.sync())
            .map_err(OpenError::io(format!("sync segment {number}")))
    }

    fn scan(&self, number: u64) -> Result<SegmentScan, OpenError> {
        scan::open_segment(self.storage, number, Access::ReadDevice)
            .map(SegmentScan::windowed)
            .map_err(OpenError::io(format!("open segment {number}")))
    }

    /// Walks through `headers`' segments, and says where it ended and what is missing there.
    fn walk(&self, headers: &[SegmentHeader]) -> Result<(Position, Option<Hole>), OpenError> {
        let first = &headers[0];
        let mut position = Position::at(first);
        let mut ratchet = None;
        if let Some(secret) = self.secret.filter(|_| first.algorithm.is_sealed()) {
            let at = secret.at(first.algorithm, first.stream, first.number);
            // It ends before the segment with the last durable record.
            let lost = || self.lost(first.number, 0, first.first_record);
            ratchet = Some(at.ok_or_else(lost)?);
        }
        for (index, header) in headers.iter().enumerate() {
            if index > 0 {
                if !position.is_followed_by(header) {
                    let hole = Hole {
                        reason: "the next segment does not follow".to_owned(),
                        end: position.offset,
                    };
                    return Ok((position, Some(hole)));
                }
                position.enter(header);
                ratchet.as_mut().map(Ratchet::advance);
            }
            let keys = ratchet.as_ref().map(Ratchet::keys);
            if let Some(keys) = &keys {
                check_segment(keys, header).map_err(|fault| refused(header, fault))?;
            }
            let mut scan = self.scan(header.number)?;
            let end = position
                .walk(&mut scan, header, keys.as_ref())
                .map_err(OpenError::io(format!("read segment {}", header.number)))?;
            if let WalkEnd::Broken { reason, end } = end {
                return Ok((position, Some(Hole { reason, end })));
            }
        }
        Ok((position, None))
    }

    /// The keys of a segment, if the stream is to be sealed.
    fn keys(&self, stream: StreamId, number: u64) -> Option<SegmentKeys> {
        let algorithm = self.asked.0;
        let secret = self.secret.filter(|_| algorithm.is_sealed())?;
        Some(secret.at(algorithm, stream, number)?.keys())
    }

    /// Searches a segment, of which the last has `number_max`. Chunks are believed by their tags if the
    /// stream is sealed, else by their checksums.
    fn search(
        &self,
        (number, number_max): (u64, u64),
        (offset, previous): (u64, Option<Tag>),
        missing: Missing,
    ) -> Result<Behind, OpenError> {
        let searched = |error| OpenError::io("search for what lies behind damage")(error);
        let mut scan = self.scan(number)?;
        // A file that was given the name of another is still of the stream.
        let header = scan.header().map_err(searched)?;
        let named = header.ok().map(|header| header.number);
        let number = named.filter(|named| *named <= number_max).unwrap_or(number);
        let keys = missing.stream.and_then(|stream| self.keys(stream, number));
        let is_whole = |header: &ChunkHeader, body: &[u8]| {
            let is_as_asked = self.asked == (header.algorithm, header.unit);
            if missing.stream.is_some() {
                return is_as_asked && check_chunk(keys.as_ref(), header, body).is_ok();
            }
            // No segment names the stream, so the chunk does; without the key it cannot have the tag.
            // One that is sealed in another way may be of a stream that was opened by mistake.
            let keys = is_as_asked.then(|| self.keys(header.stream, number));
            check_chunk(keys.flatten().as_ref(), header, body).is_ok()
        };
        search(&mut scan, offset, missing, previous, is_whole).map_err(searched)
    }

    /// Cuts off what a crash left behind the end, or refuses to.
    fn mend(
        &self,
        position: &Position,
        hole: Option<Hole>,
        later: &[u64],
    ) -> Result<(), OpenError> {
        let scan = self.scan(position.segment)?;
        let header = scan.header().map_err(OpenError::io("read a segment"))?;
        let missing = Missing {
            stream: header.ok().map(|header| header.stream),
            chunk: position.chunk,
            record: position.record,
        };
        let reason = hole
            .as_ref()
            .map_or("nothing is there", |hole| &hole.reason);
        let refuse = |segment: u64, (offset, sequence): (u64, u64)| {
            damaged(TailDamage {
                segment: position.segment,
                offset: position.offset,
                record: position.record,
                reason: reason.to_owned(),
                behind: format!(
                    "chunk {sequence} in segment {segment} at byte {offset} is whole and says that \
                     it had been written"
                ),
            })
        };
        let number_max = later.last().copied().unwrap_or(position.segment);
        let here = (position.offset, Some(position.previous));
        let rest = self.search((position.segment, number_max), here, missing)?;
        if let Some(proof) = rest.proof {
            return Err(refuse(position.segment, proof));
        }
        let mut aside = Vec::new();
        let mut empty = Vec::new();
        for &number in later {
            let behind = self.search((number, number_max), (0, None), missing)?;
            match behind.proof {
                Some(proof) => return Err(refuse(number, proof)),
                None if behind.end > 0 => aside.push(number),
                None => empty.push(number),
            }
        }
        let cut = |error| OpenError::io("cut off what a crash left behind")(error);
        // From the back, so that a second crash meanwhile leaves no gap.
        for &number in later.iter().rev() {
            if aside.contains(&number) {
                tail::set_aside(self.storage, number).map_err(cut)?;
            } else {
                self.storage.remove(&segment_name(number)).map_err(cut)?;
            }
            self.storage.sync_directory().map_err(cut)?;
        }
        let end = hole.map_or(0, |hole| hole.end).max(rest.end);
        tail::cut(self.storage, position.segment, position.offset, end).map_err(cut)?;
        self.storage.sync_directory().map_err(cut)
    }

    /// A directory in which no segment has a header that holds.
    fn clear(&self, found: &Found) -> Result<(), OpenError> {
        let Some(error) = found.fault else {
            return remove_unfinished(self.storage)
                .map_err(OpenError::io("remove unfinished files"));
        };
        let missing = Missing {
            stream: None,
            chunk: 1,
            record: 1,
        };
        // The first write of a stream's life was torn: its first segment is all there is, perhaps
        // with the file that was prepared behind it.
        let is_first = found.later[0] == 1;
        let number_max = found.later[found.later.len() - 1];
        for &number in found.later.iter().rev() {
            let behind = self.search((number, number_max), (0, None), missing)?;
            if behind.proof.is_some() || !is_first && behind.end > 0 {
                return Err(OpenError::Format {
                    segment: found.later[0],
                    error,
                });
            }
            let cleared = if behind.end > 0 {
                tail::set_aside(self.storage, number)
            } else {
                self.storage.remove(&segment_name(number))
            };
            cleared
                .and_then(|()| self.storage.sync_directory())
                .map_err(OpenError::io("clear what a crash left behind"))?;
        }
        Ok(())
    }

    fn recovered(
        &self,
        known: &[SegmentHeader],
        position: &Position,
    ) -> Result<Recovered, OpenError> {
        let mut finished = VecDeque::with_capacity(known.len());
        for pair in known.windows(2) {
            finished.push_back(Finished {
                number: pair[0].number,
                last_record: pair[1].first_record - 1,
                ended_ns: pair[1].created_ns,
                bytes: self.scan(pair[0].number)?.bytes(),
            });
        }
        Ok(Recovered {
            header: known.last().copied(),
            active: Some((position.segment, position.offset)),
            finished,
            next_segment: position.segment + 1,
            next_chunk: position.chunk,
            next_record: position.record,
            previous: position.previous,
            epoch: position.epoch + 1,
        })
    }
}

fn new_stream() -> Recovered {
    Recovered {
        header: None,
        active: None,
        finished: VecDeque::new(),
        next_segment: 1,
        next_chunk: 1,
        next_record: 1,
        previous: [0; TAG_BYTES],
        epoch: 1,
    }
}

fn refused(header: &SegmentHeader, fault: SegmentFault) -> OpenError {
    match fault {
        SegmentFault::WrongKey => OpenError::WrongKey {
            segment: header.number,
        },
        SegmentFault::Tampered => damaged(TailDamage {
            segment: header.number,
            offset: 0,
            record: header.first_record,
            reason: "the segment's header was altered".to_owned(),
            behind: "its checksum matches and its tag does not".to_owned(),
        }),
    }
}

fn damaged(damage: TailDamage) -> OpenError {
    OpenError::Damaged(Box::new(damage))
}
