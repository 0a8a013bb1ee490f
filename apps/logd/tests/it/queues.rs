//! The queue in front of a sink.

use std::{
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use freeboard::stream::StreamOptions;
use freeboard_logd::{
    Batch, Config, Framing, Intake, Shed, Sink, SinkConfig, SinkError, SinkGauge, SpillConfig,
    SpoolConfig, SpoolFull,
};

use crate::common::{Rig, Step, TestSink, eventually, send, stream_sink};

/// A queue with little memory.
fn spill(path: &Path) -> SpillConfig {
    SpillConfig {
        memory_bytes: 4 << 10,
        ..SpillConfig::new(path.join("spool"))
    }
}

fn start(sink: &TestSink, spill: SpillConfig) -> Rig {
    let mut config = Config::new(vec![sink.config().spill(spill)]);
    // Its own lines would be among those that are counted.
    config.summary_interval = std::time::Duration::from_secs(3_600);
    Rig::start(config)
}

fn numbered(lines: std::ops::Range<u32>) -> Vec<String> {
    lines.map(|line| format!("line {line}")).collect()
}

/// Sends lines in several batches, and waits until the queue has them.
fn fill(rig: &Rig, lines: &[String]) {
    let before = rig.server.totals().accepted;
    for (number, part) in lines.chunks(50).enumerate() {
        send(rig, &(part.join("\n") + "\n"));
        // One after the other: each connection is a source of its own. Order holds only within a source.
        rig.wait_accepted(before + (number as u64 * 50) + part.len() as u64);
        rig.wait_settled();
    }
}

/// The gauges of the queue and of its sink.
fn gauges(rig: &Rig) -> [Arc<SinkGauge>; 2] {
    let gauges = rig.server.sinks();
    assert_eq!(gauges[0].name(), format!("{}.queue", gauges[1].name()));
    [gauges[0].clone(), gauges[1].clone()]
}

fn wait_drained(rig: &Rig) {
    let [queue, sink] = gauges(rig);
    eventually("the queue is empty", || queue.behind() == 0);
    // Each line of the queue is at one place.
    assert_eq!(
        queue.lines(),
        sink.lines() + sink.refused() + queue.lost(),
        "queue {queue:?}, sink {sink:?}"
    );
}

#[test]
fn a_slow_sink_holds_up_nobody_and_gets_all_lines_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let (slow, fast) = (TestSink::default().shut(), TestSink::default());
    let slow_config = slow.config().spill(spill(directory.path()));
    let fast_config = SinkConfig {
        name: "fast".to_owned(),
        ..fast.config()
    };
    let rig = Rig::start(Config::new(vec![slow_config, fast_config]));
    let lines = numbered(0..3_000);
    fill(&rig, &lines[..2_000]);
    assert_eq!(fast.texts(), lines[..2_000]);
    let [queue, _] = gauges(&rig);
    assert_eq!((queue.lines(), queue.behind()), (2_000, 2_000));
    assert_eq!(slow.texts(), [""; 0]);
    slow.open();
    // While it drains, further lines come.
    fill(&rig, &lines[2_000..]);
    wait_drained(&rig);
    assert_eq!(slow.texts(), lines);
    // In memory again.
    fill(&rig, &lines[..100]);
    wait_drained(&rig);
    assert_eq!(slow.texts().len(), 3_100);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_sink_that_fails_for_a_while_loses_no_line_of_its_queue() {
    let directory = tempfile::tempdir().expect("a directory");
    let steps = [Step::Fail, Step::Break, Step::Pend].into_iter().cycle();
    let sink = TestSink::default().then([Step::Panic].into_iter().chain(steps.take(60)));
    let rig = start(&sink, spill(directory.path()));
    let lines = numbered(0..5_000);
    fill(&rig, &lines);
    wait_drained(&rig);
    assert_eq!(sink.texts(), lines);
    assert!(rig.stop().is_clean());
}

#[test]
fn what_the_sink_has_not_taken_at_a_stop_comes_in_order_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = numbered(0..1_000);
    let mut rounds = Vec::new();
    // In the first round all is in memory, in the second on the disk before, in the third on both.
    for round in [0..10, 10..500, 500..1_000] {
        let sink = TestSink::default().shut();
        let rig = start(&sink, spill(directory.path()));
        fill(&rig, &lines[round]);
        rig.stop();
        rounds.push(sink.texts().len());
    }
    assert_eq!(rounds, [0, 0, 0]);
    let sink = TestSink::default();
    let rig = start(&sink, spill(directory.path()));
    eventually("it has all", || sink.texts().len() == 1_000);
    assert_eq!(sink.texts(), lines);
    assert!(rig.stop().is_clean());
    // Nothing is left.
    let sink = TestSink::default();
    let rig = start(&sink, spill(directory.path()));
    fill(&rig, &lines[..1]);
    wait_drained(&rig);
    assert_eq!(sink.texts(), lines[..1]);
    rig.stop();
}

/// A sink whose calls do not return.
#[derive(Clone, Default)]
struct Hanging(Arc<(Mutex<bool>, Condvar)>);

impl Sink for Hanging {
    fn poll_write(&mut self, _: &Arc<Batch>, _: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let (is_released, changed) = &*self.0;
        let guard = is_released.lock().expect("it is whole");
        drop(changed.wait_while(guard, |is_released| !*is_released));
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_sink_that_hangs_is_left_behind_at_a_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let hanging = Hanging::default();
    let sink = hanging.clone();
    let config = SinkConfig::new("test", move || Ok(Box::new(sink.clone()) as Box<dyn Sink>));
    let rig = Rig::start(Config::new(vec![config.spill(spill(directory.path()))]));
    let lines = numbered(0..500);
    fill(&rig, &lines);
    let report = rig.stop();
    assert_eq!(
        report.sinks_failed,
        [("test.queue".to_owned(), "it does not return".to_owned())]
    );
    let sink = TestSink::default();
    let rig = start(&sink, spill(directory.path()));
    eventually("it has all", || sink.texts().len() == 500);
    assert_eq!(sink.texts(), lines);
    assert!(rig.stop().is_clean());
    let (is_released, changed) = &*hanging.0;
    *is_released.lock().expect("it is whole") = true;
    changed.notify_all();
}

fn bytes_of(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).expect("it is there");
    let bytes = |file: std::fs::DirEntry| file.metadata().map_or(0, |found| found.len());
    files.filter_map(Result::ok).map(bytes).sum()
}

#[test]
fn at_the_bound_on_the_disk_the_oldest_lines_are_lost_and_counted() {
    // Far more than the queue's reader, which is ahead of the sink, holds in memory.
    const LINES: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let sink = TestSink::default().shut();
    let mut config = spill(directory.path());
    config.spool.bytes_max = 512 << 10;
    let rig = start(&sink, config);
    let lines: Vec<_> = (0..LINES)
        .map(|line| format!("{line:05} {}", "x".repeat(500)))
        .collect();
    fill(&rig, &lines);
    let [queue, _] = gauges(&rig);
    eventually("all are in the queue", || queue.lines() == LINES);
    // The bound, and files of one large write: the one that is written, and one to be used again.
    eventually("the oldest are removed", || {
        bytes_of(&directory.path().join("spool")) < 1_400 << 10
    });
    sink.open();
    wait_drained(&rig);
    assert!(queue.lost() > 1_000, "{queue:?}");
    let texts = sink.texts();
    assert_eq!(texts.len() as u64, LINES - queue.lost());
    // What was read before is at the begin, and no line comes twice or out of order.
    assert!(texts.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(texts.last(), lines.last());
    assert_eq!(rig.server.totals().shed, [0; Shed::ALL.len()]);
    assert!(rig.stop().is_clean());
}

#[test]
fn at_the_bound_on_the_disk_the_writer_waits_if_it_is_told_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let sink = TestSink::default().shut();
    let mut config = spill(directory.path());
    config.spool = SpoolConfig {
        bytes_max: 512 << 10,
        full: SpoolFull::Wait,
        ..config.spool
    };
    let rig = start(&sink, config);
    let lines: Vec<_> = (0..8_000)
        .map(|line| format!("{line:05} {}", "x".repeat(500)))
        .collect();
    let text = lines.join("\n") + "\n";
    let mut client = rig.connect();
    let writing = std::thread::spawn(move || {
        std::io::Write::write_all(&mut client, text.as_bytes()).expect("it reads");
    });
    let [queue, _] = gauges(&rig);
    eventually("the spool is full", || queue.failing_for().is_some());
    let error = queue.last_error().unwrap_or_default();
    assert!(error.contains("reached its bound"), "{error}");
    assert!(queue.behind() < 8_000);
    sink.open();
    rig.wait_accepted(8_000);
    rig.wait_settled();
    writing.join().expect("it has written");
    wait_drained(&rig);
    assert_eq!(queue.lost(), 0);
    assert_eq!(sink.texts(), lines);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_line_that_is_to_be_durable_is_in_the_spool() {
    let directory = tempfile::tempdir().expect("a directory");
    let sink = TestSink::default().shut();
    let config = SpillConfig {
        is_durable: true,
        ..spill(directory.path())
    };
    let rig = start(&sink, config);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let feed = |intake: &mut Intake, line: &'static str, waits: bool| {
        let (sender, report) = std::sync::mpsc::channel();
        let done = move |is_durable| sender.send(is_durable).expect("it is awaited");
        let done = waits.then(|| Box::new(done) as freeboard_logd::Done);
        let _ = intake.feed(Bytes::from_static(line.as_bytes()), 1, done);
        waits.then(|| report.recv())
    };
    feed(&mut intake, "first\n", false);
    assert_eq!(feed(&mut intake, "second\n", true), Some(Ok(true)));
    let in_spool = crate::common::lines_of(&directory.path().join("spool"));
    let in_spool = in_spool.iter().map(|(_, _, text)| text.as_str());
    let in_spool: Vec<_> = in_spool.collect();
    // The first one may be at work already, and is in memory then.
    assert!(in_spool == ["first", "second"] || in_spool == ["second"]);
    sink.open();
    wait_drained(&rig);
    assert_eq!(sink.texts(), ["first", "second"]);
    drop(intake);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_spool_that_was_removed_is_made_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let sink = TestSink::default().shut();
    let mut config = spill(directory.path());
    config.spool.bytes_max = 512 << 10;
    let rig = start(&sink, config);
    // More than the reader takes at once, in files that it has not opened yet.
    let lines: Vec<_> = (0..1_000)
        .map(|line| format!("{line:05} {}", "x".repeat(500)))
        .collect();
    fill(&rig, &lines);
    // The writer may create a file meanwhile.
    let spool = directory.path().join("spool");
    eventually("it is removed", || std::fs::remove_dir_all(&spool).is_ok());
    sink.open();
    let [queue, gauge] = gauges(&rig);
    // No further line comes.
    eventually("the queue is empty", || queue.behind() == 0);
    assert!(queue.lost() > 0, "{queue:?}");
    let mut sent = 1_000;
    eventually("lines arrive through the spool again", || {
        fill(&rig, &lines[..50]);
        sent += 50;
        eventually("the queue is empty", || queue.behind() == 0);
        sink.texts().ends_with(&lines[..50])
    });
    assert!(spool.exists());
    let shed: u64 = rig.server.totals().shed.iter().sum();
    // A line whose write failed may be there all the same.
    let accounted = gauge.lines() + queue.lost() + shed;
    assert!(accounted >= sent, "{accounted} of {sent}: {queue:?}");
    assert!(rig.stop().is_clean());
}

#[test]
fn a_sink_behind_a_queue_rotates_and_its_spool_is_synced_as_set() {
    struct Rotating(Arc<AtomicBool>);
    impl Sink for Rotating {
        fn poll_write(
            &mut self,
            _: &Arc<Batch>,
            _: &mut Context<'_>,
        ) -> Poll<Result<(), SinkError>> {
            Poll::Ready(Ok(()))
        }
        fn rotate(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let is_rotated = Arc::new(AtomicBool::new(false));
    let seen = is_rotated.clone();
    let config = SinkConfig::new("test", move || {
        Ok(Box::new(Rotating(seen.clone())) as Box<dyn Sink>)
    });
    let mut queue = spill(directory.path());
    // A spool in mode none is read too.
    queue.memory_bytes = 0;
    queue.spool.options = StreamOptions::new().sync(freeboard::stream::SyncMode::None);
    let rig = Rig::start(Config::new(vec![
        config.spill(queue),
        stream_sink(&directory.path().join("log")),
    ]));
    fill(&rig, &numbered(0..100));
    wait_drained(&rig);
    rig.server.rotate();
    eventually("it was told", || is_rotated.load(Ordering::Relaxed));
    assert!(rig.stop().is_clean());
}
