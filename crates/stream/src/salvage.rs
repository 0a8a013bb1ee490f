//! Copies the whole records of a damaged stream.
//!
//! Every chunk of the stream whose header holds gives its whole records. Between chunks, segments are read page by page.
//! Nothing is written here: the caller gets the records with their sequences.
//!
//! A record's payload may look like a chunk. So a whole chunk is stepped over as a whole. Inside a damaged one, with a
//! key, each page is tried, and the tags decide. Without a key the length in its header is believed: there is nothing
//! else to check. The limit: where a chunk's *header* is destroyed and there is no key, a payload is taken for a chunk if
//! it copies the stream's id and guesses the next sequence.
//!
//! In a recycled file old chunks follow the end. Their sequences are below the segment's first one, or their epoch is an
//! earlier one: they are not taken.

use std::{collections::BTreeMap, io};

use crate::{
    format::{ALIGNMENT, ChunkHeader, Records, SegmentHeader, is_torn_header},
    reader::RecordRef,
    scan::{self, Slot},
    seal::{MasterKey, Ratchet, SealFault, SegmentKeys, check_chunk, check_segment, keys_at},
    storage::{Access, Storage},
    verify::{Progress, VerifyError, stream_header},
};

/// The options of salvage.
#[derive(Clone, Copy, Debug, Default)]
pub struct SalvageOptions {
    /// Whether to take records whose checksums hold and whose tags do not, or cannot be checked because their chunk is
    /// damaged. They may have been altered.
    pub doubtful: bool,
}

/// The result of salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Records that were handed over.
    pub copied: u64,
    /// Records whose checksums hold and whose tags do not, or cannot be checked; copied only if the options say so.
    pub doubtful: u64,
    /// The first and the last sequence of each stretch that was not handed over, from the first record of the stream's
    /// oldest segment to the last one that any header names.
    pub lost: Vec<(u64, u64)>,
    /// Segments and offsets of bytes that are neither a chunk nor stale. How many records they held is not known. Of
    /// adjacent pages only the first is listed. Chunks whose header holds are counted in `lost` instead.
    pub unreadable: Vec<(u64, u64)>,
}

/// Hands over every whole record once, in the order in which they are found, which is that of their sequences unless the
/// files were changed. With a key, a record is whole if its tag holds, or its chunk's where the stream is sealed by
/// batch.
///
/// # Errors
///
/// As [`verify`](crate::verify): there is no stream, it cannot be read, the key is wrong; or an error of `sink`.
pub fn salvage(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(Progress),
    sink: &mut dyn FnMut(RecordRef<'_>) -> io::Result<()>,
) -> Result<SalvageReport, VerifyError> {
    let header = stream_header(storage, key)?;
    let numbers = scan::segments(storage).map_err(VerifyError::io("list the directory"))?;
    let mut salvage = Salvage {
        header,
        key: key.filter(|_| header.algorithm.is_sealed()),
        options: *options,
        taken: BTreeMap::new(),
        end: header.first_record,
        next_chunk: header.first_chunk,
        epoch: header.epoch,
        last_begun: last_begun(storage, &numbers)
            .map_err(VerifyError::io("read the segments' headers"))?,
        ratchet: None,
        oldest_chunk: if numbers.first() == Some(&header.number) {
            header.first_chunk
        } else {
            0
        },
        report: SalvageReport::default(),
    };
    let bytes_total =
        scan::bytes(storage, &numbers).map_err(VerifyError::io("open the segments"))?;
    let mut bytes_done = 0;
    for &number in &numbers {
        bytes_done += salvage
            .segment(storage, number, sink)
            .map_err(VerifyError::io(format!("salvage segment {number}")))?;
        progress(Progress {
            bytes_done,
            bytes_total,
        });
    }
    Ok(salvage.finish())
}

/// The number of the last segment that does not begin with zeros, 0 for none.
fn last_begun(storage: &dyn Storage, numbers: &[u64]) -> io::Result<u64> {
    for &number in numbers.iter().rev() {
        if !scan::open_segment(storage, number, Access::Read)?.is_blank()? {
            return Ok(number);
        }
    }
    Ok(0)
}

struct Salvage<'a> {
    header: SegmentHeader,
    key: Option<&'a MasterKey>,
    options: SalvageOptions,
    /// The stretches of sequences that were handed over, from first to last.
    taken: BTreeMap<u64, u64>,
    /// One more than the last sequence that a header names.
    end: u64,
    /// One more than the highest sequence of a chunk so far, and its epoch.
    next_chunk: u64,
    epoch: u64,
    /// The last segment that has begun: blank files after it are prepared ones.
    last_begun: u64,
    ratchet: Option<Ratchet>,
    /// The sequence of the stream's first chunk; 0 where the oldest segment's header does not tell.
    oldest_chunk: u64,
    report: SalvageReport,
}

/// A segment, as its header or the segments before it describe it.
struct Segment {
    keys: Option<SegmentKeys>,
    /// The lowest sequence of a chunk in it, and the lowest epoch.
    first_chunk: u64,
    epoch: u64,
    /// Whether stale bytes may be in it.
    is_recycled: bool,
}

/// How many records of a chunk are valid, from its beginning.
struct Valid {
    /// Records that are whole.
    whole: u64,
    /// Records whose checksums hold.
    readable: u64,
}

impl Salvage<'_> {
    /// Hands over the whole records of a segment; returns the length of its file, in bytes.
    fn segment(
        &mut self,
        storage: &dyn Storage,
        number: u64,
        sink: &mut dyn FnMut(RecordRef<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut scan = scan::open_segment(storage, number, Access::Read)?.windowed();
        let segment = self.begin(&scan, number)?;
        let mut offset = ALIGNMENT as u64;
        // The end of the bytes that a chunk's header covers, and the end of the last row of unreadable pages.
        let (mut known_until, mut row_end) = (0, 0);
        loop {
            let next = offset + ALIGNMENT as u64;
            let is_wanted =
                |header: &ChunkHeader| self.is_ours(header) && !self.is_stale(header, &segment);
            offset = match scan.search(offset, is_wanted)? {
                Slot::Unread(header) if self.is_ours(&header) => {
                    let end = offset + header.chunk_bytes();
                    // One of too many that overlap; else stale.
                    if offset >= known_until && is_wanted(&header) {
                        known_until = end;
                        self.end = self.end.max(header.last_record().saturating_add(1));
                    }
                    if segment.keys.is_none() { end } else { next }
                }
                Slot::End => return Ok(scan.bytes()),
                Slot::Zeros => scan.behind_zeros(offset)?,
                Slot::Chunk { header, .. } if self.is_ours(&header) => {
                    let end = offset + header.chunk_bytes();
                    let keys = segment.keys.as_ref();
                    // Inside a damaged chunk only a chunk that the key agrees with is more than a payload.
                    let is_payload = offset < known_until
                        && !(self.is_alike(&header)
                            && check_chunk(keys, &header, scan.body()).is_ok());
                    let is_whole = if is_payload {
                        false
                    } else {
                        known_until = known_until.max(end);
                        self.chunk(&header, scan.body(), keys, sink)?
                    };
                    if is_whole || segment.keys.is_none() {
                        end
                    } else {
                        next
                    }
                }
                Slot::Cut(header) if self.is_ours(&header) => {
                    if !self.is_stale(&header, &segment) {
                        self.end = self.end.max(header.last_record().saturating_add(1));
                    }
                    next
                }
                slot => {
                    if offset >= known_until && !self.may_be_stale(&slot, &segment) {
                        if offset != row_end {
                            self.report.unreadable.push((number, offset));
                        }
                        row_end = next;
                    }
                    next
                }
            };
        }
    }

    fn begin(&mut self, scan: &scan::SegmentScan, number: u64) -> io::Result<Segment> {
        let ours = self.header;
        let ratchet = &mut self.ratchet;
        let keys = self.key;
        let keys = keys.map(|key| keys_at(ratchet, key, ours.algorithm, ours.stream, number));
        let is_genuine = |header: &SegmentHeader| {
            header.stream == ours.stream
                && header.number == number
                && keys
                    .as_ref()
                    .is_none_or(|keys| check_segment(keys, header).is_ok())
        };
        let header = scan.header()?.ok().filter(is_genuine);
        // A blank file before the last begun one has lost its header.
        let is_prepared = number > self.last_begun;
        Ok(Segment {
            first_chunk: header.map_or(self.next_chunk, |header| header.first_chunk),
            epoch: header.map_or(self.epoch, |header| header.epoch),
            is_recycled: is_prepared || header.is_some_and(|header| header.is_recycled),
            keys,
        })
    }

    fn is_ours(&self, header: &ChunkHeader) -> bool {
        header.stream == self.header.stream
    }

    /// Whether a chunk says that it is sealed as the stream is.
    fn is_alike(&self, header: &ChunkHeader) -> bool {
        (header.algorithm, header.unit) == (self.header.algorithm, self.header.unit)
    }

    /// Whether a chunk is of the file's former life, or of an end that was cut off after a crash.
    fn is_stale(&self, header: &ChunkHeader, segment: &Segment) -> bool {
        if !segment.is_recycled {
            return header.sequence < self.oldest_chunk;
        }
        header.sequence < segment.first_chunk
            || header.epoch < segment.epoch
            || header.sequence >= self.next_chunk && header.epoch < self.epoch
    }

    /// Whether bytes that are no chunk of the stream may be remains of the file's former life.
    fn may_be_stale(&self, slot: &Slot, segment: &Segment) -> bool {
        let head = match slot {
            Slot::NoHeader { head, .. } => head,
            _ => return segment.is_recycled,
        };
        let stream = self.header.stream;
        segment.is_recycled && !is_torn_header(head, stream, self.next_chunk, self.end)
    }

    /// Hands over the whole records of a chunk; returns whether it is whole.
    fn chunk(
        &mut self,
        header: &ChunkHeader,
        body: &[u8],
        keys: Option<&SegmentKeys>,
        sink: &mut dyn FnMut(RecordRef<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut valid = valid(header, body, keys);
        // Forging a chunk that says that it is not sealed needs no key.
        if !self.is_alike(header) {
            valid.whole = 0;
        }
        let is_whole = valid.whole == u64::from(header.count);
        if is_whole && header.sequence >= self.next_chunk {
            (self.next_chunk, self.epoch) = (header.sequence + 1, header.epoch);
        }
        self.end = self.end.max(header.last_record().saturating_add(1));
        let records = Records::new(body, header.record_tag_bytes());
        for (record, index) in records.map_while(Result::ok).zip(0..) {
            if index >= valid.readable {
                break;
            }
            let sequence = header.first_record + index;
            let is_doubtful = index >= valid.whole;
            if self.is_taken(sequence) {
                continue;
            }
            self.report.doubtful += u64::from(is_doubtful);
            if is_doubtful && !self.options.doubtful {
                continue;
            }
            sink(RecordRef {
                sequence,
                time_ns: header.time_ns,
                payload: record.payload,
            })?;
            self.report.copied += 1;
            self.take(sequence);
        }
        Ok(is_whole)
    }

    fn is_taken(&self, sequence: u64) -> bool {
        let before = self.taken.range(..=sequence).next_back();
        before.is_some_and(|(_, last)| *last >= sequence)
    }

    /// Notes a sequence that was not taken.
    fn take(&mut self, sequence: u64) {
        let last = self.taken.remove(&(sequence + 1)).unwrap_or(sequence);
        match self.taken.range_mut(..sequence).next_back() {
            Some((_, before)) if *before + 1 == sequence => *before = last,
            _ => {
                self.taken.insert(sequence, last);
            }
        }
    }

    fn finish(mut self) -> SalvageReport {
        let mut next = self.header.first_record;
        for (first, last) in self.taken.into_iter().chain([(self.end, self.end)]) {
            if first > next {
                self.report.lost.push((next, first - 1));
            }
            next = next.max(last.saturating_add(1));
        }
        self.report
    }
}

fn valid(header: &ChunkHeader, body: &[u8], keys: Option<&SegmentKeys>) -> Valid {
    let count = u64::from(header.count);
    let is_tagged = header.record_tag_bytes() > 0 && keys.is_some();
    let needs_chunk_tag = header.algorithm.is_sealed() && keys.is_some() && !is_tagged;
    let (whole, readable) = match check_chunk(keys, header, body) {
        Ok(()) => (count, count),
        Err(SealFault::Record { index, .. }) => {
            // The body may have more than the header says, whose sequences are of other records.
            let readable = count.min(index.into());
            // By batch, the tag over all of them cannot be checked any more.
            (if needs_chunk_tag { 0 } else { readable }, readable)
        }
        Err(SealFault::RecordTag { index, .. }) => (index.into(), count),
        Err(SealFault::Body | SealFault::ChunkTag) => (if is_tagged { count } else { 0 }, count),
    };
    Valid { whole, readable }
}
