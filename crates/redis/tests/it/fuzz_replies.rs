//! Whatever a server answers, reading it ends, panics nowhere, and is the same however it is cut.
//!
//! The bounded form of `fuzz/`, with the same checks.

use std::{fs, path::Path};

use proptest::{prelude::*, sample::Index};

use crate::common::replies::check;

/// What the fuzzer begins with.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replies");
    let files = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Bytes of which most mean something.
fn byte() -> impl Strategy<Value = u8> {
    let known = b"*$%~>|+-:,(_#!=0123456789\r\n".to_vec();
    prop_oneof![4 => prop::sample::select(known), 1 => any::<u8>()]
}

#[test]
fn seeds_are_read() {
    let seeds = seeds();
    assert!(seeds.len() >= 8);
    seeds.iter().for_each(|seed| check(seed));
    for seed in &seeds {
        (0..seed.len()).for_each(|end| check(&seed[..end]));
    }
}

proptest! {
    #[test]
    fn noise_is_read_to_an_end(noise in prop::collection::vec(byte(), 0..80)) {
        check(&noise);
    }

    #[test]
    fn changed_replies_are_read_to_an_end(
        chosen in prop::collection::vec(prop::sample::select(seeds()), 1..3),
        changes in prop::collection::vec((any::<Index>(), 0..3_usize, byte()), 1..6),
    ) {
        let mut stream = chosen.concat();
        for (place, removed, added) in changes {
            let start = place.index(stream.len() + 1);
            let end = (start + removed).min(stream.len());
            stream.splice(start..end, [added]);
        }
        check(&stream);
    }
}
