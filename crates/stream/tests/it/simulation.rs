//! A stream whose threads, time and disk are a simulation's.

use std::{sync::Arc, time::Duration};

use freeboard_platform::thread;
use freeboard_stream::{
    ReaderOptions, StreamOptions,
    storage::simulated::{SimulatedDisk, SimulatedSettings},
};

use crate::crash::seeds::{for_seeds, simulate};

/// A reader that follows gets each record, whichever of the threads runs first.
fn follow(seed: u64) -> Result<(), String> {
    let disk = SimulatedDisk::new(SimulatedSettings {
        seed,
        latency_max: Duration::from_millis(5),
        ..SimulatedSettings::default()
    });
    let options = StreamOptions::new().segment_bytes(64 << 10);
    let writer = options.open_on(Arc::new(disk.clone())).unwrap();
    let reader = ReaderOptions::new().follow(true);
    let mut reader = reader.open_on(Arc::new(disk)).unwrap();
    let stop = reader.stop_handle();
    let following = thread::Builder::new().name("follower".to_owned());
    let following = following.spawn(move || {
        let sequences = reader.by_ref().map(|record| record.unwrap().sequence);
        sequences.collect::<Vec<_>>()
    });
    let following = following.unwrap();
    let mut last = 0;
    for number in 0..40_u32 {
        last = writer
            .append(&[number as u8; 4_000])
            .unwrap()
            .wait()
            .unwrap();
        if number % 8 == 0 {
            thread::sleep(Duration::from_secs(1));
        }
    }
    thread::sleep(Duration::from_secs(1));
    stop.stop();
    let found = following.join().unwrap();
    writer.close().unwrap();
    match found.into_iter().eq(1..=last) {
        true => Ok(()),
        false => Err(format!("the reader has not found all records up to {last}")),
    }
}

#[test]
fn a_reader_follows_in_virtual_time() {
    for_seeds(50, |seed| simulate(seed, follow).map(drop));
}
