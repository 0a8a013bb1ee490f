//! Every bit of a sealed segment, and every length that it can be cut to.

use crate::support::{StreamMaker, key, memory::Memory};
use freeboard_stream::{
    DamageKind, Head, StreamOptions,
    format::{ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, Records, SealUnit},
};

const SEGMENT_BYTES: usize = 64 << 10;

/// What a byte of a segment belongs to.
#[derive(Clone, Debug)]
struct Piece {
    bytes: std::ops::Range<usize>,
    /// The records that damage to it must name, the first and the last; `None` for the segment's
    /// header.
    records: Option<(u64, u64)>,
}

/// From byte to byte: one by one, but under a sanitizer, where that takes many minutes, some of each piece.
fn step() -> usize {
    match std::env::var_os("FREEBOARD_SANITIZER") {
        Some(_) => 61,
        None => 1,
    }
}

/// A segment of 64 KiB, full of records of many sizes.
fn segment(algorithm: Algorithm, unit: SealUnit) -> StreamMaker {
    let mut maker = StreamMaker::new(algorithm, unit);
    let mut size = 1;
    while maker.segments().first().map_or(0, Vec::len) + 8_192 <= SEGMENT_BYTES {
        let sizes: Vec<usize> = (0..9).map(|step| (size * 31 + step * 97) % 700).collect();
        maker.chunk(sizes.iter().map(|size| vec![*size as u8; *size]));
        size += 1;
    }
    while maker.segments()[0].len() < SEGMENT_BYTES {
        maker.chunk([vec![1; 3_000]]);
    }
    assert_eq!(maker.segments()[0].len(), SEGMENT_BYTES);
    maker
}

/// Which byte belongs to which record.
fn pieces(bytes: &[u8], unit: SealUnit) -> Vec<Piece> {
    let mut pieces = vec![Piece {
        bytes: 0..ALIGNMENT,
        records: None,
    }];
    let mut offset = ALIGNMENT;
    while offset < bytes.len() {
        let header = ChunkHeader::decode(&bytes[offset..]).unwrap();
        let chunk = (header.first_record, header.last_record());
        let body_at = offset + CHUNK_HEADER_BYTES;
        let body = &bytes[body_at..][..header.body_bytes as usize];
        let end = offset + header.chunk_bytes() as usize;
        pieces.push(Piece {
            bytes: offset..body_at,
            records: Some(chunk),
        });
        let tag_bytes = header.record_tag_bytes();
        for (record, sequence) in Records::new(body, tag_bytes).zip(chunk.0..) {
            let record = record.unwrap();
            let begin = body_at + record.offset;
            let tag_at = begin + 8 + record.payload.len();
            // A changed length hides where the records behind it begin.
            pieces.push(Piece {
                bytes: begin..tag_at,
                records: Some((sequence, chunk.1)),
            });
            pieces.push(Piece {
                bytes: tag_at..tag_at + tag_bytes,
                records: Some((sequence, sequence)),
            });
        }
        let padding = body_at + body.len()..end;
        pieces.push(Piece {
            bytes: padding,
            records: Some(chunk),
        });
        offset = end;
    }
    assert!(unit == SealUnit::Record || pieces.iter().any(|piece| piece.bytes.is_empty()));
    pieces
}

fn every_bit(algorithm: Algorithm, unit: SealUnit) {
    let maker = segment(algorithm, unit);
    let whole = &maker.segments()[0];
    assert!(maker.memory().report(None).is_whole());
    let pieces = pieces(whole, unit);
    let halves = pieces.chunks(pieces.len().div_ceil(2));
    std::thread::scope(|scope| {
        for pieces in halves {
            let mut memory = maker.memory();
            scope.spawn(move || {
                for piece in pieces {
                    for at in piece.bytes.clone().step_by(step()) {
                        for bit in 0..8 {
                            memory.segment(1)[at] ^= 1 << bit;
                            one_bit(&memory, piece, at, bit);
                            memory.segment(1)[at] ^= 1 << bit;
                        }
                    }
                }
            });
        }
    });
}

fn one_bit(memory: &Memory, piece: &Piece, at: usize, bit: u32) {
    let what = format!("byte {at}, bit {bit}, {piece:?}");
    if piece.records.is_none() {
        // A lone segment without a header says nothing about itself.
        match memory.verify(memory.key().as_ref(), None) {
            Ok(report) => assert!(!report.is_whole(), "{what}"),
            Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
        }
        return;
    }
    let report = memory.report(None);
    assert!(!report.is_whole(), "{what}");
    let damage = &report.damages[0];
    let first = damage.records.map(|(first, _)| first);
    assert_eq!(
        first,
        piece.records.map(|(first, _)| first),
        "{what}: {damage}"
    );
    assert_eq!(damage.kind, DamageKind::Rot, "{what}: {damage}");
    assert!(damage.offset <= at as u64, "{what}: {damage}");
}

#[test]
fn every_bit_of_a_segment_sealed_by_record_is_found_and_its_record_named() {
    every_bit(Algorithm::HmacSha256, SealUnit::Record);
}

#[test]
fn every_bit_of_a_segment_sealed_by_batch_is_found_and_its_record_named() {
    every_bit(Algorithm::Blake3, SealUnit::Batch);
}

#[test]
fn every_cut_leaves_an_exact_prefix_and_is_flagged_by_a_head() {
    let (algorithm, unit) = (Algorithm::Blake3, SealUnit::Batch);
    let maker = segment(algorithm, unit);
    let whole = &maker.segments()[0];
    let head = Head::new(maker.last_record(), maker.tag(), algorithm);
    assert!(maker.memory().report(Some(head)).is_whole());
    let options = StreamOptions::new().seal(algorithm, unit).key(key());
    for cut in (ALIGNMENT..whole.len()).step_by(step()) {
        let mut memory = maker.memory();
        memory.segment(1).truncate(cut);
        let report = memory.report(Some(head));
        let kept = kept(whole, cut);
        assert_eq!(report.last_record, kept, "cut at {cut}");
        let flagged = report.damages.iter().any(|damage| {
            damage.kind == DamageKind::Truncated
                && damage.records == Some((kept + 1, head.sequence))
        });
        assert!(flagged, "cut at {cut}: {:?}", report.damages);
        // A real directory for each length would take minutes: one in a page, and all near an edge.
        if cut % 1_021 == 0 || cut % ALIGNMENT < 2 {
            let directory = tempfile::tempdir().unwrap();
            memory.write(directory.path());
            let stream = options.open(directory.path()).unwrap();
            assert_eq!(stream.sequences().durable, kept, "cut at {cut}");
            assert_eq!(stream.append(b"next").unwrap().wait(), Ok(kept + 1));
            stream.close().unwrap();
        }
    }
}

/// The last record of the chunks that are whole in the first `cut` bytes.
fn kept(bytes: &[u8], cut: usize) -> u64 {
    let (mut offset, mut last) = (ALIGNMENT, 0);
    while offset < bytes.len() {
        let header = ChunkHeader::decode(&bytes[offset..]).unwrap();
        offset += header.chunk_bytes() as usize;
        if offset > cut {
            break;
        }
        last = header.last_record();
    }
    last
}
