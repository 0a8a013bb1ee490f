//! How the kept streams of `tests/fixtures` were made.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use freeboard_stream::format::{
    ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, SealUnit, StreamId, Truncation, segment_name,
};

use super::{StreamMaker, memory::Memory};

/// How many records a whole one holds.
pub(crate) const RECORDS: u64 = 7;

/// What was appended as the record with this sequence.
pub(crate) fn payload(sequence: u64) -> Vec<u8> {
    match sequence {
        3 => Vec::new(),
        // It does not fit into its chunk's first page.
        7 => vec![7; 5_000],
        _ => format!("the record {sequence} of a stream that is kept").into_bytes(),
    }
}

/// The folder of a kept stream.
pub(crate) fn folder(name: &str) -> PathBuf {
    let version = match name.split_once('/') {
        Some(("truncated", _)) => "v3",
        _ => "v1",
    };
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    kept.join(version).join(name)
}

/// The files of a kept stream.
pub(crate) fn kept(name: &str) -> Memory {
    let entries = fs::read_dir(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let files = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, Arc::new(fs::read(entry.path()).unwrap()))
    });
    Memory(files.collect(), Arc::default(), None, Arc::default())
}

/// The whole stream that is sealed in this way.
pub(crate) fn whole(algorithm: Algorithm, unit: SealUnit) -> StreamMaker {
    of(StreamId(*b"a stream is kept"), algorithm, unit)
}

fn of(stream: StreamId, algorithm: Algorithm, unit: SealUnit) -> StreamMaker {
    let mut maker = StreamMaker::of(stream, algorithm, unit);
    maker
        .chunk((1..=3).map(payload))
        .chunk((4..=5).map(payload));
    maker.epoch = 2;
    maker.segment().chunk((6..=RECORDS).map(payload));
    maker
}

/// The truncation of the truncated ones.
pub(crate) const TRUNCATION: Truncation = Truncation {
    kept: 4,
    removed: 9,
};

/// A stream of which the records 5 to 9 were removed, which divided a chunk. The records 5 to 7 were appended again.
fn cut(algorithm: Algorithm, unit: SealUnit) -> StreamMaker {
    let mut maker = StreamMaker::of(StreamId(*b"a stream was cut"), algorithm, unit);
    maker.chunk((1..=3).map(payload));
    maker.epoch = 2;
    maker.truncation = Some(TRUNCATION);
    maker.segment().chunk([payload(4)]);
    maker.chunk((5..=RECORDS).map(payload));
    maker
}

/// A stream of as many segments of one chunk of two records.
fn row(segments: u64, unit: SealUnit) -> StreamMaker {
    let mut maker = StreamMaker::of(StreamId(*b"a row of records"), Algorithm::Blake3, unit);
    for segment in 0..segments {
        maker.segment();
        maker.chunk((segment * 2 + 1..=segment * 2 + 2).map(payload));
    }
    maker
}

/// Every kept stream, by its name.
pub(crate) fn all() -> BTreeMap<String, Memory> {
    let mut streams = BTreeMap::new();
    for algorithm in Algorithm::ALL {
        for unit in [SealUnit::Record, SealUnit::Batch] {
            let name = format!("whole/{algorithm}-{unit}");
            streams.insert(name, Memory::of(whole(algorithm, unit).segments()));
            let name = format!("truncated/{algorithm}-{unit}");
            streams.insert(name, Memory::of(cut(algorithm, unit).segments()));
        }
    }
    let damaged = [
        ("rot", rot()),
        ("torn", torn()),
        ("gap", gap()),
        ("reorder", reorder()),
        ("stale", stale()),
        ("recycled", recycled()),
        ("tamper", tamper()),
        ("truncated", truncated()),
        ("version", version()),
    ];
    streams.extend(damaged.map(|(name, memory)| (format!("damaged/{name}"), memory)));
    streams
}

/// A bit of record 4 has changed.
fn rot() -> Memory {
    let mut memory = Memory::of(whole(Algorithm::HmacSha256, SealUnit::Record).segments());
    memory.segment(1)[2 * ALIGNMENT + CHUNK_HEADER_BYTES + 20] ^= 4;
    memory
}

/// Of the last chunk's second page nothing was written.
fn torn() -> Memory {
    let mut memory = Memory::of(whole(Algorithm::None, SealUnit::Batch).segments());
    memory.segment(2)[2 * ALIGNMENT..].fill(0);
    memory
}

/// The second of three segments is missing.
fn gap() -> Memory {
    let mut memory = Memory::of(row(3, SealUnit::Batch).segments());
    memory.0.remove(&segment_name(2));
    memory
}

/// The second and the third segment have changed places.
fn reorder() -> Memory {
    let maker = row(3, SealUnit::Record);
    let [first, second, third] = maker.segments() else {
        panic!("three segments");
    };
    Memory::of(&[first.clone(), third.clone(), second.clone()])
}

/// The last chunk is of an earlier opening than the one before it.
fn stale() -> Memory {
    let mut maker = row(1, SealUnit::Batch);
    maker.epoch = 3;
    maker.chunk((3..=4).map(payload));
    maker.epoch = 2;
    maker.chunk((5..=6).map(payload));
    Memory::of(maker.segments())
}

/// No damage: behind the end stands what the file held in its former life.
fn recycled() -> Memory {
    let mut maker = StreamMaker::of(
        StreamId(*b"a row of records"),
        Algorithm::Blake3,
        SealUnit::Batch,
    );
    maker.chunk((1..=2).map(payload));
    maker.is_recycled = true;
    maker.segment().chunk((3..=4).map(payload));
    let mut segments = maker.segments().to_vec();
    let former = segments[0][ALIGNMENT..].to_vec();
    segments[1].extend(former);
    Memory::of(&segments)
}

/// The chunk of records 4 and 5 is another stream's, of the same key.
fn tamper() -> Memory {
    let (algorithm, unit) = (Algorithm::HmacSha512, SealUnit::Batch);
    let mut memory = Memory::of(whole(algorithm, unit).segments());
    let other = of(StreamId(*b"another is kept!"), algorithm, unit);
    let chunk = 2 * ALIGNMENT..3 * ALIGNMENT;
    memory.segment(1)[chunk.clone()].copy_from_slice(&other.segments()[0][chunk]);
    memory
}

/// The last segment is missing, which only a head that was kept elsewhere shows.
fn truncated() -> Memory {
    let mut memory = Memory::of(whole(Algorithm::Blake3, SealUnit::Batch).segments());
    memory.0.remove(&segment_name(2));
    memory
}

/// A segment of version 2, which has no meaning yet.
fn version() -> Memory {
    let mut memory = Memory::of(row(1, SealUnit::Batch).segments());
    let header = &mut memory.segment(1)[..ALIGNMENT];
    header[8] = 2;
    let checksum = crc32c::crc32c(&header[..ALIGNMENT - 4]);
    header[ALIGNMENT - 4..].copy_from_slice(&checksum.to_le_bytes());
    memory
}
