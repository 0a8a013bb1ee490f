//! A whole stream with changed files: the first byte chooses the stream, each eight that follow one change. Records that
//! are read must be records that were written.
//!
//! ```text
//! cargo xtask fuzz --only mutated
//! ```

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use support::{
    decode::decode,
    key,
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
    let key = key();
    let key = Some(&key).filter(|_| maker.algorithm.is_sealed());
    // Without a key, a forger is believed.
    let is_provable = key.is_some() || !mutated.is_forged();
    let written = is_provable.then_some(written.as_slice());
    decode(&mutated.memory, key, written);
});
