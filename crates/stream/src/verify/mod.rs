//! Checks whether a stream holds the written bytes, and if not, which damage is where.
//!
//! Every byte of every segment is read, in order, and compared with the chunk that must come next: its sequence, its
//! first record, the tag of the chunk before, the epoch. Anything else is damage. The check continues after it with the
//! next chunk of the stream that it finds.
//!
//! A chain cannot show that its end was cut off: give the check a [`Head`](crate::Head) that was kept elsewhere.

mod report;
mod segment;
mod verify_pass;

use std::{io, time::Duration};

use freeboard_platform::thread;

use crate::{
    format::{
        ALIGNMENT, Algorithm, ChunkHeader, FormatError, RETENTION_MARK, RetentionMark,
        SegmentHeader, TAG_BYTES,
    },
    head::Head,
    log::read_marks,
    scan,
    seal::{MasterKey, Ratchet, check_chunk, keys_at},
    storage::{Access, Storage},
};

pub use report::{
    Damage, DamageKind, Progress, TRUNCATIONS_LISTED_MAX, Truncated, VerifyError, VerifyReport,
};
use verify_pass::VerifyPass;

/// The options of a check.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// A head that the stream must have, at its end or before.
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

/// How often a stream that is being written is checked, and the pause before the second time; it doubles.
const LIVE_CHECKS_MAX: u32 = 6;
const LIVE_PAUSE: Duration = Duration::from_millis(10);

/// Writes may be in flight in so many of the last segments: small segments are filled several at a time.
const LIVE_SEGMENTS: u64 = 64;

/// Checks a stream. Without a key, a sealed stream's checksums and chain are checked, and its tags are not; with one, a
/// stream that is not sealed is refused. `progress` is called from time to time.
///
/// Beside a writer, which holds the stream's lock, the end moves: a chunk that is being written may look torn or missing.
/// If such damage is found in the last 64 segments, the stream is checked up to five times more, and only damage that is
/// found each time in the same position is reported. The report says so in `is_live`.
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
        // A writer that has terminated meanwhile has moved the end too.
        let was_live = storage.is_locked();
        let is_live = || was_live || storage.is_locked();
        match check(storage, key, options, known.as_deref(), progress) {
            // Retention may have removed all that was listed; or there is nothing yet.
            Err(VerifyError::NoStream) if checks == 1 && is_live() => continue,
            // Retention may have removed a segment since the directory was listed.
            Err(VerifyError::Io { error, .. })
                if may_repeat && error.kind() == io::ErrorKind::NotFound && is_live() => {}
            Ok(mut report) if !report.is_whole() && is_live() => {
                report.is_live = true;
                // Near the end, or in a segment that retention has removed.
                let is_moving = |damage: &Damage| {
                    is_near_end(damage, report.last_segment)
                        || scan::segments(storage)
                            .is_ok_and(|it| it.first().is_some_and(|it| damage.segment < *it))
                };
                if !may_repeat || !report.damages.iter().all(is_moving) {
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

/// Whether writes in flight may reach back to the damage.
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
        let (algorithm, stream) = (identity.algorithm, identity.stream);
        let keys = key.map(|key| keys_at(&mut ratchet, key, algorithm, stream, number));
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

/// The retention mark, if there is one.
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

/// The header that identifies the stream: of those that the key agrees with, or, without a key, of those that hold, the
/// first that names the stream that most headers name.
pub fn stream_header(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
) -> Result<SegmentHeader, VerifyError> {
    let numbers = scan::segments(storage).map_err(VerifyError::io("list the directory"))?;
    identity(storage, &numbers, &headers(storage, &numbers)?, key)
}

/// The beginning of a segment's file.
enum Begin {
    Header(Box<SegmentHeader>),
    /// Zeros instead of a header, or nothing at all: the file is prepared for a segment.
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

/// The beginnings of all segments.
fn headers(storage: &dyn Storage, numbers: &[u64]) -> Result<Vec<Begin>, VerifyError> {
    let begin = |&segment: &u64| {
        let read = || {
            let scan = scan::open_segment(storage, segment, Access::Read)?;
            Ok((scan.header()?, scan.is_blank()?))
        };
        let read = read().map_err(VerifyError::io(format!("read segment {segment}")))?;
        Ok(match read {
            (Ok(header), _) => Begin::Header(Box::new(header)),
            (Err(_), true) => Begin::Blank,
            (Err(error @ (FormatError::Version { .. } | FormatError::Algorithm { .. })), _) => {
                return Err(VerifyError::Format { segment, error });
            }
            (Err(error), _) => Begin::Broken(error),
        })
    };
    numbers.iter().map(begin).collect()
}

/// As [`stream_header`]; where no header holds, by the first whole chunk.
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
        // Forging a stream that says that it is not sealed needs no key.
        None if first.algorithm == Algorithm::None => Err(VerifyError::NotSealed {
            segment: first.number,
        }),
        None => Err(VerifyError::WrongKey {
            segment: first.number,
        }),
    }
}

/// Identifies a stream of which no header holds by its first whole chunk.
fn identity_of_chunks(
    storage: &dyn Storage,
    numbers: &[u64],
    key: Option<&MasterKey>,
) -> Result<Option<SegmentHeader>, VerifyError> {
    for &number in numbers {
        // With a key, a chunk that the key does not agree with says nothing.
        let is_wanted = |header: &ChunkHeader| key.is_none() || header.algorithm.is_sealed();
        let is_whole = |header: &ChunkHeader, body: &[u8]| {
            // Deriving keys takes many steps, so only for a chunk that is whole without them.
            check_chunk(None, header, body).is_ok()
                && key.is_none_or(|key| {
                    let keys = Ratchet::at(key, header.algorithm, header.stream, number).keys();
                    check_chunk(Some(&keys), header, body).is_ok()
                })
        };
        let find = || {
            let mut scan = scan::open_segment(storage, number, Access::Read)?.windowed();
            let found = scan.find(ALIGNMENT as u64, is_wanted, is_whole)?;
            Ok(found.map(|(chunk, _)| header_before(&chunk, number, scan.bytes())))
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
        truncation: None,
    }
}
