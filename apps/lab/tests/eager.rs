//! The scene eager.

mod lab;

use std::fs;

use lab::{check_usage, code, count, json, run, stdout};
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

const POLICIES: [&str; 4] = ["eager", "drain", "dedicated", "lazy"];

fn eager(knobs: &str) -> Vec<Value> {
    let json = json(
        &run(&format!("lab eager --no-peers --json - {knobs}")),
        "eager",
    );
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
    let expected = ["http", "http-keep-alive"].map(|scene| POLICIES.map(|poll| (scene, poll)));
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
        let (won, other) = if run["poll"] == "drain" || run["poll"] == "lazy" {
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
    assert_eq!(runs.len(), POLICIES.len());
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
    let output =
        run("lab eager --no-peers --scene sweep --cpu-us 0,100 --clients 4 --rounds 1 --time 0.1");
    let said = stdout(&output);
    assert_eq!(code(&output), 0, "{said}");
    let one = "When does eager help? One round decides nothing; --rounds 3 does.";
    assert!(said.contains(one), "{said}");
    for cpu_us in ["0", "100"] {
        let point = format!("With {cpu_us} us of computing per request, beside actors that only");
        let line = said.lines().find(|line| line.starts_with(&point));
        let line = line.unwrap_or_else(|| panic!("no {point:?} in {said}"));
        for policy in POLICIES {
            assert!(line.contains(&format!(" ms under {policy}")), "{line}");
        }
    }
    assert!(said.contains("What does it cost? "), "{said}");
}

#[test]
fn the_counters_are_printed_while_a_run_goes_on() {
    const EVERY: u64 = 50;
    let output = run(&format!(
        "lab eager --no-peers --scene http --poll eager --clients 1 --requests 300 --counts {EVERY}"
    ));
    let said = stdout(&output);
    assert_eq!(code(&output), 0, "{said}");
    let numbers = |line: &str| -> Vec<u64> {
        let numbers = line.split(' ').filter(|word| !word.is_empty()).skip(1);
        numbers.map(|it| it.parse().unwrap()).collect()
    };
    // Of short connections; those of kept ones follow.
    let (mut last, mut printed) = (0, 0);
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if !line.trim().starts_with("counts: ") {
            continue;
        }
        let (counts, check) = (numbers(line), numbers(lines.next().unwrap()));
        assert_eq!((counts.len(), check.len()), (5, 3), "{said}");
        assert_eq!(check[0], check[1] + check[2], "{said}");
        assert!(counts[0] >= check[0] && check[0] > 0, "{said}");
        if line.starts_with(' ') {
            // The end of the run.
            assert!(counts[0] >= last, "{said}");
            break;
        }
        assert!(counts[0] / EVERY > last / EVERY, "{said}");
        last = counts[0];
        printed += 1;
    }
    assert!(printed > 0, "{said}");
}

/// Checks the runs of the bed proxy: each policy, all answered, and the backend named.
fn check_proxy(knobs: &str, backend: &str, client: &str) {
    let runs = eager(&format!("--scene proxy --clients 4 --requests 200 {knobs}"));
    let policies: Vec<&str> = runs.iter().map(|it| it["poll"].as_str().unwrap()).collect();
    assert_eq!(policies, POLICIES);
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
        ("lab eager --counts 0", "--counts"),
        // Only the scene has it.
        ("serve-http --poll lazy", "`lazy` is none of"),
        ("proxy --to 127.0.0.1:1 --poll lazy", "--poll"),
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
