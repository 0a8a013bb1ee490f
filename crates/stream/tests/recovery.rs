//! What opening a stream makes of what a crash has left behind.

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use freeboard_stream::{
    Algorithm, MasterKey, OpenError, SealUnit, StreamOptions,
    format::{ALIGNMENT, segment_name},
};
use support::{KEY, StreamMaker};
use tempfile::TempDir;

/// Opens a stream for writing and closes it; returns how many records it has.
fn open(path: &Path, algorithm: Algorithm, unit: SealUnit) -> Result<u64, OpenError> {
    let mut options = StreamOptions::new().segment_bytes(64 << 10);
    if algorithm.is_sealed() {
        options = options
            .seal(algorithm, unit)
            .key(MasterKey::new(KEY).unwrap());
    }
    let stream = options.open(path)?;
    let records = stream.sequences().durable;
    stream.close().unwrap();
    Ok(records)
}

/// What is kept aside, in no order that matters.
fn kept(path: &Path) -> Vec<Vec<u8>> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|end| end == "broken");
    let paths = names.map(|entry| entry.path()).filter(is_kept);
    let mut kept: Vec<_> = paths.map(|path| fs::read(path).unwrap()).collect();
    kept.sort();
    kept
}

#[test]
fn what_was_kept_aside_stays() {
    let (algorithm, unit) = (Algorithm::None, SealUnit::Batch);
    let mut maker = StreamMaker::new(algorithm, unit);
    maker.chunk(["one"]).segment().chunk(["two"]);
    // Bytes behind the last chunk, or a whole segment without a header.
    for is_segment in [false, true] {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let leave_behind = |byte: u8| {
            let (name, mut bytes) = match is_segment {
                false => (segment_name(1), maker.segments()[0].clone()),
                true => (segment_name(2), maker.segments()[1].clone()),
            };
            match is_segment {
                false => bytes.extend([byte; ALIGNMENT]),
                true => bytes[..ALIGNMENT].fill(byte),
            }
            fs::write(path.join(name), &bytes).unwrap();
            match is_segment {
                false => vec![byte; ALIGNMENT],
                true => bytes,
            }
        };
        fs::write(path.join(segment_name(1)), &maker.segments()[0]).unwrap();
        let mut expected = Vec::new();
        for byte in [1, 2, 3] {
            expected.push(leave_behind(byte));
            for _ in 0..2 {
                assert_eq!(open(path, algorithm, unit).unwrap(), 1);
                assert!(kept(path) == expected, "{byte}, a segment: {is_segment}");
            }
        }
    }
}
