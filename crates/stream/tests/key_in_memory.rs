//! Whether the master key is in the memory of a process that writes. A process of its own: other tests
//! hold keys.

#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

use freeboard_stream::{Algorithm, MasterKey, SealUnit, StreamOptions};

/// Longer than a block of the hash, through which a key goes in pieces.
const KEY_BYTES: usize = 256;
const MASK: u8 = 0x5a;
const PIECE_BYTES: usize = 64 << 10;

/// A key that stands nowhere in memory as it is.
fn masked() -> Vec<u8> {
    (0..KEY_BYTES).map(|at| (at * 7 + at / 64) as u8).collect()
}

/// How often the key is in what this process may write to.
fn copies(masked: &[u8]) -> usize {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut copies = 0;
    for line in fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next().unwrap().split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        if !fields.next().unwrap().starts_with("rw") {
            continue;
        }
        // Pieces overlap by what a key may reach over.
        let mut piece = vec![0; PIECE_BYTES + KEY_BYTES];
        for at in (begin..end).step_by(PIECE_BYTES) {
            let Ok(read) = memory.read_at(&mut piece, at) else {
                break;
            };
            let is_key = |bytes: &&[u8]| bytes.iter().zip(masked).all(|(a, b)| *a == b ^ MASK);
            copies += piece[..read].windows(KEY_BYTES).filter(is_key).count();
        }
        piece.fill(0);
    }
    copies
}

#[test]
fn a_writer_does_not_keep_the_master_key() {
    // The sanitizer keeps what was freed, and maps terabytes.
    if std::env::var_os("FREEBOARD_SANITIZER").is_some() {
        return;
    }
    let masked = masked();
    let directory = tempfile::tempdir().unwrap();
    let mut key: Vec<u8> = masked.iter().map(|byte| byte ^ MASK).collect();
    let options = StreamOptions::new()
        .seal(Algorithm::Blake3, SealUnit::Batch)
        .key(MasterKey::new(&key).unwrap())
        .segment_bytes(64 << 10);
    key.fill(0);
    std::hint::black_box(&key);
    assert!(copies(&masked) > 0, "the options have it");
    let stream = options.open(directory.path()).unwrap();
    drop(options);
    // Over several segments.
    for _ in 0..20 {
        stream.append(&[7; 10_000]).unwrap().wait().unwrap();
    }
    assert_eq!(copies(&masked), 0);
    stream.close().unwrap();
}
