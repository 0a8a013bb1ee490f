//! The scene eager.

mod lab;

use std::fs;

use lab::{check_usage, count, json, run};
use serde_json::Value;

const RUN_FIELDS: [&str; 15] = [
    "scene",
    "poll",
    "client",
    "clients",
    "requests",
    "cpu_us",
    "seconds",
    "rps",
    "errors",
    "latency_us",
    "cpu_us_per_request",
    "counts",
    "check",
    "readiness_to_run_us",
    "max_gap_us",
];

fn eager(knobs: &str) -> Vec<Value> {
    let json = json(&run(&format!("lab eager --json - {knobs}")), "eager");
    json["runs"].as_array().unwrap().clone()
}

#[test]
fn each_policy_answers_short_and_kept_connections() {
    let runs = eager("--scene http --clients 4 --requests 200");
    let names: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| {
            (
                run["scene"].as_str().unwrap(),
                run["poll"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = ["http", "http-keep-alive"]
        .map(|scene| ["eager", "drain", "dedicated"].map(|poll| (scene, poll)));
    assert_eq!(names, expected.concat());
    for run in &runs {
        assert_eq!(lab::fields(run), RUN_FIELDS.into());
        assert_eq!((count(run, "requests"), count(run, "errors")), (200, 0));
        let check = &run["check"];
        let looks = count(check, "nonwait") + count(check, "wait");
        assert_eq!(count(check, "total"), looks);
        let counts = &run["counts"];
        assert!(count(counts, "attempts") >= looks, "{run}");
        let lazy = count(counts, "idle_lazy") + count(counts, "busy_lazy");
        let eager = count(counts, "idle_eager") + count(counts, "busy_eager");
        let (won, other) = if run["poll"] == "drain" {
            (lazy, eager)
        } else {
            (eager, lazy)
        };
        assert!(won > 0 && other == 0, "{run}");
    }
}

#[test]
fn the_sweep_answers_beside_actors_that_only_compute() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().display();
    let runs = eager(&format!(
        "--scene sweep --cpu-us 1000 --clients 8 --report {page}"
    ));
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert_eq!(count(run, "errors"), 0);
        let at = |name: &str| run["latency_us"][name].as_f64().unwrap();
        assert!(at("p50") >= 1_000.0, "each computes so long: {run}");
        assert!(at("p50") <= at("p99") && at("p99") <= at("p999"), "{run}");
    }
    let page = fs::read_to_string(folder.path().join("eager.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (words, says) in [
        ("lab eager --poll never", "--poll"),
        ("lab eager --clients 0", "--clients"),
    ] {
        check_usage(words, says);
    }
}
