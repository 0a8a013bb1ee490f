//! The answer to an input that wants its lines durable.

use std::{num::NonZeroU32, sync::mpsc};

use bytes::Bytes;
use freeboard_logd::{Config, Done, Framing, Intake, Policy, SourceBound};

use crate::common::{Rig, TestSink, lines_of, stream_sink};

/// A function that reports, and its reports.
fn report() -> (Done, mpsc::Receiver<bool>) {
    let (sender, reports) = mpsc::channel();
    let done = Box::new(move |is_durable| sender.send(is_durable).expect("it is awaited"));
    (done, reports)
}

#[test]
fn it_comes_once_when_the_lines_of_all_groups_are_durable() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config::new(vec![stream_sink(directory.path())]));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    for lines in ["<11>a\n<12>b\n<14>c\n<15>d\n", "", "<14>one\n"] {
        let (done, reports) = report();
        let _ = intake.feed(Bytes::from_static(lines.as_bytes()), 1, Some(done));
        assert_eq!(reports.recv(), Ok(true), "{lines:?}");
        assert!(reports.recv().is_err(), "the function was called once");
    }
    // All are there although the stream is still open.
    assert_eq!(lines_of(directory.path()).len(), 5);
    drop(intake);
    assert!(rig.stop().is_clean());
}

#[test]
fn it_says_no_when_a_line_was_shed() {
    let sink = TestSink::default().panics_at("<14>poison");
    let mut config = Config::new(vec![sink.config()]);
    config.source = SourceBound {
        lines: 4,
        bytes: 1_000,
    };
    config.groups[3].policy = Policy::Sample(NonZeroU32::MAX);
    let rig = Rig::start(config);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    for (lines, expected) in [("<14>poison\n<11>b\n", false), ("<14>c\n<11>d\n", true)] {
        let (done, reports) = report();
        let _ = intake.feed(Bytes::from_static(lines.as_bytes()), 1, Some(done));
        assert_eq!(reports.recv(), Ok(expected), "{lines:?}");
    }
    drop(intake);
    rig.stop();
}
