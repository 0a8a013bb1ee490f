//! Writing, closing and going on.

use std::time::{Duration, Instant};

use freeboard_flow::{LaneConfig, Overload};
use freeboard_stream::{
    AppendError, BufferSize, MasterKey, OpenError, StreamOptions, SyncMode, TicketError,
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
fn a_second_writer_is_refused_though_the_lock_file_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let stream = StreamOptions::new().open(path).unwrap();
    std::fs::remove_file(path.join("stream.lock")).unwrap();
    for _ in 0..2 {
        let second = StreamOptions::new().open(path);
        assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    }
    stream.close().unwrap();
    StreamOptions::new().open(path).unwrap().close().unwrap();
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

#[test]
fn what_the_policy_sheds_is_counted_and_its_tickets_say_so() {
    use std::num::NonZeroU32;
    let one_in = NonZeroU32::new(4).unwrap();
    for policy in [Overload::DropNewest, Overload::Sample { one_in }] {
        let directory = tempfile::tempdir().unwrap();
        let stream = StreamOptions::new()
            .memory(LaneConfig::bounded(128 << 10).overload(policy))
            .buffer(BufferSize::Bytes(16 << 10))
            .shards(1)
            .open(directory.path())
            .unwrap();
        let tickets: Vec<_> = (0..10_000)
            .map(|_| stream.append(&[3; 1_000]).unwrap())
            .collect();
        let (mut durable, mut shed) = (0, 0);
        for ticket in tickets {
            match ticket.wait() {
                Ok(_) => durable += 1,
                Err(TicketError::Shed(_)) => shed += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let snapshot = stream.snapshot();
        let counted: u64 = snapshot.records_shed.iter().map(|(_, count)| count).sum();
        assert_eq!((snapshot.durable, counted), (durable, shed));
        assert_eq!(durable + shed, 10_000);
    }
}

#[test]
fn a_policy_that_drops_what_was_accepted_is_refused() {
    for policy in [Overload::DropOldest, Overload::Coalesce] {
        let directory = tempfile::tempdir().unwrap();
        let opened = StreamOptions::new()
            .memory(LaneConfig::bounded(64 << 20).overload(policy))
            .open(directory.path());
        assert!(matches!(
            opened,
            Err(OpenError::Option {
                option: "memory",
                ..
            })
        ));
    }
}

#[test]
fn many_records_cost_one_ticket_and_none_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new().open(directory.path()).unwrap();
    let none: [&[u8]; 0] = [];
    assert_eq!(stream.append_many(none).unwrap().wait(), Ok(0));
    let ticket = stream
        .append_many((0..1_000u32).map(u32::to_le_bytes))
        .unwrap();
    assert_eq!(ticket.wait(), Ok(1_000));
    let large = vec![0; 17 << 20];
    let stopped = stream.append_many([&b"small"[..], &large]).unwrap_err();
    assert_eq!(stopped.appended, 1);
    assert!(matches!(stopped.error, AppendError::TooLarge { .. }));
    assert_eq!(stopped.ticket.unwrap().wait(), Ok(1_001));
}

#[test]
fn the_limit_of_a_record_holds_while_its_buffer_has_room() {
    let directory = tempfile::tempdir().unwrap();
    let options = StreamOptions::new().record_bytes_max(100);
    let stream = options.open(directory.path()).unwrap();
    let ticket = stream.append(&[1; 100]).unwrap();
    let refused = stream.append(&[1; 101]).unwrap_err();
    assert!(matches!(refused, AppendError::TooLarge { bytes: 101, .. }));
    assert_eq!(ticket.wait(), Ok(1));
    assert_eq!(stream.sequences().accepted, 1);
}

#[test]
fn a_record_that_nobody_waits_for_is_written_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new().open(directory.path()).unwrap();
    let _ticket = stream.append(b"alone").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while stream.sequences().durable == 0 {
        assert!(Instant::now() < deadline, "it was never written");
        std::thread::yield_now();
    }
}

#[test]
fn a_closed_stream_takes_nothing_and_keeps_what_it_took() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new().open(directory.path()).unwrap();
    let other = stream.clone();
    let producer = std::thread::spawn(move || {
        let mut tickets = Vec::new();
        loop {
            match other.append(b"a record") {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => return (tickets, error),
            }
        }
    });
    while stream.sequences().durable < 1_000 {
        std::thread::yield_now();
    }
    let head = stream.close().unwrap().unwrap();
    let (tickets, error) = producer.join().unwrap();
    assert_eq!(error, AppendError::Closed);
    assert_eq!(head.sequence, tickets.len() as u64);
    for (index, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(index as u64 + 1));
    }
}

#[test]
fn tasks_wait_for_room_and_for_durability_without_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let stream = StreamOptions::new()
        .memory(LaneConfig::bounded(128 << 10))
        .buffer(BufferSize::Bytes(16 << 10))
        .shards(1)
        .open(directory.path())
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut last = None;
        for _ in 0..1_000 {
            last = Some(stream.append_async(&[1; 1_000]).await.unwrap());
        }
        assert_eq!(last.unwrap().await, Ok(1_000));
    });
}
