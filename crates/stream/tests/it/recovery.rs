//! What opening a stream makes of what a crash has left behind.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use crate::support::{StreamMaker, key};
use freeboard_stream::{
    Algorithm, AppendError, OpenError, ReadError, ReadFrom, ReaderOptions, SealUnit, StreamOptions,
    SyncMode,
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, RECORD_HEAD_BYTES, segment_name},
    storage::simulated::{Fault, Operation, SimulatedDisk, SimulatedSettings},
};
use tempfile::TempDir;

/// Opens a stream for writing and closes it; returns how many records it has.
fn open(path: &Path, algorithm: Algorithm, unit: SealUnit) -> Result<u64, OpenError> {
    let options = StreamOptions::new().segment_bytes(64 << 10);
    let stream = options.seal(algorithm, unit).key(key()).open(path)?;
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
            let number = u64::from(is_segment) + 1;
            let mut bytes = maker.segments()[number as usize - 1].clone();
            let mut left = vec![byte; ALIGNMENT];
            if is_segment {
                bytes[..ALIGNMENT].fill(byte);
                left.clone_from(&bytes);
            } else {
                bytes.extend(&left);
            }
            fs::write(path.join(segment_name(number)), &bytes).unwrap();
            left
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

/// A whole chunk that says that records behind the first ones had been durable: of the same id, sealed
/// in the same way, with a key that its maker has made up.
fn forged(algorithm: Algorithm, unit: SealUnit) -> Vec<u8> {
    let mut maker = StreamMaker::new(algorithm, unit);
    maker.key(b"what a payload's sender would use");
    for _ in 0..10 {
        maker.chunk(["forged"]);
    }
    let bytes = &maker.segments()[0];
    bytes[bytes.len() - ALIGNMENT..].to_vec()
}

/// The same, with a length that hides `pages` pages, and records that do not hold.
fn greedy(algorithm: Algorithm, unit: SealUnit, pages: usize) -> Vec<u8> {
    let mut chunk = forged(algorithm, unit);
    let mut header = ChunkHeader::decode(&chunk).unwrap();
    header.body_bytes = (pages * ALIGNMENT - CHUNK_HEADER_BYTES) as u32;
    chunk[..CHUNK_HEADER_BYTES].copy_from_slice(&header.encode());
    chunk
}

/// A payload of which `page` begins a page of the file.
fn payload(page: &[u8]) -> Vec<u8> {
    let mut payload = vec![7; ALIGNMENT - CHUNK_HEADER_BYTES - RECORD_HEAD_BYTES];
    payload.extend_from_slice(page);
    payload
}

const SEALS: [(Algorithm, SealUnit); 4] = [
    (Algorithm::None, SealUnit::Batch),
    (Algorithm::Blake3, SealUnit::Batch),
    (Algorithm::HmacSha256, SealUnit::Record),
    (Algorithm::HmacSha512, SealUnit::Batch),
];

#[test]
fn a_payload_passes_for_no_chunk_behind_a_torn_one() {
    // The part of the chunk that a crash tore, the content of its payload, whether a true chunk follows that says that
    // it was durable, and whether opening is refused: unsealed, sealed.
    let rows = [
        ("header", "forged", false, [true, false]),
        ("header", "forged", true, [true, true]),
        ("header", "greedy", false, [false, false]),
        ("header", "greedy", true, [true, true]),
        ("end", "forged", false, [false, false]),
        ("end", "forged", true, [true, true]),
        ("end", "greedy", false, [false, false]),
        ("end", "greedy", true, [true, true]),
    ];
    for (algorithm, unit) in SEALS {
        for (torn, holds, is_followed, is_refused) in rows {
            let case = format!("{algorithm} by {unit}, {torn}, {holds}, {is_followed}");
            let page = match holds {
                "forged" => forged(algorithm, unit),
                // Up to the end of the true chunk after it.
                _ => greedy(algorithm, unit, 3),
            };
            let mut maker = StreamMaker::new(algorithm, unit);
            maker.chunk(["one", "two"]);
            let begin = maker.segments()[0].len();
            maker.chunk([payload(&page), vec![7; ALIGNMENT / 2]]);
            let end = maker.segments()[0].len();
            maker.chunk(["three"]);
            let mut bytes = maker.segments()[0].clone();
            match torn {
                "header" => bytes[begin..begin + 512].fill(0),
                _ => bytes[end - ALIGNMENT..end].fill(0),
            }
            bytes.truncate(if is_followed { bytes.len() } else { end });
            let directory = TempDir::new().unwrap();
            let path = directory.path().join(segment_name(1));
            fs::write(&path, &bytes).unwrap();
            let opened = open(directory.path(), algorithm, unit);
            if is_refused[usize::from(algorithm.is_sealed())] {
                let is_damaged = matches!(opened, Err(OpenError::Damaged(_)));
                assert!(is_damaged, "{case}: {opened:?}");
                assert!(fs::read(&path).unwrap() == bytes, "{case}: it was changed");
            } else {
                assert_eq!(opened.expect(&case), 2, "{case}");
                assert_eq!(kept(directory.path()).len(), 1, "{case}");
            }
        }
    }
}

fn syncs_when_asked() -> StreamOptions {
    let (time, bytes) = (Duration::from_secs(3_600), u64::MAX);
    let sync = SyncMode::Interval { time, bytes };
    StreamOptions::new().segment_bytes(64 << 10).sync(sync)
}

/// The loss of records that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    PowerFails,
    SyncFails,
}

#[test]
fn a_reader_may_be_ahead_of_what_is_durable_and_learns_of_it() {
    for loss in [Loss::PowerFails, Loss::SyncFails] {
        let lost = (0..32).filter(|seed| is_read_and_lost(loss, *seed));
        let lost = lost.count();
        assert!((1..32).contains(&lost), "{loss:?}: {lost} of 32");
    }
}

/// Reads two records of which one is durable; whether another takes the sequence of the second.
fn is_read_and_lost(loss: Loss, seed: u64) -> bool {
    let disk = SimulatedDisk::new(SimulatedSettings {
        seed,
        ..SimulatedSettings::default()
    });
    let options = syncs_when_asked();
    let mut stream = options.open_on(Arc::new(disk.clone())).unwrap();
    drop(stream.append(b"one").unwrap());
    stream.flush().unwrap();
    drop(stream.append(b"two").unwrap());
    let follow = ReaderOptions::new().follow(true);
    let mut reader = follow.open_on(Arc::new(disk.clone())).unwrap();
    for payload in [b"one", b"two"] {
        assert_eq!(reader.next().unwrap().unwrap().payload, payload);
    }
    assert_eq!(stream.sequences().durable, 1, "seed {seed}");
    match loss {
        Loss::PowerFails => {
            disk.power_off();
            drop(stream);
            let disk = Arc::new(disk.reboot());
            stream = options.open_on(disk.clone()).unwrap();
            // Nobody has been ahead of this one.
            reader = follow.from(ReadFrom::Sequence(2)).open_on(disk).unwrap();
        }
        Loss::SyncFails => {
            disk.fail_next(Operation::Sync, Fault::Io);
            stream.flush().unwrap_err();
        }
    }
    let other = loop {
        match stream.append(b"other") {
            Err(AppendError::Reopening) => thread::yield_now(),
            appended => break appended.unwrap(),
        }
    };
    stream.flush().unwrap();
    let is_lost = other.wait().unwrap() == 2;
    match (loss, reader.next().unwrap()) {
        (Loss::SyncFails, Err(ReadError::Damaged { record: 3, .. })) => assert!(is_lost),
        (Loss::SyncFails, record) => {
            assert_eq!(record.unwrap().payload, b"other", "seed {seed}");
            assert!(!is_lost, "seed {seed}");
        }
        (Loss::PowerFails, record) => {
            let second = if is_lost { "other" } else { "two" };
            assert_eq!(record.unwrap().payload, second.as_bytes(), "seed {seed}");
        }
    }
    is_lost
}

#[test]
fn a_flush_ends_that_begins_while_a_failed_stream_is_read_again() {
    const ROUNDS: u64 = 1000;
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    let stream = syncs_when_asked().open_on(Arc::new(disk.clone())).unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        while stream.snapshot().reopenings < ROUNDS {
            match stream.append(b"record") {
                Err(AppendError::Reopening) => continue,
                appended => drop(appended.unwrap()),
            }
            disk.fail_next(Operation::Sync, Fault::Io);
            let _ = stream.flush();
        }
        tell.send(()).unwrap();
    });
    let ended = told.recv_timeout(Duration::from_secs(20));
    ended.expect("each flush ends");
}
