//! Reading what the writer writes, from anywhere, both ways, along with it and past damage.

use std::{
    any::Any,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{StreamMaker, eventually, key};
use freeboard_stream::{
    MasterKey, ReadError, ReadFrom, ReaderOptions, Record, Retention, StreamOptions,
    format::{ALIGNMENT, Algorithm, SealUnit, segment_name},
    rebuild_index,
    storage::{
        Access, Disk, Storage, StorageFile,
        simulated::{SimulatedDisk, SimulatedSettings},
    },
    stream_header,
};
use proptest::prelude::*;

fn payload(sequence: u64) -> Vec<u8> {
    let bytes = (sequence * 37 % 300) as usize;
    let mut payload = sequence.to_le_bytes().to_vec();
    payload.resize(8 + bytes, sequence as u8);
    payload
}

/// Three segments of four chunks of five records each: 1 to 60.
fn sixty(algorithm: Algorithm, unit: SealUnit) -> (tempfile::TempDir, StreamMaker) {
    let mut maker = StreamMaker::new(algorithm, unit);
    for segment in 0..3 {
        maker.segment();
        for chunk in 0..4 {
            let first = (segment * 4 + chunk) * 5 + 1;
            maker.chunk((first..first + 5).map(payload));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    maker.write(directory.path());
    (directory, maker)
}

fn read(path: &Path, from: ReadFrom) -> Vec<u64> {
    let disk = Disk::open(path).unwrap();
    let is_sealed = stream_header(&disk, None).unwrap().algorithm.is_sealed();
    let key = is_sealed.then(key);
    let reader = ReaderOptions::new().key(key).from(from).open(path).unwrap();
    reader.map(|record| checked(record.unwrap())).collect()
}

fn checked(record: Record) -> u64 {
    assert_eq!(record.payload, payload(record.sequence));
    record.sequence
}

#[test]
fn reading_begins_anywhere_with_and_without_an_index() {
    for (algorithm, unit) in [
        (Algorithm::None, SealUnit::Batch),
        (Algorithm::HmacSha256, SealUnit::Record),
        (Algorithm::Blake3, SealUnit::Batch),
    ] {
        let (directory, maker) = sixty(algorithm, unit);
        let path = directory.path();
        for is_indexed in [false, true] {
            if is_indexed {
                let disk = Disk::open(path).unwrap();
                (1..=3).for_each(|number| rebuild_index(&disk, number).unwrap());
            }
            assert_eq!(read(path, ReadFrom::Start), Vec::from_iter(1..=60));
            for sequence in 1..=60 {
                let expected = Vec::from_iter(sequence..=60);
                assert_eq!(read(path, ReadFrom::Sequence(sequence)), expected);
            }
            assert!(read(path, ReadFrom::Sequence(61)).is_empty());
            assert!(read(path, ReadFrom::Tail).is_empty());
            assert_eq!(read(path, ReadFrom::Last(7)), Vec::from_iter(54..=60));
            assert_eq!(read(path, ReadFrom::Last(1_000)), Vec::from_iter(1..=60));
            // The maker's chunks are a millisecond apart.
            let third = maker.time_ns - 9_000_000;
            assert_eq!(read(path, ReadFrom::Time(third)), Vec::from_iter(11..=60));
            assert_eq!(read(path, ReadFrom::Time(0)), Vec::from_iter(1..=60));
            assert!(read(path, ReadFrom::Time(u64::MAX)).is_empty());
        }
    }
}

#[test]
fn an_index_that_lies_is_not_believed() {
    let (directory, _) = sixty(Algorithm::None, SealUnit::Batch);
    let path = directory.path();
    let disk = Disk::open(path).unwrap();
    rebuild_index(&disk, 2).unwrap();
    let name = |number: u64| path.join(format!("{number:020}.index"));
    let index = fs::read(name(2)).unwrap();
    // That of another segment; and every byte of its own, changed.
    fs::write(name(1), &index).unwrap();
    fs::write(name(3), &index).unwrap();
    for at in 0..index.len() {
        let mut changed = index.clone();
        changed[at] ^= 0x55;
        fs::write(name(2), &changed).unwrap();
        assert_eq!(read(path, ReadFrom::Sequence(33)), Vec::from_iter(33..=60));
    }
    // Changed, and its checksum mended.
    for at in 36..index.len() - 4 {
        let mut changed = index.clone();
        changed[at] ^= 0x10;
        let end = changed.len() - 4;
        let checksum = crc32c::crc32c(&changed[..end]).to_le_bytes();
        changed[end..].copy_from_slice(&checksum);
        fs::write(name(2), &changed).unwrap();
        assert_eq!(read(path, ReadFrom::Sequence(33)), Vec::from_iter(33..=60));
    }
}

#[test]
fn backwards_is_the_same_from_the_other_end() {
    let (directory, _) = sixty(Algorithm::HmacSha512, SealUnit::Record);
    for from in [ReadFrom::Tail, ReadFrom::Sequence(33), ReadFrom::Start] {
        let options = ReaderOptions::new().key(key()).from(from);
        let reader = options.open(directory.path()).unwrap();
        let before = reader.next_sequence();
        let backwards: Vec<u64> = reader
            .backwards()
            .map(|record| checked(record.unwrap()))
            .collect();
        assert_eq!(backwards, Vec::from_iter((1..before).rev()));
    }
}

#[test]
fn a_reader_follows_a_writer_across_segments() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .segment_bytes(64 << 10)
        .open(directory.path())
        .unwrap();
    let reader = ReaderOptions::new()
        .follow(true)
        .open(directory.path())
        .unwrap();
    let stop = reader.stop_handle();
    let reading = std::thread::spawn(move || {
        let sequences: Vec<u64> = reader.map(|record| checked(record.unwrap())).collect();
        sequences
    });
    let last = 3_000;
    for sequence in 1..=last {
        let ticket = stream.append(&payload(sequence)).unwrap();
        if sequence % 100 == 0 {
            assert_eq!(ticket.wait(), Ok(sequence));
        }
    }
    stream.flush().unwrap();
    let mut tail = ReaderOptions::new()
        .from(ReadFrom::Last(1))
        .open(directory.path())
        .unwrap();
    assert_eq!(tail.next_ref().unwrap().unwrap().sequence, last);
    assert!(tail.next_ref().unwrap().is_none());
    stream.append(&payload(last + 1)).unwrap().wait().unwrap();
    let next = tail.wait_next(Duration::from_secs(20)).unwrap().unwrap();
    assert_eq!(next.sequence, last + 1);
    // It ends when it has caught up: stopped, it still hands out what is there.
    stop.stop();
    let sequences = reading.join().unwrap();
    assert_eq!(sequences, Vec::from_iter(1..=sequences.len() as u64));
    assert!(stream.snapshot().segments_finished > 3);
}

#[test]
fn half_a_chunk_is_the_end_until_the_other_half_comes() {
    let mut maker = StreamMaker::new(Algorithm::Blake3, SealUnit::Batch);
    maker.chunk((1..=5).map(payload));
    let first = maker.segments()[0].len();
    maker.chunk((6..=60).map(payload));
    let whole = maker.segments()[0].clone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(segment_name(1));
    let mut seen = whole.clone();
    seen[first + 512..].fill(0);
    fs::write(&path, &seen).unwrap();
    let mut reader = ReaderOptions::new().open(directory.path()).unwrap();
    let mut sequences = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        sequences.push(checked(record));
    }
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
    fs::write(&path, &whole).unwrap();
    let rest: Vec<u64> = reader.map(|record| checked(record.unwrap())).collect();
    assert_eq!(rest, Vec::from_iter(6..=60));
}

#[test]
fn damage_is_an_error_that_can_be_passed() {
    let (directory, maker) = sixty(Algorithm::None, SealUnit::Batch);
    for number in [1, 2] {
        // The second chunk of the segment.
        let mut bytes = maker.segments()[number - 1].clone();
        let header = freeboard_stream::format::ChunkHeader::decode(&bytes[ALIGNMENT..]).unwrap();
        let second = ALIGNMENT + header.chunk_bytes() as usize;
        bytes[second + 300] ^= 1;
        fs::write(directory.path().join(segment_name(number as u64)), bytes).unwrap();
    }
    let mut reader = ReaderOptions::new().open(directory.path()).unwrap();
    let mut sequences = Vec::new();
    let mut damaged = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => sequences.push(checked(record)),
            Ok(None) => break,
            Err(ReadError::Damaged { record, .. }) => {
                let again = reader.next_record();
                assert!(
                    matches!(again, Err(ReadError::Damaged { .. })),
                    "it stays there"
                );
                damaged.push(record);
                reader.skip_damage().unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(damaged, [6, 26]);
    let whole =
        (1..=60).filter(|sequence| !(6..=10).contains(sequence) && !(26..=30).contains(sequence));
    assert_eq!(sequences, Vec::from_iter(whole));
}

#[test]
fn a_wrong_key_reads_nothing_and_no_key_reads_all() {
    let (directory, _) = sixty(Algorithm::HmacSha256, SealUnit::Batch);
    let wrong = MasterKey::new(b"another key altogether").unwrap();
    let opened = ReaderOptions::new().key(wrong).open(directory.path());
    assert!(matches!(opened, Err(ReadError::WrongKey { segment: 1 })));
    let reader = ReaderOptions::new().open(directory.path()).unwrap();
    assert_eq!(reader.count(), 60);
}

#[test]
fn what_retention_has_taken_is_gone_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .segment_bytes(64 << 10)
        .retention(Retention {
            bytes: Some(128 << 10),
            ..Retention::default()
        })
        .open(directory.path())
        .unwrap();
    let mut slow = ReaderOptions::new().open(directory.path()).unwrap();
    stream.append(&payload(1)).unwrap().wait().unwrap();
    assert_eq!(checked(slow.next_record().unwrap().unwrap()), 1);
    for sequence in 2..=2_000 {
        let ticket = stream.append(&payload(sequence)).unwrap();
        if sequence % 50 == 0 {
            ticket.wait().unwrap();
        }
    }
    eventually("segments are removed", || {
        stream.snapshot().segment_bytes <= 64 << 10
    });
    let mut last = 1;
    let mut oldest_kept = None;
    loop {
        match slow.next_record() {
            Ok(Some(record)) => {
                let sequence = checked(record);
                assert_eq!(sequence, oldest_kept.take().unwrap_or(last + 1));
                last = sequence;
            }
            Ok(None) => break,
            Err(ReadError::Gone { wanted, oldest }) => {
                assert_eq!(wanted, last + 1);
                assert!(oldest > wanted);
                oldest_kept = Some(oldest);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(last, 2_000);
    let opened = ReaderOptions::new()
        .from(ReadFrom::Sequence(1))
        .open(directory.path());
    assert!(matches!(opened, Err(ReadError::Gone { wanted: 1, .. })));
}

/// A disk of which a segment is removed just before it is opened again, after so many times.
#[derive(Debug)]
struct Vanishing {
    disk: SimulatedDisk,
    segment: u64,
    left: AtomicU64,
}

impl Storage for Vanishing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        self.disk.create(name, bytes, access)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        if name == segment_name(self.segment) && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.disk.remove(name)?;
        }
        self.disk.open(name, access)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.disk.lock()
    }
}

/// A writer that closes the stream removes the file that it has prepared, also while a reader that follows checks it.
#[test]
fn a_reader_at_the_end_does_not_fail_when_the_prepared_file_goes() {
    let mut removed = 0;
    for opened in 1..=8 {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        let stream = StreamOptions::new()
            .segment_bytes(64 << 10)
            .open_on(Arc::new(disk.clone()))
            .unwrap();
        stream.append(&payload(1)).unwrap().wait().unwrap();
        eventually("a segment to be prepared", || {
            disk.list().unwrap().contains(&segment_name(2))
        });
        let disk = disk.kill();
        drop(stream);
        let left = AtomicU64::new(opened);
        let storage = Arc::new(Vanishing {
            disk: disk.clone(),
            segment: 2,
            left,
        });
        let mut reader = ReaderOptions::new().open_on(storage).unwrap();
        assert_eq!(reader.next_record().unwrap().map(checked), Some(1));
        for _ in 0..3 {
            let next = reader.wait_next(Duration::ZERO);
            let next = next.unwrap_or_else(|error| panic!("opening {opened}: {error}"));
            assert!(next.is_none());
        }
        removed += usize::from(!disk.list().unwrap().contains(&segment_name(2)));
    }
    assert!(removed >= 2, "the file was removed {removed} times");
}

/// Retention removes segments 1 and 2 while the reader is in the first, and the third at any time while the reader looks
/// for the oldest.
#[test]
fn a_reader_behind_retention_does_not_fail_when_the_next_segment_goes_too() {
    let mut skipped = 0;
    for opened in 1..=6 {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        let stream = StreamOptions::new()
            .segment_bytes(64 << 10)
            .open_on(Arc::new(disk.clone()))
            .unwrap();
        for sequence in 1..=2_000 {
            let ticket = stream.append(&payload(sequence)).unwrap();
            if sequence % 50 == 0 {
                ticket.wait().unwrap();
            }
        }
        stream.close().unwrap();
        assert!(disk.list().unwrap().contains(&segment_name(4)));
        let storage = Arc::new(Vanishing {
            disk: disk.clone(),
            segment: 3,
            left: AtomicU64::new(opened),
        });
        let mut reader = ReaderOptions::new().open_on(storage).unwrap();
        let mut last = checked(reader.next_record().unwrap().unwrap());
        for removed in [1, 2] {
            disk.remove(&segment_name(removed)).unwrap();
        }
        let mut goes = 0;
        loop {
            match reader.next_record() {
                Ok(Some(record)) => last = checked(record),
                Ok(None) => break,
                Err(ReadError::Gone { wanted, oldest }) => {
                    assert_eq!(wanted, last + 1);
                    assert!(oldest > wanted);
                    goes += 1;
                }
                Err(error) => panic!("opening {opened}: {error}"),
            }
        }
        assert_eq!((last, goes), (2_000, 1), "opening {opened}");
        skipped += usize::from(!disk.list().unwrap().contains(&segment_name(3)));
    }
    assert!(skipped >= 2, "the segment was removed {skipped} times");
}

/// Retention removes the oldest segment while a reader looks for a record of it.
#[test]
fn a_seek_does_not_fail_when_retention_removes_the_segment_that_it_found() {
    let mut gone = 0;
    for opened in 1..=8 {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        let stream = StreamOptions::new()
            .segment_bytes(64 << 10)
            .open_on(Arc::new(disk.clone()))
            .unwrap();
        for sequence in 1..=1_000 {
            let ticket = stream.append(&payload(sequence)).unwrap();
            if sequence % 50 == 0 {
                ticket.wait().unwrap();
            }
        }
        stream.close().unwrap();
        let storage = Arc::new(Vanishing {
            disk: disk.clone(),
            segment: 1,
            left: AtomicU64::new(opened),
        });
        match ReaderOptions::new()
            .from(ReadFrom::Sequence(2))
            .open_on(storage)
        {
            Ok(mut reader) => assert_eq!(reader.next_record().unwrap().map(checked), Some(2)),
            Err(ReadError::Gone { wanted: 2, oldest }) => {
                assert!(oldest > 2);
                gone += 1;
            }
            Err(error) => panic!("opening {opened}: {error}"),
        }
    }
    assert!(gone >= 2, "the segment was removed {gone} times");
}

#[test]
fn a_seek_by_time_reads_the_headers_and_the_segments_of_that_time() {
    const SEGMENTS: u64 = 200;
    const RECORD_BYTES: usize = 32 << 10;
    let mut maker = StreamMaker::new(Algorithm::None, SealUnit::Batch);
    for segment in 0..SEGMENTS {
        // Each chunk is a millisecond later.
        maker.time_ns = 10_000_000 * segment;
        maker.segment();
        for chunk in 0..3 {
            maker.chunk([vec![chunk; RECORD_BYTES]]);
        }
    }
    let memory = maker.memory();
    for segment in [0, 1, 150, SEGMENTS - 1] {
        let before = memory.1.load(Ordering::Relaxed);
        let mut reader = memory
            .reader(None, ReadFrom::Time(10_000_000 * segment + 1_500_000))
            .unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(record.sequence, 3 * segment + 2);
        let read = memory.1.load(Ordering::Relaxed) - before;
        // All headers decide which stream it is. A further few are looked at, and one segment is read.
        let headers = (SEGMENTS + 20) * ALIGNMENT as u64;
        assert!(
            read < headers + 4 * RECORD_BYTES as u64,
            "{segment}: {read}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_seeks_agree_with_a_plain_list(
        chunks in prop::collection::vec(1u64..9, 1..12),
        segment_every in 1usize..5,
        seeks in prop::collection::vec((0u64..110, 0usize..12), 1..20),
    ) {
        let mut maker = StreamMaker::new(Algorithm::None, SealUnit::Batch);
        let mut next = 1;
        for (index, count) in chunks.iter().enumerate() {
            if index % segment_every == 0 {
                maker.segment();
            }
            maker.chunk((next..next + count).map(payload));
            next += count;
        }
        let directory = tempfile::tempdir().unwrap();
        maker.write(directory.path());
        let mut reader = ReaderOptions::new().open(directory.path()).unwrap();
        for (wanted, take) in seeks {
            let wanted = wanted.max(1);
            reader.seek(ReadFrom::Sequence(wanted)).unwrap();
            for expected in (wanted..next).take(take) {
                prop_assert_eq!(checked(reader.next_record().unwrap().unwrap()), expected);
            }
            if take as u64 > next.saturating_sub(wanted) {
                prop_assert!(reader.next_record().unwrap().is_none());
            }
        }
    }
}

/// Found by the simulator's world `streams`, seed 167.
#[test]
fn a_reader_that_was_opened_while_the_first_header_was_written_reads_on() {
    let (directory, _maker) = sixty(Algorithm::None, SealUnit::Batch);
    let path = directory.path().join(segment_name(1));
    let whole = fs::read(&path).unwrap();
    for number in 2..=3 {
        fs::remove_file(directory.path().join(segment_name(number))).unwrap();
    }
    let mut torn = whole.clone();
    torn[..64].fill(0);
    fs::write(&path, torn).unwrap();
    let mut reader = ReaderOptions::new().open(directory.path()).unwrap();
    let mut waiting = ReaderOptions::new().open(directory.path()).unwrap();
    assert!(waiting.wait_next(Duration::ZERO).unwrap().is_none());
    fs::write(&path, whole).unwrap();
    for reader in [&mut reader, &mut waiting] {
        assert_eq!(checked(reader.next_record().unwrap().unwrap()), 1);
    }
}
