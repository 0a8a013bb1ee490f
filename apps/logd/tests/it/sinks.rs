//! Sinks that fail.

use std::io;

use freeboard::stream::{StreamOptions, SyncMode};
use freeboard_logd::{
    Config, Framing, Intake, Marks, PANICS_MAX, Shed, SinkConfig, StdoutForm, StdoutSinkConfig,
    StreamSinkConfig,
};
use jiff::tz::TimeZone;

use crate::common::{
    Rig, Step, TestSink, check_reports_beside_a_flood, eventually, feed_durable, lines_of, send,
    stream_sink,
};

fn numbered(lines: std::ops::Range<u32>) -> Vec<String> {
    lines.map(|line| format!("line {line}")).collect()
}

/// Sends 100 lines, one by one, and checks that each sink has all of them once and in order.
fn check_all_lines_arrive(sinks: &[TestSink]) {
    let configs = sinks.iter().enumerate().map(|(number, sink)| SinkConfig {
        name: format!("test{number}"),
        ..sink.config()
    });
    let rig = Rig::start(Config::new(configs.collect()));
    let lines = numbered(0..100);
    send(&rig, &(lines.join("\n") + "\n"));
    rig.wait_accepted(100);
    rig.wait_settled();
    let totals = rig.server.totals();
    assert_eq!((totals.taken, totals.shed), (100, [0; Shed::ALL.len()]));
    assert!(rig.stop().is_clean());
    for sink in sinks {
        assert_eq!(sink.texts(), lines);
    }
}

#[test]
fn a_sink_that_fails_for_a_while_loses_no_line() {
    let steps = [Step::Fail, Step::Break, Step::Pend, Step::Panic, Step::Fail];
    let sink = TestSink::default().then(steps);
    check_all_lines_arrive(std::slice::from_ref(&sink));
    // At the start, after it broke, and after it panicked.
    assert_eq!(sink.opened(), 3);
}

#[test]
fn each_of_several_sinks_has_all_lines_whatever_the_others_do() {
    let failing = TestSink::default().then([Step::Fail; 10]);
    let breaking = TestSink::default().then([Step::Break, Step::Pend, Step::Break]);
    check_all_lines_arrive(&[failing, TestSink::default(), breaking]);
}

#[test]
fn lines_with_which_a_sink_always_panics_are_shed_and_others_pass() {
    let sink = TestSink::default().panics_at("poison");
    let rig = Rig::start(Config::new(vec![sink.config()]));
    for (number, line) in ["before\n", "poison\n", "after\n"].into_iter().enumerate() {
        send(&rig, line);
        rig.wait_accepted(number as u64 + 1);
        rig.wait_settled();
    }
    let totals = rig.server.totals();
    assert_eq!(totals.taken, 2);
    assert_eq!(totals.shed[Shed::SinkFailed as usize], 1);
    let gauge = &rig.server.sinks()[0];
    assert_eq!(gauge.panics(), u64::from(PANICS_MAX));
    assert_eq!(gauge.failing_for(), None);
    assert_eq!(sink.texts()[..2], ["before", "after"]);
    rig.stop();
}

#[test]
fn a_failing_sink_is_visible_and_its_lines_wait() {
    let sink = TestSink::default().then([Step::Fail]).shut();
    let rig = Rig::start(Config::new(vec![sink.config()]));
    send(&rig, "a line\n");
    rig.wait_accepted(1);
    assert_eq!(rig.server.totals().held, 1);
    sink.open();
    rig.wait_settled();
    let gauge = &rig.server.sinks()[0];
    assert_eq!((gauge.errors(), gauge.lines()), (1, 1));
    assert_eq!(gauge.last_error().as_deref(), Some("full"));
    eventually("it has recovered", || gauge.failing_for().is_none());
    rig.stop();
}

/// The lines of a stream but for those of the server itself.
fn sent_lines(path: &std::path::Path) -> Vec<String> {
    let lines = lines_of(path).into_iter();
    let lines = lines.filter(|(_, marks, _)| !marks.has(Marks::OWN));
    lines.map(|(_, _, text)| text).collect()
}

#[test]
fn a_line_that_somebody_waits_for_is_reported_while_others_come() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config::new(vec![stream_sink(directory.path())]));
    check_reports_beside_a_flood(rig);
}

#[test]
fn lines_that_a_stream_has_lost_are_not_reported_as_durable_and_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let options = StreamOptions::new().segment_bytes(64 << 10);
    let sink = StreamSinkConfig {
        path: path.clone(),
        options,
    };
    let rig = Rig::start(Config::new(vec![sink.sink("stream")]));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let line = "x".repeat(10_000);
    assert!(feed_durable(&mut intake, &line));
    // The stream may create a file meanwhile.
    eventually("it is removed", || std::fs::remove_dir_all(&path).is_ok());
    assert!(!feed_durable(&mut intake, &line));
    let gauge = &rig.server.sinks()[0];
    let reason = "while it was in use";
    eventually("the sink says why", || {
        gauge.last_error().is_some_and(|it| it.contains(reason))
    });
    assert!(feed_durable(&mut intake, "the first one of the new stream"));
    assert_eq!((gauge.lines(), gauge.lost()), (3, 1), "{gauge:?}");
    let totals = rig.server.totals();
    assert_eq!(totals.shed[Shed::SinkFailed as usize], 1);
    assert_eq!((totals.accepted, totals.taken), (3, 2));
    drop(intake);
    assert!(rig.stop().is_clean());
    assert_eq!(sent_lines(&path), ["the first one of the new stream"]);
}

#[test]
fn lines_that_a_renamed_stream_has_acknowledged_are_kept_and_not_counted_as_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let [path, renamed] = ["log", "renamed"].map(|name| directory.path().join(name));
    let sink = StreamSinkConfig {
        path: path.clone(),
        options: StreamOptions::new().sync(SyncMode::None),
    };
    let rig = Rig::start(Config::new(vec![sink.sink("stream")]));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let mut acknowledged = Vec::new();
    let mut feed = |number: u64| {
        let line = format!("line {number}");
        if feed_durable(&mut intake, &line) {
            acknowledged.push(line);
        }
    };
    feed(0);
    // The stream may create a file meanwhile.
    eventually("it is renamed", || std::fs::rename(&path, &renamed).is_ok());
    let gauge = rig.server.sinks()[0].clone();
    let mut fed = 1;
    eventually("it is noticed", || {
        feed(fed);
        fed += 1;
        gauge.last_error().is_some()
    });
    feed(fed);
    drop(intake);
    assert!(rig.stop().is_clean());
    let [first, second] = [renamed, path].map(|path| sent_lines(&path));
    // The line whose write found out may be there all the same.
    let unacknowledged = fed + 1 - acknowledged.len() as u64;
    assert!(gauge.lost() <= unacknowledged, "{gauge:?}");
    let kept = [first, second].concat();
    assert!(acknowledged.iter().all(|line| kept.contains(line)));
}

#[test]
fn after_a_line_that_a_stream_refuses_the_next_batch_is_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let options = StreamOptions::new().record_bytes_max(1_000);
    let sink = StreamSinkConfig {
        path: path.clone(),
        options,
    };
    let rig = Rig::start(Config::new(vec![sink.sink("stream")]));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let long = "x".repeat(2_000);
    assert!(!feed_durable(&mut intake, &format!("a\nb\n{long}\nc")));
    assert!(feed_durable(&mut intake, "d\ne\nf"));
    let gauge = &rig.server.sinks()[0];
    assert_eq!((gauge.lines(), gauge.refused(), gauge.lost()), (3, 4, 0));
    drop(intake);
    assert!(rig.stop().is_clean());
    assert_eq!(sent_lines(&path), ["a", "b", "d", "e", "f"]);
}

/// Standard output whose reader goes away after some lines.
struct Head(u32);

impl io::Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn standard_output_without_a_reader_is_closed_and_the_others_go_on() {
    let stdout = StdoutSinkConfig {
        form: StdoutForm::Json,
        zone: TimeZone::UTC,
    };
    let stdout = stdout.sink_to("stdout", || Box::new(Head(1)));
    let other = TestSink::default();
    for sinks in [vec![stdout.clone(), other.config()], vec![stdout]] {
        let is_only = sinks.len() == 1;
        let rig = Rig::start(Config::new(sinks));
        for lines in 1..=3 {
            send(&rig, "a line\n");
            rig.wait_accepted(lines);
            rig.wait_settled();
        }
        let gauge = &rig.server.sinks()[0];
        assert!(gauge.is_dead() && gauge.failing_for().is_some());
        assert_eq!((gauge.lines(), gauge.refused()), (1, 2));
        assert_eq!(rig.server.totals().shed[Shed::SinkFailed as usize], 2);
        let reason = "the sink stdout: its reader has closed it";
        let expected = is_only.then(|| reason.to_owned());
        assert_eq!(rig.server.all_sinks_dead(), expected);
        let report = rig.stop();
        assert_eq!(report.sinks_failed.len(), 1);
    }
    assert_eq!(other.texts()[..3], ["a line"; 3]);
}
