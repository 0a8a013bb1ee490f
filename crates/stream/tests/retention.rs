//! Old segments go, whole ones only, and their files are used again.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use freeboard_stream::{
    Retention, StreamOptions, StreamWriter,
    format::{SegmentHeader, segment_number},
};

const SEGMENT_BYTES: u64 = 64 << 10;

fn options(retention: Retention) -> StreamOptions {
    StreamOptions::new()
        .segment_bytes(SEGMENT_BYTES)
        .retention(retention)
}

/// Appends until `segments` have been begun.
fn fill(stream: &StreamWriter, segments: u64) {
    for _ in 0..segments * 6 {
        stream.append(&[9; 10_000]).unwrap().wait().unwrap();
    }
}

/// The segments with a header, oldest first.
fn headers(path: &Path) -> Vec<SegmentHeader> {
    let names = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut numbers: Vec<u64> = names
        .filter_map(|name| segment_number(name.to_str().unwrap()))
        .collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter_map(|number| {
            let bytes = fs::read(path.join(freeboard_stream::format::segment_name(number))).ok()?;
            SegmentHeader::decode(&bytes).ok()
        })
        .collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn bytes_are_bounded_and_files_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let stream = options(Retention {
        bytes: Some(4 * SEGMENT_BYTES),
        ..Retention::default()
    })
    .open(directory.path())
    .unwrap();
    fill(&stream, 20);
    wait_until("the oldest to go", || {
        stream.snapshot().segment_bytes <= 3 * SEGMENT_BYTES
    });
    // The thread that prepares files may be late: the writer then makes its own.
    wait_until("a file to be used again", || {
        fill(&stream, 1);
        headers(directory.path()).iter().any(|it| it.is_recycled)
    });
    let last = stream.sequences().durable;
    stream.close().unwrap();
    let headers = headers(directory.path());
    assert!(headers[0].number > 10, "{}", headers[0].number);
    assert!(headers.iter().any(|header| header.is_recycled));
    let follows = headers
        .windows(2)
        .all(|pair| pair[0].number + 1 == pair[1].number);
    assert!(follows, "{headers:?}");
    let stream = options(Retention::default())
        .open(directory.path())
        .unwrap();
    assert_eq!(stream.sequences().durable, last);
    assert_eq!(stream.append(b"next").unwrap().wait(), Ok(last + 1));
}

#[test]
fn what_a_reader_has_acknowledged_goes_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let stream = options(Retention {
        acknowledged: true,
        ..Retention::default()
    })
    .open(directory.path())
    .unwrap();
    fill(&stream, 6);
    let before = headers(directory.path());
    assert_eq!(before[0].number, 1);
    let third = before[2].first_record;
    stream.acknowledge(third - 1);
    wait_until("two segments to go", || {
        headers(directory.path())[0].number == 3
    });
    assert_eq!(headers(directory.path())[0].first_record, third);
    stream.acknowledge(u64::MAX);
    wait_until("all but the active one to go", || {
        stream.snapshot().segments_finished == 0
    });
    let last = stream.sequences().durable;
    stream.close().unwrap();
    let stream = options(Retention::default())
        .open(directory.path())
        .unwrap();
    assert_eq!(stream.sequences().durable, last);
}

#[test]
fn what_is_too_old_goes() {
    let directory = tempfile::tempdir().unwrap();
    let stream = options(Retention {
        age: Some(Duration::ZERO),
        ..Retention::default()
    })
    .open(directory.path())
    .unwrap();
    fill(&stream, 4);
    wait_until("all but the active one to go", || {
        stream.snapshot().segments_finished == 0
    });
}
