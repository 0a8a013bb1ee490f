//! Removes all records after one, as a whole and durably.
//!
//! ```text
//!   before    1 ─ 2 ─ 3 ─ 4            the record that is kept last is in segment 2
//!   prepare   truncation.pending       header of segment 3, kept records of a divided chunk      ◀ from here on it holds
//!   complete  remove 4, 3; cut 2; rename truncation.pending to 3
//! ```
//!
//! Each step is durable before the next, so after a crash the files are a shorter stream and the pending segment. The
//! next opening recovers that stream and completes the rest. Completing twice changes nothing more.

use std::io;

use freeboard_platform::clock;

use crate::{
    format::{
        ALIGNMENT, ChunkHeader, HeadsSum, Records, SegmentHeader, SyncKind, TAG_BYTES, Truncation,
        segment_name, write_record,
    },
    index::index_name,
    scan::{self, Expected, Next, SegmentScan},
    seal::{Secret, SegmentKeys, check_segment, seal_chunk, seal_segment},
    snapshot,
    storage::{Access, Storage},
};

use super::{
    error::{OpenError, TailDamage},
    files::PREPARING,
    recovery::Recovered,
};

/// The segment that a truncation begins, until the records after it are removed.
pub(crate) const PENDING: &str = "truncation.pending";

/// Where a walk through a segment ended.
struct Stop {
    scan: SegmentScan,
    offset: u64,
    expected: Expected,
    /// The chunk at `offset`, whose body the scan holds; `None` at the segment's end.
    chunk: Option<ChunkHeader>,
}

/// Writes the segment that follows the record `kept`, under the name by which the truncation takes place. Returns whether
/// there is a record to remove.
pub(crate) fn prepare_truncation(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    recovered: &Recovered,
    kept: u64,
) -> Result<bool, OpenError> {
    let last = recovered.next_record - 1;
    if kept == last {
        return Ok(false);
    }
    let refused = |first| OpenError::Truncation {
        asked: kept,
        first,
        last,
    };
    let (Some(end), Some((active, _))) = (recovered.header, recovered.active) else {
        return Err(refused(0));
    };
    // The segment with the first record to be removed.
    let finished = recovered.finished.iter().find(|it| it.last_record > kept);
    let segment = finished.map_or(active, |it| it.number);
    let (header, scan) = open(storage, segment)?;
    if kept > last || kept + 1 < header.first_record {
        let oldest = recovered.finished.front().map_or(active, |it| it.number);
        return Err(refused(open(storage, oldest)?.0.first_record));
    }
    let segment_keys = keys(secret, &end, segment);
    let is_after = |chunk: &ChunkHeader| chunk.last_record() > kept;
    let stop = walk(scan, &header, segment_keys.as_ref(), is_after)?;
    let Some(divided) = stop.chunk else {
        return Err(damaged(&header, &stop, "it ends before its last record"));
    };
    let mut removed = last;
    for number in segment + 1..=active {
        let truncation = open(storage, number)?.0.truncation;
        removed = removed.max(truncation.map_or(0, |it| it.removed));
    }
    let number = segment + 1;
    let keys = keys(secret, &end, number);
    let mut header = SegmentHeader {
        is_recycled: false,
        number,
        epoch: recovered.epoch,
        first_chunk: stop.expected.chunk,
        first_record: stop.expected.record,
        created_ns: time_ns(),
        segment_bytes: ALIGNMENT as u64,
        previous: stop.expected.previous.expect("the walk began at a header"),
        key_check: [0; 32],
        tag: [0; TAG_BYTES],
        truncation: Some(Truncation { kept, removed }),
        ..end
    };
    seal_segment(keys.as_ref(), &mut header);
    let mut bytes = header.encode().to_vec();
    let count = kept + 1 - divided.first_record;
    if count > 0 {
        let body = stop.scan.body();
        bytes.extend(first_part(
            &divided,
            body,
            count as u32,
            &header,
            keys.as_ref(),
        ));
    }
    write(storage, &bytes).map_err(OpenError::io(format!("write {PENDING}")))?;
    Ok(true)
}

/// The chunk with the first `count` records of a divided one.
fn first_part(
    divided: &ChunkHeader,
    body: &[u8],
    count: u32,
    segment: &SegmentHeader,
    keys: Option<&SegmentKeys>,
) -> Vec<u8> {
    let tag_bytes = divided.record_tag_bytes();
    let (mut part, mut heads) = (Vec::new(), HeadsSum::default());
    let records = Records::new(body, tag_bytes).take(count as usize);
    for record in records.map_while(Result::ok) {
        let head = write_record(&mut part, record.payload, tag_bytes);
        heads.add(head, &[]);
    }
    let mut header = ChunkHeader {
        epoch: segment.epoch,
        // It is durable before it counts, whatever the mode of the stream.
        sync: SyncKind::Batch,
        durable: divided.first_record - 1,
        count,
        body_bytes: u32::try_from(part.len()).expect("a part of a chunk"),
        heads_sum: HeadsSum::default(),
        tag: [0; TAG_BYTES],
        ..*divided
    };
    seal_chunk(keys, &mut header, &mut part, heads);
    let mut bytes = header.encode().to_vec();
    bytes.extend(part);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

fn write(storage: &dyn Storage, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!("{PENDING}{PREPARING}");
    // An attempt that failed may have left it.
    let _ = storage.remove(&unfinished);
    let file = storage.create(&unfinished, 0, Access::Cached)?;
    file.write_at(&[bytes], 0)?;
    file.sync()?;
    storage.rename(&unfinished, PENDING)?;
    storage.sync_directory()
}

/// Completes a truncation that was prepared. Returns whether there was one: then the stream must be recovered again.
///
/// # Errors
///
/// An I/O error, or a file that no writer of this stream has left for its present end; then nothing was changed.
pub(crate) fn complete_truncation(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    recovered: &Recovered,
) -> Result<bool, OpenError> {
    let mut pending = match storage
        .open(PENDING, Access::ReadDevice)
        .and_then(SegmentScan::new)
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        scan => scan.map_err(OpenError::io(format!("open {PENDING}")))?,
    };
    let header = pending_header(&mut pending, secret, recovered)?;
    let before = header.number - 1;
    let (last, scan) = open(storage, before)?;
    let keys = keys(secret, &last, before);
    let is_removed = |chunk: &ChunkHeader| chunk.sequence >= header.first_chunk;
    let stop = walk(scan, &last, keys.as_ref(), is_removed)?;
    if stop.expected.previous != Some(header.previous) || stop.expected.chunk != header.first_chunk
    {
        return Err(foreign("it does not follow the segment before it"));
    }
    let kept = header.truncation.map_or(0, |it| it.kept);
    snapshot::retire_after(storage, kept, false).map_err(OpenError::io("remove snapshots"))?;
    // From the back, so that a second crash meanwhile leaves no gap.
    let read = OpenError::io("list the directory");
    let numbers = scan::segments(storage).map_err(read)?;
    let cut = |error| OpenError::io("remove the records after a truncation")(error);
    for number in numbers
        .into_iter()
        .rev()
        .take_while(|it| *it >= header.number)
    {
        let _ = storage.remove(&index_name(number));
        storage.remove(&segment_name(number)).map_err(cut)?;
        storage.sync_directory().map_err(cut)?;
    }
    let shorten = || {
        let file = storage.open(&segment_name(before), Access::Cached)?;
        file.resize(stop.offset)?;
        file.sync()?;
        let _ = storage.remove(&index_name(before));
        storage.rename(PENDING, &segment_name(header.number))?;
        storage.sync_directory()
    };
    shorten().map_err(cut)?;
    Ok(true)
}

/// The header of the pending segment, if a writer of this stream has left it at the stream's present end.
fn pending_header(
    pending: &mut SegmentScan,
    secret: Option<Secret<'_>>,
    recovered: &Recovered,
) -> Result<SegmentHeader, OpenError> {
    let header = pending
        .header()
        .map_err(OpenError::io(format!("read {PENDING}")))?;
    let header = header.map_err(|error| foreign(error.to_string()))?;
    let Some(stream) = &recovered.header else {
        return Err(foreign("there is no segment before it"));
    };
    let sealed = |it: &SegmentHeader| (it.stream, it.algorithm, it.unit);
    let checks = [
        (header.truncation.is_some(), "it is no truncation's"),
        (sealed(&header) == sealed(stream), "it is another stream's"),
        // Before the keys are derived, which takes as many steps.
        (
            header.number <= recovered.next_segment,
            "its segment does not follow",
        ),
        // A copy of a segment that an earlier truncation has begun.
        (
            header.epoch >= recovered.epoch,
            "it is older than the stream's end",
        ),
    ];
    if let Some((_, reason)) = checks.into_iter().find(|(holds, _)| !holds) {
        return Err(foreign(reason));
    }
    let keys = keys(secret, stream, header.number);
    let keys_hold = |keys: &SegmentKeys| check_segment(keys, &header).is_ok();
    if !keys.as_ref().is_none_or(keys_hold) {
        return Err(foreign("its tag does not match"));
    }
    Ok(header)
}

fn foreign(reason: impl Into<String>) -> OpenError {
    OpenError::PendingTruncation {
        reason: reason.into(),
    }
}

fn open(storage: &dyn Storage, number: u64) -> Result<(SegmentHeader, SegmentScan), OpenError> {
    let io = || OpenError::io(format!("read segment {number}"));
    let scan = scan::open_segment(storage, number, Access::ReadDevice).map_err(io())?;
    let header = scan.header().map_err(io())?;
    let header = header.map_err(|error| OpenError::Format {
        segment: number,
        error,
    })?;
    Ok((header, scan))
}

/// The keys of segment `number`, where the stream is sealed.
fn keys(secret: Option<Secret<'_>>, stream: &SegmentHeader, number: u64) -> Option<SegmentKeys> {
    let secret = secret.filter(|_| stream.algorithm.is_sealed())?;
    Some(secret.at(stream.algorithm, stream.stream, number)?.keys())
}

/// Walks through a segment to the first chunk of which `is_wanted` holds, or to its end.
fn walk(
    mut scan: SegmentScan,
    header: &SegmentHeader,
    keys: Option<&SegmentKeys>,
    is_wanted: impl Fn(&ChunkHeader) -> bool,
) -> Result<Stop, OpenError> {
    let mut offset = ALIGNMENT as u64;
    let mut expected = Expected::first_of(header);
    loop {
        let next = scan
            .next(offset, &expected, header, keys)
            .map_err(OpenError::io(format!("read segment {}", header.number)))?;
        let chunk = match next {
            Next::Chunk(chunk) if !is_wanted(&chunk) => {
                offset += chunk.chunk_bytes();
                expected = Expected::after(&chunk);
                continue;
            }
            Next::Chunk(chunk) => Some(*chunk),
            // Stale bytes of a recycled file, or the segment's end.
            Next::Nothing | Next::Broken(_) => None,
        };
        return Ok(Stop {
            scan,
            offset,
            expected,
            chunk,
        });
    }
}

fn damaged(header: &SegmentHeader, stop: &Stop, reason: &str) -> OpenError {
    OpenError::damaged(TailDamage {
        segment: header.number,
        offset: stop.offset,
        record: stop.expected.record,
        reason: reason.to_owned(),
        behind: "the segment after it begins later".to_owned(),
    })
}

fn time_ns() -> u64 {
    u64::try_from(clock::since_1970().as_nanos()).unwrap_or(u64::MAX)
}
