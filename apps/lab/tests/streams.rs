//! Small runs of the streams scene: whatever mode and seal, all that is written comes back. The original's writer loses
//! and inverts messages.

mod lab;

use std::{fs, process::Command};

use lab::{Running, check_usage, code, count, fields, json, run, say, stderr, stdout};
use serde_json::Value;

const SEALS: [&str; 4] = ["hmac-sha256", "hmac-sha512", "hmac-ripemd160", "blake3"];
const MODES: [&str; 4] = ["none", "interval:5", "interval:50:4096", "batch"];

/// The fields that others read.
const FIELDS: [&str; 13] = [
    "ack_us",
    "accepted_per_s",
    "cpu_s",
    "durable_per_s",
    "mb_per_s",
    "messages",
    "seal",
    "seal_unit",
    "seconds",
    "size",
    "sync",
    "verified",
    "writers",
];

/// The runs that `lab streams --json -` with these further arguments wrote.
fn streams(arguments: &str) -> Vec<Value> {
    let output = run(&format!("lab streams --no-peers --json - {arguments}"));
    let json = json(&output, "streams");
    json["runs"].as_array().expect("runs").clone()
}

/// The only one of them.
fn stream(arguments: &str) -> Value {
    let mut runs = streams(arguments);
    assert_eq!(runs.len(), 1, "{arguments}");
    runs.remove(0)
}

fn figure(run: &Value, field: &str) -> f64 {
    let figure = run[field].as_f64();
    figure.unwrap_or_else(|| panic!("{field} is a figure in {run}"))
}

/// All came back, and the figures fit each other.
fn check_run(run: &Value, messages: u64) {
    assert_eq!(run["verified"], true, "{run}");
    assert_eq!(count(run, "messages"), messages, "{run}");
    let seconds = figure(run, "seconds");
    assert!(seconds > 0.0, "{run}");
    let per_second = messages as f64 / seconds;
    let durable = figure(run, "durable_per_s");
    assert!((durable / per_second - 1.0).abs() < 1e-6, "{run}");
    assert!(figure(run, "accepted_per_s") >= durable, "{run}");
    let megabytes = durable * count(run, "size") as f64 / 1e6;
    assert!(
        (figure(run, "mb_per_s") / megabytes - 1.0).abs() < 1e-6,
        "{run}"
    );
    let late = &run["ack_us"];
    let (p50, p99, max) = (
        figure(late, "p50"),
        figure(late, "p99"),
        figure(late, "max"),
    );
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{run}");
    assert!(figure(run, "cpu_s") >= 0.0, "{run}");
}

#[test]
fn every_mode_brings_all_back() {
    for mode in MODES {
        for (writers, messages) in [(1, 1), (1, 5_000), (3, 5_000)] {
            let run = stream(&format!(
                "--sync {mode} --writers {writers} --messages {messages}"
            ));
            check_run(&run, messages);
            assert_eq!(run["sync"], mode);
            assert_eq!(run["seal"], "none");
            assert_eq!(count(&run, "writers"), writers);
        }
    }
}

#[test]
fn every_seal_verifies() {
    for seal in SEALS {
        for unit in ["record", "batch"] {
            for mode in ["none", "interval:5", "batch"] {
                let run = stream(&format!(
                    "--seal {seal} --seal-unit {unit} --sync {mode} --writers 2 --messages 3000"
                ));
                check_run(&run, 3_000);
                assert_eq!(run["seal"], seal);
                assert_eq!(run["seal_unit"], unit);
                assert_eq!(run["sync"], mode);
            }
        }
    }
}

#[test]
fn writers_and_sizes_are_swept_in_order() {
    let runs = streams("--writers 1,2 --size 128,1024 --messages 2001 --sync batch");
    let titles: Vec<(u64, u64)> = runs
        .iter()
        .map(|run| (count(run, "writers"), count(run, "size")))
        .collect();
    assert_eq!(titles, [(1, 128), (2, 128), (1, 1_024), (2, 1_024)]);
    for run in &runs {
        check_run(run, 2_001);
    }
}

#[test]
fn messages_of_any_size_and_buffers_of_any_size_are_whole() {
    for knobs in [
        "--size 1 --messages 3000 --seal hmac-sha256 --seal-unit record",
        "--size 1000000 --messages 20 --seal blake3",
        "--size 5000 --messages 300 --buffer 4096 --sync batch",
        "--size 100 --messages 3000 --buffer 4194304 --seal blake3",
        "--size 100 --messages 3 --writers 8 --sync batch",
    ] {
        let run = stream(knobs);
        assert_eq!(run["verified"], true, "{knobs}: {run}");
    }
}

#[test]
fn without_knobs_modes_and_seals_are_compared_with_a_naive_writer() {
    let output = run("lab streams --no-peers --messages 200 --json -");
    let json = json(&output, "streams");
    let runs = json["runs"].as_array().unwrap();
    let text = |run: &Value, field: &str| run[field].as_str().unwrap().to_owned();
    let titles: Vec<String> = runs
        .iter()
        .map(|run| {
            let [sync, seal, unit] = ["sync", "seal", "seal_unit"].map(|field| text(run, field));
            format!("{sync} {seal} {unit}")
        })
        .collect();
    assert_eq!(
        titles,
        [
            "none none batch",
            "interval:50 none batch",
            "batch none batch",
            "batch blake3 batch",
            "batch hmac-sha256 batch",
            "batch hmac-sha256 record",
        ]
    );
    for run in runs {
        check_run(run, 200);
    }
    assert_eq!(count(&json["naive"], "messages"), 200);
    assert_eq!(wrong(&json["naive"]), [0; 4]);
}

/// What is lost, out of order, repeated and foreign.
fn wrong(run: &Value) -> [u64; 4] {
    ["lost", "inverted", "repeated", "foreign"].map(|field| count(run, field))
}

#[test]
fn the_originals_writer_loses_and_inverts_what_the_streams_keep() {
    for (size, messages) in [
        ("128", 5_000),
        ("1", 5_000),
        ("8..300", 5_000),
        ("4096", 10),
    ] {
        let output = run(&format!(
            "lab streams --no-peers --size {size} --messages {messages} --json -"
        ));
        let json = json(&output, "streams");
        for run in json["runs"].as_array().unwrap() {
            assert_eq!(wrong(run), [0; 4], "{run}");
        }
        let original = &json["original"];
        assert_eq!(count(original, "messages"), messages, "{original}");
        let [lost, inverted, repeated, foreign] = wrong(original);
        assert_eq!((repeated, foreign), (0, 0), "{original}");
        let flushes = count(original, "flushes");
        assert!(flushes > 0 && lost > flushes, "{original}");
        // All of a block but its newest message comes after a later one. So do whole blocks that were overtaken.
        let read = count(original, "read");
        assert_eq!(read + lost, messages, "{original}");
        assert!(inverted >= read - flushes, "{original}");
        assert!(inverted < read, "{original}");
        if size == "128" {
            // A flush takes an eighth of the bytes, 625 messages, and the next message is dropped.
            assert_eq!((flushes, read), (7, 7 * 625));
            assert_eq!(lost, 7 + (5_000 - 7 * 626));
        }
    }
    let text = stdout(&run("lab streams --no-peers --messages 5000"));
    for expected in [
        "the original's writer, 128 B: 5,000 messages, flushes of 80,000 bytes",
        "Of 5,000 messages, a writer like the original's loses 625 and stores 4,3",
        " out of order. A stream loses none, keeps their order, and syncs ",
        "The original's writer accepted 5,000 messages and lost 625: the 7 that triggered a flush",
        "whole: 30,000 messages were read back",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn a_disk_that_fills_under_the_originals_writer_is_an_error_that_says_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("data")).unwrap();
    // A limit on the size of files in place of a full disk: 64 blocks of 512 or 1,024 bytes.
    let program = env!("CARGO_BIN_EXE_freeboard");
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec {program} lab streams --no-peers --messages 10000 --dir {} --json {}",
        at("data").display(),
        at("out.json").display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let says = stderr(&output);
    assert_eq!(code(&output), 1, "{says}");
    for expected in [
        "the original's writer, 128 B: ",
        " of 7 flushes could not be written: File too large",
        "of 10,000 messages are lost",
    ] {
        assert!(says.contains(expected), "{expected:?} in {says}");
    }
    let json: Value = serde_json::from_slice(&fs::read(at("out.json")).unwrap()).unwrap();
    let original = &json["original"];
    let read = count(original, "read");
    assert!(read <= 64 * 1_024 / 128, "{original}");
    assert_eq!(count(original, "lost"), 10_000 - read, "{original}");
    assert_eq!(json["runs"].as_array().unwrap().len(), 0);
    assert_eq!(fs::read_dir(at("data")).unwrap().count(), 0);
}

#[test]
fn several_producers_of_a_stream_each_keep_their_order() {
    for producer in ["thread", "actor"] {
        let runs = streams(&format!(
            "--producers 1,4 --producer {producer} --writers 1,3 --messages 10001 --size 8..200 --sync batch"
        ));
        let told = |field: &str| -> Vec<u64> { runs.iter().map(|run| count(run, field)).collect() };
        assert_eq!(told("writers"), [1, 1, 3, 3]);
        assert_eq!(told("producers"), [1, 4, 1, 4]);
        for run in &runs {
            assert_eq!(run["producer"], producer);
            assert_eq!(run["verified"], true, "{run}");
            assert_eq!(count(run, "messages"), 10_001);
            assert_eq!((count(run, "read"), wrong(run)), (10_001, [0; 4]), "{run}");
            let each = run["streams"].as_array().unwrap();
            assert_eq!(each.len() as u64, count(run, "writers"));
            let messages: u64 = each.iter().map(|it| count(it, "messages")).sum();
            assert_eq!(messages, 10_001);
        }
    }
    let text = stdout(&run(
        "lab streams --no-peers --producers 4 --producer actor --messages 1000 --sync none",
    ));
    assert!(text.contains("1 x 128 B from 4 actors, unsealed"), "{text}");
}

#[test]
fn sizes_of_a_range_follow_from_the_seed() {
    let check = |seed: &str| {
        let run = stream(&format!(
            "--size 64..8192 --messages 2000 --sync none {seed}"
        ));
        assert_eq!(wrong(&run), [0; 4], "{run}");
        assert_eq!(
            (count(&run, "size_min"), count(&run, "size_max")),
            (64, 8_192)
        );
        assert_eq!(count(&run, "size"), 4_128);
        let bytes = figure(&run, "mb_per_s") * figure(&run, "seconds") * 1e6;
        // The mean of the sizes, far within what 2,000 of them may be off.
        assert!((bytes / 2_000.0 - 4_128.0).abs() < 400.0, "{run}");
        (count(&run, "seed"), bytes.round() as u64)
    };
    assert_eq!(check(""), check("--seed 1"));
    assert_ne!(check("--seed 2").1, check("--seed 3").1);
    let text = stdout(&run(
        "lab streams --no-peers --size 64..8192 --seed 9 --messages 100 --sync none",
    ));
    assert!(
        text.contains("1 x 64..8192 B, unsealed, sync none"),
        "{text}"
    );
    assert!(text.contains(", seed 9"), "{text}");
}

#[test]
fn streams_are_added_while_others_run() {
    let output = run(
        "lab streams --no-peers --writers 3 --add-every 0.02 --messages 3001 --sync batch --json -",
    );
    let json = json(&output, "streams");
    let run = &json["runs"][0];
    check_run(run, 3_001);
    // The last one began after two pauses.
    assert!(figure(run, "seconds") >= 0.04, "{run}");
    assert_eq!(run["streams"].as_array().unwrap().len(), 3);
    let text = stderr(&output);
    assert!(text.contains("one more stream every 0.02 s"), "{text}");
    for line in ["Written writer1: rate ", " messages 1001 in "] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn ctrl_c_ends_the_writers_with_plain_files_too() {
    for said in ["the original's writer", "a sync for each"] {
        let folder = tempfile::tempdir().unwrap();
        let messages = if said.starts_with("a sync") {
            2_000
        } else {
            4_000_000
        };
        let running = Running::start(&format!(
            "lab streams --no-peers --messages {messages} --dir {}",
            folder.path().display()
        ));
        running.wait_for(said);
        running.interrupt();
        assert_eq!(running.wait(), 130, "{said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
    }
}

#[test]
fn ctrl_c_ends_the_adding_of_streams() {
    let running = Running::start(
        "lab streams --no-peers --writers 3 --add-every 3600 --messages 300 --sync none",
    );
    running.wait_for("one more stream every 3600 s");
    running.interrupt();
    assert_eq!(running.wait(), 130);
}

#[test]
fn each_flush_may_have_a_line_as_in_the_original() {
    let output = run(
        "lab streams --no-peers --flushes --buffer 65536 --messages 20000 --writers 2 --sync batch --json -",
    );
    let json = json(&output, "streams");
    let text = stderr(&output);
    let lines: Vec<&str> = text
        .lines()
        .filter(|it| it.starts_with("Written writer"))
        .collect();
    // And one for each stream at the end.
    assert_eq!(lines.len() as u64, count(&json["runs"][0], "flushes") + 2);
    let messages = |line: &&str| -> u64 {
        let words: Vec<&str> = line.split(' ').collect();
        words[6].parse().expect("messages")
    };
    assert_eq!(
        lines.iter().map(messages).sum::<u64>(),
        2 * 20_000,
        "{text}"
    );
}

#[test]
fn the_json_has_the_fields_that_others_read() {
    let run = stream("--messages 500 --sync batch");
    let found = fields(&run);
    for field in FIELDS {
        assert!(found.contains(field), "{field} in {run}");
    }
    let late = fields(&run["ack_us"]);
    assert_eq!(Vec::from_iter(late), ["max", "p50", "p99"]);
}

#[test]
fn people_get_the_originals_lines_a_table_and_a_verdict() {
    let text = stdout(&run(
        "lab streams --no-peers --messages 3001 --writers 2 --seal blake3 --sync batch",
    ));
    for expected in [
        "2 x 128 B, blake3 by batch, sync batch: 3,001 messages",
        "Written writer1: rate ",
        " MB/s messages 1501 in ",
        "Written writer2: rate ",
        " MB/s messages 1500 in ",
        "│ 2 x 128 B, blake3 by batch, sync batch",
        "whole: 3,001 messages were read back",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn what_was_written_is_removed_and_the_page_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("data")).unwrap();
    let output = run(&format!(
        "lab streams --no-peers --messages 500 --size 128,256 --sync none --dir {} --report {} --json {}",
        at("data").display(),
        at("page").display(),
        at("out.json").display()
    ));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read_dir(at("data")).unwrap().count(), 0);
    let json: Value = serde_json::from_slice(&fs::read(at("out.json")).unwrap()).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    let page = fs::read_to_string(at("page/streams.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("http"), "the page needs nothing else");
}

/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

#[test]
fn what_is_synced_to_memory_is_not_said_to_be_durable() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts.contains(&format!(" {MEMORY} tmpfs ")) {
        say("left out: there is no tmpfs in its usual place");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&format!(
        "lab streams --no-peers --messages 300 --dir {MEMORY} --report {}",
        folder.path().display()
    ));
    let text = stdout(&output);
    let warning = "Nothing here is durable: tmpfs keeps its files in memory.";
    assert!(text.contains(warning), "{text}");
    let page = fs::read_to_string(folder.path().join("streams.html")).unwrap();
    assert!(page.contains(warning), "{page}");
    assert!(page.contains("<dd>tmpfs, in memory"), "{page}");
    for claim in ["are durable", "durable/s", "messages/s durable"] {
        assert!(!text.contains(claim) && !page.contains(claim), "{claim}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("data")).unwrap();
    // More than can be written before the Ctrl-C comes, and less than the disk has room for.
    let running = Running::start(&format!(
        "lab streams --no-peers --messages 20000000 --size 1 --seal hmac-sha256 --seal-unit record \
         --sync none --dir {} --json {}",
        at("data").display(),
        at("out.json").display()
    ));
    running.wait_for("by record, sync none");
    running.interrupt();
    assert_eq!(running.wait(), 130);
    let json: Value = serde_json::from_slice(&fs::read(at("out.json")).unwrap()).unwrap();
    let run = &json["runs"][0];
    assert_eq!(run["verified"], true, "{run}");
    assert!(count(run, "messages") < 20_000_000, "{run}");
    assert_eq!(fs::read_dir(at("data")).unwrap().count(), 0);
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (knobs, says) in [
        ("--writers 0", "--writers"),
        ("--writers 65", "--writers"),
        ("--writers 1,many", "--writers"),
        ("--size 0", "--size"),
        ("--size 16777217", "--size"),
        ("--size 64..", "--size"),
        ("--size 8192..64", "--size"),
        ("--size 0..64", "--size"),
        ("--size 64..16777217", "--size"),
        ("--size 7 --producers 2", "--size"),
        ("--seed many", "--seed"),
        ("--producers 0", "--producers"),
        ("--producers 65", "--producers"),
        ("--producer crowd", "--producer"),
        ("--add-every 0", "--add-every"),
        ("--add-every never", "--add-every"),
        ("--messages 0", "--messages"),
        ("--messages -1", "-1"),
        ("--messages 1000000000000", "--messages"),
        ("--messages 1000000000000 --size 16777216", "--messages"),
        ("--buffer 0", "--buffer"),
        ("--buffer 4095", "--buffer"),
        ("--buffer 536870913", "--buffer"),
        ("--buffer 18446744073709551615", "--buffer"),
        ("--buffer large", "--buffer"),
        ("--seal md5", "--seal"),
        ("--seal-unit page", "--seal-unit"),
        ("--sync sometimes", "--sync"),
        ("--sync interval", "--sync"),
        ("--sync interval:soon", "--sync"),
        ("--key-file /nonexistent/key", "/nonexistent/key"),
        ("--key-env FREEBOARD_NO_SUCH_KEY", "FREEBOARD_NO_SUCH_KEY"),
        ("--key-file x --key-env X", "--key-env"),
        ("--dir /dev/null/data", "/dev/null/data"),
        ("--dir /no/such/folder", "/no/such/folder"),
        ("--json /nonexistent/out.json", "/nonexistent/out.json"),
        ("--report /dev/null/page", "/dev/null/page"),
    ] {
        check_usage(&format!("lab streams --no-peers {knobs}"), says);
    }
}
