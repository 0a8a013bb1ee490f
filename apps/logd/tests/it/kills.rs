//! kill -9 loses no acknowledged line. `FREEBOARD_LOGD_KILLS` says how often it is killed; `cargo xtask soak` does it 1,000
//! times.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
};

use bytes::Bytes;
use freeboard_logd::{Config, Framing, Intake};

use crate::common::{Rig, lines_of, stream_sink};

/// The child's directory.
const DIRECTORY: &str = "LOGD_TEST_KILLED";
const ROUND: &str = "LOGD_TEST_ROUND";

/// A server in a process of its own, which prints each line that is durable, until it is killed.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let round = std::env::var(ROUND).expect("a number");
    let rig = Rig::start(Config::new(vec![stream_sink(Path::new(&directory))]));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let (sender, durable) = mpsc::sync_channel(64);
    let printing = std::thread::spawn(move || {
        let mut out = std::io::stdout();
        for line in durable {
            writeln!(out, "durable {line}").expect("the parent reads");
        }
    });
    for number in 0..1_000_000 {
        let line = format!("round {round} line {number}");
        let bytes = Bytes::from(line.clone() + "\n");
        let sender = sender.clone();
        let done = move |is_durable: bool| {
            assert!(is_durable, "nothing is shed");
            let _ = sender.send(line);
        };
        let _ = intake.feed(bytes, 1, Some(Box::new(done)));
    }
    drop(sender);
    printing.join().expect("it prints");
}

/// Starts the child, kills it after so many acknowledged lines, and returns these.
fn run_and_kill(directory: &Path, round: usize, lines: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "kills::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut acknowledged = Vec::new();
    for line in out.lines().map_while(Result::ok) {
        if let Some(line) = line.strip_prefix("durable ") {
            acknowledged.push(line.to_owned());
        }
        if acknowledged.len() == lines {
            child.kill().expect("it runs");
        }
    }
    assert!(
        !child.wait().expect("it has ended").success(),
        "it was killed"
    );
    acknowledged
}

#[test]
fn acknowledged_lines_survive_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    let kills = std::env::var("FREEBOARD_LOGD_KILLS");
    let kills = kills.map_or(4, |value| value.parse().expect("a number"));
    let mut acknowledged = Vec::new();
    for (round, lines) in [1, 200, 37, 500]
        .into_iter()
        .cycle()
        .take(kills)
        .enumerate()
    {
        acknowledged.extend(run_and_kill(directory.path(), round, lines));
    }
    let kept = lines_of(directory.path());
    let kept: HashSet<&str> = kept.iter().map(|(_, _, text)| text.as_str()).collect();
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|line| !kept.contains(line.as_str()))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(acknowledged.len() >= kills);
}
