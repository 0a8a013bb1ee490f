//! Headers and chunks as they stand on the disk.

use crate::support::{StreamMaker, each_seal, key};
use freeboard_stream::{
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, FormatError, SealUnit, SegmentHeader,
    },
    seal::{Ratchet, check_chunk, check_segment},
};

#[test]
fn what_was_sealed_is_found_whole_in_every_way_of_sealing() {
    each_seal(|algorithm, unit| {
        let mut maker = StreamMaker::new(algorithm, unit);
        maker.chunk(["one", "", "three"]).chunk([vec![7; 5_000]]);
        let bytes = &maker.segments()[0];
        let segment = SegmentHeader::decode(bytes).unwrap();
        let ratchet = algorithm
            .is_sealed()
            .then(|| Ratchet::at(&key(), algorithm, segment.stream, 1));
        let keys = ratchet.map(|ratchet| ratchet.keys());
        if let Some(keys) = &keys {
            check_segment(keys, &segment).unwrap();
        }
        let mut offset = ALIGNMENT;
        let mut previous = segment.previous;
        for count in [3, 1] {
            let header = ChunkHeader::decode(&bytes[offset..]).unwrap();
            assert_eq!(header.count, count);
            assert_eq!(header.previous, previous);
            let body = &bytes[offset + CHUNK_HEADER_BYTES..][..header.body_bytes as usize];
            check_chunk(keys.as_ref(), &header, body).unwrap();
            check_chunk(None, &header, body).unwrap();
            previous = header.tag;
            offset += header.chunk_bytes() as usize;
        }
        assert_eq!(offset, bytes.len());
    });
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let mut maker = StreamMaker::new(Algorithm::None, SealUnit::Batch);
    maker.chunk(["one"]);
    let mut bytes = maker.segments()[0].clone();
    bytes[8] = 4;
    let checksum = crc32c::crc32c(&bytes[..ALIGNMENT - 4]);
    bytes[ALIGNMENT - 4..ALIGNMENT].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(
        SegmentHeader::decode(&bytes),
        Err(FormatError::Version {
            found: 4,
            newest: 3
        })
    );
    bytes[ALIGNMENT + 4] = 2;
    let chunk = &mut bytes[ALIGNMENT..ALIGNMENT + CHUNK_HEADER_BYTES];
    let checksum = crc32c::crc32c(&chunk[..CHUNK_HEADER_BYTES - 4]);
    chunk[CHUNK_HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(
        ChunkHeader::decode(chunk),
        Err(FormatError::Version {
            found: 2,
            newest: 1
        })
    );
}
