//! One pass over the segments: compares each header with the one that must come next.

use crate::{
    format::{ChunkHeader, FormatError, RetentionMark, SegmentHeader},
    head::Head,
    scan::{Expected, NUMBER_STEP_MAX},
    seal::{MasterKey, Ratchet, SegmentFault, SegmentKeys, check_segment, is_mark_genuine},
};

use super::{
    VerifyOptions, is_near_end,
    report::{Damage, DamageKind, TRUNCATIONS_LISTED_MAX, Truncated, VerifyReport},
};

/// A stretch of a segment that does not hold what must come next.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) kind: DamageKind,
    pub(super) detail: String,
    /// Whether it is damage even if nothing is missing.
    pub(super) is_damage: bool,
}

/// One pass over the segments.
pub(super) struct VerifyPass {
    pub(super) identity: SegmentHeader,
    pub(super) report: VerifyReport,
    /// `None` before the first header that holds.
    pub(super) expected: Option<Expected>,
    options: VerifyOptions,
    /// The hole at the end of the last segment.
    pub(super) hole: Option<Hole>,
    /// The indices of the gaps among the damages. A chunk that is found elsewhere makes one a reordering.
    gaps: Vec<usize>,
    pub(super) last_segment: Option<u64>,
    /// Whether a chunk ends with the expected head.
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
                truncations: Vec::new(),
                truncation_count: 0,
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

    pub(super) fn damage(
        &mut self,
        kind: DamageKind,
        (segment, offset): (u64, u64),
        records: Option<(u64, u64)>,
        detail: impl Into<String>,
    ) {
        self.report.damage_count += 1;
        if self.report.damages.len() < self.options.damages_max {
            if kind == DamageKind::Gap {
                self.gaps.push(self.report.damages.len());
            }
            self.report.damages.push(Damage {
                segment,
                offset,
                records,
                kind,
                detail: detail.into(),
            });
        }
    }

    /// Reports a hole after which the stream continues with `next_record`, if anything is missing in it or it is damage
    /// by itself.
    pub(super) fn close_hole(&mut self, hole: Hole, next_record: Option<u64>) {
        let expected = self.expected.map(|expected| expected.record);
        let missing = expected.zip(next_record);
        let missing = missing.and_then(|(first, next)| (next > first).then(|| (first, next - 1)));
        if missing.is_some() || hole.is_damage {
            let records = match next_record {
                Some(_) => missing,
                None => expected.map(|record| (record, record)),
            };
            self.damage(hole.kind, (hole.segment, hole.offset), records, hole.detail);
        }
    }

    /// A chunk was found that should have come earlier. If a gap lacks it, the gap becomes a reordering. Returns
    /// whether it did.
    pub(super) fn fills_gap(&mut self, header: &ChunkHeader, segment: u64, offset: u64) -> bool {
        let (first, last) = (header.first_record, header.last_record());
        let damages = &mut self.report.damages;
        let lacks_it = |&gap: &usize| {
            let records = damages[gap].records;
            records.is_some_and(|records| records.0 <= first && last <= records.1)
        };
        let Some(filled) = self.gaps.iter().position(lacks_it) else {
            return false;
        };
        let gap = &mut damages[self.gaps.swap_remove(filled)];
        gap.kind = DamageKind::Reorder;
        gap.detail = format!(
            "chunk {} belongs here and is in segment {segment} at byte {offset}",
            header.sequence
        );
        true
    }

    /// Counts a whole chunk that is where it must be.
    pub(super) fn whole(&mut self, header: &ChunkHeader) {
        let report = &mut self.report;
        report.chunks += 1;
        report.records += u64::from(header.count);
        report.last_record = header.last_record();
        report.epoch = report.epoch.max(header.epoch);
        report.head = Some(Head::new(
            header.last_record(),
            header.tag,
            header.algorithm,
        ));
        self.is_head_met |=
            self.options.expect_head.is_some() && self.options.expect_head == report.head;
    }

    /// Reports files that are named like segments and are not of the stream.
    pub(super) fn strays(&mut self, names: &[String]) {
        for name in names {
            let detail = format!("{name} is no segment of this stream");
            self.damage(DamageKind::Tamper, (0, 0), None, detail);
        }
    }

    /// Checks that retention has removed the segments before `first`. `last` is the last segment.
    pub(super) fn beginning(
        &mut self,
        first: u64,
        last: u64,
        mark: Option<&Result<RetentionMark, FormatError>>,
        key: Option<&MasterKey>,
    ) {
        let (kind, detail) = match mark {
            None if first == 1 => return,
            None => (DamageKind::Gap, "and there is no retention mark".to_owned()),
            Some(Err(error)) => (DamageKind::Rot, format!("the retention mark: {error}")),
            Some(Ok(mark)) => match self.mark_fault(mark, last, key) {
                Some(what) => (DamageKind::Tamper, format!("the retention mark {what}")),
                None if first <= mark.first_kept => return,
                None => {
                    let kept = mark.first_kept;
                    let detail = format!("and retention has let go those before segment {kept}");
                    (DamageKind::Gap, detail)
                }
            },
        };
        let missing = match first {
            1 => String::new(),
            _ => format!("{}: ", missing(1, first - 1)),
        };
        self.damage(kind, (1, 0), None, missing + &detail);
    }

    /// The fault of a mark whose checksum holds.
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
        // A crash may have lost the segment under whose key it was sealed, but not many.
        if mark.sealed_in > last.saturating_add(NUMBER_STEP_MAX) {
            return Some("says that a far later segment sealed it");
        }
        let ratchet = Ratchet::at(key, identity.algorithm, identity.stream, mark.sealed_in);
        (!is_mark_genuine(&ratchet.keys(), mark)).then_some("has a tag that does not match")
    }

    /// Reports missing segments, and continues with `header`, if it is known.
    pub(super) fn missing_segments(
        &mut self,
        first: u64,
        last: u64,
        header: Option<&SegmentHeader>,
    ) {
        let hole = Hole {
            segment: first,
            offset: 0,
            kind: DamageKind::Gap,
            detail: missing(first, last),
            is_damage: true,
        };
        // A hole before the gap is another damage.
        if let Some(before) = self.hole.take().filter(|before| before.is_damage) {
            self.close_hole(before, None);
        }
        self.close_hole(hole, header.map(|header| header.first_record));
        if let (Some(expected), Some(header)) = (&mut self.expected, header) {
            *expected = Expected {
                previous: None,
                epoch: expected.epoch,
                ..Expected::first_of(header)
            };
        }
    }

    /// Checks a segment's header against the segments before it.
    pub(super) fn header(
        &mut self,
        number: u64,
        header: &SegmentHeader,
        keys: Option<&SegmentKeys>,
    ) {
        let identity = self.identity;
        let at = (number, 0);
        if header.stream != identity.stream {
            let detail = format!("the segment is of stream {}", header.stream);
            return self.damage(DamageKind::Tamper, at, None, detail);
        }
        let (algorithm, unit) = (header.algorithm, header.unit);
        if header.number != number {
            let detail = format!("the file holds segment {}", header.number);
            self.damage(DamageKind::Reorder, at, None, detail);
        } else if (algorithm, unit) != (identity.algorithm, identity.unit) {
            let detail = format!("the header says sealed with {algorithm} by {unit}");
            self.damage(DamageKind::Tamper, at, None, detail);
        } else if let Some(Err(fault)) = keys.map(|keys| check_segment(keys, header)) {
            let detail = match fault {
                SegmentFault::WrongKey => "the header was written with another key",
                SegmentFault::Tampered => "the header's tag does not match",
            };
            self.damage(DamageKind::Tamper, at, None, detail);
        } else if let Some(records) = header.truncation {
            self.report.truncation_count += 1;
            if self.report.truncations.len() < TRUNCATIONS_LISTED_MAX {
                self.report.truncations.push(Truncated {
                    segment: number,
                    records,
                    time_ns: header.created_ns,
                });
            }
        }
        let (first, next) = (header.first_chunk, Expected::first_of(header));
        let Some(expected) = self.expected else {
            self.report.first_record = header.first_record;
            self.expected = Some(next);
            return;
        };
        if first < expected.chunk {
            let before = expected.chunk - 1;
            let detail =
                format!("the segment begins with chunk {first}, and chunk {before} was before it");
            return self.damage(DamageKind::Stale, at, None, detail);
        }
        if first == expected.chunk {
            if expected.previous.is_some_and(|tag| tag != header.previous) {
                let detail = "the header does not name the tag of the chunk before";
                self.damage(DamageKind::Tamper, at, None, detail);
            }
            if header.epoch < expected.epoch {
                let detail = "the header is of an earlier epoch";
                self.damage(DamageKind::Stale, at, None, detail);
            }
        } else if header.first_record <= expected.record {
            // Missing records are reported where the hole is closed.
            let missing = expected.chunk;
            let detail =
                format!("the segment begins with chunk {first}, and chunk {missing} is missing");
            self.damage(DamageKind::Gap, at, None, detail);
        }
        if let Some(hole) = self.hole.take() {
            self.close_hole(hole, Some(header.first_record));
        }
        self.expected = Some(Expected {
            epoch: header.epoch.max(expected.epoch),
            ..next
        });
    }

    /// Reports the damage that only the end shows.
    pub(super) fn finish(mut self, bytes: u64, known: Option<&[Damage]>) -> VerifyReport {
        let mut end = (self.last_segment.unwrap_or(1), 0);
        if let Some(hole) = self.hole.take() {
            end = (hole.segment, hole.offset);
            self.close_hole(hole, None);
        }
        if let Some(known) = known {
            let before = self.report.damages.len();
            let last = self.report.last_segment;
            let position = |damage: &Damage| (damage.segment, damage.offset);
            self.report.damages.retain(|damage| {
                let is_known = known.iter().any(|it| position(it) == position(damage));
                is_known || !is_near_end(damage, last)
            });
            self.report.damage_count -= (before - self.report.damages.len()) as u64;
        }
        self.expected_head(end);
        self.report.bytes = bytes;
        self.report
    }

    fn expected_head(&mut self, end: (u64, u64)) {
        let Some(head) = self.options.expect_head.filter(|_| !self.is_head_met) else {
            return;
        };
        let (sequence, last) = (head.sequence, self.report.last_record);
        let removed =
            |it: &&Truncated| (it.records.kept + 1..=it.records.removed).contains(&sequence);
        let truncated = self.report.truncations.iter().find(removed);
        if let Some(truncated) = truncated {
            let detail = format!("the record {sequence} of the head: {truncated}");
            let records = Some((sequence, sequence));
            self.damage(
                DamageKind::Truncated,
                (truncated.segment, 0),
                records,
                detail,
            );
        } else if sequence > last {
            let detail = format!("the head is at record {sequence}");
            let records = Some((last + 1, sequence));
            self.damage(DamageKind::Truncated, end, records, detail);
        } else if sequence < self.report.first_record {
            let detail = format!("record {sequence} of the head is no longer kept");
            self.damage(DamageKind::Gap, end, None, detail);
        } else {
            let detail = "no chunk ends with the head's record and has its tag";
            self.damage(DamageKind::Tamper, end, Some((sequence, sequence)), detail);
        }
    }
}

/// Says that these segments are missing.
fn missing(first: u64, last: u64) -> String {
    if first == last {
        format!("segment {first} is missing")
    } else {
        format!("segments {first} to {last} are missing")
    }
}
