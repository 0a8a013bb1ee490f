//! Lines that are read back, from real streams and files.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fs,
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use freeboard::stream::{
    Algorithm, BufferSize, MasterKey, SEGMENT_BYTES_MIN, SealUnit, StreamOptions, StreamWriter,
    format::segment_name,
    storage::{Access, Disk, Storage, StorageFile},
};
use freeboard_logd::{
    Config, FileSinkConfig, Framing, Intake, LogRecord, Marks, Rotation, parse,
    query::{Form, Grep, Note, Query, QueryError, QueryReport, SeverityRange, parse_time},
    received_now_ns,
};
use jiff::{Timestamp, civil, tz};
use proptest::prelude::*;

use crate::common::{Rig, eventually};

/// 2020-11-23T10:00:00Z.
const BEGIN_NS: u64 = 1_606_125_600_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Appends a line that was received so many seconds after [`BEGIN_NS`].
fn append(stream: &StreamWriter, seconds: u64, source: &str, text: &[u8], marks: Marks) {
    let parsed = parse::line(text);
    let record = LogRecord {
        received_ns: BEGIN_NS + seconds * SECOND_NS,
        priority: parsed.priority,
        format: parsed.format,
        marks: parsed.marks.with(marks),
        source,
        host_at: parsed.host_at,
        host_bytes: parsed.host_bytes,
        text,
    };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    stream
        .append(&bytes)
        .expect("it is open")
        .wait()
        .expect("it is durable");
}

/// A stream of these lines: source and text, a second apart.
fn stream_of(path: &Path, lines: &[(&str, &str)]) {
    let stream = StreamOptions::new().open(path).expect("a stream");
    for (seconds, (source, text)) in lines.iter().enumerate() {
        append(
            &stream,
            seconds as u64,
            source,
            text.as_bytes(),
            Marks::none(),
        );
    }
    stream.close().expect("all is durable");
}

struct Shown {
    text: String,
    notes: Vec<String>,
    report: QueryReport,
}

fn show(query: &Query) -> Result<Shown, QueryError> {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut warn = |note: Note<'_>| match note {
        Note::Damage(text) | Note::Remark(text) => notes.push(text.to_owned()),
    };
    let report = query.run(&mut out, &mut warn, &|| false)?;
    let text = String::from_utf8(out).expect("what is shown is UTF-8");
    Ok(Shown {
        text,
        notes,
        report,
    })
}

fn shown(query: &Query) -> Shown {
    show(query).expect("it can be read")
}

#[test]
fn lines_are_shown_as_text_and_as_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let stream = StreamOptions::new()
        .open(directory.path())
        .expect("a stream");
    let lines: [(&str, &[u8], Marks); 7] = [
        (
            "tcp:10.0.0.7:5000",
            b"<34>1 2003-10-11T22:14:15.003Z web-1 su 12 - [a b=\"c\"] failed",
            Marks::none(),
        ),
        (
            "unix:/dev/log",
            b"<13>Nov 23 09:59:59 root: \x1b[31mred\x07 a\tb\nc",
            Marks::none(),
        ),
        (
            "udp:10.0.0.8",
            b"<13>Nov 23 09:59:59 web-2 app: \xff \xc2\x9b \xe2\x80\xae caf\xc3\xa9",
            Marks::none(),
        ),
        (
            "http:a",
            br#"{"host":"web-3","level":"error","n":1}"#,
            Marks::none(),
        ),
        ("http:a", b"<999>what", Marks::CONTINUED),
        ("http:a", b"ever", Marks::TRUNCATED),
        ("http:a", b"", Marks::none()),
    ];
    for (seconds, (source, text, marks)) in (0..).zip(lines) {
        append(&stream, seconds, source, text, marks);
    }
    stream.close().expect("all is durable");
    let mut query = Query::new(directory.path());
    assert_eq!(
        shown(&query).text,
        "\
Nov 23 10:00:00 web-1 su[12]: failed
Nov 23 10:00:01 unix:/dev/log root: \\u{1b}[31mred\\u{7} a\tb\\nc
Nov 23 10:00:02 web-2 app: \\xff \\u{9b} \\u{202e} café
Nov 23 10:00:03 web-3 {\"host\":\"web-3\",\"level\":\"error\",\"n\":1}
Nov 23 10:00:04 http:a <999>what [continues]
Nov 23 10:00:05 http:a ever [cut off]
Nov 23 10:00:06 http:a \n"
    );
    query.filter.grep = Some("app.*CAF.$".parse().expect("a pattern"));
    assert_eq!(shown(&query).report.lines, 0);
    query.filter.grep = Some("app.* caf.$".parse().expect("a pattern"));
    assert_eq!(shown(&query).report.lines, 1);
    query.filter.grep = None;
    query.zone = tz::TimeZone::fixed(tz::offset(5));
    assert!(shown(&query).text.starts_with("Nov 23 15:00:00 web-1"));
    query.form = Form::Json;
    let json = shown(&query).text;
    let objects: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert_eq!(
        objects[0],
        serde_json::json!({
            "time": "2020-11-23T10:00:00.000000000Z", "sequence": 1, "severity": "crit", "facility": 4,
            "host": "web-1", "source": "tcp:10.0.0.7:5000", "format": "rfc5424",
            "application": "su", "process": "12", "structured_data": "[a b=\"c\"]", "message": "failed",
            "text": "<34>1 2003-10-11T22:14:15.003Z web-1 su 12 - [a b=\"c\"] failed",
        })
    );
    assert_eq!(
        objects[4]["marks"],
        serde_json::json!(["malformed", "continued"])
    );
}

#[test]
fn filters_choose_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = [
        (
            "tcp:10.0.0.7:5000",
            "<11>Nov 23 10:00:00 web-1 a: zero Error",
        ),
        ("tcp:10.0.0.7:5001", "<12>Nov 23 10:00:00 web-2 a: one"),
        ("tcp:10.0.0.70:1", "<13>Nov 23 10:00:00 WEB-1 a: two"),
        ("udp:10.0.0.7", "<15>Nov 23 10:00:00 web-3 a: three error"),
        ("http:x", "four"),
    ];
    stream_of(directory.path(), &lines);
    let check = |expected: &[usize], change: &dyn Fn(&mut Query)| {
        let mut query = Query::new(directory.path());
        query.form = Form::Raw;
        change(&mut query);
        let expected: String = expected
            .iter()
            .map(|index| format!("{}\n", lines[*index].1))
            .collect();
        let shown = shown(&query);
        assert_eq!(shown.text, expected);
        assert_eq!(shown.report.lines as usize, expected.lines().count());
        assert_eq!(shown.notes, <[String; 0]>::default());
    };
    check(&[0, 1, 2, 3, 4], &|_| {});
    check(&[2, 3, 4], &|query| {
        query.filter.since_ns = Some(BEGIN_NS + 2 * SECOND_NS)
    });
    // They came long after they were received; only so long is waited for them.
    check(&[], &|query| {
        query.filter.until_ns = Some(BEGIN_NS + SECOND_NS)
    });
    check(&[0, 1], &|query| {
        query.filter.until_ns = Some(BEGIN_NS + SECOND_NS);
        query.late_by = Duration::MAX;
    });
    check(&[0, 1], &|query| {
        query.filter.severity = "warning".parse().expect("a severity")
    });
    check(&[1, 2, 4], &|query| {
        query.filter.severity = "notice..4".parse().expect("a range")
    });
    check(&[0, 2], &|query| query.filter.hosts = vec!["web-1".into()]);
    check(&[0, 1], &|query| {
        query.filter.sources = vec!["tcp:10.0.0.7".into()]
    });
    check(&[3, 4], &|query| {
        query.filter.sources = vec!["udp".into(), "http:".into()]
    });
    let grep = |pattern: &str| Some(pattern.parse().expect("a pattern"));
    check(&[0, 3], &|query| query.filter.grep = grep("err.r$"));
    check(&[0], &|query| query.filter.grep = grep("Error"));
    check(&[3, 4], &|query| query.lines = Some(2));
    check(&[], &|query| query.lines = Some(0));
    check(&[0, 2], &|query| {
        query.lines = Some(2);
        query.filter.hosts = vec!["web-1".into()];
    });
    assert!("(".parse::<Grep>().is_err());
    assert!("loud".parse::<SeverityRange>().is_err());
}

#[test]
fn damage_is_marked_and_the_rest_is_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = || MasterKey::new(&[7; 32]).expect("a key");
    let stream = StreamOptions::new()
        .seal(Algorithm::Blake3, SealUnit::Batch)
        .key(key())
        .open(directory.path())
        .expect("a stream");
    for seconds in 0..3 {
        append(
            &stream,
            seconds,
            "a",
            format!("line {seconds}").as_bytes(),
            Marks::none(),
        );
    }
    // No writer of lines wrote this.
    stream
        .append(b"no line")
        .expect("it is open")
        .wait()
        .expect("it is durable");
    stream.close().expect("all is durable");
    let segment = directory.path().join("00000000000000000001.segment");
    let mut bytes = fs::read(&segment).expect("a segment");
    let at = bytes
        .windows(6)
        .position(|window| window == b"line 1")
        .expect("a line");
    bytes[at] ^= 1;
    fs::write(&segment, bytes).expect("it can be written");

    let mut query = Query::new(directory.path());
    query.key = Some(key());
    for lines in [None, Some(10)] {
        query.lines = lines;
        let shown = shown(&query);
        let text: Vec<&str> = shown.text.lines().collect();
        assert_eq!(text.len(), 4, "{}", shown.text);
        assert_eq!(text[0], "Nov 23 10:00:00 a line 0");
        assert!(
            text[1].starts_with("-- damaged: segment 1 at byte "),
            "{}",
            text[1]
        );
        assert_eq!(text[2], "Nov 23 10:00:02 a line 2");
        assert!(text[3].starts_with("-- damaged: record 4: "), "{}", text[3]);
        assert_eq!((shown.report.damages, shown.notes.len()), (2, 2));
    }
    query.form = Form::Json;
    let json = shown(&query).text;
    assert!(
        json.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("{\"damage\":\"damaged: "))
    );

    query.key = Some(MasterKey::new(&[8; 32]).expect("a key"));
    assert!(matches!(show(&query), Err(QueryError::Open { .. })));
    query.key = None;
    assert!(shown(&query).notes[0].starts_with("no key"));
    let empty = tempfile::tempdir().expect("a directory");
    assert!(matches!(
        show(&Query::new(empty.path())),
        Err(QueryError::NothingInside(_))
    ));
    let begun = StreamOptions::new().open(empty.path()).expect("a stream");
    drop(begun);
    assert_eq!(
        shown(&Query::new(empty.path())).report,
        QueryReport::default()
    );
    assert!(matches!(
        show(&Query::new(empty.path().join("none"))),
        Err(QueryError::NoLog(_))
    ));
}

/// Sends each piece of output.
struct Pieces(mpsc::Sender<String>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = String::from_utf8_lossy(bytes).into_owned();
        self.0.send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_is_followed_into_new_segments() {
    const LINES: usize = 40;
    let directory = tempfile::tempdir().expect("a directory");
    let stream = StreamOptions::new()
        .segment_bytes(SEGMENT_BYTES_MIN)
        .buffer(BufferSize::Bytes(64 << 10))
        .open(directory.path())
        .expect("a stream");
    let filler = "x".repeat(SEGMENT_BYTES_MIN as usize / 16);
    let line = |number: usize| format!("{number} {filler}");
    append(&stream, 0, "a", b"too old", Marks::none());
    append(&stream, 0, "a", line(0).as_bytes(), Marks::none());
    let mut query = Query::new(directory.path());
    (query.follow, query.lines, query.form) = (true, Some(1), Form::Raw);
    let (sender, pieces) = mpsc::channel();
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            // Ordering: SeqCst: a flag of a test.
            query.run(&mut Pieces(sender), &mut |_| {}, &|| {
                is_stopped.load(Ordering::SeqCst)
            })
        });
        let mut text = String::new();
        for number in 0..LINES {
            while text.lines().count() <= number {
                text += &pieces
                    .recv_timeout(Duration::from_secs(60))
                    .expect("the line comes");
            }
            append(&stream, 1, "a", line(number + 1).as_bytes(), Marks::none());
        }
        is_stopped.store(true, Ordering::SeqCst);
        let report = reading.join().expect("no panic").expect("it can be read");
        text.extend(pieces.try_iter());
        let expected: Vec<String> = (0..report.lines as usize).map(line).collect();
        assert!(report.lines as usize >= LINES, "{report:?}");
        assert!(text.lines().eq(&expected));
    });
    let segments = fs::read_dir(directory.path()).expect("a directory");
    assert!(segments.count() > 3, "there are new segments");
}

#[test]
fn a_stream_that_cannot_be_read_in_one_segment_is_shown_without_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let stream = StreamOptions::new()
        .segment_bytes(SEGMENT_BYTES_MIN)
        .buffer(BufferSize::Bytes(64 << 10))
        .open(directory.path())
        .expect("a stream");
    let filler = "x".repeat(SEGMENT_BYTES_MIN as usize / 4);
    for number in 0..16 {
        let line = format!("{number} {filler}");
        append(&stream, number, "a", line.as_bytes(), Marks::none());
    }
    stream.close().expect("all is durable");
    let segment = directory.path().join("00000000000000000002.segment");
    let mut bytes = fs::read(&segment).expect("a segment");
    // A format version that is not known.
    bytes[8..10].fill(0xff);
    fs::write(&segment, bytes).expect("it can be written");
    let mut query = Query::new(directory.path());
    query.form = Form::Raw;
    let shown = shown(&query);
    let lines: Vec<&str> = shown.text.lines().collect();
    let marks = lines.iter().filter(|line| line.starts_with("-- damaged: "));
    assert_eq!((marks.count(), shown.report.damages), (1, 1));
    assert!(shown.notes[0].contains("segment 2"), "{:?}", shown.notes);
    assert!(lines[0].starts_with("0 ") && lines[lines.len() - 1].starts_with("15 "));
    assert!((8..16).contains(&shown.report.lines), "{:?}", shown.report);
}

/// A disk that cannot read the end of the second segment.
#[derive(Debug)]
struct BadDisk(Disk);

#[derive(Debug)]
struct BadFile(Arc<dyn StorageFile>);

const BAD_AT: u64 = 40_000;

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Storage for BadDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, _: &str, _: u64, _: Access) -> io::Result<Arc<dyn StorageFile>> {
        unsupported()
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.0.open(name, access)?;
        Ok(match name == segment_name(2) {
            true => Arc::new(BadFile(file)),
            false => file,
        })
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unsupported()
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        unsupported()
    }
    fn sync_directory(&self) -> io::Result<()> {
        unsupported()
    }
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        unsupported()
    }
}

impl StorageFile for BadFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset + buffer.len() as u64 > BAD_AT {
            return Err(io::Error::other("a bad sector"));
        }
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, _: &[&[u8]], _: u64) -> io::Result<()> {
        unsupported()
    }
    fn sync(&self) -> io::Result<()> {
        unsupported()
    }
    fn resize(&self, _: u64) -> io::Result<()> {
        unsupported()
    }
    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
    fn is_direct(&self) -> bool {
        false
    }
}

#[test]
fn a_follower_tells_once_what_it_cannot_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let stream = StreamOptions::new()
        .segment_bytes(SEGMENT_BYTES_MIN)
        .buffer(BufferSize::Bytes(64 << 10))
        .open(directory.path())
        .expect("a stream");
    let filler = "x".repeat(SEGMENT_BYTES_MIN as usize / 8);
    for number in 0..20 {
        append(&stream, number, "a", filler.as_bytes(), Marks::none());
        stream.flush().expect("it is durable");
    }
    stream.close().expect("all is durable");
    let segment = directory.path().join(segment_name(2));
    let mut bytes = fs::read(&segment).expect("a segment");
    bytes[5_000] ^= 1;
    fs::write(&segment, bytes).expect("it can be written");
    let mut query = Query::new(directory.path());
    query.follow = true;
    let disk = Disk::open(directory.path()).expect("a directory");
    query.storage = Some(Arc::new(BadDisk(disk)));
    let mut notes = Vec::new();
    let asked = Cell::new(0);
    let is_stopped = || {
        asked.set(asked.get() + 1);
        asked.get() > 4
    };
    let mut warn = |note: Note<'_>| match note {
        Note::Damage(text) | Note::Remark(text) => notes.push(text.to_owned()),
    };
    let report = query.run(&mut io::sink(), &mut warn, &is_stopped);
    assert_eq!(report.expect("it can be read").damages, 2, "{notes:#?}");
    assert!(notes[1].contains("a bad sector"), "{notes:#?}");
}

#[test]
fn a_stream_is_followed_when_another_one_takes_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("LOG");
    fs::create_dir(&path).expect("a directory");
    stream_of(&path, &[("a", "one"), ("a", "two")]);
    let mut query = Query::new(&path);
    (query.follow, query.form) = (true, Form::Raw);
    let (sender, pieces) = mpsc::channel();
    let (noted, notes) = mpsc::channel();
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut warn = |note: Note<'_>| match note {
                Note::Damage(text) | Note::Remark(text) => {
                    noted.send(text.to_owned()).expect("the test waits");
                }
            };
            // Ordering: SeqCst: a flag of a test.
            query.run(&mut Pieces(sender), &mut warn, &|| {
                is_stopped.load(Ordering::SeqCst)
            })
        });
        let wait_for = |expected: &str| {
            let mut text = String::new();
            while text.len() < expected.len() {
                let piece = pieces.recv_timeout(Duration::from_secs(60));
                text += &piece.expect("the line comes");
            }
            assert_eq!(text, expected);
        };
        let noted = |expected: &str| {
            let note = notes.recv_timeout(Duration::from_secs(60));
            let note = note.expect("a note comes");
            assert!(note.contains(expected), "{note}");
        };
        wait_for("one\ntwo\n");
        fs::remove_dir_all(&path).expect("removed");
        noted("was removed");
        fs::create_dir(&path).expect("a directory");
        stream_of(&path, &[("a", "three")]);
        wait_for("three\n");
        noted("another log has taken the place");
        // Moved away, with another one there at once.
        let other = directory.path().join("NEXT");
        fs::create_dir(&other).expect("a directory");
        stream_of(&other, &[("a", "four")]);
        fs::rename(&path, directory.path().join("OLD")).expect("renamed");
        fs::rename(&other, &path).expect("renamed");
        wait_for("four\n");
        // Ordering: SeqCst: a flag of a test.
        is_stopped.store(true, Ordering::SeqCst);
        let report = reading.join().expect("no panic").expect("it can be read");
        assert_eq!((report.lines, report.damages), (4, 0));
    });
}

#[test]
fn a_reader_that_has_gone_ends_it_quietly() {
    let directory = tempfile::tempdir().expect("a directory");
    stream_of(directory.path(), &[("a", "one"), ("a", "two")]);
    let mut query = Query::new(directory.path());
    query.follow = true;
    let (sender, pieces) = mpsc::channel();
    drop(pieces);
    let done = query.run(&mut Pieces(sender), &mut |_| {}, &|| false);
    assert!(done.is_ok(), "{done:?}");
}

#[test]
fn rotated_files_are_read_by_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, changed: &str, text: &str| {
        let path = directory.path().join(name);
        let mut bytes = text.as_bytes().to_vec();
        if name.ends_with(".gz") {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).expect("memory");
            bytes = packed.finish().expect("memory");
        }
        fs::write(&path, bytes).expect("it can be written");
        let changed: Timestamp = changed.parse().expect("a time");
        let file = fs::File::options()
            .append(true)
            .open(&path)
            .expect("it is there");
        file.set_modified(changed.into()).expect("it can be set");
    };
    write(
        "app.log.2.gz",
        "2025-12-31T23:59:59Z",
        "Dec 31 23:59:58 vm a: old\n",
    );
    // It was changed in the year after its first line; the second line has no time.
    write(
        "app.log.1",
        "2026-01-01T00:00:05Z",
        "Dec 31 23:59:59 vm a: before\n  at main.rs:1\nJan  1 00:00:01 2026 vm a: after\n",
    );
    write(
        "app.log",
        "2026-01-02T00:00:00Z",
        "2026-01-01T12:00:00.5+02:00 vm a: iso\n<11>1 2026-01-01T11:00:00Z vm a - - - five\nend",
    );
    write("app.logs", "2026-01-02T00:00:00Z", "another log\n");
    let mut query = Query::new(directory.path().join("app.log"));
    let all = "\
Dec 31 23:59:58 vm a: old
Dec 31 23:59:59 vm a: before
Dec 31 23:59:59 app.log.1   at main.rs:1
Jan 01 00:00:01 vm a: after
Jan 01 10:00:00 vm a: iso
Jan 01 11:00:00 vm a: five
Jan 01 11:00:00 app.log end [cut off]
";
    assert_eq!(shown(&query).text, all);
    query.lines = Some(2);
    assert_eq!(
        shown(&query).text,
        all.lines()
            .skip(5)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    );
    query.lines = None;
    let now = civil::date(2026, 1, 1)
        .at(0, 0, 30, 0)
        .to_zoned(tz::TimeZone::UTC)
        .expect("a time");
    query.filter.since_ns = Some(parse_time("-30s", &now).expect("a time"));
    query.filter.until_ns = Some(parse_time("10:00", &now).expect("a time"));
    let shown_some = shown(&query).text;
    assert_eq!(shown_some, "Jan 01 00:00:01 vm a: after\n");
    query.path = directory.path().to_owned();
    query.follow = true;
    assert!(matches!(show(&query), Err(QueryError::Follow(_))));

    write(
        "app.log.3.gz",
        "2026-01-01T00:00:06Z",
        "Jan  1 00:00:06 vm a: packed\n",
    );
    let packed = directory.path().join("app.log.3.gz");
    let bytes = fs::read(&packed).expect("it is there");
    fs::write(&packed, &bytes[..bytes.len() / 2]).expect("it can be written");
    let query = Query::new(directory.path());
    let shown = shown(&query);
    assert_eq!(shown.report.damages, 1);
    assert!(
        shown.text.contains("-- damaged: ") && shown.text.contains("another log"),
        "{}",
        shown.text
    );
}

#[test]
fn times_are_as_in_journalctl() {
    let zone = tz::TimeZone::fixed(tz::offset(2));
    let now = civil::date(2026, 11, 23)
        .at(15, 30, 0, 0)
        .to_zoned(zone)
        .expect("a time");
    let cases = [
        ("2026-11-23 10:00", "2026-11-23T08:00:00Z"),
        ("2026-11-23 10:00:05.5", "2026-11-23T08:00:05.5Z"),
        ("2026-11-23T10:00:05Z", "2026-11-23T10:00:05Z"),
        ("2026-11-23T10:00:05+01:00", "2026-11-23T09:00:05Z"),
        ("2026-11-23", "2026-11-22T22:00:00Z"),
        ("Mon 2026-11-23 10:00:05 UTC", "2026-11-23T10:00:05Z"),
        ("10:00 UTC", "2026-11-23T10:00:00Z"),
        ("Nov 23 10:00:05", "2026-11-23T08:00:05Z"),
        ("Nov  3 10:00:05", "2026-11-03T08:00:05Z"),
        ("Dec 31 10:00:05", "2025-12-31T08:00:05Z"),
        ("10:00", "2026-11-23T08:00:00Z"),
        ("10:00:01", "2026-11-23T08:00:01Z"),
        ("now", "2026-11-23T13:30:00Z"),
        ("today", "2026-11-22T22:00:00Z"),
        ("yesterday", "2026-11-21T22:00:00Z"),
        ("tomorrow", "2026-11-23T22:00:00Z"),
        ("-1h", "2026-11-23T12:30:00Z"),
        ("-1h30m", "2026-11-23T12:00:00Z"),
        ("+5min", "2026-11-23T13:35:00Z"),
        ("2 days ago", "2026-11-21T13:30:00Z"),
        ("1h ago", "2026-11-23T12:30:00Z"),
        ("2 hours 30 minutes ago", "2026-11-23T11:00:00Z"),
        ("-1 week", "2026-11-16T13:30:00Z"),
        ("@1700000000", "2023-11-14T22:13:20Z"),
        ("@1700000000.25", "2023-11-14T22:13:20.25Z"),
        ("9:05", "2026-11-23T07:05:00Z"),
        ("2026-11-23 9:05:01", "2026-11-23T07:05:01Z"),
        ("midnight", "2026-11-22T22:00:00Z"),
    ];
    for (text, expected) in cases {
        let expected: Timestamp = expected.parse().expect("a time");
        let found = parse_time(text, &now).map(i128::from);
        assert_eq!(found, Ok(expected.as_nanosecond()), "{text}");
    }
    for text in [
        "",
        "soon",
        "1h",
        "2026-13-01",
        "25:00",
        "-",
        "@x",
        "@1.",
        "9:5",
        "1900-01-01",
        "- 1 lightyear",
    ] {
        assert!(parse_time(text, &now).is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn json_is_valid_and_safe_to_print_for_any_bytes(
        lines in prop::collection::vec(
            prop_oneof![
                any::<Vec<u8>>(),
                any::<String>().prop_map(String::into_bytes),
                "<14>1 - \u{202e}h\u{9b}\u{2028} a\u{7f} - - - \\PC{0,9}".prop_map(String::into_bytes),
            ],
            1..40,
        ),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let stream = StreamOptions::new()
            .open(directory.path())
            .expect("a stream");
        for line in &lines {
            append(&stream, 0, "a", line, Marks::none());
        }
        stream.close().expect("all is durable");
        let mut query = Query::new(directory.path());
        query.form = Form::Json;
        let shown = shown(&query).text;
        prop_assert_eq!(shown.lines().count(), lines.len());
        for (object, line) in shown.lines().zip(&lines) {
            let is_unsafe = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            prop_assert!(!object.contains(is_unsafe), "{:?}", object);
            let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
            prop_assert_eq!(object["text"].as_str(), Some(&*String::from_utf8_lossy(line)));
        }
    }
}

#[test]
fn a_file_is_followed_when_it_is_rotated_and_cut() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let append = |name: &str, text: &str| {
        let mut options = fs::File::options();
        let mut file = options
            .create(true)
            .append(true)
            .open(path(name))
            .expect("a file");
        file.write_all(text.as_bytes()).expect("written");
    };
    let rename = |from: &str, to: &str| fs::rename(path(from), path(to)).expect("renamed");
    append("app.log.1", "too old\n");
    append("app.log", "one\n");
    let mut query = Query::new(path("app.log"));
    (query.follow, query.lines, query.form) = (true, Some(1), Form::Raw);
    let (sender, pieces) = mpsc::channel();
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            // Ordering: SeqCst: a flag of a test.
            query.run(&mut Pieces(sender), &mut |_| {}, &|| {
                is_stopped.load(Ordering::SeqCst)
            })
        });
        let mut text = String::new();
        let mut wait_for = |expected: &str| {
            while text.len() < expected.len() {
                let piece = pieces.recv_timeout(Duration::from_secs(60));
                text += &piece.expect("the line comes");
            }
            assert_eq!(text, expected);
            text.clear();
        };
        wait_for("one\n");
        append("app.log", "two\nth");
        wait_for("two\n");
        append("app.log", "ree\n");
        wait_for("three\n");
        // The writer has it open a little longer.
        rename("app.log.1", "app.log.2");
        rename("app.log", "app.log.1");
        append("app.log.1", "four\n");
        append("app.log", "five\n");
        wait_for("four\nfive\n");
        // Twice before the reader looks.
        rename("app.log", "app.log.0");
        append("app.log", "six\n");
        rename("app.log", "app.log-1");
        append("app.log", &format!("{}\n", "seven".repeat(100)));
        wait_for(&format!("six\n{}\n", "seven".repeat(100)));
        fs::write(path("app.log"), "eight\n").expect("written");
        wait_for("eight\n");
        // As a reader that has gone, it ends at the next look.
        is_stopped.store(true, Ordering::SeqCst);
        let report = reading.join().expect("no panic").expect("it can be read");
        assert_eq!((report.lines, report.damages), (8, 0));
    });
}

#[test]
fn a_file_that_is_between_two_rotations_is_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("app.log.1"), "one\n").expect("written");
    let mut query = Query::new(path("app.log"));
    (query.follow, query.form) = (true, Form::Raw);
    let (sender, pieces) = mpsc::channel();
    let text = RefCell::new(String::new());
    let is_stopped = || {
        // It is asked first while it waits for the file.
        fs::write(path("app.log"), "two\n").expect("written");
        text.borrow_mut().extend(pieces.try_iter());
        text.borrow().ends_with("two\n")
    };
    let report = query.run(&mut Pieces(sender), &mut |_| {}, &is_stopped);
    assert_eq!(report.expect("it is there").damages, 0);
    assert_eq!(text.into_inner(), "one\ntwo\n");
}

#[test]
fn files_are_read_whole_beside_a_writer_that_rotates_and_packs() {
    const READS: usize = 40;
    const LINES_MAX: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let config = FileSinkConfig {
        rotation: Rotation {
            bytes: Some(8_192),
            period: None,
        },
        compress: true,
        ..FileSinkConfig::new(&path)
    };
    let rig = Rig::start(Config::new(vec![config.sink("file")]));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
            let mut number = 0;
            // Ordering: SeqCst: a flag of a test, which is not set if the test fails.
            while number < LINES_MAX && !is_done.load(Ordering::SeqCst) {
                let line = Bytes::from(format!("{number}\n"));
                let _ = intake.feed(line, received_now_ns(), None);
                number += 1;
                eventually("the line is taken", || intake.source().held() < 50);
            }
        });
        let number = |line: &str| -> Option<u64> { line.rsplit(' ').next()?.parse().ok() };
        let mut reads = 0;
        eventually("many files are read", || {
            let shown = shown(&Query::new(&path));
            // The last line may be half written.
            let is_whole = |line: &&str| !line.ends_with("[cut off]");
            let lines = shown.text.lines().filter(is_whole);
            let numbers: Vec<_> = lines.map(|line| number(line).expect("a number")).collect();
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
            assert_eq!(shown.notes, <[String; 0]>::default());
            reads += 1;
            reads >= READS && numbers.len() > 1_000
        });
        // Ordering: SeqCst: a flag of a test.
        is_done.store(true, Ordering::SeqCst);
    });
    assert!(rig.stop().is_clean());
}
