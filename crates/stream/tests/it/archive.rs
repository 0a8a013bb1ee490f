//! Archives in a directory: what is archived is verified, read and restored, and a mistake is named.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::support::{eventually, key};
use freeboard_stream::{
    Algorithm, DamageKind, Head, MasterKey, ReadFrom, ReaderOptions, Retention, SealUnit,
    StreamOptions, StreamWriter, VerifyOptions, VerifyReport,
    archive::{
        Archive, ArchiveError, ArchiveOptions, ArchiveReport, Archiver, Keep, RestoreEnd,
        RestoreOptions, restore,
    },
    format::{RETENTION_MARK, segment_name, segment_number},
    storage::{Disk, Storage},
    verify,
};

const SEGMENT_BYTES: u64 = 64 << 10;

/// A stream's directory, an archive and a place for a copy.
struct Room {
    root: tempfile::TempDir,
    key: Option<MasterKey>,
}

impl Room {
    fn new(key: Option<MasterKey>) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root, key }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn open(&self, name: &str, retention: Retention) -> StreamWriter {
        let mut options = StreamOptions::new().segment_bytes(SEGMENT_BYTES);
        if let Some(key) = &self.key {
            let algorithm = Algorithm::Blake3;
            options = options.seal(algorithm, SealUnit::Batch).key(key.clone());
        }
        let options = options.retention(retention);
        options.open(self.path(name)).unwrap()
    }

    /// Appends so many records to `LOG`, five of which fill a segment, and closes it.
    fn write(&self, records: u64) -> Head {
        let stream = self.open("LOG", Retention::default());
        append(&stream, records);
        stream.close().unwrap().unwrap()
    }

    fn archive(&self) -> Archive {
        let url = format!("file://{}", self.path("ARCHIVE").display());
        ArchiveOptions::new().open(&url).unwrap()
    }

    fn archiver(&self, name: &str) -> Archiver {
        let disk = Disk::open(self.path(name)).unwrap();
        Archiver::new(Arc::new(disk), self.archive()).key(self.key.clone())
    }

    fn pass(&self) -> Result<ArchiveReport, ArchiveError> {
        pass(&mut self.archiver("LOG"), true)
    }

    /// Checks the archive with its own head.
    fn verify(&self) -> VerifyReport {
        let archive = self.archive();
        let options = VerifyOptions {
            expect_head: archive.head().unwrap(),
            ..VerifyOptions::default()
        };
        verify(&archive, self.key.as_ref(), &options, &mut |_| {}).unwrap()
    }

    fn restore(&self, end: RestoreEnd) -> Result<VerifyReport, ArchiveError> {
        let options = RestoreOptions {
            end,
            ..RestoreOptions::default()
        };
        let go = &mut |_| ControlFlow::Continue(());
        let (archive, copy) = (self.archive(), self.path("COPY"));
        restore(&archive, &copy, self.key.as_ref(), &options, go).map(|it| it.verified)
    }

    fn object(&self, number: u64) -> PathBuf {
        self.path("ARCHIVE").join(segment_name(number))
    }

    fn payloads(&self, storage: Arc<dyn Storage>) -> Vec<Vec<u8>> {
        let options = ReaderOptions::new().key(self.key.clone());
        let reader = options.from(ReadFrom::Start).open_on(storage).unwrap();
        reader.map(|record| record.unwrap().payload).collect()
    }
}

fn append(stream: &StreamWriter, records: u64) {
    for record in 0..records {
        stream
            .append(&[record as u8; 10_000])
            .unwrap()
            .wait()
            .unwrap();
    }
}

fn pass(archiver: &mut Archiver, with_end: bool) -> Result<ArchiveReport, ArchiveError> {
    archiver.pass(with_end, &mut |_| ControlFlow::Continue(()))
}

fn segments(path: &Path) -> Vec<u64> {
    let names = Disk::open(path).unwrap().list().unwrap();
    let mut numbers: Vec<u64> = names.iter().filter_map(|it| segment_number(it)).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn what_is_archived_is_verified_read_and_restored() {
    for key in [None, Some(key())] {
        let room = Room::new(key);
        room.write(20);
        let report = room.pass().unwrap();
        assert_eq!((report.segments, report.archived_record), (4, 20));
        // The last segment grows, and its object is replaced.
        let head = room.write(10);
        let report = room.pass().unwrap();
        assert_eq!((report.archived_record, report.head), (30, Some(head)));
        assert_eq!(report.segments, 2);
        let again = room.pass().unwrap();
        assert_eq!(
            (again.segments, again.bytes, again.head),
            (0, 0, Some(head))
        );

        let verified = room.verify();
        assert!(verified.is_whole(), "{:?}", verified.damages);
        assert_eq!((verified.records, verified.head), (30, Some(head)));
        let payloads = room.payloads(Arc::new(Disk::open(room.path("LOG")).unwrap()));
        assert_eq!(payloads.len(), 30);
        assert_eq!(room.payloads(Arc::new(room.archive())), payloads);

        let restored = room.restore(RestoreEnd::Archive).unwrap();
        assert_eq!((restored.records, restored.head), (30, Some(head)));
        let copy = Arc::new(Disk::open(room.path("COPY")).unwrap());
        assert_eq!(room.payloads(copy), payloads);
        // The copy is a stream that continues.
        let stream = room.open("COPY", Retention::default());
        assert_eq!(stream.append(b"more").unwrap().wait().unwrap(), 31);
    }
}

#[test]
fn beside_a_writer_only_finished_segments_are_archived_until_the_end_is_asked_for() {
    let room = Room::new(Some(key()));
    let stream = room.open("LOG", Retention::default());
    let mut archiver = room.archiver("LOG");
    append(&stream, 5);
    assert_eq!(pass(&mut archiver, false).unwrap().archived_record, 0);
    append(&stream, 5);
    let report = pass(&mut archiver, false).unwrap();
    let finished = report.archived_record;
    assert!((1..10).contains(&finished), "{report:?}");
    let report = pass(&mut archiver, true).unwrap();
    assert_eq!(report.archived_record, 10);
    assert_eq!(room.verify().records, 10);
    append(&stream, 30);
    let finished = pass(&mut archiver, false).unwrap().archived_record;
    assert!((10..40).contains(&finished), "{finished}");
    let verified = room.verify();
    assert!(verified.is_whole(), "{:?}", verified.damages);
    assert_eq!(verified.last_record, finished);
}

#[test]
fn a_writer_that_is_told_removes_what_is_archived_and_recycles_it() {
    let room = Room::new(Some(key()));
    let retention = Retention {
        acknowledged: true,
        ..Retention::default()
    };
    let stream = room.open("LOG", retention);
    let mut archiver = room.archiver("LOG");
    for _ in 0..8 {
        append(&stream, 20);
        let report = pass(&mut archiver, false).unwrap();
        stream.acknowledge(report.archived_record);
    }
    eventually("retention", || segments(&room.path("LOG"))[0] > 10);
    stream.close().unwrap();
    // Another process goes on, whose first segment follows the archive's last.
    let report = room.pass().unwrap();
    assert_eq!(report.archived_record, 160);
    let verified = room.verify();
    assert!(verified.is_whole(), "{:?}", verified.damages);
    assert_eq!((verified.first_record, verified.records), (1, 160));
    assert_eq!(room.restore(RestoreEnd::Archive).unwrap().records, 160);
}

#[test]
fn archived_segments_are_retired_without_a_writer() {
    let room = Room::new(Some(key()));
    room.write(20);
    let mut archiver = room.archiver("LOG");
    let stream = room.open("LOG", Retention::default());
    pass(&mut archiver, true).unwrap();
    assert!(matches!(archiver.retire(), Err(ArchiveError::Locked)));
    stream.close().unwrap();
    assert_eq!(archiver.retire().unwrap(), 3);
    assert_eq!(segments(&room.path("LOG")), [4]);
    let disk = Disk::open(room.path("LOG")).unwrap();
    let options = VerifyOptions::default();
    let local = verify(&disk, Some(&key()), &options, &mut |_| {}).unwrap();
    assert!(local.is_whole(), "{:?}", local.damages);
    room.write(10);
    assert_eq!(room.pass().unwrap().archived_record, 30);
    assert_eq!(room.verify().records, 30);
}

#[test]
fn the_archive_keeps_what_it_must_and_marks_the_rest() {
    let room = Room::new(Some(key()));
    room.write(40);
    let all = room.pass().unwrap();
    assert_eq!(all.segments, 8);
    let keep = Keep {
        bytes: Some(3 * SEGMENT_BYTES),
        ..Keep::default()
    };
    let without_key = &mut room.archiver("LOG").key(None).keep(keep);
    let refused = pass(without_key, true).unwrap_err();
    assert!(matches!(refused, ArchiveError::KeyMissing), "{refused}");
    let report = pass(&mut room.archiver("LOG").keep(keep), true).unwrap();
    assert_eq!(report.removed, 5);
    assert_eq!(segments(&room.path("ARCHIVE")), [6, 7, 8]);
    let verified = room.verify();
    assert!(verified.is_whole(), "{:?}", verified.damages);
    assert_eq!(room.restore(RestoreEnd::Archive).unwrap().last_record, 40);
    // One that retention has not removed is missed.
    fs::remove_file(room.object(6)).unwrap();
    let damages = room.verify().damages;
    assert_eq!(damages[0].kind, DamageKind::Gap, "{damages:?}");

    let age = Some(Duration::ZERO);
    let keep = Keep {
        age,
        ..Keep::default()
    };
    pass(&mut room.archiver("LOG").keep(keep), true).unwrap();
    assert_eq!(segments(&room.path("ARCHIVE")), [8]);
    assert!(room.verify().is_whole());
}

#[test]
fn an_archive_begins_where_retention_has_left_the_stream() {
    let room = Room::new(Some(key()));
    let retention = Retention {
        bytes: Some(4 * SEGMENT_BYTES),
        ..Retention::default()
    };
    let stream = room.open("LOG", retention);
    append(&stream, 60);
    stream.close().unwrap();
    let first = segments(&room.path("LOG"))[0];
    assert!(first > 1);
    room.pass().unwrap();
    assert_eq!(segments(&room.path("ARCHIVE"))[0], first);
    let verified = room.verify();
    assert!(verified.is_whole(), "{:?}", verified.damages);
    fs::remove_file(room.path("ARCHIVE").join(RETENTION_MARK)).unwrap();
    assert_eq!(room.verify().damages[0].kind, DamageKind::Gap);
}

#[test]
fn verify_names_the_object_that_was_changed_cut_or_removed() {
    let room = Room::new(Some(key()));
    room.write(40);
    room.pass().unwrap();
    let whole = fs::read(room.object(3)).unwrap();
    let mut changed = whole.clone();
    changed[9_000] ^= 1;
    for (content, kind) in [
        (&changed[..], DamageKind::Rot),
        (&whole[..whole.len() - 4_096], DamageKind::Truncated),
        (&[], DamageKind::Gap),
    ] {
        fs::write(room.object(3), content).unwrap();
        let damages = room.verify().damages;
        assert!(damages.iter().any(|it| it.segment == 3), "{damages:?}");
        assert!(
            content.is_empty() || damages.iter().any(|it| it.kind == kind),
            "{damages:?}"
        );
        let refused = room.restore(RestoreEnd::Archive).unwrap_err();
        assert!(
            matches!(refused, ArchiveError::NotWhole { .. }),
            "{refused}"
        );
        assert!(!room.path("COPY").exists());
        fs::remove_dir_all(room.path("COPY.restoring")).unwrap();
    }
    // The archiver sends what has another length once more.
    let report = room.pass().unwrap();
    assert_eq!((report.segments, report.archived_record), (1, 40));
    assert!(room.verify().is_whole());
    // The head shows that the end is missing.
    fs::remove_file(room.object(8)).unwrap();
    let damages = room.verify().damages;
    assert_eq!(damages[0].kind, DamageKind::Truncated, "{damages:?}");
}

#[test]
fn a_stream_is_restored_up_to_a_record_or_a_time() {
    let room = Room::new(Some(key()));
    room.write(40);
    room.pass().unwrap();
    for end in [1, 5, 6, 23, 40, 99] {
        let restored = room.restore(RestoreEnd::Sequence(end)).unwrap();
        assert_eq!(
            (restored.first_record, restored.last_record),
            (1, end.min(40))
        );
        fs::remove_dir_all(room.path("COPY")).unwrap();
    }
    let records: Vec<_> = ReaderOptions::new()
        .open_on(Arc::new(room.archive()))
        .unwrap()
        .collect();
    let time_ns = |record: usize| records[record - 1].as_ref().unwrap().time_ns;
    let restored = room.restore(RestoreEnd::Time(time_ns(17))).unwrap();
    assert_eq!(restored.last_record, 17);
    let refused = room.restore(RestoreEnd::Archive).unwrap_err().to_string();
    assert!(refused.ends_with("COPY is not empty"), "{refused}");
    // A stream that continues from there is another one.
    let stream = room.open("COPY", Retention::default());
    append(&stream, 40);
    stream.close().unwrap();
    let refused = pass(&mut room.archiver("COPY"), true).unwrap_err();
    assert!(
        matches!(refused, ArchiveError::Differs { segment: 8 }),
        "{refused}"
    );
}

#[test]
fn an_archive_of_something_else_is_refused() {
    let room = Room::new(None);
    room.write(10);
    let refused = room.restore(RestoreEnd::Archive).unwrap_err();
    assert!(
        matches!(refused, ArchiveError::NoStream { .. }),
        "{refused}"
    );
    room.write(30);
    room.pass().unwrap();
    let stream = room.open("OTHER", Retention::default());
    append(&stream, 40);
    stream.close().unwrap();
    let refused = pass(&mut room.archiver("OTHER"), true).unwrap_err();
    assert!(
        matches!(refused, ArchiveError::OtherStream { .. }),
        "{refused}"
    );

    let last = *segments(&room.path("LOG")).last().unwrap();
    fs::remove_file(room.path("LOG").join(segment_name(last))).unwrap();
    let refused = room.pass().unwrap_err();
    assert!(matches!(refused, ArchiveError::Behind { .. }), "{refused}");

    for url in ["file:relative", "s3://", "ftp://host/path", "LOG"] {
        let refused = ArchiveOptions::new().open(url).unwrap_err();
        assert!(matches!(refused, ArchiveError::Address { .. }), "{refused}");
    }
}

#[test]
fn a_damaged_segment_is_not_archived() {
    let room = Room::new(None);
    room.write(20);
    let path = room.path("LOG").join(segment_name(2));
    let mut content = fs::read(&path).unwrap();
    content[9_000] ^= 1;
    fs::write(&path, content).unwrap();
    let refused = room.pass().unwrap_err();
    assert!(
        matches!(refused, ArchiveError::Damaged { segment: 2, .. }),
        "{refused}"
    );
    assert_eq!(segments(&room.path("ARCHIVE")), [1]);
    assert!(room.verify().is_whole());
}
