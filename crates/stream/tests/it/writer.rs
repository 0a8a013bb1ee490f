//! Writing, closing and going on.

use std::{fs, num::NonZeroU32, os::fd::AsRawFd, time::Duration};

use freeboard_flow::{LaneConfig, Overload};
use freeboard_stream::{
    AppendError, BufferSize, CloseError, MasterKey, OpenError, ReaderOptions, StreamOptions,
    StreamWriter, SyncMode, TicketError,
    format::Algorithm,
    storage::{Access, Disk, Storage},
};

use crate::{
    open,
    support::{each_seal, eventually, key},
};

/// One shard, with little memory.
fn small(memory: usize, buffer: usize, overload: Overload) -> StreamOptions {
    StreamOptions::new()
        .memory(LaneConfig::bounded(memory).overload(overload))
        .buffer(BufferSize::Bytes(buffer))
        .shards(1)
}

#[test]
fn a_stream_goes_on_where_it_was_closed() {
    each_seal(|algorithm, unit| {
        let mode = match algorithm {
            Algorithm::None | Algorithm::Blake3 => "none",
            Algorithm::HmacSha256 | Algorithm::HmacRipemd160 => "interval:5",
            Algorithm::HmacSha512 => "batch",
        };
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
    });
}

#[test]
fn two_writers_on_one_stream_are_refused() {
    let (directory, first) = open(StreamOptions::new());
    let second = StreamOptions::new().open(directory.path());
    assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    drop(first);
    StreamOptions::new().open(directory.path()).unwrap();
}

#[test]
fn a_second_writer_is_refused_though_the_lock_file_is_gone() {
    let (directory, stream) = open(StreamOptions::new());
    let path = directory.path();
    fs::remove_file(path.join("stream.lock")).unwrap();
    for _ in 0..2 {
        let second = StreamOptions::new().open(path);
        assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    }
    stream.close().unwrap();
    StreamOptions::new().open(path).unwrap().close().unwrap();
}

/// Appends until a record is refused, or is not durable.
fn append_until_it_fails(stream: &StreamWriter) -> u64 {
    let mut durable = 0;
    eventually("it is noticed", || {
        let ticket = stream.append(&[7; 1_000]);
        match ticket.map(|ticket| ticket.wait()) {
            Ok(Ok(sequence)) => durable = sequence,
            Ok(Err(_)) | Err(_) => return true,
        }
        false
    });
    eventually("it is down", || {
        stream.append(&[7; 1_000]).err() == Some(AppendError::Down)
    });
    durable
}

#[test]
fn no_record_is_acknowledged_once_the_directory_is_removed() {
    for mode in ["none", "interval:5", "batch"] {
        let (directory, stream) = open(StreamOptions::new().sync(mode.parse().unwrap()));
        stream.append(b"it has a file").unwrap().wait().unwrap();
        // The writer may create a file meanwhile.
        eventually("it is removed", || fs::remove_dir_all(&directory).is_ok());
        assert_eq!(append_until_it_fails(&stream), 0, "{mode}");
        let fault = stream.fault().unwrap();
        assert!(fault.contains("removed while it was in use"), "{fault}");
        let anew = StreamOptions::new().open(directory.path()).unwrap();
        assert!(matches!(stream.close(), Err(CloseError::Down { .. })));
        anew.append(b"first").unwrap().wait().unwrap();
        assert_eq!(anew.close().unwrap().unwrap().sequence, 1);
    }
}

#[test]
fn another_directory_is_not_synced_in_place_of_the_locked_one() {
    let directory = tempfile::tempdir().unwrap();
    let [path, aside] = ["log", "aside"].map(|name| directory.path().join(name));
    let disk = Disk::create(&path).unwrap();
    let _lock = disk.lock().unwrap();
    disk.sync_directory().unwrap();
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let error = disk.sync_directory().unwrap_err().to_string();
    assert!(error.contains("removed or renamed"), "{error}");
}

/// Some file systems (FUSE) report that a file has no names although it has one. A removed file, opened again through its
/// descriptor, looks like that.
#[test]
fn a_file_whose_names_are_not_counted_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let removed = fs::File::create(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let descriptor = format!("/proc/self/fd/{}", removed.as_raw_fd());
    std::os::unix::fs::symlink(descriptor, &path).unwrap();
    let disk = Disk::open(directory.path()).unwrap();
    let file = disk.open("file", Access::Cached).unwrap();
    file.write_at(&[b"written"], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(removed.metadata().unwrap().len(), 7);
}

#[test]
fn a_writer_whose_directory_was_renamed_leaves_another_in_its_place_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [path, aside] = ["log", "aside"].map(|name| directory.path().join(name));
    let stream = StreamOptions::new().open(&path).unwrap();
    stream.append(b"it has a file").unwrap().wait().unwrap();
    fs::rename(&path, &aside).unwrap();
    let other = StreamOptions::new().open(&path).unwrap();
    let durable = append_until_it_fails(&stream);
    let fault = stream.fault().unwrap();
    assert!(fault.contains("removed or renamed"), "{fault}");
    assert!(matches!(stream.close(), Err(CloseError::Down { .. })));
    assert!(other.close().unwrap().is_none());
    // What was acknowledged until then is where the directory is.
    let stream = StreamOptions::new().open(&aside).unwrap();
    assert!(stream.sequences().durable >= durable);
}

#[test]
fn records_of_all_sizes_are_taken_up_to_the_limit() {
    let limit = 64 << 20;
    let memory = LaneConfig::bounded(256 << 20);
    let (_directory, stream) = open(StreamOptions::new().memory(memory).record_bytes_max(limit));
    let last = [0, 1, 4_088, 1 << 20, limit]
        .map(|bytes| stream.append(&vec![1; bytes]).unwrap())
        .map(|ticket| ticket.wait().unwrap());
    assert_eq!(last, [1, 2, 3, 4, 5]);
    let bytes = limit + 1;
    let refused = stream.append(&vec![1; bytes]).unwrap_err();
    assert_eq!(refused, AppendError::TooLarge { bytes, limit });
    stream.close().unwrap();
}

#[test]
fn what_was_accepted_and_what_was_refused_add_up_when_memory_is_full() {
    let (_directory, stream) = open(small(128 << 10, 32 << 10, Overload::Reject));
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
    let (_directory, stream) = open(small(256 << 10, 16 << 10, Overload::Wait).shards(2));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let stream = stream.clone();
            scope.spawn(move || {
                let mut last = 0;
                let append = |_| stream.append(&[5; 500]).unwrap();
                for ticket in (0..2_000).map(append).collect::<Vec<_>>() {
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
    let one_in = NonZeroU32::new(4).unwrap();
    for policy in [Overload::DropNewest, Overload::Sample { one_in }] {
        let (_directory, stream) = open(small(128 << 10, 16 << 10, policy));
        let append = |_| stream.append(&[3; 1_000]).unwrap();
        let (mut durable, mut shed) = (0, 0);
        for ticket in (0..10_000).map(append).collect::<Vec<_>>() {
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

/// Options that no stream can have, and which of them the error names.
#[test]
fn options_that_no_stream_can_have_are_refused_by_name() {
    let options = StreamOptions::new;
    let memory = |policy| options().memory(LaneConfig::bounded(64 << 20).overload(policy));
    let time = std::time::Duration::from_secs(1);
    for (wrong, name) in [
        (memory(Overload::DropOldest), "memory"),
        (memory(Overload::Coalesce), "memory"),
        (options().memory(LaneConfig::bounded(1)), "memory"),
        (options().buffer(BufferSize::Bytes(0)), "buffer"),
        (options().record_bytes_max(0), "record_bytes_max"),
        (options().segment_bytes(4_096), "segment_bytes"),
        (options().shards(0), "shards"),
        (options().shards(usize::MAX), "shards"),
        (
            options().sync(SyncMode::Interval { time, bytes: 0 }),
            "sync",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let opened = wrong.open(directory.path());
        let is_named = matches!(&opened, Err(OpenError::Option { option, .. }) if *option == name);
        assert!(is_named, "{name}: {opened:?}");
    }
}

/// A program that prints an error with all its sources prints the cause once.
#[test]
fn an_error_names_its_cause_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = StreamOptions::new().open(file.path()).unwrap_err();
    let read = ReaderOptions::new().open(file.path()).unwrap_err();
    let key = MasterKey::from_file(&file.path().join("none"), file.path()).unwrap_err();
    let errors: [Box<dyn std::error::Error>; 3] =
        [Box::new(written), Box::new(read), Box::new(key)];
    for error in errors {
        let text = error.to_string().to_lowercase();
        assert!(text.contains("not a directory"), "{text}");
        assert!(error.source().is_none(), "{text}");
    }
}

#[test]
fn many_records_cost_one_ticket_and_none_costs_nothing() {
    let (_directory, stream) = open(StreamOptions::new());
    let none: [&[u8]; 0] = [];
    assert_eq!(stream.append_many(none).unwrap().wait(), Ok(0));
    let many = stream.append_many((0..1_000u32).map(u32::to_le_bytes));
    assert_eq!(many.unwrap().wait(), Ok(1_000));
    let large = vec![0; 17 << 20];
    let stopped = stream.append_many([&b"small"[..], &large]).unwrap_err();
    assert_eq!(stopped.appended, 1);
    assert!(matches!(stopped.error, AppendError::TooLarge { .. }));
    assert_eq!(stopped.ticket.unwrap().wait(), Ok(1_001));
}

#[test]
fn the_limit_of_a_record_holds_while_its_buffer_has_room() {
    let (_directory, stream) = open(StreamOptions::new().record_bytes_max(100));
    let ticket = stream.append(&[1; 100]).unwrap();
    let refused = stream.append(&[1; 101]).unwrap_err();
    assert!(matches!(refused, AppendError::TooLarge { bytes: 101, .. }));
    assert_eq!(ticket.wait(), Ok(1));
    assert_eq!(stream.sequences().accepted, 1);
}

#[test]
fn a_record_that_nobody_waits_for_is_written_all_the_same() {
    let (_directory, stream) = open(StreamOptions::new());
    let _ticket = stream.append(b"alone").unwrap();
    eventually("it is written", || stream.sequences().durable > 0);
}

#[test]
fn a_write_that_is_requested_takes_what_was_accepted() {
    let (_directory, stream) = open(StreamOptions::new().flush_after(Duration::from_secs(3_600)));
    for last in 1..=100 {
        let _ticket = stream.append(b"a record").unwrap();
        stream.request_write();
        // Every other time a write may be in flight: the record goes with the next one.
        if last % 2 == 0 {
            eventually("they are written", || stream.sequences().durable == last);
        }
    }
}

#[test]
fn a_closed_stream_takes_nothing_and_keeps_what_it_took() {
    let (_directory, stream) = open(StreamOptions::new());
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
    eventually("records are durable", || {
        stream.sequences().durable >= 1_000
    });
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
    let (_directory, stream) = open(small(128 << 10, 16 << 10, Overload::Wait));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let mut last = None;
        for _ in 0..1_000 {
            last = Some(stream.append_async(&[1; 1_000]).await.unwrap());
        }
        assert_eq!(last.unwrap().await, Ok(1_000));
    });
}
