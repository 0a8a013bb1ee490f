//! The memory of the process while many more bytes are written than the keys may hold. It has its own process
//! because it measures the memory of the process.
#![cfg(target_os = "linux")]

#[path = "it/common/mod.rs"]
mod common;

use common::{Peer, embedded, open, request};
use freeboard_redis_embedded::EmbeddedOptions;
use freeboard_test_servers::resident_bytes;

#[test]
fn the_process_takes_little_of_what_is_written() {
    let bytes_max = 16 << 20;
    let options = EmbeddedOptions {
        bytes_max,
        seed: Some(7),
        ..open()
    };
    let (_system, server) = embedded(options);
    let mut peer = Peer::connect(server.address());
    let before = resident_bytes();
    let mut written = 0;
    // Small values first, whose entries cost the most beside them.
    for round in 0..300_usize {
        let mut requests = Vec::new();
        for number in 0..1_000 {
            let key = format!("key:{}", round * 1_000 + number);
            let value = vec![7; round * 7 + number % 13];
            requests.extend(request(&[&b"SET"[..], key.as_bytes(), &value]));
        }
        written += requests.len();
        peer.send(&requests);
        peer.expect(&b"+OK\r\n".repeat(1_000));
    }
    let figures = server.snapshot();
    assert!(written > 16 * bytes_max && figures.evicted > 0 && figures.bytes <= bytes_max);
    let grown = resident_bytes().saturating_sub(before);
    // The sanitizer keeps freed memory in quarantine.
    if std::env::var_os("FREEBOARD_SANITIZER").is_some() {
        return;
    }
    // Values that grow leave holes behind, which no later one fits in: the allocator's, and counted nowhere.
    assert!(grown < 4 * bytes_max, "{grown} bytes more");
}
