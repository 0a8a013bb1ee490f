//! Everything that reads a stream's files, over the same files, and what must be true of it whatever
//! the files hold.
//!
//! One function for the fuzzer and for the tests: [`decode`] panics where an invariant does not hold.
//!
//! - Nothing panics, and everything ends.
//! - Records come in the order of their sequences, each once; those that are handed out are those
//!   that were written.
//! - What the check calls whole is read to its end, from both sides, without an error, and all of it
//!   is salvaged.
//! - A stream that opens for writing takes a record, and gives it back.

use std::{collections::BTreeMap, sync::Arc};

use freeboard_stream::{
    MasterKey, OpenError, ReadError, ReadFrom, ReaderOptions, RecordRef, SalvageOptions,
    StreamOptions, VerifyError, VerifyOptions, VerifyReport,
    format::{ALIGNMENT, RECORD_HEAD_BYTES, SegmentHeader},
    salvage,
    storage::{
        Access, Storage,
        simulated::{SimulatedDisk, SimulatedSettings},
    },
    verify,
};

use super::memory::Memory;

/// What is appended to a stream that opens.
const NEXT: &[u8] = b"the next one";

/// What was found.
pub(crate) struct Decoded {
    /// `None` where the check refuses the files.
    pub(crate) report: Option<VerifyReport>,
    /// The sequences that were read forward.
    pub(crate) read: Vec<u64>,
    /// Whether they were read without an error.
    pub(crate) is_read_whole: bool,
}

/// Reads files in every way there is. `written` is what the stream held, from record 1 on, where
/// that is known and what is read can be held against it.
pub(crate) fn decode(
    memory: &Memory,
    key: Option<&MasterKey>,
    written: Option<&[Vec<u8>]>,
) -> Decoded {
    let limits = Limits::of(memory);
    let report = match memory.verify(key, None) {
        Ok(report) => Some(report),
        Err(VerifyError::Io { what, error }) => panic!("{what}: {error}"),
        Err(_) => None,
    };
    let (read, is_read_whole) = forward(memory, key, written, &limits);
    let (back, is_read_back_whole) = backwards(memory, key, written, &limits);
    let copied = [false, true].map(|doubtful| rescue(memory, key, written, &limits, doubtful));
    if let Some(report) = &report
        && report.is_whole()
    {
        assert!(
            is_read_whole,
            "it is whole and was not read to its end: {report:?}"
        );
        assert!(is_read_back_whole, "it is whole and was not read backwards");
        assert_eq!(read.len() as u64, report.records);
        let reversed = read.iter().rev().copied();
        assert!(reversed.eq(back), "backwards it reads otherwise");
        assert!(copied.iter().all(|copied| *copied >= report.records));
    }
    let whole = report.as_ref().filter(|report| report.is_whole());
    // A stream whose records are all retired goes on behind them.
    let next = whole.map(|report| (report.last_record + 1).max(report.first_record));
    recover(memory, key, next);
    Decoded {
        report,
        read,
        is_read_whole,
    }
}

/// How much can be in files of this size.
struct Limits {
    records: u64,
    damages: u64,
}

impl Limits {
    fn of(memory: &Memory) -> Self {
        let bytes: usize = memory.0.values().map(|bytes| bytes.len()).sum();
        Self {
            records: (bytes / RECORD_HEAD_BYTES) as u64,
            // A page may be skipped more than once: as what does not follow, and as what is broken.
            damages: (bytes / ALIGNMENT * 2 + memory.0.len() * 2) as u64,
        }
    }
}

fn compare(sequence: u64, payload: &[u8], written: Option<&[Vec<u8>]>) {
    let original = written.map(|written| written.get(sequence as usize - 1));
    let is_it = original.is_none_or(|original| original.is_some_and(|it| it == payload));
    assert!(is_it, "record {sequence} was never written");
}

fn refused(error: ReadError) {
    if let ReadError::Io { what, error, .. } = error {
        panic!("{what}: {error}");
    }
}

fn forward(
    memory: &Memory,
    key: Option<&MasterKey>,
    written: Option<&[Vec<u8>]>,
    limits: &Limits,
) -> (Vec<u64>, bool) {
    let mut read = Vec::new();
    let mut reader = match memory.reader(key.cloned(), ReadFrom::Start) {
        Ok(reader) => reader,
        Err(error) => {
            refused(error);
            return (read, false);
        }
    };
    let mut damages = 0;
    let mut last_place = String::new();
    loop {
        match reader.next_ref() {
            Ok(Some(record)) => {
                compare(record.sequence, record.payload, written);
                assert!(read.last().is_none_or(|last| *last < record.sequence));
                read.push(record.sequence);
                assert!(read.len() as u64 <= limits.records, "records without end");
            }
            Ok(None) => return (read, damages == 0),
            Err(error) => {
                let place = error.to_string();
                refused(error);
                damages += 1;
                assert!(damages <= limits.damages, "damage without end: {place}");
                // With nothing behind it, the damage stays where it is.
                if place == last_place || reader.skip_damage().is_err() {
                    return (read, false);
                }
                last_place = place;
            }
        }
    }
}

fn backwards(
    memory: &Memory,
    key: Option<&MasterKey>,
    written: Option<&[Vec<u8>]>,
    limits: &Limits,
) -> (Vec<u64>, bool) {
    let mut read: Vec<u64> = Vec::new();
    let records = match memory.reader(key.cloned(), ReadFrom::Tail) {
        Ok(reader) => reader.backwards(),
        Err(error) => {
            refused(error);
            return (read, false);
        }
    };
    for record in records {
        match record {
            Ok(record) => {
                compare(record.sequence, &record.payload, written);
                assert!(read.last().is_none_or(|last| *last > record.sequence));
                read.push(record.sequence);
                assert!(read.len() as u64 <= limits.records, "records without end");
            }
            Err(error) => {
                refused(error);
                return (read, false);
            }
        }
    }
    (read, true)
}

/// How many records were salvaged.
fn rescue(
    memory: &Memory,
    key: Option<&MasterKey>,
    written: Option<&[Vec<u8>]>,
    limits: &Limits,
    doubtful: bool,
) -> u64 {
    let mut copied = BTreeMap::new();
    let mut sink = |record: RecordRef<'_>| {
        // Doubtful ones may be forged.
        if !doubtful {
            compare(record.sequence, record.payload, written);
        }
        let before = copied.insert(record.sequence, ());
        assert!(before.is_none(), "record {} comes twice", record.sequence);
        Ok(())
    };
    let options = SalvageOptions { doubtful };
    match salvage(memory, key, &options, &mut |_| {}, &mut sink) {
        Ok(report) => assert_eq!(report.copied, copied.len() as u64),
        Err(VerifyError::Io { what, error }) => panic!("{what}: {error}"),
        Err(_) => {}
    }
    assert!(copied.len() as u64 <= limits.records);
    copied.len() as u64
}

/// Opens the stream for writing, as it is sealed. `next` is where a whole one goes on; of another,
/// damage far from the end need not be seen.
fn recover(memory: &Memory, key: Option<&MasterKey>, next: Option<u64>) {
    let mut headers = memory.0.values().rev();
    let Some(header) = headers.find_map(|bytes| SegmentHeader::decode(bytes).ok()) else {
        return;
    };
    let disk: Arc<dyn Storage> = Arc::new(disk_of(memory));
    let mut options = StreamOptions::new()
        .seal(header.algorithm, header.unit)
        .segment_bytes(64 << 10)
        .shards(1);
    if let Some(key) = key {
        options = options.key(key.clone());
    }
    let stream = match options.open_on(disk.clone()) {
        Ok(stream) => stream,
        Err(OpenError::Io { what, error }) => panic!("{what}: {error}"),
        Err(_) => return,
    };
    let ticket = stream.append(NEXT).expect("it is open");
    let sequence = ticket.wait().expect("nothing fails");
    stream.close().expect("nothing fails");
    let from = ReadFrom::Sequence(sequence);
    let reader = ReaderOptions::new().key(key.cloned()).from(from);
    let reader = reader.open_on(disk.clone());
    let record = reader.and_then(|mut reader| reader.next_record());
    let report = verify(disk.as_ref(), key, &VerifyOptions::default(), &mut |_| {});
    if let Some(next) = next {
        assert_eq!(sequence, next);
        let record = record.expect("it was whole").expect("it was just written");
        assert_eq!(
            (record.sequence, record.payload.as_slice()),
            (sequence, NEXT)
        );
        let report = report.expect("it was whole");
        assert!(report.is_whole() && report.last_record == sequence);
    }
}

fn disk_of(memory: &Memory) -> SimulatedDisk {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    for (name, bytes) in &memory.0 {
        let file = disk.create(name, bytes.len() as u64, Access::Cached);
        let file = file.expect("there is room");
        file.write_at(&[bytes], 0)
            .and_then(|()| file.sync())
            .expect("nothing fails");
    }
    disk.sync_directory().expect("nothing fails");
    disk
}
