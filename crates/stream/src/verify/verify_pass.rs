//! What has to come next, and what was found instead.

use std::io;

use crate::{
    format::{ChunkHeader, FormatError, RetentionMark, SegmentHeader, Tag},
    head::Head,
    scan::{NUMBER_STEP_MAX, SegmentScan},
    seal::{MasterKey, Ratchet, SegmentFault, SegmentKeys, check_segment, is_mark_genuine},
};

use super::{
    Begin, VerifyOptions,
    damage::{Damage, DamageKind},
    is_near_end,
    report::VerifyReport,
    segment::SegmentCheck,
};

/// What has to come next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) chunk: u64,
    pub(super) record: u64,
    /// The tag of the chunk before; `None` where that is damaged.
    pub(super) previous: Option<Tag>,
    pub(super) epoch: u64,
}

/// A stretch of a segment in which what has to come next is not.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) kind: DamageKind,
    pub(super) detail: String,
    /// Whether it is damage even if nothing is missing there.
    pub(super) is_damage: bool,
}

/// A check on its way through the segments.
pub(super) struct VerifyPass {
    pub(super) identity: SegmentHeader,
    pub(super) report: VerifyReport,
    pub(super) expected: Option<Expected>,
    options: VerifyOptions,
    /// The hole that the last segment ended with.
    hole: Option<Hole>,
    /// The gaps that were reported, by their place in the list: a chunk that is found elsewhere makes
    /// one a reordering.
    gaps: Vec<usize>,
    last_segment: Option<u64>,
    /// Whether a chunk was seen to end with the expected head.
    is_head_met: bool,
}

impl VerifyPass {
    pub(super) fn new(identity: &SegmentHeader, has_keys: bool, options: &VerifyOptions) -> Self {
        Self {
            identity: *identity,
            report: VerifyReport {
                stream: identity.stream,
                algorithm: identity.algorithm,
                unit: identity.unit,
                tags_checked: has_keys,
                is_live: false,
                segments: 0,
                last_segment: 0,
                chunks: 0,
                records: 0,
                bytes: 0,
                first_record: 0,
                last_record: 0,
                epoch: identity.epoch,
                head: None,
                damages: Vec::new(),
                damage_count: 0,
            },
            expected: None,
            options: options.clone(),
            hole: None,
            gaps: Vec::new(),
            last_segment: None,
            is_head_met: false,
        }
    }

    pub(super) fn damage(&mut self, damage: Damage) {
        self.report.damage_count += 1;
        if self.report.damages.len() < self.options.damages_max {
            if damage.kind == DamageKind::Gap {
                self.gaps.push(self.report.damages.len());
            }
            self.report.damages.push(damage);
        }
    }

    /// Reports a hole behind which the stream goes on with `next_record`, if anything is missing in
    /// it or it is damage by itself.
    pub(super) fn close_hole(&mut self, hole: Hole, next_record: Option<u64>) {
        let missing = self.expected.and_then(|expected| {
            let next = next_record?;
            (next > expected.record).then(|| (expected.record, next - 1))
        });
        if missing.is_some() || hole.is_damage {
            let begun = self
                .expected
                .map(|expected| (expected.record, expected.record));
            self.damage(Damage {
                segment: hole.segment,
                offset: hole.offset,
                records: match next_record {
                    Some(_) => missing,
                    None => begun,
                },
                kind: hole.kind,
                detail: hole.detail,
            });
        }
    }

    /// A chunk was found that should have come earlier: if it is what a gap lacks, the gap is a
    /// reordering. Whether it was.
    pub(super) fn fills_gap(&mut self, header: &ChunkHeader, segment: u64, offset: u64) -> bool {
        let records = (header.first_record, header.last_record());
        let damages = &mut self.report.damages;
        let filled = self.gaps.iter().position(|&gap| {
            damages[gap]
                .records
                .is_some_and(|(first, last)| first <= records.0 && records.1 <= last)
        });
        let Some(filled) = filled else {
            return false;
        };
        let gap = &mut damages[self.gaps.swap_remove(filled)];
        gap.kind = DamageKind::Reorder;
        gap.detail = format!(
            "chunk {} belongs here and stands in segment {segment} at byte {offset}",
            header.sequence
        );
        true
    }

    /// A whole chunk in its place.
    pub(super) fn whole(&mut self, header: &ChunkHeader) {
        self.report.chunks += 1;
        self.report.records += u64::from(header.count);
        self.report.last_record = header.last_record();
        self.report.epoch = self.report.epoch.max(header.epoch);
        let head = Head::new(header.last_record(), header.tag, header.algorithm);
        self.report.head = Some(head);
        if self
            .options
            .expect_head
            .is_some_and(|expected| expected == head)
        {
            self.is_head_met = true;
        }
    }

    /// Reports files that are named like segments and are none of the stream.
    pub(super) fn strays(&mut self, names: &[String]) {
        for name in names {
            self.damage(Damage {
                segment: 0,
                offset: 0,
                records: None,
                kind: DamageKind::Tamper,
                detail: format!("{name} is no segment of this stream"),
            });
        }
    }

    /// Checks that retention has let go the segments before `first`. `last` is the last segment that there is.
    pub(super) fn beginning(
        &mut self,
        first: u64,
        last: u64,
        mark: Option<&Result<RetentionMark, FormatError>>,
        key: Option<&MasterKey>,
    ) {
        let fault = match mark {
            None if first == 1 => return,
            None => Some((DamageKind::Gap, "and there is no retention mark".to_owned())),
            Some(Err(error)) => Some((DamageKind::Rot, format!("the retention mark: {error}"))),
            Some(Ok(mark)) => self
                .mark_fault(mark, last, key)
                .map(|what| (DamageKind::Tamper, format!("the retention mark {what}")))
                .or_else(|| {
                    let kept = mark.first_kept;
                    let detail = format!("and retention has let go those before segment {kept}");
                    (first > kept).then_some((DamageKind::Gap, detail))
                }),
        };
        if let Some((kind, detail)) = fault {
            let missing = match first {
                1 => String::new(),
                _ => format!("segments 1 to {} are missing: ", first - 1),
            };
            self.damage(Damage {
                segment: 1,
                offset: 0,
                records: None,
                kind,
                detail: missing + &detail,
            });
        }
    }

    /// What is wrong with a mark whose checksum holds.
    fn mark_fault(
        &self,
        mark: &RetentionMark,
        last: u64,
        key: Option<&MasterKey>,
    ) -> Option<&'static str> {
        let identity = &self.identity;
        if mark.stream != identity.stream {
            return Some("is another stream's");
        }
        if mark.algorithm != identity.algorithm {
            return Some("is sealed in another way");
        }
        let key = key?;
        // A crash may have taken the segment under whose key it was sealed, but not many.
        if mark.sealed_in > last.saturating_add(NUMBER_STEP_MAX) {
            return Some("says that a far later segment sealed it");
        }
        let ratchet = Ratchet::at(key, identity.algorithm, identity.stream, mark.sealed_in);
        (!is_mark_genuine(&ratchet.keys(), mark)).then_some("has a tag that does not match")
    }

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
        let is_recycled = match begin {
            Begin::Header(header) => {
                self.header(number, header, keys);
                header.is_recycled
            }
            // It may have had a former life.
            Begin::Blank if is_behind_end => true,
            Begin::Blank => {
                self.broken_header(number, &FormatError::Magic);
                false
            }
            Begin::Broken(error) => {
                self.broken_header(number, error);
                false
            }
        };
        let is_begun = !is_behind_end || !matches!(begin, Begin::Blank);
        self.report.segments += u64::from(is_begun);
        let check = SegmentCheck {
            number,
            is_recycled,
            keys,
        };
        // What the segments before ended with stays open until a segment follows.
        let before = self.hole.take();
        let chunks_before = self.report.chunks;
        self.hole = Some(check.run(self, scan, before, progress)?);
        if !is_begun && self.report.chunks > chunks_before {
            self.damage(Damage {
                segment: number,
                offset: 0,
                records: None,
                kind: DamageKind::Rot,
                detail: "the segment's header is zero, and its chunks follow".to_owned(),
            });
        }
        Ok(())
    }

    fn broken_header(&mut self, number: u64, error: &FormatError) {
        self.damage(Damage {
            segment: number,
            offset: 0,
            records: None,
            kind: DamageKind::Rot,
            detail: format!("the segment's header: {error}"),
        });
    }

    /// Reports that segments are not there, and goes on with `header`, if it is known.
    fn missing_segments(&mut self, first: u64, last: u64, header: Option<&SegmentHeader>) {
        let hole = Hole {
            segment: first,
            offset: 0,
            kind: DamageKind::Gap,
            detail: format!("segments {first} to {last} are missing"),
            is_damage: true,
        };
        // What is broken before the gap is another damage.
        if let Some(before) = self.hole.take().filter(|before| before.is_damage) {
            self.close_hole(before, None);
        }
        self.close_hole(hole, header.map(|header| header.first_record));
        if let (Some(expected), Some(header)) = (&mut self.expected, header) {
            *expected = Expected {
                chunk: header.first_chunk,
                record: header.first_record,
                previous: None,
                epoch: expected.epoch,
            };
        }
    }

    /// Checks a segment's header against what came before it.
    fn header(&mut self, number: u64, header: &SegmentHeader, keys: Option<&SegmentKeys>) {
        let mut wrong = |kind, detail: String| {
            self.report.damage_count += 1;
            if self.report.damages.len() < self.options.damages_max {
                self.report.damages.push(Damage {
                    segment: number,
                    offset: 0,
                    records: None,
                    kind,
                    detail,
                });
            }
        };
        if header.stream != self.identity.stream {
            wrong(
                DamageKind::Tamper,
                format!("the segment is of stream {}", header.stream),
            );
            return;
        }
        if header.number != number {
            wrong(
                DamageKind::Reorder,
                format!("the file holds segment {}", header.number),
            );
        } else if (header.algorithm, header.unit) != (self.identity.algorithm, self.identity.unit) {
            wrong(
                DamageKind::Tamper,
                format!(
                    "the header says sealed with {} by {}",
                    header.algorithm, header.unit
                ),
            );
        } else if let Some(Err(fault)) = keys.map(|keys| check_segment(keys, header)) {
            let what = match fault {
                SegmentFault::WrongKey => "the header was written with another key",
                SegmentFault::Tampered => "the header's tag does not match",
            };
            wrong(DamageKind::Tamper, what.to_owned());
        }
        let Some(expected) = self.expected else {
            self.report.first_record = header.first_record;
            self.expected = Some(Expected {
                chunk: header.first_chunk,
                record: header.first_record,
                previous: Some(header.previous),
                epoch: header.epoch,
            });
            return;
        };
        if header.first_chunk < expected.chunk {
            wrong(
                DamageKind::Stale,
                format!(
                    "the segment begins with chunk {}, and chunk {} was before it",
                    header.first_chunk,
                    expected.chunk - 1
                ),
            );
            return;
        }
        if header.first_chunk == expected.chunk {
            if expected
                .previous
                .is_some_and(|previous| previous != header.previous)
            {
                wrong(
                    DamageKind::Tamper,
                    "the header does not name the tag of the chunk before".to_owned(),
                );
            }
            if header.epoch < expected.epoch {
                wrong(
                    DamageKind::Stale,
                    "the header is of an earlier epoch".to_owned(),
                );
            }
        } else if header.first_record <= expected.record {
            // Missing records are reported where the hole is closed.
            wrong(
                DamageKind::Gap,
                format!(
                    "the segment begins with chunk {}, and chunk {} is missing",
                    header.first_chunk, expected.chunk
                ),
            );
        }
        if let Some(hole) = self.hole.take() {
            self.close_hole(hole, Some(header.first_record));
        }
        self.expected = Some(Expected {
            chunk: header.first_chunk,
            record: header.first_record,
            previous: Some(header.previous),
            epoch: header.epoch.max(expected.epoch),
        });
    }

    /// What is left to say at the end.
    pub(super) fn finish(mut self, bytes: u64, known: Option<&[Damage]>) -> VerifyReport {
        let (mut segment, mut offset) = (self.last_segment.unwrap_or(1), 0);
        if let Some(hole) = self.hole.take() {
            (segment, offset) = (hole.segment, hole.offset);
            self.close_hole(hole, None);
        }
        if let Some(known) = known {
            let before = self.report.damages.len();
            let end = self.report.last_segment;
            let place = |damage: &Damage| (damage.segment, damage.offset);
            self.report.damages.retain(|damage| {
                let is_known = known.iter().any(|it| place(it) == place(damage));
                is_known || !is_near_end(damage, end)
            });
            self.report.damage_count -= (before - self.report.damages.len()) as u64;
        }
        self.expected_head(segment, offset);
        self.report.bytes = bytes;
        self.report
    }

    fn expected_head(&mut self, segment: u64, offset: u64) {
        let Some(expected) = self.options.expect_head.filter(|_| !self.is_head_met) else {
            return;
        };
        let last = self.report.last_record;
        let damage = |records, kind, detail: String| Damage {
            segment,
            offset,
            records,
            kind,
            detail,
        };
        let damage = if expected.sequence > last {
            damage(
                Some((last + 1, expected.sequence)),
                DamageKind::Truncated,
                format!("the head is at record {}", expected.sequence),
            )
        } else if expected.sequence < self.report.first_record {
            damage(
                None,
                DamageKind::Gap,
                format!("record {} of the head is no longer kept", expected.sequence),
            )
        } else {
            damage(
                Some((expected.sequence, expected.sequence)),
                DamageKind::Tamper,
                "no chunk ends with the head's record and has its tag".to_owned(),
            )
        };
        self.damage(damage);
    }
}
