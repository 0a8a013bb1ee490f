//! The scene eager, and the two services by themselves.

mod lab;

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use lab::{Running, code, count, json, run, stderr};
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
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (words, says) in [
        ("lab eager --poll never".to_owned(), "--poll"),
        ("lab eager --clients 0".to_owned(), "--clients"),
        ("serve-http --listen nowhere".to_owned(), "--listen"),
        (format!("serve-http --listen {taken}"), taken.as_str()),
        ("proxy".to_owned(), "--to"),
        ("proxy --to nowhere".to_owned(), "nowhere"),
        (
            format!("proxy --to 127.0.0.1:1 --listen {taken}"),
            taken.as_str(),
        ),
    ] {
        let output = run(&words);
        assert_eq!(code(&output), 2, "{words}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(says),
            "{words}: {}",
            stderr(&output)
        );
    }
}

/// The address in what a service says when it is there.
fn address(said: &str) -> String {
    let word = said
        .split_whitespace()
        .find(|word| word.contains("127.0.0.1:"));
    word.expect("it names its address")
        .trim_start_matches("http://")
        .to_owned()
}

fn get(address: &str, path: &str) -> String {
    let mut peer = TcpStream::connect(address).unwrap();
    peer.set_nodelay(true).unwrap();
    write!(peer, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_page_is_served_and_carried_on_until_ctrl_c() {
    let server = Running::start("serve-http --listen 127.0.0.1:0 --body twelve");
    let at = address(&server.wait_for("serves"));
    assert!(get(&at, "/").ends_with("\r\n\r\ntwelve"));
    assert!(get(&at, "/nowhere").starts_with("HTTP/1.1 404 "));
    let metrics = get(&at, "/metrics");
    for family in [
        "freeboard_http_requests_total 3\n",
        "freeboard_connections_accepted_total 3\n",
        "freeboard_poller_accepts_total 3\n",
        "freeboard_workers_online ",
    ] {
        assert!(metrics.contains(family), "{family}: {metrics}");
    }
    let proxy = Running::start(&format!(
        "proxy --listen 127.0.0.1:0 --to {at} --metrics 127.0.0.1:0"
    ));
    let front = address(&proxy.wait_for("carries"));
    let gauges = address(&proxy.wait_for("gauges"));
    let gauges = gauges.trim_end_matches("/metrics").to_owned();
    assert!(get(&front, "/").ends_with("\r\n\r\ntwelve"));
    assert!(get(&gauges, "/metrics").contains("freeboard_proxy_to_backend_bytes_total 18\n"));
    for service in [proxy, server] {
        service.interrupt();
        assert_eq!(service.wait(), 0);
    }
}

#[test]
fn without_file_descriptors_accepting_rests_and_goes_on() {
    let server = Running::start_with_files("serve-http --listen 127.0.0.1:0", 40);
    let at = address(&server.wait_for("serves"));
    // More than it can have; the others wait in the backlog.
    let peers: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let mut last = peers.last().unwrap().try_clone().unwrap();
    last.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    drop(peers);
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let metrics = get(&at, "/metrics");
    let exhausted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("freeboard_accepts_exhausted_total "))
        .and_then(|count| count.parse::<u64>().ok());
    assert!(exhausted.is_some_and(|count| count > 0), "{metrics}");
    server.interrupt();
    assert_eq!(server.wait(), 0);
}
