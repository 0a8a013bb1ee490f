//! `freeboard logd` under overload, as a user runs it. `FREEBOARD_LOGD_LINES` says how many lines each sender has.
#![cfg(unix)]

mod lab;

use std::env;

use lab::log_server::{LogServer, flood_to, numbers_in};

const SENDERS: u32 = 20;
/// Sources hold at most their bounds, and the dams theirs: far below the flood of a soak run.
const PEAK_BYTES_MAX: u64 = 768 << 20;

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
