//! Sinks that fail.

use freeboard_logd::{Config, PANICS_MAX, Shed, SinkConfig};

use crate::common::{Rig, Step, TestSink, eventually, send};

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
