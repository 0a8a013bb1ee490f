//! The chunks of one segment.

use std::io;

use crate::{
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, ChunkLikeness},
    scan::{SegmentScan, Slot},
    seal::{SealFault, SegmentKeys, check_chunk},
};

use super::{
    damage::{Damage, DamageKind},
    verify_pass::{Expected, Hole, VerifyPass},
};

/// After so many bytes progress is told.
const PROGRESS_BYTES: u64 = 4 << 20;

/// A torn write leaves whole sectors as they were, zero in a new file.
const SECTOR_BYTES: usize = 512;

/// What is known of the segment.
pub(super) struct SegmentCheck<'a> {
    pub(super) number: u64,
    pub(super) is_recycled: bool,
    pub(super) keys: Option<&'a SegmentKeys>,
}

impl SegmentCheck<'_> {
    /// Checks everything behind the segment's header. `hole` is what the segment before ended with,
    /// where nothing says whether that was its end. Returns what this one ends with.
    pub(super) fn run(
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
            let is_wanted = |header: &ChunkHeader| !self.is_left_alone(pass, header);
            let slot = match scan.search(offset, is_wanted)? {
                Ok(slot) => slot,
                Err(header) => {
                    let (chunk, epoch) = (header.sequence, header.epoch);
                    let detail = format!("chunk {chunk} of epoch {epoch} stands there");
                    let kind = DamageKind::Stale;
                    self.note(&mut hole, offset, kind, &detail, !self.is_recycled);
                    offset += ALIGNMENT as u64;
                    continue;
                }
            };
            offset += match slot {
                Slot::End => break,
                Slot::Chunk {
                    header,
                    is_padding_zero,
                } => self.chunk(pass, &scan, offset, &header, is_padding_zero, &mut hole),
                Slot::Zeros => {
                    self.note(
                        &mut hole,
                        offset,
                        DamageKind::Gap,
                        "nothing is there",
                        false,
                    );
                    scan.behind_zeros(offset)? - offset
                }
                Slot::Cut(header) => {
                    let is_stale = self.is_recycled && self.is_old(pass, &header);
                    let detail = "the file ends inside a chunk";
                    let kind = DamageKind::Truncated;
                    self.note(&mut hole, offset, kind, detail, !is_stale);
                    ALIGNMENT as u64
                }
                // No writer leaves a file that ends inside a page.
                Slot::NoHeader { head, .. } if head.len() < CHUNK_HEADER_BYTES => {
                    let detail = "the file ends inside a chunk's header";
                    self.note(&mut hole, offset, DamageKind::Truncated, detail, true);
                    ALIGNMENT as u64
                }
                Slot::NoHeader { error, head } => {
                    let is_stale = self.is_recycled && !self.is_ours(pass, &head);
                    let kind = if is_stale {
                        DamageKind::Stale
                    } else {
                        DamageKind::Rot
                    };
                    self.note(&mut hole, offset, kind, &error.to_string(), !is_stale);
                    ALIGNMENT as u64
                }
            };
        }
        Ok(hole.unwrap_or(Hole {
            segment: self.number,
            offset: offset.min(scan.bytes()),
            kind: DamageKind::Truncated,
            detail: "the segment ends".to_owned(),
            is_damage: false,
        }))
    }

    /// Notes that what has to come next does not stand here. The first place counts, but damage more
    /// than what may be an end.
    fn note(
        &self,
        hole: &mut Option<Hole>,
        offset: u64,
        kind: DamageKind,
        detail: &str,
        is_damage: bool,
    ) {
        if hole
            .as_ref()
            .is_none_or(|hole| is_damage && !hole.is_damage)
        {
            *hole = Some(Hole {
                segment: self.number,
                offset,
                kind,
                detail: detail.to_owned(),
                is_damage,
            });
        }
    }

    /// Whether a chunk of the stream is of an earlier time, and no part of it: the next page is looked at, whatever
    /// its body is.
    fn is_left_alone(&self, pass: &VerifyPass, header: &ChunkHeader) -> bool {
        let is_ours = header.stream == pass.identity.stream;
        is_ours
            && pass.expected.is_some_and(|expected| {
                if header.sequence < expected.chunk {
                    self.is_recycled
                } else {
                    header.epoch < expected.epoch
                }
            })
    }

    fn is_old(&self, pass: &VerifyPass, header: &ChunkHeader) -> bool {
        pass.expected.is_some_and(|expected| {
            header.sequence < expected.chunk || header.epoch < expected.epoch
        })
    }

    fn is_ours(&self, pass: &VerifyPass, head: &[u8]) -> bool {
        pass.expected.is_some_and(|expected| {
            let stream = pass.identity.stream;
            ChunkLikeness::of(head, stream, expected.chunk, expected.record).is_ours()
        })
    }

    /// Checks a chunk whose header holds; returns how far to go on.
    fn chunk(
        &self,
        pass: &mut VerifyPass,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
        is_padding_zero: bool,
        hole: &mut Option<Hole>,
    ) -> u64 {
        let identity = &pass.identity;
        let records = Some((header.first_record, header.last_record()));
        let damage = |records, kind, detail: String| Damage {
            segment: self.number,
            offset,
            records,
            kind,
            detail,
        };
        if header.stream != identity.stream {
            if !self.is_recycled {
                let detail = format!("a chunk of stream {}", header.stream);
                self.note(hole, offset, DamageKind::Tamper, &detail, true);
            }
            return header.chunk_bytes();
        }
        let expected = pass.expected.unwrap_or(Expected {
            chunk: header.sequence,
            record: header.first_record,
            previous: None,
            epoch: header.epoch,
        });
        if header.sequence < expected.chunk {
            return self.old(pass, scan, offset, header);
        }
        let is_sealed_alike =
            (header.algorithm, header.unit) == (identity.algorithm, identity.unit);
        self.close(pass, offset, header, hole.take(), expected);
        let is_next = header.sequence == expected.chunk;
        let is_chained = !is_next
            || expected
                .previous
                .is_none_or(|previous| previous == header.previous);
        let fault = check_chunk(self.keys, header, scan.body()).err();
        if !is_sealed_alike {
            pass.damage(damage(
                records,
                DamageKind::Tamper,
                "the chunk is sealed in another way".to_owned(),
            ));
        } else if is_next && header.first_record != expected.record {
            pass.damage(damage(
                records,
                DamageKind::Tamper,
                format!("record {} has to come next", expected.record),
            ));
        } else if let Some(fault) = fault {
            pass.damage(self.fault(scan, offset, header, fault));
        } else if !is_chained {
            pass.damage(damage(
                records,
                DamageKind::Tamper,
                "the chunk does not name the tag of the one before".to_owned(),
            ));
        } else if !is_padding_zero {
            pass.damage(damage(
                records,
                DamageKind::Rot,
                "the bytes behind its records are not zero".to_owned(),
            ));
        } else {
            pass.whole(header);
        }
        pass.expected = Some(Expected {
            chunk: header.sequence + 1,
            record: header.last_record() + 1,
            previous: Some(header.tag),
            epoch: header.epoch,
        });
        header.chunk_bytes()
    }

    /// Reports what is missing before a chunk that holds.
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

    /// A chunk that should have come before, in a file without a former life.
    fn old(
        &self,
        pass: &mut VerifyPass,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
    ) -> u64 {
        let is_whole = check_chunk(self.keys, header, scan.body()).is_ok();
        if is_whole && pass.fills_gap(header, self.number, offset) {
            return header.chunk_bytes();
        }
        let is_older = pass
            .expected
            .is_some_and(|expected| header.epoch < expected.epoch);
        pass.damage(Damage {
            segment: self.number,
            offset,
            records: Some((header.first_record, header.last_record())),
            kind: if is_older {
                DamageKind::Stale
            } else {
                DamageKind::Reorder
            },
            detail: format!("chunk {} stands here again", header.sequence),
        });
        header.chunk_bytes()
    }

    fn fault(
        &self,
        scan: &SegmentScan,
        offset: u64,
        header: &ChunkHeader,
        fault: SealFault,
    ) -> Damage {
        let (first, last) = (header.first_record, header.last_record());
        let (records, kind) = match fault {
            SealFault::Record { index, .. } => ((first + u64::from(index), last), DamageKind::Rot),
            SealFault::RecordTag {
                index,
                is_checksum_right,
                ..
            } => {
                let record = first + u64::from(index);
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
        // Only the last chunk can be torn, and what was not written of it is as it was before.
        let is_last = offset + header.chunk_bytes() >= scan.bytes();
        let sectors = scan.body().chunks_exact(SECTOR_BYTES);
        let has_unwritten = sectors
            .rev()
            .any(|sector| sector.iter().all(|byte| *byte == 0));
        let kind = match kind {
            DamageKind::Rot if is_last && has_unwritten => DamageKind::Torn,
            kind => kind,
        };
        Damage {
            segment: self.number,
            offset,
            records: Some((records.0.min(last), records.1)),
            kind,
            detail: fault.to_string(),
        }
    }
}
