//! What can be saved out of a damaged stream.
//!
//! All segments are read page by page; every chunk of the stream whose header holds gives what is
//! whole in it. Nothing is written here: the caller has the records, with their sequences, and puts
//! them where he likes, into a new stream as a rule.

use std::{collections::BTreeMap, io};

use crate::{
    format::{ALIGNMENT, ChunkHeader, Records, SegmentHeader},
    reader::RecordRef,
    scan::{self, Slot},
    seal::{MasterKey, Ratchet, SealFault, SegmentKeys, check_chunk},
    storage::{Access, Storage},
    verify::{Progress, VerifyError, stream_header},
};

/// What salvage takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SalvageOptions {
    /// Whether to take records whose checksums hold and whose tags do not, or cannot be checked for
    /// damage in their chunk: somebody may have altered them.
    pub doubtful: bool,
}

/// What salvage has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Records that were handed over.
    pub copied: u64,
    /// Records whose checksums hold and that nothing else vouches for; copied only if asked for.
    pub doubtful: u64,
    /// The first and the last sequence of each stretch that was not handed over, from the first
    /// record of the stream's oldest segment to the last one that any header speaks of.
    pub lost: Vec<(u64, u64)>,
}

/// Hands over every whole record once, in the order in which they are found, which is that of their
/// sequences unless the files were changed. With a key, a record is whole if its tag holds, or its
/// chunk's where the stream is sealed by batch.
///
/// # Errors
///
/// As [`verify`](crate::verify): there is no stream, it cannot be read, the key is wrong; or what
/// `sink` says.
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

struct Salvage<'a> {
    header: SegmentHeader,
    key: Option<&'a MasterKey>,
    options: SalvageOptions,
    /// The stretches of sequences that were handed over: first to last.
    taken: BTreeMap<u64, u64>,
    /// One more than the last sequence that a header speaks of.
    end: u64,
    report: SalvageReport,
}

/// What vouches for the records of a chunk.
struct Vouched {
    /// So many from the beginning are whole.
    whole: u64,
    /// So many from the beginning have checksums that hold.
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
        let header = &self.header;
        let keys = self
            .key
            .map(|key| Ratchet::at(key, header.algorithm, header.stream, number).keys());
        let mut offset = ALIGNMENT as u64;
        loop {
            offset += match scan.read(offset)? {
                Slot::End => return Ok(scan.bytes()),
                Slot::Chunk { header, .. } if header.stream == self.header.stream => {
                    self.chunk(&header, scan.body(), keys.as_ref(), sink)?;
                    // A page at a time: what a damaged header would step over may be whole.
                    ALIGNMENT as u64
                }
                Slot::Cut(header) if header.stream == self.header.stream => {
                    self.end = self.end.max(header.last_record().saturating_add(1));
                    ALIGNMENT as u64
                }
                _ => ALIGNMENT as u64,
            };
        }
    }

    fn chunk(
        &mut self,
        header: &ChunkHeader,
        body: &[u8],
        keys: Option<&SegmentKeys>,
        sink: &mut dyn FnMut(RecordRef<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut vouched = vouched(header, body, keys);
        // Whoever writes a chunk that says that it is not sealed needs no key.
        if (header.algorithm, header.unit) != (self.header.algorithm, self.header.unit) {
            vouched.whole = 0;
        }
        self.end = self.end.max(header.last_record().saturating_add(1));
        let records = Records::new(body, header.record_tag_bytes());
        for (record, index) in records.map_while(Result::ok).zip(0..) {
            if index >= vouched.readable {
                break;
            }
            let sequence = header.first_record + index;
            let is_doubtful = index >= vouched.whole;
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
        Ok(())
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

fn vouched(header: &ChunkHeader, body: &[u8], keys: Option<&SegmentKeys>) -> Vouched {
    let count = u64::from(header.count);
    let is_tagged = header.record_tag_bytes() > 0 && keys.is_some();
    let needs_chunk_tag = header.algorithm.is_sealed() && keys.is_some() && !is_tagged;
    match check_chunk(keys, header, body) {
        Ok(()) => Vouched {
            whole: count,
            readable: count,
        },
        Err(SealFault::Record { index, .. }) => {
            // There may be more than the header says, whose sequences are others'.
            let readable = count.min(index.into());
            Vouched {
                // By batch, the tag over all of them cannot be checked any more.
                whole: if needs_chunk_tag { 0 } else { readable },
                readable,
            }
        }
        Err(SealFault::RecordTag { index, .. }) => Vouched {
            whole: index.into(),
            readable: count,
        },
        Err(SealFault::Body | SealFault::ChunkTag) => Vouched {
            whole: if is_tagged { count } else { 0 },
            readable: count,
        },
    }
}
