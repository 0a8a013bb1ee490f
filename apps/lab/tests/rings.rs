//! Small runs of the ring scene: nothing is lost or out of turn, and the shape of what is printed.

mod lab;

use std::{collections::BTreeSet, fs};

use lab::{Running, count, fields, json, run, stdout};
use serde_json::Value;

const WAITS: [&str; 4] = ["blocking", "sleeping", "yielding", "busyspin"];

/// The runs that `lab ring --json -` with these further arguments wrote.
fn rings(arguments: &str) -> Vec<Value> {
    let json = json(
        &run(&format!("lab ring --no-peers --json - {arguments}")),
        "ring",
    );
    json["runs"].as_array().unwrap().clone()
}

/// Wait and priorities of each.
fn titles(runs: &[Value]) -> Vec<(&str, u64)> {
    runs.iter()
        .map(|run| (run["wait"].as_str().unwrap(), count(run, "priorities")))
        .collect()
}

#[test]
fn every_message_comes_whatever_the_ring_and_whoever_sends() {
    for wait in WAITS {
        for (ring, producers) in [(1, 1), (3, 2), (64, 5), (1_000, 1)] {
            let runs = rings(&format!(
                "--wait {wait} --messages 2001 --priorities 1,3,8 --ring {ring} \
                 --producers {producers}"
            ));
            assert_eq!(titles(&runs), [(wait, 1), (wait, 3), (wait, 8)]);
            for run in &runs {
                assert_eq!(count(run, "messages"), 2_001, "{run}");
                assert_eq!(count(run, "ring"), ring);
                assert_eq!(count(run, "producers"), producers);
            }
        }
    }
}

#[test]
fn more_producers_than_messages_is_no_trouble() {
    let runs = rings("--wait blocking --messages 1 --producers 8 --priorities 8");
    assert_eq!(count(&runs[0], "messages"), 1);
}

#[test]
fn all_ways_of_waiting_run_with_one_and_two_priorities() {
    let runs = rings("--messages 1000");
    let expected: Vec<(&str, u64)> = WAITS
        .iter()
        .flat_map(|wait| [(*wait, 1), (*wait, 2)])
        .collect();
    assert_eq!(titles(&runs), expected);
    assert_eq!(
        titles(&rings("--messages 10 --wait yielding")),
        [("yielding", 1)]
    );
}

#[test]
fn the_json_has_the_fields_that_others_read_and_no_others() {
    let runs = rings("--messages 5000 --wait sleeping");
    let expected = [
        "cpu_s",
        "messages",
        "priorities",
        "producers",
        "qps",
        "ring",
        "seconds",
        "wait",
    ];
    assert_eq!(fields(&runs[0]), BTreeSet::from(expected));
    let seconds = runs[0]["seconds"].as_f64().unwrap();
    let qps = runs[0]["qps"].as_f64().unwrap();
    assert!(seconds > 0.0);
    assert!((qps * seconds - 5_000.0).abs() < 1.0, "{}", runs[0]);
}

#[test]
fn who_gets_nothing_takes_no_message() {
    for wait in WAITS {
        let runs = rings(&format!("--wait {wait} --messages 100 --idle 3"));
        assert_eq!(count(&runs[0], "messages"), 100, "{}", runs[0]);
        assert_eq!(count(&runs[0], "idle"), 3);
    }
}

#[test]
fn people_get_lines_a_table_and_a_verdict() {
    let text = stdout(&run("lab ring --no-peers --messages 3000"));
    for expected in [
        "blocking, 1 priority: 3,000 messages of 1 producer",
        "elapsed: ",
        ", priorities: 2, ring: 1024",
        "messages/s",
        "468,863 messages/s   the original, Java, 2014",
        "1,023,022 messages/s   the original, Java, 2014",
        "rate with two priorities over the rate with one",
        "whole: 24,000 messages came",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn other_sizes_are_not_set_beside_the_original() {
    let text = stdout(&run("lab ring --no-peers --messages 3000 --ring 1000"));
    assert!(!text.contains("468,863"), "{text}");
}

#[test]
fn the_page_has_bars_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let output = run(&format!(
        "lab ring --no-peers --messages 1000 --report {}",
        path.display()
    ));
    assert_eq!(lab::code(&output), 0, "{}", lab::stderr(&output));
    let page = fs::read_to_string(path.join("ring.html")).unwrap();
    // Rate and processor time of each of the eight.
    assert_eq!(page.matches("<rect").count(), 8 + 8);
    assert!(
        page.contains("468,863"),
        "the original's rate is in a table"
    );
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn ctrl_c_ends_it_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let running = Running::start(&format!(
        "lab ring --no-peers --messages 1000000000000 --wait blocking --producers 2 --json {}",
        path.display()
    ));
    running.wait_for("blocking, 1 priority");
    running.interrupt();
    running.wait_for("Ctrl-C");
    assert_eq!(running.wait(), 130);
    let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(record["runs"].as_array().unwrap().len(), 1);
    assert!(count(&record["runs"][0], "messages") < 1_000_000_000_000);
}
