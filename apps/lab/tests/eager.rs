//! The scene eager.

mod lab;

use std::fs;

use lab::{check_usage, code, count, json, run};
use serde_json::Value;

const RUN_FIELDS: [&str; 16] = [
    "scene",
    "poll",
    "backend",
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
    assert_eq!(page.matches("<svg").count(), 4);
}

#[test]
fn the_sweep_ends_with_an_answer() {
    let output = run("lab eager --scene sweep --cpu-us 0 --clients 4 --rounds 1");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("When does eager help? "), "{said}");
    assert!(said.contains("What does it cost? "), "{said}");
}

/// Checks the runs of the bed proxy: each policy, all answered, and the backend named.
fn check_proxy(knobs: &str, backend: &str, client: &str) {
    let runs = eager(&format!("--scene proxy --clients 4 --requests 200 {knobs}"));
    let policies: Vec<&str> = runs.iter().map(|it| it["poll"].as_str().unwrap()).collect();
    assert_eq!(policies, ["eager", "drain", "dedicated"]);
    for run in &runs {
        assert_eq!(lab::fields(run), RUN_FIELDS.into());
        assert_eq!(run["scene"], "proxy");
        assert_eq!(
            (&run["backend"], &run["client"]),
            (&backend.into(), &client.into())
        );
        assert_eq!((count(run, "requests"), count(run, "errors")), (200, 0));
    }
}

#[test]
fn the_proxy_carries_to_an_echo() {
    check_proxy("--backend echo", "echo", "ours");
}

#[cfg(all(unix, feature = "real-backends"))]
#[test]
fn the_proxy_carries_to_a_real_database() {
    check_proxy("", "mariadb", "mysql_async");
    // One that runs already, with a login.
    let server = freeboard_test_servers::mariadb().unwrap();
    let address = server.address();
    check_proxy(&format!("--mysql {address}"), "mariadb", "mysql_async");
    let login = format!("--mysql mysql://root@{address}/mysql");
    check_proxy(&login, "mariadb", "mysql_async");
}

#[cfg(feature = "real-backends")]
#[test]
fn a_backend_that_is_not_there_fails_the_run() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let knobs =
        format!("lab eager --scene proxy --poll eager --clients 2 --requests 10 --mysql {address}");
    let output = run(&knobs);
    assert_eq!(code(&output), 1);
    let said = lab::stderr(&output);
    assert!(
        said.contains(&format!("no database at {address}")),
        "{said}"
    );
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (words, says) in [
        ("lab eager --poll never", "--poll"),
        ("lab eager --clients 0", "--clients"),
        ("lab eager --scene proxy --mysql nowhere", "HOST:PORT"),
    ] {
        check_usage(words, says);
    }
}

#[cfg(not(feature = "real-backends"))]
#[test]
fn a_database_that_is_not_built_in_says_how_to_build_it() {
    check_proxy("", "echo", "ours");
    for words in [
        "lab eager --scene proxy --backend mariadb",
        "lab eager --scene proxy --mysql 127.0.0.1:1",
    ] {
        check_usage(words, "--features real-backends");
    }
}
