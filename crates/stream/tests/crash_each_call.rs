//! A small stream on a simulated disk that loses power, or fails, at each of its calls in turn.

mod crash;

use crash::{Case, Dice, Ending, Life, Stream};
use freeboard_stream::{
    BufferSize, Retention, SyncMode,
    format::{Algorithm, SealUnit},
    storage::simulated::{Fault, SimulatedSettings},
};

/// More calls than opening, writing and closing the small stream takes.
const CALLS: u64 = 120;

fn small(seed: u64) -> Case {
    Case {
        algorithm: Algorithm::Blake3,
        unit: SealUnit::Batch,
        disk: SimulatedSettings {
            seed,
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
    let whole = Life {
        sync: SyncMode::Batch,
        ending: Ending::Closed,
        faults: Vec::new(),
    };
    for call in 1..=CALLS {
        let case = small(call);
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
