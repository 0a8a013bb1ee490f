//! Old segments go, whole ones only, and their files are used again.

use std::{fs, path::Path, sync::Arc, time::Duration};

use crate::{
    open,
    support::{eventually, key},
};
use freeboard_stream::{
    MasterKey, Retention, StreamOptions, StreamWriter, VerifyOptions,
    format::{
        ALIGNMENT, Algorithm, RETENTION_FILE_BYTES, RETENTION_MARK, RETENTION_MARK_BYTES,
        RetentionMark, SealUnit, SegmentHeader, segment_name, segment_number,
    },
    storage::{
        Access, Disk, Storage,
        simulated::{Fault, Operation, SimulatedDisk, SimulatedSettings},
    },
    verify,
};

const SEGMENT_BYTES: u64 = 64 << 10;

fn options(retention: Retention) -> StreamOptions {
    let options = StreamOptions::new().segment_bytes(SEGMENT_BYTES);
    options.retention(retention)
}

/// At most so many segments are kept.
fn segments(count: u64) -> Retention {
    Retention {
        bytes: Some(count * SEGMENT_BYTES),
        ..Retention::default()
    }
}

/// Appends until `segments` have been begun.
fn fill(stream: &StreamWriter, segments: u64) {
    for _ in 0..segments * 6 {
        stream.append(&[9; 10_000]).unwrap().wait().unwrap();
    }
}

/// The segments with a header, oldest first.
fn headers(path: &Path) -> Vec<SegmentHeader> {
    let names = Disk::open(path).unwrap().list().unwrap();
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    let header = |number| {
        let bytes = fs::read(path.join(segment_name(number))).ok()?;
        SegmentHeader::decode(&bytes).ok()
    };
    numbers.into_iter().filter_map(header).collect()
}

#[test]
fn a_directory_in_the_place_of_the_mark_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(segments(4));
    let stream = options.open(directory.path()).unwrap();
    fill(&stream, 1);
    stream.close().unwrap();
    let mark = directory.path().join(RETENTION_MARK);
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&mark).unwrap();
    let refused = options.open(directory.path()).unwrap_err().to_string();
    assert!(
        refused.contains("retention.mark is a directory"),
        "{refused}"
    );
    fs::remove_dir(&mark).unwrap();
    options.open(directory.path()).unwrap().close().unwrap();
}

#[test]
fn bytes_are_bounded_and_files_are_used_again() {
    let (directory, stream) = open(options(segments(4)));
    fill(&stream, 20);
    eventually("the oldest to go", || {
        stream.snapshot().segment_bytes <= 3 * SEGMENT_BYTES
    });
    // The thread that prepares files may be late: the writer then makes its own.
    eventually("a file to be used again", || {
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
    let (directory, stream) = open(options(Retention {
        acknowledged: true,
        ..Retention::default()
    }));
    fill(&stream, 6);
    let before = headers(directory.path());
    assert_eq!(before[0].number, 1);
    let third = before[2].first_record;
    stream.acknowledge(third - 1);
    eventually("two segments to go", || {
        headers(directory.path())[0].number == 3
    });
    assert_eq!(headers(directory.path())[0].first_record, third);
    stream.acknowledge(u64::MAX);
    eventually("all but the active one to go", || {
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
    let (_directory, stream) = open(options(Retention {
        age: Some(Duration::ZERO),
        ..Retention::default()
    }));
    fill(&stream, 4);
    eventually("all but the active one to go", || {
        stream.snapshot().segments_finished == 0
    });
}

/// A sealed stream that retention has shortened, closed.
fn shortened(path: &Path, key: &MasterKey) {
    let options = options(segments(3)).seal(Algorithm::Blake3, SealUnit::Batch);
    let stream = options.key(key.clone()).open(path).unwrap();
    fill(&stream, 8);
    stream.close().unwrap();
    assert!(headers(path)[0].number > 1);
}

fn damages(path: &Path, key: Option<&MasterKey>) -> Vec<String> {
    let disk = Disk::open(path).unwrap();
    let report = verify(&disk, key, &VerifyOptions::default(), &mut |_| {}).unwrap();
    report.damages.iter().map(ToString::to_string).collect()
}

#[test]
fn segments_that_somebody_deleted_are_told_from_those_that_retention_let_go() {
    let key = key();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    shortened(path, &key);
    assert_eq!(damages(path, Some(&key)), [""; 0]);
    assert_eq!(damages(path, None), [""; 0]);
    let mark_path = path.join(RETENTION_MARK);
    let mark_file = fs::read(&mark_path).unwrap();
    assert_eq!(mark_file.len() as u64, RETENTION_FILE_BYTES);
    let slot = |index: usize| &mark_file[index * ALIGNMENT..][..RETENTION_MARK_BYTES];
    let marks = [0, 1].map(|index| RetentionMark::decode(slot(index)).unwrap());
    let mark = *marks.iter().max_by_key(|mark| mark.first_kept).unwrap();
    let mark_bytes = mark.encode();
    assert_eq!(mark.first_kept, headers(path)[0].number);

    let oldest = path.join(segment_name(mark.first_kept));
    let kept = fs::read(&oldest).unwrap();
    fs::remove_file(&oldest).unwrap();
    for key in [None, Some(&key)] {
        let found = damages(path, key);
        assert!(
            found[0].contains("retention has let go those before"),
            "{found:?}"
        );
    }

    // Somebody who knows the format, and not the key, writes a mark that fits.
    let forged = RetentionMark {
        first_kept: mark.first_kept + 1,
        ..mark
    };
    fs::write(&mark_path, forged.encode()).unwrap();
    let found = damages(path, Some(&key));
    assert!(found[0].contains("a tag that does not match"), "{found:?}");

    fs::write(&oldest, kept).unwrap();
    let mut rotten = mark_bytes;
    rotten[40] ^= 1;
    let wrong: [(&[u8], &str); 4] = [
        (&rotten, "checksum"),
        (&mark_bytes[..255], "less than a header"),
        (&[1; 256], "magic"),
        (b"", "there is no retention mark"),
    ];
    for (bytes, expected) in wrong {
        fs::write(&mark_path, bytes).unwrap();
        let found = damages(path, None);
        assert!(found[0].contains(expected), "{found:?}");
    }
    fs::remove_file(&mark_path).unwrap();
    let found = damages(path, Some(&key));
    assert!(found[0].contains("there is no retention mark"), "{found:?}");
    fs::write(&mark_path, mark_file).unwrap();
    assert_eq!(damages(path, Some(&key)), [""; 0]);
}

/// The page cache shows a mark that a failed sync has lost. The other one must not be written over.
#[test]
fn a_mark_that_holds_is_not_replaced_for_one_that_is_lost() {
    for seed in 0..16 {
        let disk = SimulatedDisk::new(SimulatedSettings {
            seed,
            ..SimulatedSettings::default()
        });
        let retention = Retention {
            acknowledged: true,
            ..Retention::default()
        };
        let stream = options(retention).open_on(Arc::new(disk.clone())).unwrap();
        fill(&stream, 3);
        let is_there = |segment| disk.list().unwrap().contains(&segment_name(segment));
        let acknowledge_before = |segment| {
            let mut bytes = [0; ALIGNMENT];
            let file = disk.open(&segment_name(segment), Access::Read).unwrap();
            file.read_at(&mut bytes, 0).unwrap();
            let header = SegmentHeader::decode(&bytes).unwrap();
            stream.acknowledge(header.first_record - 1);
        };
        acknowledge_before(2);
        eventually("segment 1 to go", || !is_there(1));
        eventually("segment 5, so that nothing else syncs", || is_there(5));
        disk.fail_next(Operation::Sync, Fault::Io);
        acknowledge_before(3);
        eventually("the mark to be lost", || stream.fault().is_some());
        assert!(is_there(2), "seed {seed}");
        eventually("segment 2 to go after the next segment is begun", || {
            append_in_time(&stream, 10_000);
            !is_there(2)
        });
        let file = disk.open(RETENTION_MARK, Access::ReadDevice).unwrap();
        let kept = [0, 1].map(|slot| {
            let mut bytes = [0; RETENTION_MARK_BYTES];
            file.read_at(&mut bytes, slot * ALIGNMENT as u64).unwrap();
            RetentionMark::decode(&bytes).map(|mark| mark.first_kept)
        });
        let hold = kept.iter().all(Result::is_ok);
        assert!(hold, "seed {seed}: {kept:?}");
    }
}

/// Reads past the page cache are of whole pages.
#[test]
fn a_file_of_marks_that_is_shorter_than_a_page_is_extended() {
    for bytes in [0, 100, RETENTION_MARK_BYTES, ALIGNMENT + 1] {
        let (directory, stream) = open(options(segments(3)));
        fill(&stream, 6);
        stream.close().unwrap();
        let path = directory.path().join(RETENTION_MARK);
        let mark = fs::read(&path).unwrap();
        fs::write(&path, &mark[..bytes]).unwrap();
        let stream = options(segments(3)).open(directory.path()).unwrap();
        fill(&stream, 6);
        stream.close().unwrap();
        assert_eq!(damages(directory.path(), None), [""; 0], "{bytes} bytes");
    }
}

#[test]
fn retention_needs_no_room_on_a_full_disk() {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    let stream = options(segments(4))
        .open_on(Arc::new(disk.clone()))
        .unwrap();
    fill(&stream, 6);
    disk.set_capacity(Some(0));
    fill(&stream, 20);
    stream.close().unwrap();
    let report = verify(&disk, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.damages);
}

/// As [`fill`], and fails if a record waits for space in vain.
fn fill_in_time(stream: &StreamWriter, segments: u64) {
    for _ in 0..segments * 6 {
        append_in_time(stream, 10_000);
    }
}

fn append_in_time(stream: &StreamWriter, bytes: usize) {
    let mut ticket = stream.append(&vec![9; bytes]).unwrap();
    let outcome = ticket.wait_timeout(Duration::from_secs(60));
    outcome.expect("there is space").unwrap();
}

/// The bytes of all files.
fn used(disk: &SimulatedDisk) -> u64 {
    let names = disk.list().unwrap().into_iter();
    let bytes = |name: String| disk.open(&name, Access::Read)?.bytes();
    names.map(|name| bytes(name).unwrap_or(0)).sum()
}

/// The stream may take four segments, and the disk has no space for a fifth.
#[test]
fn a_full_disk_loses_the_segments_that_retention_would_remove_next() {
    let disk = SimulatedDisk::new(SimulatedSettings {
        capacity_bytes: Some(4 * SEGMENT_BYTES + (32 << 10)),
        ..SimulatedSettings::default()
    });
    let stream = options(segments(4))
        .open_on(Arc::new(disk.clone()))
        .unwrap();
    fill_in_time(&stream, 20);
    stream.close().unwrap();
    // Not even the last segment, which was cut when the stream was closed, gets its space again.
    disk.set_capacity(Some(used(&disk)));
    let stream = options(segments(3))
        .open_on(Arc::new(disk.clone()))
        .unwrap();
    fill_in_time(&stream, 4);
    stream.close().unwrap();
    let report = verify(&disk, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.damages);
}

/// A record of one and a half segments gets a segment of its own, which is longer than others.
#[test]
fn a_large_record_finds_space_on_a_full_disk() {
    let disk = SimulatedDisk::new(SimulatedSettings {
        capacity_bytes: Some(4 * SEGMENT_BYTES + (32 << 10)),
        ..SimulatedSettings::default()
    });
    let stream = options(segments(4))
        .open_on(Arc::new(disk.clone()))
        .unwrap();
    for _ in 0..4 {
        fill_in_time(&stream, 8);
        append_in_time(&stream, SEGMENT_BYTES as usize * 3 / 2);
        append_in_time(&stream, SEGMENT_BYTES as usize * 3 / 2);
    }
    stream.close().unwrap();
    let report = verify(&disk, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.damages);
}

#[test]
fn the_file_of_a_large_record_is_not_kept_to_be_used_again() {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    let stream = options(segments(4))
        .open_on(Arc::new(disk.clone()))
        .unwrap();
    append_in_time(&stream, 16 * SEGMENT_BYTES as usize);
    eventually("its segment is removed", || {
        append_in_time(&stream, 10_000);
        !disk.list().unwrap().contains(&segment_name(1))
    });
    assert!(used(&disk) < 16 * SEGMENT_BYTES, "{:?}", disk.list());
    stream.close().unwrap();
}
