//! Whether a stream is what was written, and if not, what is wrong where.
//!
//! Every byte of every segment is read, in order, with what has to come next in hand: the chunk's
//! sequence, its first record, the tag of the chunk before, the epoch. What stands there instead is
//! damage of a kind; the check goes on past it with the next chunk of the stream that it finds.
//!
//! A chain cannot show that its end was cut off: give the check a [`Head`](crate::Head) that was kept
//! elsewhere.

mod damage;
mod error;
mod report;
mod segment;
mod verify_pass;

use std::{io, thread, time::Duration};

use crate::{
    format::{
        ALIGNMENT, Algorithm, ChunkHeader, FormatError, RETENTION_MARK, RetentionMark,
        SegmentHeader, TAG_BYTES,
    },
    head::Head,
    log::read_marks,
    scan::{self, Slot},
    seal::{MasterKey, Ratchet, check_chunk},
    storage::{Access, Storage},
};

pub use damage::{Damage, DamageKind};
pub use error::VerifyError;
pub use report::{Progress, VerifyReport};
use verify_pass::VerifyPass;

/// How a stream is checked.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// A head that the stream must have, as its end or within.
    pub expect_head: Option<Head>,
    /// The most damages that are listed; all are counted.
    pub damages_max: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            expect_head: None,
            damages_max: 1_000,
        }
    }
}

/// How often a stream is checked that somebody writes to, and the pause before the second time; it doubles.
const LIVE_CHECKS_MAX: u32 = 6;
const LIVE_PAUSE: Duration = Duration::from_millis(10);

/// In this number of last segments there may be writes on their way: small segments are filled several at a time.
const LIVE_SEGMENTS: u64 = 64;

/// Checks a stream. Without a key, a sealed stream's checksums and chain are checked, and its tags are not; with one, a
/// stream that is not sealed is refused. `progress` is told from time to time how far it has come.
///
/// Beside a writer, which holds the stream's lock, the end moves: what it is writing may look torn, or as if something
/// were missing. If such damage is found in the last 64 segments, the stream is checked up to five times more, and
/// only damage that is found each time in the same place is reported. The report says so in `is_live`.
///
/// # Errors
///
/// See [`VerifyError`]: the stream could not be checked. Damage is no error; it is in the report.
pub fn verify(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<VerifyReport, VerifyError> {
    let mut known: Option<Vec<Damage>> = None;
    for checks in 1.. {
        let may_repeat = checks < LIVE_CHECKS_MAX;
        // Also one that has ended meanwhile has moved the end.
        let was_live = storage.is_locked();
        let is_live = || was_live || storage.is_locked();
        match check(storage, key, options, known.as_deref(), progress) {
            // Retention may have taken all that was listed; or there is nothing yet.
            Err(VerifyError::NoStream) if checks == 1 && is_live() => continue,
            // Retention may have taken a segment since the directory was listed.
            Err(VerifyError::Io { source, .. })
                if may_repeat && source.kind() == io::ErrorKind::NotFound && is_live() => {}
            Ok(mut report) if !report.is_whole() && is_live() => {
                report.is_live = true;
                let may_move = |damage: &Damage| is_near_end(damage, report.last_segment);
                let is_let_go = |damage: &Damage| {
                    let numbers = scan::segments(storage).unwrap_or_default();
                    numbers
                        .first()
                        .is_some_and(|oldest| damage.segment < *oldest)
                };
                if !may_repeat
                    || !report
                        .damages
                        .iter()
                        .all(|it| may_move(it) || is_let_go(it))
                {
                    return Ok(report);
                }
                known = Some(report.damages);
            }
            Ok(mut report) => {
                report.is_live = known.is_some();
                return Ok(report);
            }
            Err(error) => return Err(error),
        }
        thread::sleep(LIVE_PAUSE * (1 << checks));
    }
    unreachable!("the last check returns")
}

/// Whether writes on their way may reach back to where the damage is.
fn is_near_end(damage: &Damage, last_segment: u64) -> bool {
    damage.segment.saturating_add(LIVE_SEGMENTS) > last_segment
}

/// Checks a stream once. If `known` is given, damage near the end counts only where `known` has some as well.
fn check(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
    options: &VerifyOptions,
    known: Option<&[Damage]>,
    progress: &mut dyn FnMut(Progress),
) -> Result<VerifyReport, VerifyError> {
    let listed = scan::list(storage).map_err(VerifyError::io("list the directory"))?;
    let numbers = listed.numbers;
    let headers = headers(storage, &numbers)?;
    let identity = identity(storage, &numbers, &headers, key)?;
    let bytes_total =
        scan::bytes(storage, &numbers).map_err(VerifyError::io("open the segments"))?;
    let key = key.filter(|_| identity.algorithm.is_sealed());
    let mut pass = VerifyPass::new(&identity, key.is_some(), options);
    pass.strays(&listed.strays);
    let mark = retention_mark(storage).map_err(VerifyError::io("read the retention mark"))?;
    let first = numbers.first().copied().unwrap_or(1);
    let last = numbers.last().copied().unwrap_or(1);
    pass.beginning(first, last, mark.as_ref(), key);
    let mut bytes_done = 0;
    let mut ratchet: Option<Ratchet> = None;
    let begun = headers
        .iter()
        .rposition(|begin| !matches!(begin, Begin::Blank));
    for (index, (&number, begin)) in numbers.iter().zip(&headers).enumerate() {
        let scan = scan::open_segment(storage, number, Access::Read)
            .map_err(VerifyError::io(format!("open segment {number}")))?;
        let keys = key.map(|key| {
            let ratchet = ratchet.get_or_insert_with(|| {
                Ratchet::at(key, identity.algorithm, identity.stream, number)
            });
            while ratchet.number() < number {
                ratchet.advance();
            }
            ratchet.keys()
        });
        let bytes_before = bytes_done;
        bytes_done += scan.bytes();
        pass.segment(
            number,
            begin,
            scan,
            keys.as_ref(),
            begun.is_none_or(|begun| index > begun),
            &mut |offset| {
                progress(Progress {
                    bytes_done: bytes_before + offset,
                    bytes_total,
                });
            },
        )
        .map_err(VerifyError::io(format!("read segment {number}")))?;
    }
    progress(Progress {
        bytes_done: bytes_total,
        bytes_total,
    });
    Ok(pass.finish(bytes_total, known))
}

/// The mark of retention, if there is one.
fn retention_mark(storage: &dyn Storage) -> io::Result<Option<Result<RetentionMark, FormatError>>> {
    let file = match storage.open(RETENTION_MARK, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut marks: Vec<_> = read_marks(file.as_ref())?.into_iter().flatten().collect();
    // The younger one counts; one that a crash has torn only where there is no other.
    marks.sort_by_key(|mark| mark.as_ref().map_or(0, |mark| mark.first_kept));
    Ok(marks.pop())
}

/// The header that says what stream this is: of those that the key agrees with, or, without a key, of those that hold,
/// the first that names the stream that most headers name.
///
/// # Errors
///
/// See [`VerifyError`].
pub fn stream_header(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
) -> Result<SegmentHeader, VerifyError> {
    let numbers = scan::segments(storage).map_err(VerifyError::io("list the directory"))?;
    identity(storage, &numbers, &headers(storage, &numbers)?, key)
}

/// What a segment's file begins with.
enum Begin {
    Header(Box<SegmentHeader>),
    /// A header's length of zeros, or nothing at all: it is made ready for a segment.
    Blank,
    Broken(FormatError),
}

impl Begin {
    fn header(&self) -> Option<&SegmentHeader> {
        match self {
            Self::Header(header) => Some(header),
            Self::Blank | Self::Broken(_) => None,
        }
    }
}

/// What all segments begin with.
fn headers(storage: &dyn Storage, numbers: &[u64]) -> Result<Vec<Begin>, VerifyError> {
    let read = |number: u64| -> io::Result<_> {
        let scan = scan::open_segment(storage, number, Access::Read)?;
        Ok(match scan.header()? {
            Ok(header) => Ok(Begin::Header(Box::new(header))),
            Err(_) if scan.is_zero(0)? => Ok(Begin::Blank),
            Err(error) => Err(error),
        })
    };
    numbers
        .iter()
        .map(|&number| {
            let begin = read(number).map_err(VerifyError::io(format!("read segment {number}")))?;
            match begin {
                Err(error @ (FormatError::Version { .. } | FormatError::Algorithm { .. })) => {
                    Err(VerifyError::Format {
                        segment: number,
                        error,
                    })
                }
                Err(error) => Ok(Begin::Broken(error)),
                Ok(begin) => Ok(begin),
            }
        })
        .collect()
}

/// As [`stream_header`]; where no header holds, what the first whole chunk says of it.
fn identity(
    storage: &dyn Storage,
    numbers: &[u64],
    headers: &[Begin],
    key: Option<&MasterKey>,
) -> Result<SegmentHeader, VerifyError> {
    let mut sound: Vec<SegmentHeader> = headers.iter().filter_map(Begin::header).copied().collect();
    scan::sort_by_share(&mut sound);
    let Some(first) = sound.first() else {
        return identity_of_chunks(storage, numbers, key)?.ok_or(VerifyError::NoStream);
    };
    let Some(key) = key else {
        return Ok(*first);
    };
    let number_max = numbers.last().copied().unwrap_or_default();
    match scan::agreed(&sound, number_max, key) {
        Some(agreed) => Ok(agreed),
        // Whoever writes a stream that says so needs no key.
        None if first.algorithm == Algorithm::None => Err(VerifyError::NotSealed {
            segment: first.number,
        }),
        None => Err(VerifyError::WrongKey {
            segment: first.number,
        }),
    }
}

/// What the first whole chunk says of a stream of which no header holds.
fn identity_of_chunks(
    storage: &dyn Storage,
    numbers: &[u64],
    key: Option<&MasterKey>,
) -> Result<Option<SegmentHeader>, VerifyError> {
    for &number in numbers {
        let find = || -> io::Result<Option<SegmentHeader>> {
            let mut scan = scan::open_segment(storage, number, Access::Read)?.windowed();
            let mut offset = ALIGNMENT as u64;
            while offset < scan.bytes() {
                // With a key, one that the key does not agree with says nothing.
                let is_wanted =
                    |header: &ChunkHeader| key.is_none() || header.algorithm.is_sealed();
                if let Ok(Slot::Chunk { header, .. }) = scan.search(offset, is_wanted)?
                    && check_chunk(None, &header, scan.body()).is_ok()
                {
                    let (algorithm, stream) = (header.algorithm, header.stream);
                    // The way to the keys is long: only for what is whole without them.
                    let keys = key.map(|key| Ratchet::at(key, algorithm, stream, number).keys());
                    if check_chunk(keys.as_ref(), &header, scan.body()).is_ok() {
                        return Ok(Some(header_before(&header, number, scan.bytes())));
                    }
                }
                offset = scan.behind_zeros(offset)?;
            }
            Ok(None)
        };
        let found = find().map_err(VerifyError::io(format!("read segment {number}")))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The header of a segment that may have begun with this chunk.
fn header_before(chunk: &ChunkHeader, number: u64, segment_bytes: u64) -> SegmentHeader {
    SegmentHeader {
        algorithm: chunk.algorithm,
        unit: chunk.unit,
        is_recycled: false,
        stream: chunk.stream,
        number,
        epoch: chunk.epoch,
        first_chunk: chunk.sequence,
        first_record: chunk.first_record,
        created_ns: chunk.time_ns,
        segment_bytes,
        previous: chunk.previous,
        key_check: [0; 32],
        tag: [0; TAG_BYTES],
    }
}
