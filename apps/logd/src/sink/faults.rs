//! Each call of the operating system fails in turn with `EIO`, and no acknowledged line is lost.

use std::{
    cell::Cell,
    collections::HashSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use bytes::Bytes;
use freeboard::stream::{
    ReaderOptions, StreamOptions,
    storage::simulated::{Fault, SimulatedDisk, SimulatedSettings},
};
use freeboard_test_servers::{LONG, eventually};

use super::{FileSinkConfig, Rotation, Sink, SinkConfig, SinkError, SinkGauge, stream::StreamSink};
use crate::{
    batch::{Batch, BatchBuilder, Format, Line, Marks},
    priority::{Group, Priority},
    record::LogRecord,
    source::{Source, SourceBound},
};

thread_local! {
    /// How many calls it is until one fails, and whether that one is done all the same.
    static FAULT: Cell<(u64, bool)> = const { Cell::new((0, false)) };
    /// The file that was synced last, and its length then.
    static SYNCED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

pub(super) fn call<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let (left, is_done) = FAULT.get();
    FAULT.set((left.saturating_sub(1), is_done));
    if left != 1 {
        return run();
    }
    if is_done {
        run()?;
    }
    Err(rustix::io::Errno::IO.into())
}

/// If it fails, what was written since the last one is lost, and the next one succeeds.
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let synced = call(|| file.sync_data());
    if synced.is_ok() {
        SYNCED.set((found.ino(), found.len()));
    } else {
        let (synced, bytes) = SYNCED.get();
        file.set_len(if synced == found.ino() { bytes } else { 0 })?;
    }
    synced
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A sink that is opened again when it is broken.
struct Reopened {
    config: SinkConfig,
    gauge: Arc<SinkGauge>,
    sink: Option<Box<dyn Sink>>,
}

impl Reopened {
    fn call(
        &mut self,
        mut call: impl FnMut(&mut dyn Sink, &mut Context<'_>) -> Poll<Result<(), SinkError>>,
    ) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let deadline = Instant::now() + LONG;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it hangs: {:?}", self.gauge);
            let sink = match &mut self.sink {
                Some(sink) => sink,
                none => match (self.config.open)(&self.gauge) {
                    Ok(sink) => none.insert(sink),
                    Err(_) => continue,
                },
            };
            match call(sink.as_mut(), &mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(())) => return,
                Poll::Ready(Err(SinkError::Broken(_))) => self.sink = None,
                Poll::Ready(Err(_)) => thread::yield_now(),
                Poll::Pending => thread::park_timeout(left),
            }
        }
    }
}

/// The lines of one run.
const LINES: usize = 12;

fn text(number: usize) -> String {
    format!("line {number} {}", "x".repeat(20_000))
}

/// A batch of one line, which is added to `acknowledged` when it is durable.
fn batch(number: usize, acknowledged: &Arc<Mutex<Vec<String>>>) -> Arc<Batch> {
    let text = text(number);
    let mut builder = BatchBuilder::new(Group::Normal);
    builder.push(Line {
        at: 0,
        bytes: text.len() as u32,
        host_at: 0,
        host_bytes: 0,
        priority: Priority::DEFAULT,
        format: Format::Plain,
        marks: Marks::none(),
    });
    let (acknowledged, bytes) = (acknowledged.clone(), Bytes::from(text.clone()));
    let done = move |is_durable: bool| {
        if is_durable {
            acknowledged.lock().expect("it is whole").push(text);
        }
    };
    let source = Source::new("test", SourceBound::NONE);
    let batch = builder.build(&source, 1, &bytes, Some(Box::new(done)));
    let batch = batch.expect("it has a line");
    assert!(batch.claim(1));
    batch
}

/// Gives a sink all lines, and closes it. Returns those that it has acknowledged.
fn run(config: SinkConfig) -> Vec<String> {
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let mut sink = Reopened {
        config,
        gauge: SinkGauge::named("test"),
        sink: None,
    };
    for number in 0..LINES {
        let batch = batch(number, &acknowledged);
        sink.call(|sink, task| sink.poll_write(&batch, task));
        batch.note_taken();
        drop(batch);
        // Some wait together.
        if number % 3 == 2 {
            sink.call(|sink, task| sink.poll_idle(task));
        }
    }
    if let Some(sink) = sink.sink {
        let _ = sink.close();
    }
    let acknowledged = std::mem::take(&mut *acknowledged.lock().expect("it is whole"));
    assert!(acknowledged.len() + 4 >= LINES, "{}", acknowledged.len());
    acknowledged
}

#[track_caller]
fn check(acknowledged: &[String], found: &HashSet<String>, case: &str) {
    let lost = acknowledged.iter().find(|line| !found.contains(*line));
    assert!(lost.is_none(), "{case}: {}", &lost.expect("it is")[..10]);
}

#[test]
fn each_call_of_a_file_fails() {
    for is_done in [false, true] {
        for number in 1.. {
            let directory = tempfile::tempdir().expect("a directory");
            let config = FileSinkConfig {
                rotation: Rotation {
                    bytes: Some(70_000),
                    period: None,
                },
                ..FileSinkConfig::new(directory.path().join("app.log"))
            };
            SYNCED.set((0, 0));
            FAULT.set((number, is_done));
            let acknowledged = run(config.sink("file"));
            let (left, _) = FAULT.replace((0, false));
            let mut found = HashSet::new();
            for file in fs::read_dir(directory.path()).expect("it is there") {
                let path = file.expect("a file").path();
                let lines = fs::read_to_string(path).expect("it is text");
                let text = |line: &str| Some(line[line.find("line ")?..].to_owned());
                found.extend(lines.lines().filter_map(text));
            }
            check(&acknowledged, &found, &format!("call {number}, {is_done}"));
            if left > 0 {
                break;
            }
        }
    }
}

#[test]
fn lines_of_a_file_that_was_removed_are_not_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.log");
    let (gauge, acknowledged) = (SinkGauge::named("file"), Arc::default());
    let config = FileSinkConfig::new(&path).sink("file");
    let mut sink = (config.open)(&gauge).expect("a directory");
    let task = &mut Context::from_waker(Waker::noop());
    let mut write = |number| {
        let batch = batch(number, &acknowledged);
        assert!(matches!(sink.poll_write(&batch, task), Poll::Ready(Ok(()))));
        batch.note_taken();
        drop(batch);
        if number == 0 {
            fs::remove_file(&path).expect("it is there");
        }
        sink.poll_idle(task)
    };
    let removed = write(0);
    assert!(
        matches!(&removed, Poll::Ready(Err(SinkError::Busy(text))) if text.contains("removed")),
        "{removed:?}"
    );
    assert!(matches!(write(1), Poll::Ready(Ok(()))));
    assert_eq!(*acknowledged.lock().expect("it is whole"), [text(1)]);
    assert_eq!(gauge.lost(), 1);
    assert!(path.exists());
}

#[test]
fn each_call_of_a_stream_fails() {
    for is_direct in [false, true] {
        for number in 1.. {
            let disk = SimulatedDisk::new(SimulatedSettings {
                seed: number,
                is_direct,
                ..SimulatedSettings::default()
            });
            disk.fail_at(number, Fault::Io);
            let options = StreamOptions::new().segment_bytes(64 << 10);
            let storage = Arc::new(disk.clone());
            let acknowledged = run(SinkConfig::with_gauge("stream", move |gauge| {
                let sink = StreamSink::over(options.open_on(storage.clone()), gauge)?;
                Ok(Box::new(sink) as Box<dyn Sink>)
            }));
            let is_over = disk.calls() < number;
            let records = ReaderOptions::new().open_on(Arc::new(disk.reboot()));
            let text = |payload: &[u8]| {
                let record = LogRecord::decode(payload).expect("a line");
                String::from_utf8_lossy(record.text).into_owned()
            };
            let found = records.expect("a stream");
            let found = found.map(|record| text(&record.expect("it is whole").payload));
            let case = format!("call {number}, direct: {is_direct}");
            check(&acknowledged, &found.collect(), &case);
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_is_told_while_a_line_waits_for_it() {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    let options = StreamOptions::new().segment_bytes(64 << 10);
    let gauge = SinkGauge::named("stream");
    let mut sink =
        StreamSink::over(options.open_on(Arc::new(disk.clone())), &gauge).expect("an empty disk");
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let idle_until = |sink: &mut StreamSink, is_full: bool| {
        eventually("it tells, or has all", || {
            let task = &mut Context::from_waker(Waker::noop());
            match sink.poll_idle(task) {
                Poll::Pending => false,
                Poll::Ready(Ok(())) => !is_full,
                Poll::Ready(Err(SinkError::Busy(text))) => {
                    assert!(text.contains("full"), "{text}");
                    is_full
                }
                Poll::Ready(Err(error)) => panic!("{error}"),
            }
        });
    };
    disk.set_capacity(Some(1));
    for number in 0..8 {
        let batch = batch(number, &acknowledged);
        let task = &mut Context::from_waker(Waker::noop());
        if sink.poll_write(&batch, task).is_ready() {
            batch.note_taken();
        }
    }
    idle_until(&mut sink, true);
    disk.set_capacity(None);
    idle_until(&mut sink, false);
    assert!(!acknowledged.lock().expect("it is whole").is_empty());
}
