//! A small stream on a simulated disk that loses power, or fails, at each of its calls in turn.

use std::time::Duration;

use crate::crash::{Case, Dice, Ending, Life, Stream};
use freeboard_stream::{
    BufferSize, Retention, SyncMode,
    format::{Algorithm, SealUnit},
    storage::simulated::{Fault, SimulatedSettings},
};

/// More calls than opening, writing and closing the small stream takes.
const CALLS: u64 = 120;

fn small(seed: u64, is_direct: bool) -> Case {
    Case {
        algorithm: Algorithm::Blake3,
        unit: SealUnit::Batch,
        disk: SimulatedSettings {
            seed,
            is_direct,
            ..SimulatedSettings::default()
        },
        buffer: BufferSize::Bytes(16 << 10),
        segment_bytes: 64 << 10,
        retention: Retention::default(),
        shards: 1,
        producers: 1,
        records_max: 24,
        record_bytes_max: 8_192,
    }
}

/// A life that is closed, one that `broken` plans for a call, and two that are closed.
#[track_caller]
fn check(broken: fn(u64) -> Life) {
    check_on(true, broken);
}

/// The same on a file system that has direct I/O, or has none.
#[track_caller]
fn check_on(is_direct: bool, broken: fn(u64) -> Life) {
    let whole = Life {
        sync: SyncMode::Batch,
        ending: Ending::Closed,
        faults: Vec::new(),
    };
    for call in 1..=CALLS {
        let case = small(call, is_direct);
        let mut stream = Stream::new(&case);
        let mut dice = Dice::new(call);
        for life in [&whole, &broken(call), &whole, &whole] {
            let lived = stream.live(life, &mut dice);
            assert_eq!(lived, Ok(true), "call {call}, {life:?}");
        }
    }
}

#[test]
fn the_power_fails_at_each_call() {
    check(|call| Life {
        sync: SyncMode::Batch,
        ending: Ending::PowerFails { call },
        faults: Vec::new(),
    });
}

#[test]
fn each_call_fails_for_the_device() {
    check(|call| Life {
        sync: SyncMode::Batch,
        ending: Ending::Closed,
        faults: vec![(call, Fault::Io)],
    });
}

#[test]
fn each_call_fails_for_room() {
    check(|call| Life {
        sync: SyncMode::Batch,
        ending: Ending::Closed,
        faults: vec![(call, Fault::Full)],
    });
}

#[test]
fn each_call_and_the_next_fail_for_the_device_without_direct_io() {
    check_on(false, |call| failing_twice(SyncMode::Batch, call));
    let interval = |call| {
        let (time, bytes) = (Duration::from_millis(1), 16 << 10);
        failing_twice(SyncMode::Interval { time, bytes }, call)
    };
    check_on(false, interval);
}

/// The second failure is that of the recovery from the first, or of another process.
fn failing_twice(sync: SyncMode, call: u64) -> Life {
    Life {
        sync,
        ending: Ending::Killed,
        faults: vec![(call, Fault::Io), (call + 1, Fault::Io)],
    }
}

#[test]
fn the_power_fails_at_each_call_without_direct_io() {
    check_on(false, |call| Life {
        sync: SyncMode::Batch,
        ending: Ending::PowerFails { call },
        faults: Vec::new(),
    });
}
