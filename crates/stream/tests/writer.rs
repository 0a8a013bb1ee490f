//! Writing, closing and going on.

use freeboard_flow::{LaneConfig, Overload};
use freeboard_stream::{
    AppendError, BufferSize, MasterKey, OpenError, StreamOptions, SyncMode,
    format::{Algorithm, SealUnit},
};

fn key() -> MasterKey {
    MasterKey::new(b"a key of the tests of the writer").unwrap()
}

#[test]
fn a_stream_goes_on_where_it_was_closed() {
    let modes = ["none", "interval:5", "batch"];
    for (algorithm, mode) in Algorithm::ALL.into_iter().zip(modes.into_iter().cycle()) {
        for unit in [SealUnit::Record, SealUnit::Batch] {
            let directory = tempfile::tempdir().unwrap();
            let options = StreamOptions::new()
                .seal(algorithm, unit)
                .key(key())
                .sync(mode.parse::<SyncMode>().unwrap())
                .segment_bytes(64 << 10);
            let mut head = None;
            for opening in 0..3 {
                let stream = options.open(directory.path()).unwrap();
                assert_eq!(stream.sequences().durable, opening * 100);
                for index in 1..=100 {
                    let ticket = stream.append(&vec![7; 1_000]).unwrap();
                    if index % 10 == 0 {
                        assert_eq!(ticket.wait(), Ok(opening * 100 + index));
                    }
                }
                let closed = stream.close().unwrap().unwrap();
                assert_eq!(closed.sequence, (opening + 1) * 100);
                assert_ne!(head, Some(closed));
                head = Some(closed);
            }
        }
    }
}

#[test]
fn two_writers_on_one_stream_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = StreamOptions::new().open(directory.path()).unwrap();
    let second = StreamOptions::new().open(directory.path());
    assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    drop(first);
    StreamOptions::new().open(directory.path()).unwrap();
}

#[test]
fn records_of_all_sizes_are_taken_up_to_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .memory(LaneConfig::bounded(256 << 20))
        .record_bytes_max(64 << 20)
        .open(directory.path())
        .unwrap();
    let last = [0, 1, 4_088, 1 << 20, 64 << 20]
        .map(|bytes| stream.append(&vec![1; bytes]).unwrap())
        .map(|ticket| ticket.wait().unwrap());
    assert_eq!(last, [1, 2, 3, 4, 5]);
    let refused = stream.append(&vec![1; (64 << 20) + 1]).unwrap_err();
    let limit = 64 << 20;
    assert_eq!(
        refused,
        AppendError::TooLarge {
            bytes: limit + 1,
            limit
        }
    );
    stream.close().unwrap();
}

#[test]
fn what_was_accepted_and_what_was_refused_add_up_when_memory_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .memory(LaneConfig::bounded(128 << 10).overload(Overload::Reject))
        .buffer(BufferSize::Bytes(32 << 10))
        .shards(1)
        .open(directory.path())
        .unwrap();
    let mut accepted = 0;
    for _ in 0..10_000 {
        match stream.append(&[3; 1_000]) {
            Ok(_ticket) => accepted += 1,
            Err(error) => assert_eq!(error, AppendError::Full),
        }
    }
    assert_eq!(stream.flush().unwrap(), accepted);
    let snapshot = stream.snapshot();
    assert_eq!(snapshot.durable + snapshot.records_refused, 10_000);
    assert!(snapshot.memory_bytes <= 128 << 10);
}

#[test]
fn producers_keep_their_order_and_wait_for_room() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .memory(LaneConfig::bounded(256 << 10))
        .buffer(BufferSize::Bytes(16 << 10))
        .shards(2)
        .open(directory.path())
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let stream = stream.clone();
            scope.spawn(move || {
                let mut last = 0;
                let tickets: Vec<_> = (0..2_000)
                    .map(|_| stream.append(&[5; 500]).unwrap())
                    .collect();
                for ticket in tickets {
                    let sequence = ticket.wait().unwrap();
                    assert!(sequence > last, "{sequence} after {last}");
                    last = sequence;
                }
            });
        }
    });
    assert_eq!(stream.flush().unwrap(), 8_000);
}
