//! accepted = taken + shed + held, whatever clients and sinks do.

use std::{io::Write, num::NonZeroU32, time::Duration};

use bytes::Bytes;
use freeboard_logd::{
    BatchBuilder, Config, Group, Line, Marks, Policy, Shed, Source, SourceBound, Totals,
    frame::{Framer, Framing},
    parse,
};
use proptest::{
    prelude::*,
    test_runner::{Config as Cases, TestRunner},
};

use crate::common::{Rig, Step, TestSink};

/// A client: what it writes at once, in lines of these priorities.
type Client = Vec<Vec<u8>>;

#[derive(Clone, Debug)]
struct Plan {
    policies: [Policy; 4],
    bound: SourceBound,
    reservoir: u64,
    clients: Vec<Client>,
    /// For each of the sinks.
    steps: Vec<Vec<Step>>,
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Wait),
        Just(Policy::DropOldest),
        (1..5_u32).prop_map(|n| Policy::Sample(NonZeroU32::new(n).expect("not 0"))),
        Just(Policy::Coalesce),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // A second panic in a row may shed a batch.
    prop_oneof![Just(Step::Pend), Just(Step::Fail), Just(Step::Break)]
}

fn plan() -> impl Strategy<Value = Plan> {
    let client = prop::collection::vec(prop::collection::vec(0..24_u8, 1..60), 1..20);
    (
        prop::array::uniform4(policy()),
        (1..200_u64, 50..5_000_u64),
        1..50_u64,
        prop::collection::vec(client, 1..5),
        prop::collection::vec(prop::collection::vec(step(), 0..40), 1..3),
    )
        .prop_map(
            |(policies, (lines, bytes), reservoir, clients, steps)| Plan {
                policies,
                bound: SourceBound { lines, bytes },
                reservoir,
                clients,
                steps,
            },
        )
}

fn shed(totals: &Totals) -> u64 {
    totals.shed.iter().sum()
}

fn check(plan: &Plan) {
    let sinks: Vec<TestSink> = plan
        .steps
        .iter()
        .map(|steps| TestSink::default().then(steps.iter().copied()))
        .collect();
    let configs = sinks.iter().enumerate().map(|(number, sink)| {
        let mut config = sink.config();
        config.name = format!("sink{number}");
        config
    });
    let mut config = Config::new(configs.collect());
    config.source = plan.bound;
    config.summary_interval = Duration::from_secs(3_600);
    config.repeat_time = Duration::from_millis(15);
    for (group, policy) in config.groups.iter_mut().zip(plan.policies) {
        group.policy = policy;
        group.reservoir.messages = plan.reservoir;
    }
    let rig = Rig::start(config);
    let mut sent = 0;
    let mut clients: Vec<_> = plan.clients.iter().map(|_| rig.connect()).collect();
    let rounds = plan.clients.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        for (number, client) in plan.clients.iter().enumerate() {
            let Some(write) = client.get(round) else {
                continue;
            };
            let line = |number: &u8| format!("<{number}>line {}\n", number % 3);
            let text: String = write.iter().map(line).collect();
            clients[number]
                .write_all(text.as_bytes())
                .expect("it reads");
            sent += write.len() as u64;
        }
        let totals = rig.server.totals();
        // Counters are read one after the other, while lines move from one to the next.
        assert!(
            totals.accepted >= totals.taken + shed(&totals),
            "{totals:?}"
        );
    }
    drop(clients);
    rig.wait_accepted(sent);
    let report = {
        let server = &rig.server;
        let report = server.stop(crate::common::LONG);
        let totals = server.totals();
        assert_eq!(totals.held, 0, "{totals:?}");
        assert_eq!(totals.accepted, totals.taken + shed(&totals), "{totals:?}");
        for sink in &sinks {
            let lines = sink.lines();
            assert_eq!(lines.len() as u64, totals.taken, "{totals:?}");
            let is_own = |marks: &Marks| marks.has(Marks::OWN);
            let own = lines.iter().filter(|(_, marks, _)| is_own(marks)).count() as u64;
            assert_eq!(sent + own, totals.accepted, "{totals:?}");
        }
        if plan.policies == [Policy::Wait; 4] {
            assert_eq!(shed(&totals), 0, "{totals:?}");
        }
        assert_eq!(totals.shed[Shed::SinkFailed as usize], 0, "{totals:?}");
        report
    };
    assert!(report.is_clean(), "{report:?}");
    rig.stop();
}

#[test]
fn every_line_is_counted_once() {
    let cases = Cases {
        cases: 24,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..Cases::default()
    };
    // The runner prints the smallest plan that fails.
    let checked = TestRunner::new(cases).run(&plan(), |plan| {
        check(&plan);
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_batch_keeps_its_lines_and_not_the_read() {
    // A read of empty lines, with two that are not.
    let mut read = vec![b'\n'; 64 << 10];
    read[1_000] = b'a';
    read[60_000] = b'b';
    let source = Source::new("test", SourceBound::default());
    let mut framer = Framer::new(Framing::Newline, 64 << 10);
    let frames = framer.feed(Bytes::from(read));
    let mut builder = BatchBuilder::new(Group::Normal);
    for (frame, text) in frames.lines() {
        let parsed = parse::line(text);
        builder.push(Line {
            at: frame.at,
            bytes: frame.bytes,
            host_at: parsed.host_at,
            host_bytes: parsed.host_bytes,
            priority: parsed.priority,
            format: parsed.format,
            marks: parsed.marks,
        });
    }
    let batch = builder.build(&source, 1, &frames.text, None);
    let batch = batch.expect("it has lines");
    assert!(batch.lines().map(|(_, text)| text).eq([b"a", b"b"]));
    assert!(batch.weight() < 1_000, "{} bytes", batch.weight());
}
