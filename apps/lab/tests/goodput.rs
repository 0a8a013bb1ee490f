//! Small runs of the goodput scene: each request is accounted for once, whatever the load and the mailbox.

mod lab;

use std::{collections::BTreeSet, fs};

use lab::{Running, check_usage, count, fields, json, run, stdout};
use serde_json::Value;

/// In the order in which they run.
const SIDES: [&str; 6] = [
    "deadline",
    "priority",
    "codel",
    "adaptive",
    "bounded",
    "unbounded",
];
const FATES: [&str; 5] = ["in_time", "late", "refused", "expired", "lost"];

/// The runs that `lab goodput --json -` with these further arguments wrote.
fn goodputs(arguments: &str) -> Vec<Value> {
    let output = run(&format!("lab goodput --json - {arguments}"));
    json(&output, "goodput")["runs"].as_array().unwrap().clone()
}

/// Every request has one fate, and none is lost.
fn assert_accounted(run: &Value) {
    for counts in ["measured", "all"] {
        let of = |fate| count(&run[counts], fate);
        let offered: u64 = FATES.into_iter().map(of).sum();
        assert_eq!(of("offered"), offered, "{run}");
        assert_eq!(of("lost"), 0, "{run}");
    }
    assert_eq!(count(run, "lost"), 0);
    assert!(count(&run["measured"], "offered") <= count(&run["all"], "offered"));
    let rate = |name: &str| run[name].as_f64().unwrap();
    let rates = [
        "goodput_per_s",
        "late_per_s",
        "refused_per_s",
        "expired_per_s",
    ];
    let offered: f64 = rates.map(rate).iter().sum();
    assert!(
        (rate("offered_per_s") - offered).abs() < 1e-6 * offered,
        "{run}"
    );
}

#[test]
fn every_request_is_accounted_for_on_all_sides() {
    let runs = goodputs("--factor 0.5,1,10 --time 0.2 --recovery 0.1");
    let titles: Vec<(&str, f64)> = runs
        .iter()
        .map(|it| (it["side"].as_str().unwrap(), it["factor"].as_f64().unwrap()))
        .collect();
    let expected = SIDES.map(|side| [0.5, 1.0, 10.0].map(|factor| (side, factor)));
    assert_eq!(titles, expected.concat());
    for run in &runs {
        assert_accounted(run);
        let side = run["side"].as_str().unwrap();
        let all = &run["all"];
        if side == "unbounded" {
            assert_eq!(
                count(all, "refused"),
                0,
                "nothing is too much for it: {run}"
            );
        }
        if ["unbounded", "bounded"].contains(&side) {
            assert_eq!(count(all, "expired"), 0, "there are no deadlines: {run}");
        }
        let share = &run["urgent_goodput_share"];
        let has_urgent = ["priority", "codel", "adaptive"].contains(&side);
        assert_eq!(share.is_f64(), has_urgent, "{run}");
    }
}

#[test]
fn every_request_is_accounted_for_whatever_the_parameters() {
    for arguments in [
        "--side bounded --bound 1 --cpu-us 10 --factor 5 --time 0.05",
        "--side deadline,priority,codel,adaptive --deadline-ms 1 --factor 3 --time 0.1",
        "--side deadline --cpu-us 20000 --deadline-ms 5 --factor 20 --time 0.2",
        "--side priority,unbounded --factor 0.01,100 --cpu-us 1000 --time 0.2 --seed 7",
    ] {
        for run in goodputs(&format!("{arguments} --recovery 0.05")) {
            let all = &run["all"];
            let ends: u64 = FATES.into_iter().map(|fate| count(all, fate)).sum();
            assert_eq!(count(all, "offered"), ends, "{arguments}: {run}");
            assert_eq!(count(&run, "lost"), 0, "{arguments}: {run}");
        }
    }
}

#[test]
fn the_json_has_the_fields_that_others_read_and_no_others() {
    let runs = goodputs("--side deadline --factor 2 --time 0.1 --recovery 0.1");
    let expected = [
        "all",
        "capacity_per_s",
        "expired_per_s",
        "factor",
        "goodput_per_s",
        "late_per_s",
        "lost",
        "measured",
        "offered_per_s",
        "p50_ms",
        "p99_ms",
        "recovered_s",
        "refused_per_s",
        "rss_peak_bytes",
        "side",
        "urgent_goodput_share",
    ];
    assert_eq!(fields(&runs[0]), BTreeSet::from(expected));
    let counts = FATES.iter().copied().chain(["offered"]);
    assert_eq!(fields(&runs[0]["all"]), counts.collect());
}

#[test]
fn people_get_lines_a_table_and_a_page_with_two_plots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let output = run(&format!(
        "lab goodput --side deadline,bounded --factor 0.5,2 --time 0.1 --recovery 0.1 --report {}",
        path.display()
    ));
    let text = stdout(&output);
    for expected in [
        "capacity: ",
        "bounded, 0.5 x: offered ",
        "goodput",
        "requests was answered in time or late, refused, or expired; none was lost",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    let page = fs::read_to_string(path.join("goodput.html")).unwrap();
    // A line for each side, of goodput and of latency.
    assert_eq!(page.matches("<polyline").count(), 4, "{page}");
    assert!(page.contains("Goodput over offered load"));
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (arguments, says) in [
        ("--side fast", "fast"),
        ("--factor 0", "expected 0.01 to 100"),
        ("--factor x", "is not a number"),
        ("--cpu-us 1", "1"),
        ("--bound 0", "0"),
        ("--deadline-ms 0", "0"),
        ("--time 3600", "the most is 4,000,000"),
    ] {
        check_usage(&format!("lab goodput {arguments}"), says);
    }
}

#[test]
fn ctrl_c_ends_it_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let running = Running::start(&format!(
        "lab goodput --factor 0.5,2 --time 60 --json {}",
        path.display()
    ));
    running.wait_for("capacity: ");
    running.interrupt();
    running.wait_for("Ctrl-C");
    assert_eq!(running.wait(), 130);
    let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let runs = record["runs"].as_array().unwrap();
    assert!(runs.len() <= 1, "{record}");
    assert!(runs.iter().all(|it| count(it, "lost") == 0), "{record}");
}
