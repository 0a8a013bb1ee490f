//! Finds the end of a stream, whatever happened to it.
//!
//! Segments are read from the last whose header holds, and from the one before while nothing says that all before it
//! was durable. The walk ends at the first chunk that does not follow. If a later chunk proves that the missing part
//! had been durable, that is damage and nothing is touched. Otherwise the remains of a crash are cut off and kept under
//! another name.

use std::{collections::VecDeque, io};

use freeboard_platform::planted;

use crate::{
    format::{
        ALIGNMENT, Algorithm, ChunkHeader, FormatError, POSITIONS, RETENTION_MARK, SealUnit,
        SegmentHeader, StreamId, TAG_BYTES, Tag, segment_name,
    },
    scan::{self, Broken, Expected, Found, Next, SegmentScan},
    seal::{Ratchet, Secret, SegmentFault, SegmentKeys, check_chunk, check_segment},
    snapshot,
    storage::{Access, Storage},
};

use super::{
    error::{OpenError, TailDamage},
    files::{self, Finished},
    search::{Behind, Missing, search},
};

/// The largest sequence or epoch after which a stream continues.
const COUNT_MAX: u64 = u64::MAX / 2;

/// Where a stream continues.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The header of its last segment; `None` for a new stream.
    pub(crate) header: Option<SegmentHeader>,
    /// The number and the end of the segment to which chunks can be added.
    pub(crate) active: Option<(u64, u64)>,
    pub(crate) finished: VecDeque<Finished>,
    pub(crate) next_segment: u64,
    pub(crate) next_chunk: u64,
    pub(crate) next_record: u64,
    pub(crate) previous: Tag,
    /// The epoch of this opening.
    pub(crate) epoch: u64,
}

/// Finds the end, and makes the files agree with it.
///
/// It reads from the device: the page cache may hold data that a failed sync of an earlier writer has lost.
///
/// `asked` says how the stream must be sealed. `durable` is the last record that the running writer knows to be
/// durable: all up to it must be there.
///
/// # Errors
///
/// An I/O error, a missing or wrong key, or damage that no crash leaves. Then nothing was changed.
pub(crate) fn recover(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    asked: (Algorithm, SealUnit),
    durable: u64,
) -> Result<Recovered, OpenError> {
    let recovery = Recovery {
        storage,
        secret,
        asked,
        durable,
    };
    recovery.run()
}

/// The first segment of which not all records are known to be durable; `None` if no segment has a header. A chunk after
/// the earlier ones says that they are durable, so no write to them is in flight. Changes nothing.
pub(crate) fn first_unproved(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    asked: (Algorithm, SealUnit),
) -> Result<Option<u64>, OpenError> {
    let recovery = Recovery {
        storage,
        secret,
        asked,
        durable: 0,
    };
    let known = recovery.segments()?.known;
    let Some(last) = known.last() else {
        return Ok(None);
    };
    recovery.check_seal(last)?;
    let (first, ..) = recovery.walk_from_proof(&known)?;
    Ok(Some(known[first].number))
}

struct Recovery<'a> {
    storage: &'a dyn Storage,
    secret: Option<Secret<'a>>,
    asked: (Algorithm, SealUnit),
    durable: u64,
}

/// The segments of the directory.
struct Segments {
    /// Those whose headers hold, in order, up to the first that does not.
    known: Vec<SegmentHeader>,
    /// The others, in order.
    later: Vec<u64>,
    /// The fault of the first of those.
    fault: Option<FormatError>,
}

/// How far a walk has come.
struct Position {
    segment: u64,
    offset: u64,
    expected: Expected,
    /// The highest durable sequence that a chunk names.
    durable: u64,
}

/// Something else than a chunk that follows, at the end of a walk.
struct Hole {
    reason: String,
    /// The offset past its known remains.
    end: u64,
}

impl Recovery<'_> {
    fn run(&self) -> Result<Recovered, OpenError> {
        let segments = self.segments()?;
        let known = &segments.known;
        let Some(last) = known.last() else {
            if self.durable > 0 {
                return Err(self.lost(1, 0, 1));
            }
            self.clear(&segments)?;
            self.remove_marks()?;
            self.retire_snapshots(0)?;
            return Ok(new_stream());
        };
        self.check_seal(last)?;
        let (first, position, hole) = self.walk_from_proof(known)?;
        let next = position.expected;
        if next.record <= self.durable {
            return Err(self.lost(position.segment, position.offset, next.record));
        }
        // Only a forger brings counts near their end, where nothing can be added.
        if [next.chunk, next.record, next.epoch]
            .into_iter()
            .any(|count| count > COUNT_MAX)
        {
            return Err(OpenError::Format {
                segment: position.segment,
                error: FormatError::Field { field: "sequence" },
            });
        }
        let end = known.partition_point(|header| header.number <= position.segment);
        let mut later: Vec<u64> = known[end..].iter().map(|header| header.number).collect();
        later.extend(&segments.later);
        self.cut_off(&position, hole, &known[end - 1], &later)?;
        // The next chunk must not call data durable that a process left in the page cache.
        for header in &known[first..end] {
            self.sync(header.number)?;
        }
        let finished = self.finished(&known[..end])?;
        files::remove_unfinished(self.storage)?;
        self.retire_snapshots(next.record - 1)?;
        Ok(Recovered {
            header: Some(known[end - 1]),
            active: Some((position.segment, position.offset)),
            finished,
            next_segment: position.segment + 1,
            next_chunk: next.chunk,
            next_record: next.record,
            previous: next.previous.expect("the walk began at a header"),
            epoch: next.epoch + 1,
        })
    }

    fn check_seal(&self, last: &SegmentHeader) -> Result<(), OpenError> {
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
        Ok(())
    }

    /// Walks to the end, from the last of these segments before which all is known to be durable. Returns its index too.
    fn walk_from_proof(
        &self,
        known: &[SegmentHeader],
    ) -> Result<(usize, Position, Option<Hole>), OpenError> {
        let mut first = known.len() - 1;
        loop {
            let (position, hole) = self.walk(&known[first..])?;
            let is_proved = position.durable.max(self.durable) + 1 >= known[first].first_record;
            if is_proved || first == 0 {
                return Ok((first, position, hole));
            }
            first -= 1;
        }
    }

    /// A durable record is missing.
    fn lost(&self, segment: u64, offset: u64, record: u64) -> OpenError {
        OpenError::damaged(TailDamage {
            segment,
            offset,
            record,
            reason: "the stream ends too early".to_owned(),
            behind: format!("record {} had been durable", self.durable),
        })
    }

    fn segments(&self) -> Result<Segments, OpenError> {
        let numbers = scan::segments(self.storage).map_err(OpenError::io("list the directory"))?;
        if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
            return Err(OpenError::damaged(TailDamage {
                segment: gap[0] + 1,
                offset: 0,
                record: 0,
                reason: "the segment is missing".to_owned(),
                behind: format!("segment {} is there", gap[1]),
            }));
        }
        let (mut known, mut later) = (Vec::with_capacity(numbers.len()), Vec::new());
        let mut fault = None;
        for segment in numbers {
            let error = match self.header(segment)? {
                Ok(header) if fault.is_none() && header.number == segment => {
                    known.push(header);
                    continue;
                }
                Ok(_) => FormatError::Field { field: "number" },
                Err(error @ (FormatError::Version { .. } | FormatError::Algorithm { .. })) => {
                    return Err(OpenError::Format { segment, error });
                }
                Err(error) => error,
            };
            later.push(segment);
            fault.get_or_insert(error);
        }
        // Segments of another stream after the last one do not decide where this one ends.
        let mut by_share = known.clone();
        scan::sort_by_share(&mut by_share);
        let stream = by_share.first().map(|header| header.stream);
        while let Some(foreign) = known.pop_if(|header| Some(header.stream) != stream) {
            later.insert(0, foreign.number);
        }
        Ok(Segments {
            known,
            later,
            fault,
        })
    }

    fn header(&self, number: u64) -> Result<Result<SegmentHeader, FormatError>, OpenError> {
        let header = self.scan(number)?.header();
        header.map_err(OpenError::io(format!("read segment {number}")))
    }

    /// Removes the mark of retention and the positions. A new stream has removed nothing, and nobody has read it, so they
    /// are of an earlier stream.
    fn remove_marks(&self) -> Result<(), OpenError> {
        for name in [RETENTION_MARK, POSITIONS] {
            match self.storage.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenError::io(format!("remove {name}"))(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the snapshots aside that contain records which the stream has lost. Others will get their sequences.
    fn retire_snapshots(&self, last_record: u64) -> Result<(), OpenError> {
        snapshot::retire_after(self.storage, last_record, true)
            .map_err(OpenError::io("set snapshots aside"))
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

    /// Walks through these segments. Returns the end, and the hole there, if there is one.
    fn walk(&self, headers: &[SegmentHeader]) -> Result<(Position, Option<Hole>), OpenError> {
        let first = &headers[0];
        let mut position = Position {
            segment: first.number,
            offset: ALIGNMENT as u64,
            expected: Expected::first_of(first),
            durable: 0,
        };
        let mut ratchet = None;
        if let Some(secret) = self.secret.filter(|_| first.algorithm.is_sealed()) {
            let at = secret.at(first.algorithm, first.stream, first.number);
            // The stream ends before the segment with the last durable record.
            let lost = || self.lost(first.number, 0, first.first_record);
            ratchet = Some(at.ok_or_else(lost)?);
        }
        for header in headers {
            if header.number != first.number {
                if !position.is_followed_by(header) {
                    let hole = Hole {
                        reason: "the next segment does not follow".to_owned(),
                        end: position.offset,
                    };
                    return Ok((position, Some(hole)));
                }
                position.segment = header.number;
                position.offset = ALIGNMENT as u64;
                position.expected = Expected::first_of(header);
                ratchet.as_mut().map(Ratchet::advance);
            }
            let keys = ratchet.as_ref().map(Ratchet::keys);
            if let Some(keys) = &keys {
                check_segment(keys, header).map_err(|fault| refused(header, fault))?;
            }
            let hole = position
                .walk(&mut self.scan(header.number)?, header, keys.as_ref())
                .map_err(OpenError::io(format!("read segment {}", header.number)))?;
            if hole.is_some() {
                return Ok((position, hole));
            }
        }
        Ok((position, None))
    }

    /// The keys of a segment, if the stream must be sealed.
    fn keys(&self, stream: StreamId, number: u64) -> Option<SegmentKeys> {
        let algorithm = self.asked.0;
        let secret = self.secret.filter(|_| algorithm.is_sealed())?;
        Some(secret.at(algorithm, stream, number)?.keys())
    }

    /// Searches a segment. `number_max` is the number of the last one. Chunks are believed by their tags if the stream
    /// is sealed, else by their checksums.
    fn search(
        &self,
        (number, number_max): (u64, u64),
        (offset, previous): (u64, Option<Tag>),
        missing: Missing,
    ) -> Result<Behind, OpenError> {
        let searched = |error| OpenError::io("search for data after damage")(error);
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
            // No segment names the stream, so the chunk does. Without the key it cannot have the tag. One that is
            // sealed in another way may be of a stream that was opened by mistake.
            let keys = is_as_asked.then(|| self.keys(header.stream, number));
            check_chunk(keys.flatten().as_ref(), header, body).is_ok()
        };
        search(&mut scan, offset, missing, previous, is_whole).map_err(searched)
    }

    /// Cuts off the remains of a crash after the end, or refuses to if it is damage. `last` is the header of the segment
    /// with the end.
    fn cut_off(
        &self,
        position: &Position,
        hole: Option<Hole>,
        last: &SegmentHeader,
        later: &[u64],
    ) -> Result<(), OpenError> {
        let next = position.expected;
        let missing = Missing {
            stream: Some(last.stream),
            chunk: next.chunk,
            record: next.record,
        };
        let refuse = |segment: u64, (offset, sequence): (u64, u64)| {
            let reason = hole
                .as_ref()
                .map_or("nothing is there", |hole| &hole.reason);
            OpenError::damaged(TailDamage {
                segment: position.segment,
                offset: position.offset,
                record: next.record,
                reason: reason.to_owned(),
                behind: format!(
                    "chunk {sequence} in segment {segment} at byte {offset} is whole and says that it had been \
                     written"
                ),
            })
        };
        let number_max = later.last().copied().unwrap_or(position.segment);
        let here = (position.offset, next.previous);
        let rest = self.search((position.segment, number_max), here, missing)?;
        if let Some(proof) = rest.proof {
            return Err(refuse(position.segment, proof));
        }
        let mut removals = Vec::with_capacity(later.len());
        for &number in later {
            let behind = self.search((number, number_max), (0, None), missing)?;
            if let Some(proof) = behind.proof {
                return Err(refuse(number, proof));
            }
            // A segment of another stream may be the only copy of its records.
            let header = self.header(number)?.ok();
            let is_foreign = header.is_some_and(|it| it.stream != last.stream);
            removals.push((number, behind.end > 0 || is_foreign));
        }
        let cut = |error| OpenError::io("cut off what a crash left")(error);
        // From the back, so that a second crash meanwhile leaves no gap.
        for (number, is_kept) in removals.into_iter().rev() {
            files::discard(self.storage, number, is_kept).map_err(cut)?;
        }
        let end = hole.map_or(0, |hole| hole.end).max(rest.end);
        files::cut(self.storage, position.segment, position.offset, end).map_err(cut)
    }

    /// Clears a directory in which no segment has a header that holds.
    fn clear(&self, segments: &Segments) -> Result<(), OpenError> {
        let Some(error) = segments.fault else {
            return files::remove_unfinished(self.storage);
        };
        let missing = Missing {
            stream: None,
            chunk: 1,
            record: 1,
        };
        // The first write of a stream's life was torn: its first segment is all there is, perhaps with the file that
        // was prepared after it.
        let is_first = segments.later[0] == 1;
        let number_max = segments.later[segments.later.len() - 1];
        for &number in segments.later.iter().rev() {
            let behind = self.search((number, number_max), (0, None), missing)?;
            if behind.proof.is_some() || !is_first && behind.end > 0 {
                return Err(OpenError::Format {
                    segment: segments.later[0],
                    error,
                });
            }
            files::discard(self.storage, number, behind.end > 0)
                .map_err(OpenError::io("clear what a crash left"))?;
        }
        Ok(())
    }

    /// The segments before the last of these.
    fn finished(&self, known: &[SegmentHeader]) -> Result<VecDeque<Finished>, OpenError> {
        let finished = |pair: &[SegmentHeader]| {
            Ok(Finished {
                number: pair[0].number,
                last_record: pair[1].first_record - 1,
                ended_ns: pair[1].created_ns,
                bytes: self.scan(pair[0].number)?.bytes(),
            })
        };
        known.windows(2).map(finished).collect()
    }
}

impl Position {
    /// Whether `header` is that of the segment that follows here.
    fn is_followed_by(&self, header: &SegmentHeader) -> bool {
        header.number == self.segment + 1
            && header.first_chunk == self.expected.chunk
            && header.first_record == self.expected.record
            && Some(header.previous) == self.expected.previous
            && header.epoch >= self.expected.epoch
    }

    /// Walks to the end of this segment. `Some` if the end is neither zeros, nor the file's end, nor stale.
    fn walk(
        &mut self,
        scan: &mut SegmentScan,
        segment: &SegmentHeader,
        keys: Option<&SegmentKeys>,
    ) -> io::Result<Option<Hole>> {
        loop {
            let Broken { reason, found, end } =
                match scan.next(self.offset, &self.expected, segment, keys)? {
                    Next::Nothing => return Ok(None),
                    Next::Chunk(chunk)
                        if planted!("last-record-cut-off")
                            && chunk.durable + 1 < chunk.first_record =>
                    {
                        return Ok(None);
                    }
                    Next::Chunk(chunk) => {
                        self.offset += chunk.chunk_bytes();
                        self.expected = Expected::after(&chunk);
                        self.durable = self.durable.max(chunk.durable);
                        continue;
                    }
                    Next::Broken(broken) => broken,
                };
            // The former life of a recycled file.
            let is_stale = segment.is_recycled
                && match found {
                    Found::Bytes(head) => !self.expected.is_torn(&head, segment.stream),
                    Found::Other(chunk) => self.expected.is_after(&chunk),
                    Found::Chunk => false,
                };
            return Ok((!is_stale).then_some(Hole { reason, end }));
        }
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
        SegmentFault::Tampered => OpenError::damaged(TailDamage {
            segment: header.number,
            offset: 0,
            record: header.first_record,
            reason: "the segment's header was altered".to_owned(),
            behind: "its checksum matches and its tag does not".to_owned(),
        }),
    }
}
