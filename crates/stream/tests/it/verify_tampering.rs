//! What somebody who knows the format may do to a stream, and what may happen to its files.

use std::{
    any::Any,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::{StreamMaker, each_seal as each, memory::Memory};
use freeboard_stream::{
    DamageKind, Head, MasterKey, VerifyError, VerifyOptions, VerifyReport,
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, SealUnit, SegmentHeader, StreamId,
        segment_name,
    },
    storage::{Access, Storage, StorageFile},
    verify,
};

fn check(memory: &Memory) -> VerifyReport {
    memory.report(None)
}

fn thirty_six(algorithm: Algorithm, unit: SealUnit) -> StreamMaker {
    let mut maker = StreamMaker::new(algorithm, unit);
    maker.thirty_six();
    maker
}

/// Where the nth chunk of a segment is, from 0.
fn chunk(index: usize) -> std::ops::Range<usize> {
    let begin = ALIGNMENT * (index + 1);
    begin..begin + ALIGNMENT
}

/// A damage's kind, its segment, and the first and last record that it names.
type Found = (DamageKind, u64, Option<(u64, u64)>);

fn kinds(report: &VerifyReport) -> Vec<Found> {
    let damages = report.damages.iter();
    damages
        .map(|damage| (damage.kind, damage.segment, damage.records))
        .collect()
}

/// Checks what a change of segment 2 is taken for, in every way of sealing.
fn changed(change: impl Fn(&mut Vec<u8>), damage: Found) {
    each(|algorithm, unit| {
        let mut memory = thirty_six(algorithm, unit).memory();
        change(memory.segment(2));
        assert_eq!(kinds(&check(&memory)), [damage]);
    });
}

#[test]
fn whole_streams_are_whole() {
    each(|algorithm, unit| {
        let maker = thirty_six(algorithm, unit);
        let report = check(&maker.memory());
        assert_eq!(kinds(&report), []);
        assert_eq!((report.segments, report.chunks, report.records), (3, 9, 36));
        let head = Head::new(36, maker.tag(), algorithm);
        assert_eq!(report.head, Some(head));
        assert_eq!(head.to_string().parse::<Head>(), Ok(head));
        assert_eq!(report.tags_checked, algorithm.is_sealed());
    });
}

#[test]
fn swapped_chunks_are_a_reordering() {
    let swap = |bytes: &mut Vec<u8>| {
        let second = bytes[chunk(1)].to_vec();
        bytes.copy_within(chunk(2), chunk(1).start);
        bytes[chunk(2)].copy_from_slice(&second);
    };
    changed(swap, (DamageKind::Reorder, 2, Some((17, 20))));
}

#[test]
fn a_deleted_chunk_is_a_gap() {
    let delete = |bytes: &mut Vec<u8>| drop(bytes.drain(chunk(1)));
    changed(delete, (DamageKind::Gap, 2, Some((17, 20))));
}

#[test]
fn a_deleted_last_chunk_of_a_segment_is_missing() {
    let delete = |bytes: &mut Vec<u8>| drop(bytes.drain(chunk(2)));
    changed(delete, (DamageKind::Truncated, 2, Some((21, 24))));
}

#[test]
fn a_doubled_chunk_is_a_reordering() {
    let double = |bytes: &mut Vec<u8>| {
        let second = bytes[chunk(1)].to_vec();
        bytes.splice(chunk(2).start..chunk(2).start, second);
    };
    changed(double, (DamageKind::Reorder, 2, Some((17, 20))));
}

#[test]
fn a_missing_segment_is_a_gap() {
    each(|algorithm, unit| {
        let mut memory = thirty_six(algorithm, unit).memory();
        memory.0.remove(&segment_name(2));
        let report = check(&memory);
        assert_eq!(kinds(&report), [(DamageKind::Gap, 2, Some((13, 24)))]);
        assert_eq!(report.damages[0].detail, "segment 2 is missing");
    });
}

#[test]
fn swapped_segments_are_a_reordering() {
    each(|algorithm, unit| {
        let maker = thirty_six(algorithm, unit);
        let mut memory = maker.memory();
        *memory.segment(2) = maker.segments()[2].clone();
        *memory.segment(3) = maker.segments()[1].clone();
        let found = kinds(&check(&memory));
        assert!(
            found.iter().any(|damage| damage.0 == DamageKind::Reorder),
            "{found:?}"
        );
    });
}

#[test]
fn a_chunk_or_segment_of_another_stream_is_tampering() {
    each(|algorithm, unit| {
        let maker = thirty_six(algorithm, unit);
        let mut other = StreamMaker::of(StreamId(*b"another stream !"), algorithm, unit);
        other.thirty_six();
        let mut memory = maker.memory();
        let spliced = other.segments()[1][chunk(1)].to_vec();
        memory.segment(2)[chunk(1)].copy_from_slice(&spliced);
        assert_eq!(
            kinds(&check(&memory)),
            [(DamageKind::Tamper, 2, Some((17, 20)))]
        );
        // Its id changed to this stream's, and the checksum mended.
        if algorithm.is_sealed() {
            let mut header = ChunkHeader::decode(&spliced).unwrap();
            header.stream = maker.stream;
            let place = chunk(1).start;
            memory.segment(2)[place..place + CHUNK_HEADER_BYTES].copy_from_slice(&header.encode());
            let found = kinds(&check(&memory));
            assert_eq!(found[0].0, DamageKind::Tamper);
            let first = found[0].2.map(|(first, _)| first);
            assert_eq!(first, Some(17));
        }
        let mut memory = maker.memory();
        *memory.segment(2) = other.segments()[1].clone();
        let found = kinds(&check(&memory));
        assert_eq!((found[0].0, found[0].1), (DamageKind::Tamper, 2));
    });
}

#[test]
fn a_record_changed_with_its_checksums_mended_is_tampering() {
    each(|algorithm, unit| {
        if !algorithm.is_sealed() {
            return;
        }
        let maker = thirty_six(algorithm, unit);
        let mut forged = StreamMaker::new(algorithm, unit);
        // Forged with another key, and put into the place of the right one, all checksums right.
        forged.key(b"the key of the forger, who has none");
        forged.thirty_six();
        let mut memory = maker.memory();
        let bytes = forged.segments()[1][chunk(1)].to_vec();
        memory.segment(2)[chunk(1)].copy_from_slice(&bytes);
        let found = kinds(&check(&memory));
        assert_eq!(found[0].0, DamageKind::Tamper);
        assert_eq!(found[0].2.map(|(first, _)| first), Some(17));
    });
}

#[test]
fn a_wrong_key_checks_nothing() {
    each(|algorithm, unit| {
        let memory = thirty_six(algorithm, unit).memory();
        let wrong = MasterKey::new(b"not the key that it is").unwrap();
        // A stream that says that it is not sealed needs no key to be written.
        match memory.verify(Some(&wrong), None).unwrap_err() {
            VerifyError::WrongKey { segment: 1 } => assert!(algorithm.is_sealed()),
            VerifyError::NotSealed { segment: 1 } => assert!(!algorithm.is_sealed()),
            error => panic!("{error}"),
        }
    });
}

#[test]
fn an_older_copy_put_back_is_found() {
    each(|algorithm, unit| {
        let mut maker = thirty_six(algorithm, unit);
        let older = maker.segments()[2].clone();
        maker.epoch = 2;
        maker.chunk(["younger"]).segment().chunk(["youngest"]);
        let mut memory = maker.memory();
        *memory.segment(3) = older;
        assert_eq!(
            kinds(&check(&memory)),
            [(DamageKind::Truncated, 3, Some((37, 37)))]
        );
    });
}

#[test]
fn a_head_is_met_within_the_stream_and_missed_when_another() {
    let maker = thirty_six(Algorithm::Blake3, SealUnit::Batch);
    let memory = maker.memory();
    let header = ChunkHeader::decode(&maker.segments()[0][chunk(1)]).unwrap();
    let head = Head::new(8, header.tag, Algorithm::Blake3);
    let with = |head| kinds(&memory.report(Some(head)));
    assert_eq!(with(head), []);
    let other = Head::new(8, maker.tag(), Algorithm::Blake3);
    assert_eq!(with(other), [(DamageKind::Tamper, 3, Some((8, 8)))]);
    let later = Head::new(40, maker.tag(), Algorithm::Blake3);
    assert_eq!(with(later), [(DamageKind::Truncated, 3, Some((37, 40)))]);
}

#[test]
fn many_damages_are_counted_and_some_are_listed() {
    let mut memory = thirty_six(Algorithm::None, SealUnit::Batch).memory();
    for number in 1..=3 {
        for index in 0..3 {
            memory.segment(number)[chunk(index).start + 300] ^= 1;
        }
    }
    let options = VerifyOptions {
        damages_max: 4,
        ..VerifyOptions::default()
    };
    let report = verify(&memory, None, &options, &mut |_| {}).unwrap();
    assert_eq!((report.damages.len(), report.damage_count), (4, 9));
}

#[test]
fn recycled_remains_and_prepared_files_are_no_damage() {
    each(|algorithm, unit| {
        let mut maker = StreamMaker::new(algorithm, unit);
        maker.is_recycled = true;
        maker.thirty_six();
        let older = maker.segments()[0].clone();
        let mut segments = maker.segments().to_vec();
        // Stale chunks, whole and cut off in front, behind the last one.
        segments[2].extend_from_slice(&older[chunk(1)]);
        segments[2].extend_from_slice(&older[chunk(2).start + 100..]);
        // The next file, prepared out of an old one.
        let mut prepared = older.clone();
        prepared[..ALIGNMENT].fill(0);
        segments.push(prepared);
        let report = check(&Memory::of(&segments));
        assert_eq!(kinds(&report), []);
        assert_eq!((report.segments, report.records), (3, 36));
    });
}

#[test]
fn salvage_copies_what_is_whole_and_says_what_is_lost() {
    each(|algorithm, unit| {
        let mut memory = thirty_six(algorithm, unit).memory();
        // Record 18 rots, and the header of the chunk of 25 to 28.
        memory.segment(2)[chunk(1).start + CHUNK_HEADER_BYTES + 200] ^= 1;
        memory.segment(3)[chunk(0).start + 50] ^= 1;
        let (copied, report) = memory.salvage(memory.key().as_ref(), |_, _| {}).unwrap();
        let is_by_batch = algorithm.is_sealed() && unit == SealUnit::Batch;
        let lost = if is_by_batch { (17, 20) } else { (18, 20) };
        let expected =
            (1..=36).filter(|n| !(lost.0..=lost.1).contains(n) && !(25..=28).contains(n));
        assert_eq!(copied, Vec::from_iter(expected));
        assert_eq!(report.lost, [lost, (25, 28)]);
        assert_eq!(report.doubtful, u64::from(is_by_batch));
    });
}

#[test]
fn a_segment_header_that_is_lost_is_named_and_its_records_are_read() {
    let mut memory = thirty_six(Algorithm::None, SealUnit::Batch).memory();
    memory.segment(2)[100] ^= 1;
    let report = check(&memory);
    assert_eq!(kinds(&report), [(DamageKind::Rot, 2, None)]);
    assert_eq!(report.records, 36);
    let header = SegmentHeader::decode(memory.segment(2));
    assert!(header.is_err());
}

/// A stream that somebody writes to: it is locked, and each time it is listed it is what comes next in the row.
#[derive(Debug)]
struct Live {
    states: Vec<Memory>,
    lists: AtomicUsize,
}

impl Live {
    fn now(&self) -> &Memory {
        let index = self.lists.load(Ordering::Relaxed).saturating_sub(1);
        &self.states[index.min(self.states.len() - 1)]
    }
}

impl Storage for Live {
    fn list(&self) -> io::Result<Vec<String>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.now().list()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        self.now().open(name, access)
    }

    fn create(&self, _: &str, _: u64, _: Access) -> io::Result<Arc<dyn StorageFile>> {
        unreachable!("verify creates nothing")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("verify renames nothing")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("verify removes nothing")
    }

    fn sync_directory(&self) -> io::Result<()> {
        unreachable!("verify syncs nothing")
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// How many damages are reported, and how often the stream was checked.
fn check_live(states: Vec<Memory>) -> (u64, usize) {
    let key = states[0].key();
    let live = Live {
        states,
        lists: AtomicUsize::new(0),
    };
    let report = verify(&live, key.as_ref(), &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(
        report.is_live,
        live.lists.load(Ordering::Relaxed) > 1 || report.damage_count > 0
    );
    (report.damage_count, live.lists.into_inner())
}

#[test]
fn what_a_writer_is_writing_is_no_damage() {
    // Each check that finds damage that stays takes most of a second.
    for algorithm in [Algorithm::None, Algorithm::Blake3] {
        let maker = thirty_six(algorithm, SealUnit::Batch);
        let whole = maker.memory();
        let with = |change: &dyn Fn(&mut Memory)| {
            let mut memory = whole.clone();
            change(&mut memory);
            memory
        };
        // The last chunk is half written; the chunk before the last is on its way; a segment was let go.
        let torn = with(&|it| it.segment(3)[chunk(2)][600..].fill(0));
        let late = with(&|it| it.segment(3)[chunk(1)].fill(0));
        let rotten = with(&|it| it.segment(1)[chunk(1)][300] ^= 1);
        let rotten_end = with(&|it| it.segment(3)[chunk(0)][300] ^= 1);
        assert_eq!(check_live(vec![whole.clone()]), (0, 1));
        assert_eq!(check_live(vec![torn.clone(), whole.clone()]), (0, 2));
        assert_eq!(check_live(vec![late.clone(), torn.clone()]), (0, 2));
        assert_eq!(check_live(vec![rotten]), (1, 6));
        assert_eq!(check_live(vec![rotten_end]), (1, 6));
        assert_eq!(check_live(vec![torn]), (1, 6));
    }
}
