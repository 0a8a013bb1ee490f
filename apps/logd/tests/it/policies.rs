//! What happens to lines that the sinks cannot take: by group, and by source.

use std::{io::Write, net::TcpStream, num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_logd::{
    Config, Framing, Group, Intake, Marks, Policy, Shed, Source, SourceBound, Totals,
    received_now_ns,
};

use crate::common::{Rig, TestSink, eventually};

const BOUND: SourceBound = SourceBound {
    lines: 100,
    bytes: 1 << 20,
};

/// The most lines of a source beyond its bound: those of the reads that are under way.
const BEYOND: u64 = 3 * (64 << 10) / 10;

fn config(sink: &TestSink, policy: Policy) -> Config {
    let mut config = Config::new(vec![sink.config()]);
    config.source = BOUND;
    for group in &mut config.groups {
        group.policy = policy;
    }
    config.summary_interval = Duration::from_millis(20);
    config
}

fn source_of(rig: &Rig, client: &TcpStream) -> Arc<Source> {
    let name = format!("tcp:{}", client.local_addr().expect("it is connected"));
    let mut found = None;
    eventually("it is a source", || {
        let mut sources = rig.server.sources().into_iter();
        found = sources.find(|source| source.name() == name);
        found.is_some()
    });
    found.expect("it was found")
}

/// Feeds lines one by one, as the reads of one source.
fn feed(intake: &mut Intake, lines: impl IntoIterator<Item = String>) -> Vec<bool> {
    let feed = |line: String| intake.feed(Bytes::from(line + "\n"), 1, None).is_paused;
    lines.into_iter().map(feed).collect()
}

fn numbered(lines: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    lines.map(|line| format!("<14>line {line}"))
}

fn check_sums(totals: &Totals) {
    let shed: u64 = totals.shed.iter().sum();
    assert_eq!(
        totals.accepted,
        totals.taken + shed + totals.held,
        "{totals:?}"
    );
}

#[test]
fn policies_are_written_as_they_are_read() {
    for text in ["wait", "drop-oldest", "sample:100", "coalesce"] {
        let policy: Result<Policy, _> = text.parse();
        assert_eq!(policy.map(|policy| policy.to_string()).as_deref(), Ok(text));
    }
    for text in ["", "sample", "sample:0", "sample:-1", "wait:2", "drop"] {
        assert!(text.parse::<Policy>().is_err(), "{text}");
    }
}

#[test]
fn wait_pauses_a_loud_client_and_a_quiet_one_goes_on() {
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(&sink, Policy::Wait));
    let mut loud = rig.connect();
    let loud_source = source_of(&rig, &loud);
    let flood = std::thread::spawn(move || {
        // Until the server stops; its window is closed most of the time.
        while loud.write_all(b"<14>loud and louder\n").is_ok() {}
    });
    eventually("the loud client is at its bound", || {
        loud_source.held() >= BOUND.lines
    });
    let mut quiet = rig.connect();
    for line in 0..10 {
        writeln!(quiet, "<14>quiet {line}").expect("it reads");
    }
    let quiet_source = source_of(&rig, &quiet);
    eventually("the quiet client is read", || quiet_source.accepted() == 10);
    assert!(loud_source.held() <= BOUND.lines + BEYOND);
    sink.open();
    eventually("the quiet lines are taken", || quiet_source.taken() == 10);
    eventually("the loud client goes on", || {
        loud_source.accepted() > 10 * (BOUND.lines + BEYOND)
    });
    let texts = sink.texts();
    let before = texts.iter().position(|text| text == "<14>quiet 9");
    let before = before.expect("it was taken") as u64;
    assert!(before <= BOUND.lines + BEYOND + 10, "{before} lines before");
    rig.stop();
    flood.join().expect("it ends");
}

#[test]
fn urgent_lines_pass_those_that_wait() {
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(&sink, Policy::Wait));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    feed(&mut intake, numbered(0..90));
    feed(&mut intake, ["<11>an error".to_owned()]);
    // Not before the urgent line is at the dam: an open sink takes the normal lines meanwhile.
    let normal = rig.server.dam(Group::Normal);
    eventually("all are at the dam or beyond it", || {
        normal.depth() + normal.forwarded() == 90 && rig.server.dam(Group::Urgent).forwarded() == 1
    });
    sink.open();
    rig.wait_settled();
    let texts = sink.texts();
    let before = texts.iter().position(|text| text == "<11>an error");
    // The mailboxes of the writer and of the sink have 8 batches of a group, and each has one in its hands.
    assert!(before.expect("it was taken") <= 18, "{texts:?}");
    drop(intake);
    rig.stop();
}

#[test]
fn drop_oldest_keeps_the_newest_lines_and_never_pauses() {
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(&sink, Policy::DropOldest));
    let mut quiet = Intake::new(rig.server.handle(), "quiet", Framing::Newline);
    feed(&mut quiet, ["<14>quiet".to_owned()]);
    let mut intake = Intake::new(rig.server.handle(), "loud", Framing::Newline);
    let paused = feed(&mut intake, numbered(0..1_000));
    assert!(!paused.contains(&true));
    assert!(intake.source().held() <= BOUND.lines);
    check_sums(&rig.server.totals());
    sink.open();
    rig.wait_settled();
    let own = |marks: Marks| marks.has(Marks::OWN);
    let text = |(_, _, text)| text;
    let lines = sink
        .lines()
        .into_iter()
        .filter(|(_, marks, _)| !own(*marks));
    let lines: Vec<String> = lines.map(text).collect();
    assert_eq!(lines[0], "<14>quiet");
    // The mailboxes in front of the sink hold some of the oldest, which cannot be evicted any more.
    let newest: Vec<_> = numbered(930..1_000).collect();
    assert!(lines.ends_with(&newest), "{lines:?}");
    let shed = intake.source().shed(Shed::Full);
    assert_eq!(shed + lines.len() as u64, 1_001);
    drop((quiet, intake));
    rig.stop();
    let summaries = sink.lines().into_iter().filter(|(_, marks, _)| own(*marks));
    let summaries: Vec<String> = summaries.map(text).collect();
    let named = summaries
        .iter()
        .filter_map(|text| text.rsplit_once("loud: full "));
    let sum: u64 = named
        .map(|(_, lines)| lines.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(sum, shed, "{summaries:?}");
}

#[test]
fn sample_keeps_one_of_so_many_under_pressure() {
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(
        &sink,
        Policy::Sample(NonZeroU32::new(10).expect("10")),
    ));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let paused = feed(&mut intake, numbered(0..1_000));
    assert!(!paused.contains(&true));
    let source = intake.source().clone();
    // Half of the bound, one of ten for the other half, and nothing above it.
    assert_eq!(source.held(), BOUND.lines);
    let sampled = source.shed(Shed::Sampled);
    assert_eq!(sampled, (BOUND.lines / 2 - 1) * 9, "{source:?}");
    assert_eq!(source.shed(Shed::Full), 1_000 - BOUND.lines - sampled);
    sink.open();
    eventually("all are taken", || source.taken() == BOUND.lines);
    drop(intake);
    rig.stop();
}

#[test]
fn coalesce_counts_repeated_lines_and_waits_with_others() {
    let sink = TestSink::default();
    let mut config = config(&sink, Policy::Coalesce);
    config.repeat_time = Duration::from_secs(3_600);
    let rig = Rig::start(config);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let line = |second: u32, text: &str| format!("<13>Nov 23 11:55:{second:02} host app: {text}");
    let lines = [
        line(1, "a"),
        line(2, "a"),
        line(3, "a"),
        line(4, "b"),
        // Another group does not interrupt.
        "<11>an error".to_owned(),
        line(5, "b"),
        line(6, "c"),
    ];
    feed(&mut intake, [lines.join("\n")]);
    feed(&mut intake, [line(7, "c")]);
    intake.end(1);
    let source = intake.source().clone();
    eventually("all are taken", || source.held() == 0);
    assert_eq!(source.shed(Shed::Repeated), 4);
    let normal: Vec<_> = sink
        .lines()
        .into_iter()
        .filter(|line| line.2 != lines[4])
        .collect();
    let expected = [
        (Marks::default(), lines[0].clone()),
        (Marks::OWN, "host last message repeated 2 times".to_owned()),
        (Marks::default(), lines[3].clone()),
        (Marks::OWN, "host last message repeated 1 time".to_owned()),
        (Marks::default(), lines[6].clone()),
        (Marks::OWN, "host last message repeated 1 time".to_owned()),
    ];
    let normal: Vec<_> = normal
        .into_iter()
        .map(|(_, marks, text)| (marks, text))
        .collect();
    assert_eq!(normal, expected);
    check_sums(&rig.server.totals());
    drop(intake);
    rig.stop();
}

#[test]
fn a_read_of_many_repeated_lines_loses_none() {
    const PAIRS: u64 = 8_192;
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(&sink, Policy::Coalesce));
    let mut client = rig.connect();
    client
        .write_all("a\na\nb\nb\n".repeat(PAIRS as usize).as_bytes())
        .expect("it reads");
    let source = source_of(&rig, &client);
    drop(client);
    eventually("the source waits", || source.held() > 0);
    sink.open();
    // Each line is written once, and a line says that it was repeated.
    let lines = 4 * PAIRS;
    eventually("all are taken", || source.taken() == lines);
    eventually("nothing is held", || source.held() == 0);
    assert_eq!(source.shed(Shed::Repeated), 2 * PAIRS);
    let totals = rig.server.totals();
    check_sums(&totals);
    assert_eq!(totals.shed.iter().sum::<u64>(), 2 * PAIRS, "{totals:?}");
    let texts = sink.texts();
    let expected = ["a", "b"].map(|line| [line, "last message repeated 1 time"]);
    assert!(
        texts
            .iter()
            .eq(expected.as_flattened().iter().cycle().take(lines as usize))
    );
    assert!(rig.stop().is_clean());
}

#[test]
fn repeated_lines_are_reported_after_a_time() {
    let sink = TestSink::default();
    let mut config = config(&sink, Policy::Coalesce);
    config.repeat_time = Duration::from_millis(20);
    let rig = Rig::start(config);
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    feed(&mut intake, ["a", "a"].map(str::to_owned));
    eventually("it is reported", || {
        sink.texts() == ["a", "last message repeated 1 time"]
    });
    drop(intake);
    rig.stop();
}

#[test]
fn repeats_of_many_sources_are_reported_when_the_sinks_take_lines() {
    const SOURCES: usize = 2_000;
    let sink = TestSink::default();
    let mut config = config(&sink, Policy::Coalesce);
    config.repeat_time = Duration::from_secs(3_600);
    let rig = Rig::start(config);
    let repeating = |number: usize| {
        let name = number.to_string();
        let mut intake = Intake::new(rig.server.handle(), &name, Framing::Newline);
        let _ = intake.feed("<14>a\n<14>a\n".into(), received_now_ns(), None);
        intake
    };
    let intakes: Vec<_> = (0..SOURCES).map(repeating).collect();
    eventually("the lines are taken", || sink.texts().len() == SOURCES);
    let sink = sink.shut();
    let mut config = Config::clone(&rig.server.handle().config());
    config.repeat_time = Duration::from_millis(1);
    config.groups[Group::Normal as usize].reservoir.messages = 10;
    rig.server
        .reload(&rig.system, &rig.poller, config)
        .expect("it is valid");
    eventually("it is full", || rig.server.dam(Group::Normal).depth() >= 10);
    sink.open();
    eventually("all are reported", || sink.texts().len() == 2 * SOURCES);
    drop(intakes);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_full_reservoir_holds_back_all_sources_of_its_group_alone() {
    let sink = TestSink::default().shut();
    let mut config = config(&sink, Policy::Wait);
    config.groups[Group::Normal as usize].reservoir.messages = 4;
    let rig = Rig::start(config);
    let mut clients: Vec<TcpStream> = (0..40).map(|_| rig.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        for line in 0..4 {
            client
                .write_all(format!("<14>{number} {line}\n").as_bytes())
                .expect("it reads");
        }
    }
    eventually("the reservoir is full", || {
        rig.server.dam(Group::Normal).depth() == 4
    });
    let mut urgent = rig.connect();
    urgent.write_all(b"<11>an error\n").expect("it reads");
    let urgent = source_of(&rig, &urgent);
    eventually("it is accepted", || urgent.accepted() == 1);
    sink.open();
    rig.wait_accepted(161);
    rig.wait_settled();
    assert_eq!(rig.server.totals().taken, 161);
    drop(clients);
    assert!(rig.stop().is_clean());
}

#[test]
fn lines_that_a_stop_cuts_off_are_counted_as_such() {
    let sink = TestSink::default().shut();
    let rig = Rig::start(config(&sink, Policy::Wait));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    feed(&mut intake, numbered(0..90));
    let source = intake.source().clone();
    drop(intake);
    let report = rig.server.stop(Duration::from_millis(10));
    assert!(!report.is_drained);
    eventually("nothing is held", || source.held() == 0);
    assert_eq!(source.shed(Shed::Stopped), 90, "{source:?}");
    rig.stop();
}
