//! Writers with epochs: the newest one has the stream, and an older one acknowledges nothing any more.

use std::{
    any::Any,
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use freeboard_flow::Epoch;
use freeboard_platform::thread;
use freeboard_stream::{
    AppendError, MasterKey, OpenError, ReadFrom, ReaderOptions, Retention, Stale, StreamOptions,
    StreamWriter, SyncMode, TicketError, VerifyOptions, newest_snapshot,
    storage::{
        Access, Disk, Storage, StorageFile,
        simulated::{SimulatedDisk, SimulatedSettings},
    },
    verify,
};

use crate::{
    crash::{
        Dice,
        seeds::{for_seeds, simulate},
    },
    support::{eventually, key},
};

/// What was acknowledged: sequences and payloads.
type Acknowledged = Vec<(u64, Vec<u8>)>;

fn epoch(revision: u64) -> Epoch {
    Epoch::new(1, revision)
}

fn options(revision: u64) -> StreamOptions {
    StreamOptions::new()
        .key(key())
        .segment_bytes(64 << 10)
        .epoch(epoch(revision))
}

fn payload(writer: u64, index: u64) -> Vec<u8> {
    let mut payload = format!("{writer} {index} ").into_bytes();
    payload.resize(20 + (index * 977 % 9_000) as usize, b'.');
    payload
}

/// Appends records one by one until `count` are acknowledged, or one is not.
fn append(
    stream: &StreamWriter,
    (writer, count): (u64, u64),
    acknowledged: &mut Acknowledged,
) -> Result<(), TicketError> {
    for index in 0..count {
        let payload = payload(writer, index);
        let ticket = match stream.append(&payload) {
            Ok(ticket) => ticket,
            Err(AppendError::Reopening) => continue,
            Err(_) => return Err(TicketError::NotWritten),
        };
        acknowledged.push((ticket.wait()?, payload));
    }
    Ok(())
}

/// Checks that a stream has each acknowledged record once, at its sequence, and is whole. `is_kept` says whether all
/// records must be there, or retention may have removed the oldest.
fn check(
    storage: Arc<dyn Storage>,
    key: Option<MasterKey>,
    acknowledged: &Acknowledged,
    is_kept: bool,
) -> Result<(), String> {
    if acknowledged.is_empty() {
        return Ok(());
    }
    let options = VerifyOptions::default();
    let report = verify(storage.as_ref(), key.as_ref(), &options, &mut |_| {});
    let report = report.map_err(|error| error.to_string())?;
    if !report.is_whole() {
        return Err(format!("damaged: {:?}", report.damages));
    }
    let reader = ReaderOptions::new().key(key).open_on(storage);
    let records: Result<Vec<_>, _> = reader.map_err(|error| error.to_string())?.collect();
    let records = records.map_err(|error| error.to_string())?;
    let first = records.first().map_or(u64::MAX, |record| record.sequence);
    if is_kept && first > 1 {
        return Err(format!("the first record is {first}"));
    }
    for (sequence, payload) in acknowledged {
        if *sequence < first && !is_kept {
            continue;
        }
        let record = records.get((*sequence - first) as usize);
        if record.is_none_or(|record| record.sequence != *sequence || record.payload != *payload) {
            return Err(format!("record {sequence} was acknowledged and is lost"));
        }
    }
    Ok(())
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_newer_epoch_has_all_that_was_acknowledged_and_fences_the_older() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    let old = options(1).open(directory.path()).unwrap();
    append(&old, (1, 40), &mut acknowledged).unwrap();
    // The old one is open, and holds its lock.
    let new = options(2).open(directory.path()).unwrap();
    append(&new, (2, 40), &mut acknowledged).unwrap();
    let ticket = old.append(b"too late").unwrap();
    assert_eq!(ticket.wait(), Err(TicketError::Stale));
    eventually("appends are refused", || {
        old.append(b"too late").err() == Some(AppendError::Stale)
    });
    assert!(
        old.fault()
            .unwrap()
            .contains("epoch 1.1 is stale: epoch 1.2 has opened it")
    );
    assert!(old.check().is_err() && old.close().is_err());
    append(&new, (3, 40), &mut acknowledged).unwrap();
    assert_eq!(new.close().unwrap().unwrap().sequence, 120);
    let disk = Disk::open_stream(directory.path()).unwrap();
    check(Arc::new(disk), Some(key()), &acknowledged, true).unwrap();
    let newest = "0000000000000001-0000000000000002";
    let expected = [
        newest.to_owned(),
        format!("{newest}.complete"),
        format!("{newest}.epoch"),
    ];
    assert_eq!(names(directory.path()), expected);
}

#[test]
fn an_older_epoch_is_refused_and_the_same_one_may_open_again() {
    let directory = tempfile::tempdir().unwrap();
    let stream = options(2).open(directory.path()).unwrap();
    stream.append(b"one").unwrap().wait().unwrap();
    let refused = options(1).open(directory.path()).unwrap_err();
    let stale = Stale {
        epoch: epoch(1),
        newest: epoch(2),
    };
    assert!(matches!(refused, OpenError::Stale(found) if found == stale));
    let locked = options(2).open(directory.path()).unwrap_err();
    assert!(matches!(locked, OpenError::Locked), "{locked}");
    stream.append(b"two").unwrap().wait().unwrap();
    stream.close().unwrap();
    let stream = options(2).open(directory.path()).unwrap();
    assert_eq!(stream.append(b"three").unwrap().wait(), Ok(3));
    drop(stream);
    let generation = options(0).epoch(Epoch::new(2, 0));
    let stream = generation.open(directory.path()).unwrap();
    assert_eq!(stream.append(b"four").unwrap().wait(), Ok(4));
    let plain = StreamOptions::new().key(key()).open(directory.path());
    assert!(matches!(plain, Err(OpenError::EpochMissing { newest }) if newest == Epoch::new(2, 0)));
}

#[test]
fn the_first_epoch_takes_over_from_a_stream_without() {
    let directory = tempfile::tempdir().unwrap();
    let plain = StreamOptions::new().key(key()).segment_bytes(64 << 10);
    let stream = plain.open(directory.path()).unwrap();
    let mut acknowledged = Vec::new();
    append(&stream, (1, 40), &mut acknowledged).unwrap();
    // A writer without an epoch would not notice.
    let locked = options(1).open(directory.path()).unwrap_err();
    assert!(matches!(locked, OpenError::Locked), "{locked}");
    append(&stream, (2, 10), &mut acknowledged).unwrap();
    stream.close().unwrap();
    let stream = options(1).open(directory.path()).unwrap();
    append(&stream, (3, 10), &mut acknowledged).unwrap();
    stream.close().unwrap();
    assert_eq!(names(directory.path()).len(), 3);
    let disk = Disk::open_stream(directory.path()).unwrap();
    check(Arc::new(disk), Some(key()), &acknowledged, true).unwrap();
}

#[test]
fn snapshots_positions_and_a_reader_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let old = options(1).open(directory.path()).unwrap();
    let mut acknowledged = Vec::new();
    append(&old, (1, 60), &mut acknowledged).unwrap();
    old.write_snapshot(50, |body| std::io::Write::write_all(body, b"state"))
        .unwrap();
    old.acknowledge_as("reader", 30).unwrap();
    let reader = ReaderOptions::new().key(key());
    let mut reading = reader.open(directory.path()).unwrap();
    for _ in 0..60 {
        reading.next_record().unwrap().unwrap();
    }
    let new = options(2).open(directory.path()).unwrap();
    assert_eq!(new.consumers(), [("reader".to_owned(), 30)]);
    let snapshot = newest_snapshot(new.storage().as_ref(), Some(&key())).unwrap();
    assert_eq!(snapshot.unwrap().sequence, 50);
    assert!(old.acknowledge_as("reader", 40).is_err());
    new.append(b"next").unwrap().wait().unwrap();
    // The directory that it reads is gone.
    assert!(reading.next_record().is_err());
    let from = ReadFrom::Sequence(reading.next_sequence());
    let mut reading = reader.from(from).open(directory.path()).unwrap();
    assert_eq!(reading.next_record().unwrap().unwrap().payload, b"next");
}

/// A disk before and after whose calls a thread may be paused for long, as by SIGSTOP.
#[derive(Clone, Debug)]
struct Pausing<T: ?Sized>(Arc<T>, Arc<Mutex<Dice>>);

impl<T: ?Sized> Pausing<T> {
    fn call<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        self.pause();
        let result = call(&self.0);
        self.pause();
        result
    }

    fn pause(&self) {
        let mut dice = self.1.lock().unwrap();
        let time = dice.one_in(50).then(|| dice.within(0..1_000_000));
        drop(dice);
        thread::sleep(Duration::from_micros(time.unwrap_or(0)));
    }

    fn with<U: ?Sized>(&self, inner: Arc<U>) -> Pausing<U> {
        Pausing(inner, self.1.clone())
    }

    fn file(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(self.with(file))
    }
}

impl Storage for Pausing<dyn Storage> {
    fn list(&self) -> io::Result<Vec<String>> {
        self.call(|it| it.list())
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.call(|it| it.create(name, bytes, access))?;
        Ok(self.file(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.call(|it| it.open(name, access))?;
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(|it| it.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(|it| it.remove(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.call(|it| it.sync_directory())
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.with(self.0.directory(name)?)))
    }

    fn link(&self, name: &str, from: Option<&str>, to: &str) -> io::Result<()> {
        self.call(|it| it.link(name, from, to))
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        self.call(|it| it.remove_directory(name))
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.0.lock()
    }
}

impl StorageFile for Pausing<dyn StorageFile> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.call(|it| it.write_at(parts, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.call(|it| it.sync())
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.call(|it| it.resize(bytes))
    }

    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }

    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

/// Writers of three epochs on one disk, in an order of steps that the seed chooses.
fn race(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let disk = SimulatedDisk::new(SimulatedSettings {
        seed,
        latency_max: Duration::from_millis(1 + dice.within(0..5)),
        is_direct: !dice.one_in(4),
        ..SimulatedSettings::default()
    });
    let sync = match dice.within(0..4) {
        0 => SyncMode::None,
        1 => SyncMode::Interval {
            time: Duration::from_millis(10),
            bytes: 64 << 10,
        },
        _ => SyncMode::Batch,
    };
    let retention = Retention {
        bytes: (dice.one_in(2)).then_some(256 << 10),
        ..Retention::default()
    };
    let rolls_back = dice.one_in(4);
    let options = move |revision| {
        options(revision)
            .sync(sync)
            .retention(retention)
            .rollback_unacknowledged(rolls_back)
    };
    let pauses = Arc::new(Mutex::new(Dice::new(!seed)));
    let pausing = || {
        let disk: Arc<dyn Storage> = Arc::new(disk.clone());
        Arc::new(Pausing(disk, pauses.clone()))
    };
    let old = options(1).open_on(pausing()).unwrap();
    let mut writers = Vec::new();
    let mut spawn = |name: String, write: Box<dyn FnOnce() -> Ended + Send>| {
        writers.push(thread::Builder::new().name(name).spawn(write).unwrap());
    };
    for producer in 1..=2 {
        let old = old.clone();
        let write = move || write(&old, (producer, 400));
        spawn(format!("old-{producer}"), Box::new(write));
    }
    drop(old);
    for revision in 2..=3 {
        let storage: Arc<dyn Storage> = match dice.one_in(2) {
            true => pausing(),
            false => Arc::new(disk.clone()),
        };
        let after = Duration::from_micros(dice.within(0..500_000));
        let count = dice.within(0..30);
        let open = move || {
            thread::sleep(after);
            match options(revision).open_on(storage) {
                Ok(new) => write(&new, (10 + revision, count)),
                Err(OpenError::Stale(_)) => Ok(Vec::new()),
                Err(error) => Err(format!("epoch {revision}: {error}")),
            }
        };
        spawn(format!("epoch-{revision}"), Box::new(open));
    }
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.join().unwrap()?);
    }
    let opened = options(4).open_on(Arc::new(disk));
    let newest = opened.map_err(|error| format!("epoch 4: {error}"))?;
    let storage = newest.storage().clone();
    newest.close().map_err(|error| error.to_string())?;
    check(
        storage,
        Some(key()),
        &acknowledged,
        retention.bytes.is_none(),
    )
}

/// What a writer has acknowledged, or what must not have happened.
type Ended = Result<Acknowledged, String>;

/// Appends until a newer epoch has opened the stream.
fn write(stream: &StreamWriter, (writer, count): (u64, u64)) -> Ended {
    let mut acknowledged = Vec::new();
    match append(stream, (writer, count), &mut acknowledged) {
        Ok(()) | Err(TicketError::Stale | TicketError::NotWritten) => Ok(acknowledged),
        Err(error) => Err(format!("writer {writer}: {error}")),
    }
}

#[test]
fn nothing_acknowledged_is_lost_whenever_a_newer_epoch_opens() {
    for_seeds(300, |seed| simulate(seed, race).map(drop));
}

/// The power fails at each call of the opening of a newer epoch and its first records, in turn.
#[test]
fn the_power_fails_at_each_call_of_a_take_over() {
    for call in 1.. {
        let disk = SimulatedDisk::new(SimulatedSettings {
            seed: call,
            ..SimulatedSettings::default()
        });
        let mut acknowledged = Vec::new();
        let old = options(1).open_on(Arc::new(disk.clone())).unwrap();
        append(&old, (1, 40), &mut acknowledged).unwrap();
        old.acknowledge_as("reader", 7).unwrap();
        disk.power_fails_at(disk.calls() + call);
        let opened = options(2).open_on(Arc::new(disk.clone()));
        let is_whole = opened.is_ok_and(|new| append(&new, (2, 3), &mut acknowledged).is_ok());
        let disk = disk.reboot();
        // The same epoch goes on with what it has begun, a newer one takes over from the last that is complete.
        let new = options(2 + call % 2).open_on(Arc::new(disk)).unwrap();
        append(&new, (3, 3), &mut acknowledged).unwrap();
        assert_eq!(new.consumers(), [("reader".to_owned(), 7)], "call {call}");
        let storage = new.storage().clone();
        new.close().unwrap();
        let checked = check(storage, Some(key()), &acknowledged, true);
        assert_eq!(checked, Ok(()), "call {call}");
        if is_whole {
            assert!(call > 50, "the take-over has {call} calls");
            break;
        }
    }
}
