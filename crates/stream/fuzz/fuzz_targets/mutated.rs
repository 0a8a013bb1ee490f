//! A whole stream, and what happens to its files: the first byte says which stream, each eight that
//! follow one change. What is read must be what was written.
//!
//! ```text
//! cargo +nightly fuzz run --fuzz-dir crates/stream/fuzz mutated -- -max_len=129
//! ```

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use freeboard_stream::MasterKey;
use libfuzzer_sys::fuzz_target;
use support::{
    KEY,
    decode::decode,
    mutation::Mutated,
    samples::{Sample, sample},
};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, chances)) = bytes.split_first() else {
        return;
    };
    let Sample {
        maker,
        written,
        segments,
    } = sample(*kind);
    let mutated = Mutated::new(&segments, chances.as_chunks().0);
    let key = MasterKey::new(KEY).expect("it is long enough");
    let key = Some(&key).filter(|_| maker.algorithm.is_sealed());
    // Without a key, a forger is believed.
    let is_provable = key.is_some() || !mutated.is_forged();
    decode(
        &mutated.memory,
        key,
        is_provable.then_some(written.as_slice()),
    );
});
