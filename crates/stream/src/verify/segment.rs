//! Checks the chunks of one segment.

use std::io;

use crate::{
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, FormatError},
    scan::{Expected, SegmentScan, Slot},
    seal::{SealFault, SegmentKeys, check_chunk},
};

use super::{
    Begin,
    report::DamageKind,
    verify_pass::{Hole, VerifyPass},
};

/// The bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

/// A torn write leaves whole sectors as they were, zero in a new file.
const SECTOR_BYTES: usize = 512;

/// A segment that is checked.
struct SegmentCheck<'a> {
    number: u64,
    is_recycled: bool,
    keys: Option<&'a SegmentKeys>,
}

impl VerifyPass {
    /// Checks a segment. `is_behind_end` says that no later one has begun.
    pub(super) fn segment(
        &mut self,
        number: u64,
        begin: &Begin,
        scan: SegmentScan,
        keys: Option<&SegmentKeys>,
        is_behind_end: bool,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        if let Some(last) = self.last_segment
            && last + 1 != number
        {
            self.missing_segments(last + 1, number - 1, begin.header());
        }
        self.last_segment = Some(number);
        self.report.last_segment = number;
        let fault = match begin {
            Begin::Header(header) => {
                self.header(number, header, keys);
                None
            }
            Begin::Blank if is_behind_end => None,
            Begin::Blank => Some(&FormatError::Magic),
            Begin::Broken(error) => Some(error),
        };
        if let Some(fault) = fault {
            let detail = format!("the segment's header: {fault}");
            self.damage(DamageKind::Rot, (number, 0), None, detail);
        }
        let is_begun = !is_behind_end || !matches!(begin, Begin::Blank);
        self.report.segments += u64::from(is_begun);
        let check = SegmentCheck {
            number,
            // A prepared file may have been recycled.
            is_recycled: begin
                .header()
                .map_or(!is_begun, |header| header.is_recycled),
            keys,
        };
        // The hole at the end of the segments before stays open until a segment follows.
        let before = self.hole.take();
        let chunks_before = self.report.chunks;
        self.hole = Some(check.run(self, scan, before, progress)?);
        if !is_begun && self.report.chunks > chunks_before {
            let detail = "the segment's header is zero, and its chunks follow";
            self.damage(DamageKind::Rot, (number, 0), None, detail);
        }
        Ok(())
    }
}

impl SegmentCheck<'_> {
    /// Checks everything after the segment's header. `hole` is the one at the end of the segment before, which may be
    /// its end. Returns the one at the end of this segment.
    fn run(
        &self,
        pass: &mut VerifyPass,
        mut scan: SegmentScan,
        mut hole: Option<Hole>,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<Hole> {
        let mut offset = ALIGNMENT as u64;
        let mut told = 0;
        loop {
            if offset >= told + PROGRESS_BYTES {
                told = offset;
                progress(offset);
            }
            let mut note = |kind, detail: &str, is_damage| {
                self.note(&mut hole, offset, kind, detail, is_damage);
            };
            let is_wanted = |header: &ChunkHeader| !self.is_left_alone(pass, header);
            let mut step = ALIGNMENT as u64;
            match scan.search(offset, is_wanted)? {
                Slot::End => break,
                Slot::Unread(header) => {
                    let (chunk, epoch) = (header.sequence, header.epoch);
                    let detail = format!("chunk {chunk} of epoch {epoch} is there");
                    note(DamageKind::Stale, &detail, !self.is_recycled);
                }
                Slot::Chunk {
                    header,
                    is_padding_zero,
                } => {
                    self.chunk(pass, &scan, offset, &header, is_padding_zero, &mut hole);
                    step = header.chunk_bytes();
                }
                Slot::Zeros => {
                    note(DamageKind::Gap, "nothing is there", false);
                    step = scan.behind_zeros(offset)? - offset;
                }
                Slot::Cut(header) => {
                    let is_old = pass.expected.is_some_and(|it| it.is_after(&header));
                    let is_stale = self.is_recycled && is_old;
                    let detail = "the file ends inside a chunk";
                    note(DamageKind::Truncated, detail, !is_stale);
                }
                // No writer leaves a file that ends inside a page.
                Slot::NoHeader { head, .. } if head.len() < CHUNK_HEADER_BYTES => {
                    let detail = "the file ends inside a chunk's header";
                    note(DamageKind::Truncated, detail, true);
                }
                Slot::NoHeader { error, head } => {
                    let stream = pass.identity.stream;
                    let is_torn = pass.expected.is_some_and(|it| it.is_torn(&head, stream));
                    let is_stale = self.is_recycled && !is_torn;
                    let kind = if is_stale {
                        DamageKind::Stale
                    } else {
                        DamageKind::Rot
                    };
                    note(kind, &error.to_string(), !is_stale);
                }
            }
            offset += step;
        }
        Ok(hole.unwrap_or(Hole {
            segment: self.number,
            offset: offset.min(scan.bytes()),
            kind: DamageKind::Truncated,
            detail: "the segment ends".to_owned(),
            is_damage: false,
        }))
    }

    /// Notes that the expected chunk is not here. The first position counts, but damage more than a possible end.
    fn note(
        &self,
        hole: &mut Option<Hole>,
        offset: u64,
        kind: DamageKind,
        detail: &str,
        is_damage: bool,
    ) {
        let is_worse = |hole: &Hole| is_damage && !hole.is_damage;
        if hole.as_ref().is_none_or(is_worse) {
            *hole = Some(Hole {
                segment: self.number,
                offset,
                kind,
                detail: detail.to_owned(),
                is_damage,
            });
        }
    }

    /// Whether a chunk of the stream is older and no part of it. The next page is tried then, whatever its body is.
    fn is_left_alone(&self, pass: &VerifyPass, header: &ChunkHeader) -> bool {
        header.stream == pass.identity.stream
            && pass.expected.is_some_and(|expected| {
                if header.sequence < expected.chunk {
                    self.is_recycled
                } else {
                    header.epoch < expected.epoch
                }
            })
    }

    /// Checks a chunk whose header holds.
    fn chunk(
        &self,
        pass: &mut VerifyPass,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
        is_padding_zero: bool,
        hole: &mut Option<Hole>,
    ) {
        let identity = pass.identity;
        if header.stream != identity.stream {
            if !self.is_recycled {
                let detail = format!("a chunk of stream {}", header.stream);
                self.note(hole, offset, DamageKind::Tamper, &detail, true);
            }
            return;
        }
        let expected = pass.expected.unwrap_or(Expected::exactly(header));
        if header.sequence < expected.chunk {
            return self.old(pass, scan, offset, header, expected);
        }
        self.close(pass, offset, header, hole.take(), expected);
        let is_next = header.sequence == expected.chunk;
        let is_chained = !is_next
            || expected
                .previous
                .is_none_or(|previous| previous == header.previous);
        let mut damage = |kind, detail: &str| {
            let records = Some((header.first_record, header.last_record()));
            pass.damage(kind, (self.number, offset), records, detail);
        };
        if (header.algorithm, header.unit) != (identity.algorithm, identity.unit) {
            damage(DamageKind::Tamper, "the chunk is sealed in another way");
        } else if is_next && header.first_record != expected.record {
            let detail = format!("record {} must come next", expected.record);
            damage(DamageKind::Tamper, &detail);
        } else if let Err(fault) = check_chunk(self.keys, header, scan.body()) {
            self.fault(pass, scan, offset, header, fault);
        } else if !is_chained {
            let detail = "the chunk does not name the tag of the one before";
            damage(DamageKind::Tamper, detail);
        } else if !is_padding_zero {
            damage(DamageKind::Rot, "the bytes after its records are not zero");
        } else {
            pass.whole(header);
        }
        pass.expected = Some(Expected::after(header));
    }

    /// Reports the data that is missing before a chunk that holds.
    fn close(
        &self,
        pass: &mut VerifyPass,
        offset: u64,
        header: &ChunkHeader,
        hole: Option<Hole>,
        expected: Expected,
    ) {
        let is_missing = header.sequence > expected.chunk;
        let mut hole = match hole {
            Some(hole) => hole,
            None if is_missing => Hole {
                segment: self.number,
                offset,
                kind: DamageKind::Gap,
                detail: format!(
                    "chunk {} follows chunk {}",
                    header.sequence,
                    expected.chunk - 1
                ),
                is_damage: true,
            },
            None => return,
        };
        // Zeros or garbage between two chunks are damage, even if nothing is missing.
        hole.is_damage |= hole.segment == self.number;
        if header.durable < expected.record && is_missing {
            hole.kind = DamageKind::Torn;
        }
        pass.close_hole(hole, Some(header.first_record));
    }

    /// Reports a chunk that should have come before, in a file that was not recycled.
    fn old(
        &self,
        pass: &mut VerifyPass,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
        expected: Expected,
    ) {
        let is_whole = check_chunk(self.keys, header, scan.body()).is_ok();
        if is_whole && pass.fills_gap(header, self.number, offset) {
            return;
        }
        let kind = if header.epoch < expected.epoch {
            DamageKind::Stale
        } else {
            DamageKind::Reorder
        };
        let records = Some((header.first_record, header.last_record()));
        let detail = format!("chunk {} is here again", header.sequence);
        pass.damage(kind, (self.number, offset), records, detail);
    }

    /// Reports the fault of a chunk's body.
    fn fault(
        &self,
        pass: &mut VerifyPass,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
        fault: SealFault,
    ) {
        let (first, last) = (header.first_record, header.last_record());
        // A forged header may have the highest sequences.
        let record = |index: u32| first.saturating_add(index.into());
        let ((from, to), kind) = match fault {
            SealFault::Record { index, .. } => ((record(index), last), DamageKind::Rot),
            SealFault::RecordTag {
                index,
                is_checksum_right,
                ..
            } => {
                let record = record(index);
                let kind = if is_checksum_right {
                    DamageKind::Tamper
                } else {
                    DamageKind::Rot
                };
                ((record, record), kind)
            }
            SealFault::Body => ((first, last), DamageKind::Rot),
            SealFault::ChunkTag => ((first, last), DamageKind::Tamper),
        };
        // Only the last chunk can be torn. Its unwritten sectors are as they were before.
        let is_last = offset + header.chunk_bytes() >= scan.bytes();
        let mut sectors = scan.body().chunks_exact(SECTOR_BYTES).rev();
        let is_torn = kind == DamageKind::Rot
            && is_last
            && sectors.any(|sector| sector.iter().all(|byte| *byte == 0));
        let kind = if is_torn { DamageKind::Torn } else { kind };
        let records = Some((from.min(last), to));
        pass.damage(kind, (self.number, offset), records, fault.to_string());
    }
}
