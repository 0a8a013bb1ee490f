//! Small runs of the balance scene: nothing is lost, and the shape of what is printed.

mod lab;

use std::{collections::BTreeSet, fs};

use lab::{Running, count, counts, fields, json, run, stdout};
use serde_json::Value;

/// What `lab balance --json -` with these further arguments wrote.
fn balance(arguments: &str) -> Value {
    json(
        &run(&format!("lab balance --no-peers --json - {arguments}")),
        "balance",
    )
}

fn sum(array: &Value) -> u64 {
    counts(array).iter().sum()
}

/// Each native call was made once, and by a worker.
fn assert_whole(record: &Value) {
    let calls = count(record, "procs") * count(record, "repeats");
    assert_eq!(sum(&record["native_calls"]), calls, "{record}");
    let intervals = record["intervals"].as_array().unwrap();
    let by_interval: u64 = intervals.iter().map(|it| sum(&it["native_calls"])).sum();
    assert_eq!(by_interval, calls, "{record}");
    let each = record["elapsed_each_s"].as_array().unwrap();
    assert_eq!(each.len() as u64, count(record, "procs"), "{record}");
    let elapsed = |field: &str| record["elapsed_s"][field].as_f64().unwrap();
    assert!(elapsed("min") > 0.0, "{record}");
    assert!(elapsed("min") <= elapsed("median") && elapsed("median") <= elapsed("max"));
    assert!(record["max_over_min"].as_f64().unwrap() >= 1.0);
    assert!(record["makespan_s"].as_f64().unwrap() >= elapsed("max"));
}

#[test]
fn every_process_does_all_its_repetitions_wherever_it_is_born() {
    for place in ["one", "spread"] {
        for schedulers in [1, 2, 5] {
            for native in ["--bytes 64", "--native sleep --sleep-ms 1"] {
                let record = balance(&format!(
                    "--procs 9 --repeats 7 {native} --spin 3 --place {place} --schedulers {schedulers}"
                ));
                assert_whole(&record);
                assert_eq!(record["place"], place);
                assert_eq!(count(&record, "schedulers"), schedulers);
                for field in ["native_calls", "utilisation"] {
                    let by_worker = record[field].as_array().unwrap();
                    assert_eq!(by_worker.len() as u64, schedulers, "{field}");
                }
            }
        }
    }
}

#[test]
fn processes_that_never_yield_make_others_wait() {
    let size = "--procs 20 --repeats 10 --bytes 65536 --schedulers 2";
    let [never, each] = ["never", "each"].map(|yields| {
        let record = balance(&format!("{size} --yield {yields}"));
        assert_whole(&record);
        assert_eq!(record["yield"], yields);
        record["max_over_min"].as_f64().unwrap()
    });
    // Ten processes one after the other on each worker, against all at once.
    assert!(never > 3.0 && never > 2.0 * each, "{never} {each}");
}

#[test]
fn one_process_is_a_run() {
    let record = balance("--run 1 1 1 0");
    assert_whole(&record);
    assert_eq!(count(&record, "bytes"), 1);
    assert_eq!(record["max_over_min"], 1.0);
}

#[test]
fn the_originals_order_is_that_of_the_knobs() {
    let record = balance("--run 3 128 5 2");
    assert_whole(&record);
    for (field, value) in [("procs", 3), ("bytes", 128), ("repeats", 5), ("spin", 2)] {
        assert_eq!(count(&record, field), value, "{field}");
    }
}

#[test]
fn nothing_is_lost_when_workers_go_off_line_in_between() {
    for online in [1, 2, 4] {
        let record = balance(&format!(
            "--procs 50 --repeats 20 --bytes 256 --schedulers 4 --online {online}"
        ));
        assert_whole(&record);
        assert_eq!(count(&record, "online"), online);
    }
}

#[test]
fn the_originals_protocol_runs_and_pauses_before_workers_go_off_line() {
    let record = balance(
        "--iterations 3 --pause 0.01 --procs 8 --repeats 4 --bytes 4096 --schedulers 4 --online 1",
    );
    assert_whole(&record);
    assert_eq!(count(&record, "iterations"), 3);
    // Those before it are not counted, and the three workers that are off-line did none of its calls.
    assert_eq!(sum(&record["native_calls"]), 32);
    let busy = counts(&record["native_calls"]);
    assert_eq!(
        busy.iter().filter(|calls| **calls > 0).count(),
        1,
        "{record}"
    );
    lab::check_usage("lab balance --pause 1", "--iterations");
}

#[test]
fn a_sound_scheduler_shows_no_collapse() {
    // A thread that the machine displaces between its push and its wake counts as one: not three times.
    let is_sound = |_| {
        let record = balance("--procs 40 --repeats 20 --bytes 4096");
        assert_whole(&record);
        let is_sound = count(&record["collapses"], "count") == 0;
        let time = &record["collapses"]["detect_ms_max"];
        assert_eq!(time.is_null(), is_sound, "{record}");
        is_sound
    };
    assert!((0..3).any(is_sound));
}

#[test]
fn lost_wakes_are_noticed_and_lose_no_work() {
    // Who still looks for work when it comes needs no wake: on a busy machine that can be so for a whole run.
    let is_noticed = |_| {
        let record =
            balance("--fault drop-wakes --procs 8 --repeats 8 --bytes 262144 --schedulers 2");
        assert_whole(&record);
        assert_eq!(record["fault"], "drop-wakes");
        let is_noticed = count(&record["collapses"], "count") > 0;
        let time = &record["collapses"]["detect_ms_max"];
        assert_eq!(time.is_f64(), is_noticed, "{record}");
        is_noticed
    };
    assert!((0..20).any(is_noticed));
}

#[test]
fn calls_that_block_are_rescued() {
    let record = balance("--native sleep --sleep-ms 20 --procs 8 --repeats 4 --schedulers 2");
    assert_whole(&record);
    assert!(count(&record["rescues"], "count") > 0, "{record}");
    assert!(record["rescues"]["delay_us_p99"].is_f64(), "{record}");
}

#[test]
fn the_ideal_is_one_of_processors() {
    let record = balance("--procs 8 --repeats 8 --bytes 4096");
    assert!(
        record["makespan_over_ideal"].as_f64().unwrap() > 0.0,
        "{record}"
    );
    let record = balance("--procs 8 --repeats 2 --native sleep --sleep-ms 1");
    assert_eq!(record["makespan_over_ideal"], Value::Null);
}

#[test]
fn the_json_has_the_fields_that_others_read() {
    let record = balance("--procs 10 --repeats 50 --bytes 4096 --sample-ms 1 --interval 0.01");
    let expected = [
        "bytes",
        "collapses",
        "cpu_s",
        "elapsed_each_s",
        "elapsed_s",
        "fault",
        "intervals",
        "iterations",
        "makespan_over_ideal",
        "makespan_s",
        "max_over_min",
        "native",
        "native_calls",
        "native_us",
        "online",
        "place",
        "procs",
        "repeats",
        "rescues",
        "samples",
        "scene",
        "schedulers",
        "spin",
        "utilisation",
        "yield",
    ];
    assert_eq!(fields(&record), BTreeSet::from(expected));
    assert_eq!(
        fields(&record["elapsed_s"]),
        BTreeSet::from(["max", "median", "min"])
    );
    assert_eq!(
        fields(&record["rescues"]),
        BTreeSet::from(["count", "delay_us_p99"])
    );
    assert_eq!(
        fields(&record["collapses"]),
        BTreeSet::from(["count", "detect_ms_max", "wasted_core_us"])
    );
    let schedulers = count(&record, "schedulers") as usize;
    for share in record["utilisation"].as_array().unwrap() {
        assert!((0.0..=1.0).contains(&share.as_f64().unwrap()), "{record}");
    }
    for sample in record["samples"].as_array().unwrap() {
        assert_eq!(
            fields(sample),
            BTreeSet::from(["class", "idle", "queues", "ratio", "time"])
        );
        let class = sample["class"].as_str().unwrap();
        assert!(["even", "minority_zero", "unbalanced"].contains(&class));
        assert!(sample["ratio"].as_f64().unwrap() >= 1.0);
        let queues = counts(&sample["queues"]);
        assert!((1..=schedulers).contains(&queues.len()), "{sample}");
        assert_eq!(class == "even", queues.iter().all(|length| *length > 0));
        assert!(counts(&sample["idle"]).len() <= queues.len());
    }
}

/// `{9,5,3} {even,1.02} {37,38}`.
#[test]
fn samples_are_printed_in_the_originals_form_when_they_changed() {
    let output = run("lab balance --no-peers --procs 50 --repeats 200 --bytes 4096 --sample-ms 1");
    let text = stdout(&output);
    let samples: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("} {").filter(|_| line.starts_with('{')))
        .map(|(_, sample)| sample)
        .filter(|sample| {
            let classes = ["even,", "minority_zero,", "unbalanced,"];
            classes.iter().any(|class| sample.starts_with(class))
        })
        .collect();
    assert!(!samples.is_empty(), "{text}");
    for sample in samples {
        let (class, queues) = sample.split_once("} {").unwrap();
        let (_, ratio) = class.split_once(',').unwrap();
        assert!(ratio.parse::<f64>().unwrap() >= 1.0, "{sample}");
        let (queues, _) = queues.split_once('}').unwrap();
        assert!(
            queues.split(',').all(|it| it.parse::<u64>().is_ok()),
            "{sample}"
        );
    }
}

#[test]
fn people_get_the_result_tables_and_a_verdict() {
    let text = stdout(&run(
        "lab balance --no-peers --procs 30 --repeats 5 --bytes 1024 --schedulers 2",
    ));
    for expected in [
        "start: 30 processes, all born on one worker, 5 x (MD5 over 1,024 bytes, 5 loops)",
        "...18 more...",
        "],[{0,",
        "30 processes are born",
        "they are released",
        "Total calls   150",
        "Native call   ",
        "Total MBytes  0.1",
        "max / min",
        "makespan / ideal",
        "native calls",
        "R15B01",
        "no collapse: ",
        "whole: each of the 30 processes did its 5 repetitions.",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn the_page_has_its_plots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let output = run(&format!(
        "lab balance --no-peers --procs 10 --repeats 5 --bytes 1024 --report {}",
        path.display()
    ));
    assert_eq!(lab::code(&output), 0, "{}", lab::stderr(&output));
    let page = fs::read_to_string(path.join("balance.html")).unwrap();
    // Unfairness, queues, workers' time, elapsed times.
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn ctrl_c_ends_it_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let running = Running::start(&format!(
        "lab balance --no-peers --procs 20 --repeats 1000000000 --bytes 64 --sample-ms 1 --json {}",
        path.display()
    ));
    running.wait_for("start: ");
    running.wait_for("} {");
    running.interrupt();
    running.wait_for("Ctrl-C");
    running.wait_for("interrupted: ");
    assert_eq!(running.wait(), 130);
    let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(sum(&record["native_calls"]) < 20 * 1_000_000_000);
    assert_eq!(record["elapsed_s"], Value::Null, "no process was through");
}
