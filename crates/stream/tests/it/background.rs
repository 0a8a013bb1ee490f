//! What the writer's threads do, going wrong.

use std::{sync::Arc, thread, time::Duration};

use crate::support::{eventually, gate::Gate};
use freeboard_stream::{
    AppendError, BufferSize, ReaderOptions, Retention, StreamOptions, SyncMode,
    format::segment_name,
    storage::{
        Storage,
        simulated::{Fault, Operation, SimulatedDisk, SimulatedSettings},
    },
};

/// Far beyond what any of it takes.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn what_was_written_before_the_disk_was_full_is_synced_in_time() {
    let disk = SimulatedDisk::new(SimulatedSettings {
        capacity_bytes: Some(140 << 10),
        ..SimulatedSettings::default()
    });
    let time = Duration::from_millis(50);
    let bytes = u64::MAX;
    let options = StreamOptions::new()
        .sync(SyncMode::Interval { time, bytes })
        .segment_bytes(64 << 10)
        .buffer(BufferSize::Bytes(4_096));
    let stream = options.open_on(Arc::new(disk.clone())).unwrap();
    let mut first = stream.append(&[1; 2_000]).unwrap();
    let refused = loop {
        if let Err(refused) = stream.append(&[1; 2_000]) {
            break refused;
        }
    };
    assert_eq!(refused, AppendError::DiskFull);
    assert_eq!(first.wait_timeout(LONG), Some(Ok(1)));
    disk.set_capacity(None);
    stream.close().unwrap();
}

#[test]
fn closing_tells_of_a_sync_that_failed_in_the_background() {
    let gate = Arc::new(Gate::new());
    gate.hold_next_sync();
    let options = StreamOptions::new().sync(SyncMode::None);
    let stream = options
        .segment_bytes(64 << 10)
        .open_on(gate.clone())
        .unwrap();
    for _ in 0..10 {
        stream.append(&[1; 10_000]).unwrap().wait().unwrap();
    }
    gate.wait_until_held();
    let closing = stream.clone();
    let closing = thread::spawn(move || closing.close());
    gate.fail_held_sync();
    // If it failed before closing began, the stream was read again, and stands on what the disk has.
    let closed = closing.join().unwrap();
    assert!(closed.is_err() || stream.snapshot().reopenings > 0);
    assert!(stream.fault().unwrap().contains("sync"));
}

#[test]
fn a_segment_that_cannot_be_removed_leaves_no_gap() {
    let gate = Arc::new(Gate::new());
    let options = StreamOptions::new()
        .segment_bytes(64 << 10)
        .retention(Retention {
            bytes: Some(256 << 10),
            ..Retention::default()
        });
    let stream = options.open_on(gate.clone()).unwrap();
    gate.fail_next_rename();
    for sequence in 1..=200 {
        let ticket = stream.append(&[9; 10_000]).unwrap();
        assert_eq!(ticket.wait(), Ok(sequence));
    }
    // The thread that removes segments may not have run yet.
    eventually("the removal has failed", || {
        let fault = stream.fault().unwrap_or_default();
        fault.contains("could not be removed")
    });
    stream.close().unwrap();
    let again = options.open_on(gate).unwrap();
    assert_eq!(again.append(b"the next").unwrap().wait(), Ok(201));
    // By a thread of its own, as above.
    eventually("no more is kept", || {
        again.snapshot().segment_bytes <= 256 << 10
    });
}

/// Two writes are on their way through the page cache, and the sync of the second fails for the pages
/// of both. The first must learn of it, or its record is lost and acknowledged.
#[test]
fn a_write_learns_of_its_own_loss_when_the_sync_beside_it_has_failed() {
    for seed in 0..16 {
        let gate = Arc::new(Gate::on(SimulatedSettings {
            seed,
            is_direct: false,
            ..SimulatedSettings::default()
        }));
        let options = StreamOptions::new()
            .segment_bytes(64 << 10)
            .buffer(BufferSize::Bytes(4_096))
            .shards(1);
        let stream = options.open_on(gate.clone()).unwrap();
        stream.append(b"begins segment 1").unwrap().wait().unwrap();
        // Nothing else syncs once the next segment is ready.
        eventually("segment 2 is ready", || {
            gate.list().unwrap().contains(&segment_name(2))
        });
        gate.hold_next_sync();
        let first = stream.append(b"the first").unwrap();
        let first = thread::spawn(move || first.wait());
        gate.wait_until_held();
        gate.disk().fail_next(Operation::Sync, Fault::Io);
        // The second finds no room behind the first, whose full buffer is written.
        for _ in 0..2 {
            drop(stream.append(&[2; 2_000]).unwrap());
        }
        eventually("the second write has failed", || stream.fault().is_some());
        gate.release_held_sync();
        let first = first.join().unwrap();
        drop(stream);
        let disk = gate.disk().reboot();
        let reader = ReaderOptions::new().open_on(Arc::new(disk)).unwrap();
        let is_kept = reader
            .flatten()
            .any(|record| record.payload == b"the first");
        assert!(
            first.is_err() || is_kept,
            "seed {seed}: {first:?}, and it is lost"
        );
    }
}

/// The first write of a stream's life is in the page cache when a reader is opened, and its sync fails. If the header is
/// lost, another file gets the segment's name, and another record the sequence.
#[test]
fn a_reader_does_not_stay_in_a_file_that_a_failed_sync_has_lost() {
    let mut lost = 0;
    for seed in 0..16 {
        let gate = Arc::new(Gate::on(SimulatedSettings {
            seed,
            is_direct: false,
            ..SimulatedSettings::default()
        }));
        let options = StreamOptions::new().segment_bytes(64 << 10);
        let stream = options.open_on(gate.clone()).unwrap();
        gate.hold_next_sync();
        let first = stream.append(b"first").unwrap();
        gate.wait_until_held();
        eventually("segment 2 is ready, so that nothing else syncs", || {
            gate.list().unwrap().contains(&segment_name(2))
        });
        let mut reader = ReaderOptions::new().open_on(gate.clone()).unwrap();
        gate.disk().fail_next(Operation::Sync, Fault::Io);
        gate.release_held_sync();
        assert!(first.wait().is_err());
        eventually("the stream was read again", || {
            stream.snapshot().reopenings == 1
        });
        if stream.append(b"second").unwrap().wait().unwrap() == 1 {
            lost += 1;
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.payload, b"second", "seed {seed}");
        }
    }
    assert!(lost > 0);
}
