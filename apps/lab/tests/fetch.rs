//! The scene fetch.

mod lab;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lab::{Running, check_usage, count, counts, fields, json, run, stderr};
use serde_json::Value;

/// Those that a run has to have; it has some more.
const RUN_FIELDS: [&str; 26] = [
    "step",
    "mode",
    "main",
    "redis_threads",
    "qps",
    "sent",
    "completed",
    "shed",
    "lost",
    "wait_ms",
    "lifetime_ms",
    "in_queue_ms",
    "from_send_ms",
    "from_tell_ms",
    "per_actor",
    "rss_peak_bytes",
    "cpu_us_per_message",
    "idle_cpu_percent",
    "cpu_percent",
    "load",
    "broker",
    "broker_cpu_percent",
    "redis_cpu_percent",
    "load_cpu_percent",
    "memory_at_peak",
    "skew",
];
const TIMES: [&str; 5] = [
    "wait_ms",
    "lifetime_ms",
    "in_queue_ms",
    "from_send_ms",
    "from_tell_ms",
];
/// A twentieth of the original's rates and users, for a second.
const SMALL: &str = "--scale 0.05 --time 1 --json -";

/// The runs of a scene that succeeded: the original's and ours.
fn runs(knobs: &str) -> [Value; 2] {
    let output = run(&format!("lab fetch {SMALL} {knobs}"));
    let json = json(&output, "fetch");
    let runs = json["runs"].as_array().expect("runs").clone();
    let runs: [Value; 2] = runs.try_into().expect("both modes");
    let modes = runs.each_ref().map(|run| run["mode"].as_str());
    assert_eq!(modes, [Some("original"), Some("ours")]);
    runs.iter().for_each(assert_adds_up);
    runs
}

/// Every notification is somewhere, and in ours none is lost.
fn assert_adds_up(run: &Value) {
    let of = |field| count(run, field);
    let seen = of("completed") + of("dead") + of("left") + of("lost");
    assert_eq!(of("sent"), seen, "{run}");
    match run["mode"].as_str() {
        Some("ours") => assert_eq!(of("lost"), 0, "{run}"),
        _ => assert!(of("lost") >= of("shed"), "{run}"),
    }
}

#[test]
fn a_step_shows_both_and_adds_up() {
    let runs = runs("--step 5 --qps 500 --main 6 --redis-threads 4");
    for run in &runs {
        let fields = fields(run);
        for field in RUN_FIELDS {
            assert!(fields.contains(field), "{field}: {run}");
        }
        assert_eq!(run["step"], "5");
        assert_eq!(count(run, "sent"), 500);
        assert_eq!(run["qps"], 500.0);
        for times in TIMES {
            let at = |name: &str| run[times][name].as_f64().expect("milliseconds");
            let times = ["p75", "p95", "p99", "p999"].map(at);
            assert!(times.is_sorted(), "{run}");
        }
        assert_eq!(counts(&run["per_actor"]).len(), 4);
        assert_eq!(count(run, "redis_threads"), 4);
        assert_eq!(count(run, "main"), 6);
        let counters = run["counters"].as_object().expect("counters by name");
        assert!(counters.contains_key("redis~mampa~fail~queue~full.COUNTER"));
    }
    // What was put off is not done when the scene ends.
    assert_eq!(count(&runs[1], "completed") + count(&runs[1], "left"), 500);
}

#[test]
fn step_9_shows_the_skew() {
    let [original, ours] = runs("--step 9");
    let per_actor = counts(&original["per_actor"]);
    assert_eq!(per_actor.len(), 4);
    let busiest = *per_actor.iter().max().expect("four");
    let others = (per_actor.iter().sum::<u64>() - busiest) / 3;
    // The app's key, and a share of the users'.
    assert!(busiest > 3 * others, "{per_actor:?}");
    assert_eq!(counts(&ours["per_actor"]).len(), 4);
}

#[test]
fn numbers_of_connections_and_routes_are_compared_in_one_call() {
    let knobs = "--step 9 --mode original --qps 500 --redis 2,3 --route hash,random";
    let output = run(&format!("lab fetch {SMALL} {knobs}"));
    let json = json(&output, "fetch");
    let runs = json["runs"].as_array().expect("runs");
    let compared = runs.iter().map(|run| {
        assert_adds_up(run);
        let route = run["route"].as_str().expect("a route");
        (count(run, "redis_threads"), route.to_owned())
    });
    let wanted = [(2, "hash"), (3, "hash"), (2, "random"), (3, "random")];
    let wanted = wanted.map(|(count, route)| (count, route.to_owned()));
    assert_eq!(compared.collect::<Vec<_>>(), wanted);
    let skew = |run: &Value| run["skew"].as_f64().expect("more than one connection");
    // The app's key is on one of them; at random it is on all.
    for (hash, random) in [(0, 2), (1, 3)] {
        assert!(skew(&runs[hash]) > skew(&runs[random]), "{runs:?}");
    }
}

#[test]
fn a_share_of_the_measured_capacity_is_offered_to_all_threads_alike() {
    let knobs = "--step 3,6 --mode original --time 0.1 --keys 1000 --counters";
    let output = run(&format!("lab fetch {knobs} --json -"));
    let json = json(&output, "fetch");
    let runs = json["runs"].as_array().expect("runs");
    runs.iter().for_each(assert_adds_up);
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["qps"], runs[1]["qps"]);
    assert!(count(&runs[0], "main") > count(&runs[1], "main"));
    let memory = &runs[0]["memory_at_peak"];
    if cfg!(target_os = "linux") {
        let parts = [
            "before",
            "broker",
            "mailboxes",
            "in_flight",
            "replies",
            "cache",
            "rest",
        ];
        let sum: u64 = parts.iter().map(|part| count(memory, part)).sum();
        assert!(sum >= count(memory, "resident"), "{memory}");
        assert!(
            stderr(&output).contains("capacity of "),
            "{}",
            stderr(&output)
        );
    }
    assert!(
        stderr(&output).contains("mampa~tell~actor~RedisMampa~0/"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_load_is_a_multiple_of_the_measured_capacity() {
    let knobs = "--step end --mode ours --qps 5x --wait-max none,20 --time 0.5 --keys 1000";
    let output = run(&format!("lab fetch {knobs} --json -"));
    let json = json(&output, "fetch");
    let runs = json["runs"].as_array().expect("runs");
    runs.iter().for_each(assert_adds_up);
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["qps"], runs[1]["qps"]);
    assert_eq!(count(&runs[0], "put_off"), 0);
    assert_eq!(count(&runs[1], "wait_max_ms"), 20);
    assert_eq!(count(&runs[1], "lost"), 0);
    check_usage("lab fetch --step 1 --qps 2x", "needs --step end");
    check_usage(
        "lab fetch --mode original --wait-max 20",
        "puts nothing off",
    );
    check_usage("lab fetch --wait-max 0", "a limit is 1 to 3600000");
}

#[test]
fn both_keys_can_be_looked_up_at_once() {
    let knobs = "--step 9 --mode original --qps 500 --mget";
    let output = run(&format!("lab fetch {SMALL} {knobs}"));
    let run = &json(&output, "fetch")["runs"][0];
    assert_adds_up(run);
    assert_eq!(run["multi_get"], true);
    let told: u64 = counts(&run["per_actor"]).iter().sum();
    assert_eq!(told, count(run, "sent"));
}

#[test]
fn knobs_change_a_step() {
    let knobs = "--step end --mode ours --main 1 --redis-threads 2 --qps 100 --route p2c \
                 --wait blocking --queue-bound none --sql-us 0";
    let output = run(&format!("lab fetch {SMALL} {knobs}"));
    let json = json(&output, "fetch");
    let run = &json["runs"][0];
    assert_adds_up(run);
    assert_eq!(count(run, "sent"), 100);
    assert_eq!(count(run, "main"), 1);
    assert_eq!(counts(&run["per_actor"]).len(), 2);
    let texts = ["step", "mode", "route", "wait"].map(|field| run[field].as_str());
    let wanted = ["end", "ours", "p2c", "blocking"].map(Some);
    assert_eq!(texts, wanted);
    // Ours always has one: the client's own.
    assert_eq!(count(run, "queue_bound"), 10_000);
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (knobs, says) in [
        ("--step 12", "a step is 0 to 11, or end, or all"),
        ("--step -1", "-1"),
        ("--mode neither", "--mode"),
        ("--qps 0", "--qps"),
        ("--qps many", "--qps"),
        ("--main 0", "--main"),
        ("--redis-threads 257", "--redis-threads"),
        ("--route nowhere", "hash, random, p2c"),
        ("--wait forever", "blocking, sleeping, yielding, busy-spin"),
        ("--queue-bound 0", "a bound is a number above 0, or none"),
        ("--link none", "--link"),
        ("--keys 0", "--keys"),
        ("--redis 2,0", "--redis"),
        ("--sql-us 1000001", "--sql-us"),
        ("--backend paper", "--backend"),
        ("--scale 0", "--scale"),
        ("--time 0", "--time"),
    ] {
        check_usage(&format!("lab fetch {knobs}"), says);
    }
}

/// The folders in `/proc` of the processes that a process has started and that run.
#[cfg(target_os = "linux")]
fn children(process: u32) -> Vec<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let children = tasks.flatten().map(|task| task.path().join("children"));
    let numbers = children.flat_map(std::fs::read_to_string);
    let all: Vec<String> = numbers.collect();
    let folders = all.iter().flat_map(|it| it.split_whitespace());
    folders.map(|it| Path::new("/proc").join(it)).collect()
}

#[test]
fn ctrl_c_ends_it_in_time_with_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fetch.json");
    let running = Running::start(&format!(
        "lab fetch --step 1 --mode ours --scale 0.05 --time 600 --json {}",
        file.display()
    ));
    running.wait_for("step 1; the original");
    // The load is a process of its own.
    let mut load = Vec::new();
    #[cfg(target_os = "linux")]
    freeboard_test_servers::eventually("the load runs", || {
        load = children(running.id());
        !load.is_empty()
    });
    let began = Instant::now();
    running.interrupt();
    assert_eq!(running.wait(), 130);
    assert!(!load.iter().any(|it: &PathBuf| it.exists()), "{load:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
    let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let runs = json["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1);
    assert_adds_up(&runs[0]);
    assert!(count(&runs[0], "sent") < 250 * 600);
}

#[cfg(all(unix, feature = "real-backends"))]
#[test]
fn on_real_servers_it_adds_up_too() {
    use lab::{code, say};

    let output = run(&format!(
        "lab fetch {SMALL} --backend real --step 1 --mode ours"
    ));
    if code(&output) == 2 && stderr(&output).contains("is not installed") {
        return say(&format!("left out: {}", stderr(&output)));
    }
    let json = json(&output, "fetch");
    let run = &json["runs"][0];
    assert_adds_up(run);
    assert_eq!(count(run, "completed") + count(run, "left"), 250);
}
