//! A small run of the cluster scene: no report is lost or written by two epochs, whatever happens to the processes.
#![cfg(unix)]

mod lab;

use freeboard_test_servers::{JetStream, if_installed, nats};
use lab::{check_usage, count, json, run};

#[test]
fn what_several_processes_keep_is_written_by_one_epoch_at_a_time() {
    if if_installed(nats(JetStream::On, "")).is_none() {
        return;
    }
    let output = run(
        "lab cluster --devices 300 --rate 200 --calm 1 --fault 2 --ttl 0.5 --partitions 12 --json -",
    );
    let document = json(&output, "cluster");
    let runs = document["runs"].as_array().unwrap();
    let processes: Vec<u64> = runs.iter().map(|it| count(it, "processes")).collect();
    assert_eq!(processes, [1, 3]);
    for run in runs {
        for fault in ["of_two_epochs", "lost", "twice"] {
            assert_eq!(count(run, fault), 0, "{fault}: {run}");
        }
        let ends = run["ends"].as_object().unwrap().values();
        let sum: u64 = ends.map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(count(run, "offered"), sum, "{run}");
        assert!(count(run, "written") >= 300, "{run}");
        // A partition that moves has another epoch.
        assert!(count(run, "epochs") > 12, "{run}");
        let deeds: Vec<&str> = run["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["deed"].as_str().unwrap())
            .collect();
        assert_eq!(deeds, ["kill", "add", "pause", "resume", "cut", "mend"]);
    }
    let in_faults = |run: usize| runs[run]["goodput_in_faults_per_s"].as_f64().unwrap();
    assert!(in_faults(1) > in_faults(0), "{document}");
}

#[test]
fn bad_usage_is_said() {
    check_usage("lab cluster --nodes 0", "0");
    check_usage("lab cluster --ttl 0.1", "--ttl");
}
