//! Small floods along every way there is, and the shape of what is printed.

mod lab;

use std::collections::BTreeSet;

use lab::{
    assert_adds_up, assert_whole, check_usage, count, fields, flood, run, runs, stderr, stdout,
};
use serde_json::Value;

#[test]
fn every_route_receive_and_sink_writes_all_lines_once() {
    for route in ["--route direct", "--dam poll:50:1ms", "--dam credit:16"] {
        for receive in ["indexed", "scan"] {
            for sink in ["none", "null", "raw", "buffered", "stream"] {
                let knobs = format!("{route} --receive {receive} --sink {sink}");
                let run = flood(&format!("--senders 7 --messages 300 {knobs}"));
                assert_whole(&run, 2_100);
                assert_eq!(run["receive"], receive);
                assert_eq!(run["sink"], sink);
                let is_direct = run["dam"].is_null();
                assert_eq!(run["route"], if is_direct { "direct" } else { "dam" });
                assert_eq!(is_direct, route == "--route direct");
            }
        }
    }
}

#[test]
fn a_held_flood_is_whole_too_by_any_number_of_workers() {
    for workers in [1, 2, 5] {
        for route in ["--route direct", "--receive scan", "--dam credit:8"] {
            let knobs = format!("--hold --workers {workers} {route}");
            let run = flood(&format!("--senders 3 --messages 400 {knobs}"));
            assert_whole(&run, 1_200);
        }
    }
}

#[test]
fn one_line_is_a_flood() {
    for route in ["--route direct", "--receive scan --hold", "--dam credit:1"] {
        assert_whole(&flood(&format!("--senders 1 --messages 1 {route}")), 1);
    }
}

#[test]
fn the_json_has_the_fields_that_others_read_and_no_others() {
    let run = flood("--senders 2 --messages 10 --dam poll:5:1ms --watch=0.01");
    let expected = [
        "accepted",
        "cpu_s",
        "dam",
        "drain_rate_deep",
        "drain_rate_shallow",
        "messages",
        "peak_queue",
        "receive",
        "route",
        "rss_peak_bytes",
        "seconds",
        "senders",
        "shed",
        "sink",
        "verified",
        "watch",
        "written",
    ];
    assert_eq!(fields(&run), BTreeSet::from(expected));
    assert_eq!(run["dam"], "poll:5:1ms");
    assert_eq!((count(&run, "senders"), count(&run, "messages")), (2, 10));
    assert!(run["seconds"].as_f64().unwrap() > 0.0);
    assert!(run["peak_queue"]["dam"].is_u64() && run["peak_queue"]["server"].is_u64());
    let watch = run["watch"].as_array().unwrap();
    assert!(watch.len() >= 2, "at the start and at the end");
    for sample in watch {
        check_time(sample["time"].as_str().unwrap());
        assert!(sample["dam"].is_u64() && sample["server"].is_u64());
    }
}

/// `2026-01-31T23:59:59.123Z`.
fn check_time(time: &str) {
    let shape: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{time}");
}

#[test]
fn the_watch_prints_both_queues_and_their_changes() {
    let output =
        run("lab flood --no-peers --senders 5 --messages 200 --dam poll:10:5ms --watch=0.02");
    let text = stdout(&output);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .filter(|fields: &Vec<&str>| fields.len() == 3)
        .collect();
    assert_eq!(
        lines[0],
        ["DateTime", "dam msgq (diff)", "server msgq (diff)"]
    );
    assert!(lines.len() >= 3, "{text}");
    let mut last: Option<[i64; 2]> = None;
    for fields in &lines[1..] {
        check_time(fields[0]);
        let queues: [(i64, i64); 2] = [1, 2].map(|column| {
            let (length, change) = fields[column].split_once(" (").unwrap();
            let change = change.strip_suffix(')').unwrap();
            (length.parse().unwrap(), change.parse().unwrap())
        });
        let lengths = queues.map(|(length, _)| length);
        for (index, (length, change)) in queues.iter().enumerate() {
            let before = last.map_or(*length, |last| last[index]);
            assert_eq!(length - before, *change, "{text}");
        }
        last = Some(lengths);
    }
    assert_eq!(last, Some([0, 0]), "who has ended shows 0");
}

#[test]
fn without_a_route_four_ways_are_compared() {
    let output = run("lab flood --no-peers --senders 10 --messages 200 --json -");
    let runs = runs(&output);
    let ways: Vec<(&str, &str, Option<&str>)> = runs
        .iter()
        .map(|run| {
            let text = |field: &str| run[field].as_str();
            (
                text("route").unwrap(),
                text("receive").unwrap(),
                text("dam"),
            )
        })
        .collect();
    assert_eq!(
        ways,
        [
            ("direct", "scan", None),
            ("direct", "indexed", None),
            ("dam", "scan", Some("poll:10000:100ms")),
            ("dam", "scan", Some("credit:1024")),
        ]
    );
    for run in &runs {
        assert_whole(run, 2_000);
    }
}

#[test]
fn people_get_a_table_and_a_verdict() {
    let text = stdout(&run("lab flood --no-peers --senders 10 --messages 200"));
    for expected in [
        "direct, scan: the original",
        "direct, indexed: each reply",
        "lines written",
        "2,000",
        "dam poll:10000:100ms scan: the server kept up",
        "whole: dam credit:1024 scan: read back",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn a_held_run_knows_both_rates() {
    for receive in ["indexed", "scan"] {
        let knobs = format!("--route direct --receive {receive} --limit 60");
        let run = flood(&format!("--hold --senders 10 --messages 500 {knobs}"));
        assert_whole(&run, 5_000);
        let rate = |field: &str| run[field].as_f64().unwrap_or_else(|| panic!("{run}"));
        assert!(rate("drain_rate_deep") > 0.0);
        assert!(rate("drain_rate_shallow") > 0.0);
    }
}

#[test]
fn a_scan_that_is_stopped_has_drained_only_deep() {
    let run = flood("--receive scan --hold --messages 2000 --limit 0.3");
    assert_adds_up(&run);
    assert_eq!(count(&run, "accepted"), 200_000);
    assert!(count(&run, "written") < 20_000, "a collapse: {run}");
    assert!(run["drain_rate_deep"].as_f64().unwrap() > 0.0);
    assert_eq!(run["drain_rate_shallow"], Value::Null);
}

#[test]
fn a_dam_keeps_the_servers_queue_at_its_rule() {
    for (rule, longest) in [
        ("credit:1", 1),
        ("credit:64", 64),
        ("credit:1000", 1_000),
        ("poll:1:1ms", 2),
        ("poll:500:1ms", 501),
    ] {
        for hold in ["", "--hold"] {
            let messages = if longest < 10 { 20 } else { 500 };
            let knobs = format!("--dam {rule} {hold} --messages {messages}");
            let run = flood(&format!("--senders 10 {knobs}"));
            assert_whole(&run, 10 * messages);
            let peak = &run["peak_queue"];
            assert!(count(peak, "server") <= longest, "{rule} {hold}: {peak}");
        }
    }
}

#[test]
fn a_held_flood_is_queued_as_a_whole() {
    let run = flood("--route direct --hold --senders 10 --messages 300");
    assert_eq!(count(&run["peak_queue"], "server"), 3_000);
    let run = flood("--dam credit:10 --hold --senders 10 --messages 300");
    assert!(count(&run["peak_queue"], "dam") >= 2_990 - 64, "{run}");
    assert_eq!(count(&run["peak_queue"], "server"), 10);
}

#[test]
fn results_go_to_files_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let output = run(&format!(
        "lab flood --no-peers --senders 3 --messages 50 --dam credit:4 --file {} --json {} --report {}",
        at("out.log"),
        at("out.json"),
        at("page"),
    ));
    assert_eq!(lab::code(&output), 0, "{}", lab::stderr(&output));
    let json = std::fs::read(at("out.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_whole(&json["runs"][0], 150);
    let log = std::fs::read_to_string(at("out.log")).unwrap();
    assert_eq!(log.lines().count(), 150);
    assert!(log.lines().all(|line| line.len() == 31), "{log}");
    let page = std::fs::read_to_string(at("page/flood.html")).unwrap();
    // The rate, and both queues over time.
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("dam credit:4"), "{page}");
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn appended_lines_follow_those_of_the_file() {
    for sink in ["raw", "buffered", "append", "append-delayed"] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("log");
        std::fs::write(&path, "an older line").expect("a file");
        let file = path.display();
        let run = flood(&format!(
            "--senders 3 --messages 100 --sink {sink} --file {file} --append --route direct"
        ));
        assert_whole(&run, 300);
        let text = std::fs::read_to_string(&path).expect("the file");
        assert_eq!(text.lines().count(), 301, "{sink}");
        assert!(text.starts_with("an older line\n"), "{sink}");
    }
    check_usage("lab flood --append", "--file");
}

#[test]
fn the_originals_trials_are_one_command() {
    let output = run("lab flood --no-peers --trials --senders 2 --messages 100 --json -");
    let runs = runs(&output);
    let sinks: Vec<&str> = runs.iter().flat_map(|it| it["sink"].as_str()).collect();
    let opened = ["buffered", "raw", "append", "append-delayed"];
    assert_eq!(sinks[..2], ["none", "null"]);
    assert_eq!(sinks[2..], opened);
    for run in &runs {
        assert_whole(run, 200);
        assert!(run["cpu_s"].as_f64() >= Some(0.0), "{run}");
    }
    // Runs with different sinks are no failure and cure.
    let text = stderr(&output);
    assert!(text.contains("trial append-delayed"), "{text}");
    assert!(!text.contains("if it searches its mailbox"), "{text}");
    check_usage("lab flood --trials --route direct", "--route");
}
