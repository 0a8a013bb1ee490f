//! Bad usage, a full disk, readers that go away, Ctrl-C: a clear word, and nothing lost unsaid.

mod lab;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use lab::{
    Running, assert_adds_up, check_usage, code, command, count, run, run_with_input, stderr, stdout,
};
use serde_json::Value;

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (knobs, says) in [
        ("--senders 0", "--senders"),
        ("--senders 100001", "--senders"),
        ("--senders many", "--senders"),
        ("--messages 0", "--messages"),
        ("--messages -1", "-1"),
        ("--messages 99999999999999999999", "--messages"),
        ("--senders 100000 --messages 1000000000", "available"),
        ("--workers 0", "--workers"),
        ("--limit 0", "--limit"),
        ("--watch=0", "--watch"),
        ("--watch=nan", "--watch"),
        ("--route roundabout", "--route"),
        ("--receive never", "--receive"),
        ("--sink kitchen", "--sink"),
        ("--dam credit:0", "window"),
        ("--dam poll:10", "poll:THRESHOLD:WAIT"),
        ("--dam poll:10:soon", "wait"),
        ("--flood", "--flood"),
        ("--route direct --dam credit:5", "--dam"),
        ("--sink none --file /tmp/x", "--file"),
        ("--input - --messages 5", "--messages"),
        ("--input /nonexistent/log", "/nonexistent/log"),
        ("--input /", "/"),
        ("--input /dev/null", "no lines"),
        ("--file /nonexistent/out.log", "/nonexistent/out.log"),
        ("--json /nonexistent/out.json", "/nonexistent/out.json"),
        ("--report /dev/null/page", "/dev/null/page"),
    ] {
        check_usage(&format!("lab flood {knobs}"), says);
    }
    check_usage("lab roundabout", "roundabout");
    check_usage("flood", "flood");
}

#[test]
fn the_other_scenes_say_so_too() {
    for (arguments, says) in [
        ("balance --schedulers 0", "--schedulers"),
        ("balance --schedulers 2 --online 3", "--online 3"),
        ("balance --online 0", "--online"),
        ("balance --procs 0", "--procs"),
        ("balance --bytes 0", "--bytes"),
        ("balance --repeats -1", "-1"),
        ("balance --run 1 2 3", "--run"),
        ("balance --run 1 2 3 4 5", "5"),
        ("balance --run 0 1 1 1", "N is 0"),
        ("balance --run 1 1 1 1 --spin 4", "--spin"),
        ("balance --place nowhere", "--place"),
        ("balance --native dance", "--native"),
        ("balance --fault all", "--fault"),
        ("balance --sleep-ms 5", "--native sleep"),
        ("balance --native sleep --bytes 5", "--native cpu"),
        ("balance --sample-ms 0", "--sample-ms"),
        ("balance --interval 0", "--interval"),
        (
            "balance --json /nonexistent/out.json",
            "/nonexistent/out.json",
        ),
        ("ring --messages 0", "--messages"),
        ("ring --ring 0", "--ring"),
        ("ring --ring 1048577", "--ring"),
        ("ring --producers 0", "--producers"),
        ("ring --priorities 0", "--priorities"),
        ("ring --priorities 1,9", "--priorities"),
        ("ring --wait forever", "--wait"),
        ("ring --report /dev/null/page", "/dev/null/page"),
    ] {
        check_usage(&format!("lab {arguments}"), says);
    }
}

#[test]
fn the_input_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    fs::write(&log, "precious\n").unwrap();
    let path = log.display();
    check_usage(
        &format!("lab flood --input {path} --file {path}"),
        "overwrite",
    );
    assert_eq!(fs::read_to_string(&log).unwrap(), "precious\n");
}

#[test]
fn help_is_no_error() {
    for arguments in [
        "--help",
        "--version",
        "lab --help",
        "lab flood --help",
        "lab balance --help",
        "lab ring --help",
        "lab streams --help",
        "stream --help",
        "stream append --help",
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 0, "{arguments}");
        assert!(!stdout(&output).is_empty(), "{arguments}");
    }
    let output = run("lab --help");
    for scene in ["flood", "balance", "ring", "streams"] {
        assert!(stdout(&output).contains(scene), "{scene}");
    }
}

#[test]
fn standard_input_may_be_empty() {
    let output = run_with_input("lab flood --input -", b"");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("no lines"), "{}", stderr(&output));
}

#[test]
fn a_full_disk_ends_the_run_with_what_was_written_and_what_was_not() {
    for knobs in [
        "--route direct",
        "--route direct --sink raw",
        "--route direct --hold",
        "--receive scan",
        "--dam credit:10",
        "--dam poll:10:1ms",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("out.json");
        let output = run(&format!(
            "lab flood --senders 10 --messages 2000 --file /dev/full --json {} {knobs}",
            json.display()
        ));
        assert_eq!(code(&output), 1, "{knobs}: {}", stdout(&output));
        let text = stderr(&output);
        assert!(text.contains("No space left"), "{knobs}: {text}");
        assert!(text.contains(" 0 lines were written"), "{knobs}: {text}");
        assert!(!text.contains("panicked"), "{knobs}: {text}");
        let json: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let run = &json["runs"][0];
        assert_eq!(count(run, "written"), 0);
        assert_eq!(count(run, "accepted"), count(run, "shed"));
        assert_eq!(run["verified"], false);
    }
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let arguments = format!(
        "lab flood --senders 5 --messages 200 --json {}",
        json.display()
    );
    let mut child = command(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    let json: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 4);
}

#[test]
fn ctrl_c_ends_a_flood_in_order() {
    for knobs in ["--dam poll:10:1s", "--dam credit:2 --sink raw --hold"] {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("out.json");
        // At ten lines a second, or with two hundred million to be sent first: it will not be done.
        let messages = if knobs.contains("--hold") {
            400_000
        } else {
            1_000
        };
        let running = Running::start(&format!(
            "lab flood --senders 20 --messages {messages} --watch=0.05 --json {} {knobs}",
            json.display()
        ));
        running.wait_for("Z\t");
        running.interrupt();
        running.wait_for("Ctrl-C");
        assert_eq!(running.wait(), 130, "{knobs}");
        let json: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let run = &json["runs"][0];
        assert_adds_up(run);
        assert!(count(run, "accepted") <= 20 * messages);
    }
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let mut running = Running::start("lab flood --dam poll:10:30s --watch=0.05");
    running.wait_for("Z\t");
    running.interrupt();
    running.wait_for("Ctrl-C");
    // What comes right behind the first one is taken for the same: until it is not.
    let code = loop {
        running.interrupt();
        if let Some(code) = running.ended() {
            break code;
        }
    };
    assert_eq!(code, 130);
}

#[test]
fn json_of_an_earlier_run_stays_until_there_is_another() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("old.json");
    fs::write(&path, "old").expect("a file");
    let file = path.display();
    check_usage(
        &format!("lab flood --trials --file x --json {file}"),
        "--file",
    );
    check_usage(
        &format!("lab flood --input /nonexistent --json {file}"),
        "/nonexistent",
    );
    assert_eq!(fs::read_to_string(&path).expect("the file"), "old");
    let output = run(&format!(
        "lab flood --no-peers --route direct --senders 1 --messages 1 --json {file}"
    ));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = fs::read_to_string(&path).expect("the file");
    let json: Value = serde_json::from_str(&text).expect("the new JSON");
    assert_eq!(json["scene"], "flood");
}
