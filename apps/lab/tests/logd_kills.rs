//! `freeboard logd` under overload and kill -9, as a user runs it.
//!
//! `FREEBOARD_LOGD_KILLS` says how often it is killed, and `FREEBOARD_LOGD_LINES` how many lines each sender of the overload
//! has; `cargo xtask soak` kills it 1,000 times.
#![cfg(unix)]

mod lab;

use std::{collections::BTreeMap, env, io::Write, net::TcpStream};

use freeboard_test_servers::eventually;
use lab::{
    Running,
    log_server::{LogServer, flood_to, number_of, numbers_in},
    run, say, stdout,
};

const SENDERS: u32 = 20;
/// Sources hold at most their bounds, and the dams theirs: far below the flood of a soak run.
const PEAK_BYTES_MAX: u64 = 768 << 20;
/// Lines that are seen before a kill are drawn from this range.
const SEEN_MAX: u64 = 2_000;

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn an_overload_loses_nothing_and_memory_stays_bounded() {
    let messages = setting("FREEBOARD_LOGD_LINES", 10_000) as u32;
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let flags = format!("--senders {SENDERS} --messages {messages} --limit 3600");
    let (code, json) = flood_to(&format!("tcp:{}", server.address), &flags);
    assert_eq!((code, &json["closed"]), (0, &0.into()), "{json}");
    let peak_bytes = server.peak_bytes();
    assert!(peak_bytes < PEAK_BYTES_MAX, "{} MiB", peak_bytes >> 20);
    let log = server.log.clone();
    server.end();
    let numbers = numbers_in(&log);
    assert_eq!(numbers.len(), SENDERS as usize);
    for (sender, numbers) in numbers {
        assert!(numbers.into_iter().eq(0..messages), "sender {sender}");
    }
}

/// Kills the server in the middle of a flood, after a reader has seen so many lines; the last numbers that it saw.
fn kill_after(server: LogServer, seen: u64) -> BTreeMap<u32, u32> {
    let log = server.log.display();
    // A reader refuses a directory in which the writer has not begun.
    let mut client = TcpStream::connect(&server.address).expect("it listens");
    client.write_all(b"ready\n").expect("it reads");
    eventually("the log has a line", || {
        stdout(&run(&format!("logs {log}"))).contains("ready")
    });
    let reader = Running::start(&format!("logs {log} --follow -n 0"));
    let flood = Running::start(&format!(
        "lab flood --to tcp:{} --senders 4 --messages 10000000",
        server.address
    ));
    let mut last = BTreeMap::new();
    for _ in 0..seen {
        let line = reader.line().expect("lines come");
        if let Some((sender, message)) = number_of(&line) {
            last.insert(sender, message);
        }
    }
    server.kill();
    assert_eq!(flood.wait(), 1, "its connections were closed");
    reader.kill();
    last
}

#[test]
#[ignore = "not yet reliable: a reader sometimes sees no line in time; `cargo xtask soak` runs it"]
fn lines_that_a_reader_has_seen_survive_kills() {
    let kills = setting("FREEBOARD_LOGD_KILLS", 5);
    let mut seed = setting("FREEBOARD_SEED", 1);
    say(&format!("FREEBOARD_SEED={seed}"));
    for kill in 0..kills {
        // A linear congruential generator: the kills differ and can be repeated.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("LOG");
        // The flood of the first life is cut, and the second life appends to what the first has left.
        let first = kill_after(LogServer::start(&log, ""), 1 + (seed >> 33) % SEEN_MAX);
        let server = LogServer::start(&log, "");
        let (code, _) = flood_to(
            &format!("tcp:{}", server.address),
            "--senders 6 --messages 10",
        );
        assert_eq!(code, 0);
        server.end();
        let numbers = numbers_in(&log);
        for (sender, last) in first {
            let lives: Vec<&[u32]> = numbers[&sender].split(|number| *number == 0).collect();
            // Number 0 begins each life; what lies between is without a gap.
            assert_eq!(lives.len(), 3, "kill {kill}, sender {sender}");
            let kept = lives[1].len() as u32;
            assert!(
                lives[1].iter().copied().eq(1..=kept),
                "kill {kill}, sender {sender}"
            );
            assert!(
                kept >= last,
                "kill {kill}, sender {sender}: {kept} of {last}"
            );
            assert!(
                lives[2].iter().copied().eq(1..10),
                "kill {kill}, sender {sender}"
            );
        }
        assert!(numbers[&5].iter().copied().eq(0..10), "kill {kill}");
    }
}
