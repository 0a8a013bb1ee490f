//! Readers and salvage at damage: nothing is passed over in silence, nothing stops for ever, and
//! nothing that is forged is handed out.

use crate::support::{
    StreamMaker, key,
    memory::{Memory, read_past_damage},
};
use freeboard_stream::{
    ReadError, ReadFrom, StreamReader,
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, HeadsSum, SealUnit, SegmentHeader,
        segment_name, write_record,
    },
    seal::{seal_chunk, seal_segment},
};

/// Three segments of three chunks of two records each: 1 to 18. Each chunk takes 4 KiB.
fn eighteen() -> Memory {
    let mut maker = StreamMaker::new(Algorithm::Blake3, SealUnit::Record);
    for segment in 0..3u8 {
        maker.segment();
        for chunk in 0..3u8 {
            maker.chunk([vec![segment; 20], vec![chunk; 30]]);
        }
    }
    maker.memory()
}

fn reader(memory: &Memory, from: ReadFrom) -> StreamReader {
    memory.reader(Some(key()), from).unwrap()
}

/// Reads to the end, past all damage: the sequences, and where damage was.
fn read(memory: &Memory) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (sequences, damages) = read_past_damage(&mut reader(memory, ReadFrom::Start));
    let position = |damage| match damage {
        ReadError::Damaged {
            segment, offset, ..
        } => (segment, offset),
        error => panic!("{error}"),
    };
    let damages: Vec<_> = damages.into_iter().map(position).collect();
    assert!(
        damages.windows(2).all(|pair| pair[0] != pair[1]),
        "it stays there"
    );
    (sequences, damages)
}

/// Checks which records are read, and where the damage is.
#[track_caller]
fn check(memory: &Memory, kept: impl IntoIterator<Item = u64>, damage: (u64, usize)) {
    let damages = vec![(damage.0, damage.1 as u64)];
    assert_eq!(read(memory), (Vec::from_iter(kept), damages));
}

/// A chunk in the place of another, by somebody who has no key.
fn forge(memory: &mut Memory, segment: u64, page: usize) {
    let place = page * ALIGNMENT..(page + 1) * ALIGNMENT;
    let chunk = &mut memory.segment(segment)[place];
    let mut header = ChunkHeader::decode(chunk).unwrap();
    let (mut body, mut heads) = (Vec::new(), HeadsSum::default());
    for _ in 0..header.count {
        let head = write_record(&mut body, b"forged", 0);
        heads.add(head, &[]);
    }
    (header.algorithm, header.unit) = (Algorithm::None, SealUnit::Batch);
    header.body_bytes = body.len() as u32;
    seal_chunk(None, &mut header, &mut body, heads);
    chunk.fill(0);
    chunk[..CHUNK_HEADER_BYTES].copy_from_slice(&header.encode());
    chunk[CHUNK_HEADER_BYTES..][..body.len()].copy_from_slice(&body);
}

#[test]
fn rot_behind_a_chunks_records_is_skipped() {
    let mut memory = eighteen();
    memory.segment(2)[3 * ALIGNMENT - 1] ^= 1;
    let kept = (1..=18).filter(|sequence| ![9, 10].contains(sequence));
    check(&memory, kept, (2, 2 * ALIGNMENT));
}

#[test]
fn a_segment_whose_header_is_lost_is_damage() {
    let mut memory = eighteen();
    memory.segment(2)[100] ^= 1;
    check(&memory, (1..=6).chain(13..=18), (1, 4 * ALIGNMENT));
}

#[test]
fn a_segment_that_is_missing_is_damage() {
    let mut memory = eighteen();
    memory.0.remove(&segment_name(2));
    check(&memory, (1..=6).chain(13..=18), (1, 4 * ALIGNMENT));
}

#[test]
fn segments_that_cannot_be_read_are_reported_and_passed_over() {
    for segment in 1..=3 {
        for page in 0..4 {
            let mut memory = eighteen();
            let broken = (page * ALIGNMENT) as u64;
            memory.2 = Some((segment_name(segment), broken));
            let first = segment * 6 - 5;
            // A header that cannot be read, or the first chunk.
            let kept = first + 2 * (page as u64).saturating_sub(1);
            // Without the header of segment 2, what is in segment 3 is looked for from segment 1 on.
            let is_met = segment == 3 || (segment, page) == (2, 0);
            let tail = if (segment, page) == (2, 0) { 7 } else { 19 };
            for (from, begin, is_met) in [
                (ReadFrom::Start, 1, true),
                (ReadFrom::Time(0), 1, true),
                (ReadFrom::Sequence(14), 14, is_met),
                (ReadFrom::Tail, tail, is_met),
            ] {
                let (sequences, errors) = read_past_damage(&mut reader(&memory, from));
                let what = format!("segment {segment}, page {page}, {from:?}: {errors:?}");
                let expected = (1..kept).chain(first + 6..=18);
                let expected = expected.filter(|sequence| *sequence >= begin);
                assert_eq!(sequences, Vec::from_iter(expected), "{what}");
                assert_eq!(errors.len(), usize::from(is_met), "{what}");
                let names_it = |error: &ReadError| {
                    matches!(error, ReadError::Io { segment: Some(named), .. } if *named == segment)
                        && error.to_string().contains(&format!("segment {segment}"))
                };
                assert!(errors.iter().all(names_it), "{what}");
            }
        }
    }
    let mut memory = eighteen();
    // A version that is not known.
    let segment = memory.segment(2);
    segment[8..10].fill(0xff);
    let checksum = crc32c::crc32c(&segment[..ALIGNMENT - 4]);
    segment[ALIGNMENT - 4..ALIGNMENT].copy_from_slice(&checksum.to_le_bytes());
    let (sequences, errors) = read_past_damage(&mut reader(&memory, ReadFrom::Start));
    assert_eq!(sequences, Vec::from_iter((1..=6).chain(13..=18)));
    assert!(matches!(errors[..], [ReadError::Format { segment: 2, .. }]));
}

/// What a process out of descriptors meets. `skips_all` calls `skip_damage` after all errors, and not only after damage.
#[test]
fn a_temporary_error_passes_over_no_segment() {
    let mut memory = eighteen();
    memory.segment(1)[4 * ALIGNMENT - 1] ^= 1;
    for (failing, skips_all) in [(1, true), (2, true), (10, false)] {
        for succeeding in 0.. {
            let mut reader = reader(&memory, ReadFrom::Start);
            *memory.3.lock().unwrap() = (succeeding, failing);
            let mut sequences = Vec::new();
            loop {
                match reader.next_ref() {
                    Ok(Some(record)) => sequences.push(record.sequence),
                    Ok(None) => break,
                    // The caller reads again.
                    Err(error) if skips_all || matches!(error, ReadError::Damaged { .. }) => {
                        drop(reader.skip_damage());
                    }
                    Err(_) => {}
                }
            }
            let kept = Vec::from_iter((1..=4).chain(7..=18));
            assert_eq!(sequences, kept, "{failing} after {succeeding} opens");
            if std::mem::take(&mut *memory.3.lock().unwrap()).1 > 0 {
                assert!(
                    succeeding > 5,
                    "the stream was read with {succeeding} opens"
                );
                break;
            }
        }
    }
}

#[test]
fn unreadable_segments_are_reported_one_by_one_before_they_are_passed_over() {
    let mut memory = eighteen();
    memory.segment(1)[4 * ALIGNMENT - 1] ^= 1;
    let mut reader = reader(&memory, ReadFrom::Sequence(5));
    *memory.3.lock().unwrap() = (0, u64::MAX);
    let named = |reader: &mut StreamReader| match reader.skip_damage() {
        Err(ReadError::Io { segment, .. }) => segment.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!([1, 2, 3].map(|_| named(&mut reader)), [1, 2, 3]);
    assert_eq!(reader.skip_damage().unwrap(), 5);
    assert!(reader.next_ref().unwrap().is_none());
}

#[test]
fn a_sequence_in_an_unreadable_oldest_segment_is_not_gone() {
    let mut memory = eighteen();
    let mut reader = reader(&memory, ReadFrom::Start);
    *memory.3.lock().unwrap() = (0, 1);
    let names_it = |sought| {
        matches!(
            sought,
            Err(ReadError::Io {
                segment: Some(1),
                ..
            })
        )
    };
    assert!(names_it(reader.seek(ReadFrom::Sequence(3))));
    // The error was temporary.
    reader.seek(ReadFrom::Sequence(3)).unwrap();
    assert_eq!(reader.next_ref().unwrap().unwrap().sequence, 3);
    memory.2 = Some((segment_name(1), 0));
    let opened = memory.reader(Some(key()), ReadFrom::Sequence(3));
    assert!(names_it(opened.map(drop)));
}

#[test]
fn backwards_stops_at_damage() {
    let mut memory = eighteen();
    // The header of the chunk of 9 and 10.
    memory.segment(2)[2 * ALIGNMENT + 40] ^= 1;
    let mut backwards = reader(&memory, ReadFrom::Tail).backwards();
    let read = backwards.by_ref().map_while(Result::ok);
    let read: Vec<u64> = read.map(|record| record.sequence).collect();
    assert_eq!(read, Vec::from_iter((13..=18).rev()));
    assert!(backwards.next().is_none());
}

#[test]
fn a_forged_chunk_that_says_it_is_not_sealed_is_handed_out_by_nobody() {
    let mut memory = eighteen();
    forge(&mut memory, 2, 2);
    let kept = Vec::from_iter((1..=18).filter(|sequence| ![9, 10].contains(sequence)));
    let damage = (2, 2 * ALIGNMENT as u64);
    let (sequences, damages) = read(&memory);
    assert_eq!((sequences, damages[0]), (kept.clone(), damage));
    let backwards = reader(&memory, ReadFrom::Tail).backwards();
    let mut backwards = backwards.map_while(Result::ok);
    assert!(backwards.all(|record| record.payload != b"forged"));
    let (copied, report) = memory.salvage(Some(&key()), |_, _| {}).unwrap();
    assert_eq!(copied, kept);
    assert_eq!(report.doubtful, 2);
}

#[test]
fn a_forged_segment_that_says_it_is_not_sealed_is_not_read() {
    let mut memory = eighteen();
    let segment = memory.segment(2);
    let mut header = SegmentHeader::decode(segment).unwrap();
    (header.algorithm, header.unit) = (Algorithm::None, SealUnit::Batch);
    seal_segment(None, &mut header);
    segment[..ALIGNMENT].copy_from_slice(&header.encode());
    (1..=3).for_each(|page| forge(&mut memory, 2, page));
    let reader = reader(&memory, ReadFrom::Start);
    let read = reader.map_while(Result::ok).map(|record| record.sequence);
    assert_eq!(Vec::from_iter(read), Vec::from_iter(1..=6));
}

#[test]
fn a_stream_whose_beginning_is_lost_says_so() {
    let mut memory = eighteen();
    memory.segment(1)[100] ^= 1;
    check(&memory, 7..=18, (1, 0));
}

#[test]
fn a_stream_that_says_that_it_is_not_sealed_is_refused_with_a_key() {
    let mut maker = StreamMaker::new(Algorithm::None, SealUnit::Batch);
    maker.segment().chunk(["forged"]);
    let memory = maker.memory();
    let opened = memory.reader(Some(key()), ReadFrom::Start);
    assert!(matches!(opened, Err(ReadError::NotSealed { segment: 1 })));
    let opened = memory.reader(None, ReadFrom::Start);
    assert_eq!(opened.unwrap().count(), 1);
}

#[test]
fn damage_is_told_at_each_attempt_and_both_damages_of_a_segment_are() {
    let mut memory = eighteen();
    memory.segment(3)[ALIGNMENT + CHUNK_HEADER_BYTES + 3] ^= 1;
    let mut reader = reader(&memory, ReadFrom::Sequence(13));
    for _ in 0..3 {
        assert!(matches!(
            reader.next_ref(),
            Err(ReadError::Damaged { record: 13, .. })
        ));
    }
    let mut maker = StreamMaker::new(Algorithm::None, SealUnit::Batch);
    maker.segment();
    for chunk in 0..8u8 {
        maker.chunk([vec![chunk; 20]]);
    }
    let mut memory = maker.memory();
    memory.segment(1)[3 * ALIGNMENT + 300] ^= 1;
    memory.segment(1)[6 * ALIGNMENT + 300] ^= 1;
    let mut reader = memory.reader(None, ReadFrom::Start).unwrap();
    let (sequences, damages) = read_past_damage(&mut reader);
    assert_eq!((sequences, damages.len()), (vec![1, 2, 4, 5, 7, 8], 2));
}
