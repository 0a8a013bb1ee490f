//! Positions of named consumers, and the rollback to the last acknowledged record.

use std::{fs, sync::Arc, time::Duration};

use crate::{
    crash::{Case, Dice, seeds::for_seeds},
    open,
    support::eventually,
};
use freeboard_stream::{
    CONSUMERS_MAX, ConsumerError, OpenError, ReaderOptions, Retention, StreamOptions, StreamWriter,
    SyncMode, VerifyOptions,
    format::{ALIGNMENT, POSITIONS, Truncation, segment_name},
    storage::{
        Storage,
        simulated::{Fault, Operation, SimulatedDisk, SimulatedSettings},
    },
    verify,
};

const SEGMENT_BYTES: u64 = 64 << 10;

fn fill(stream: &StreamWriter, segments: u64) {
    for _ in 0..segments * 6 {
        stream.append(&[9; 10_000]).unwrap().wait().unwrap();
    }
}

fn sorted(stream: &StreamWriter) -> Vec<(String, u64)> {
    let mut consumers = stream.consumers();
    consumers.sort();
    consumers
}

#[test]
fn positions_survive_and_only_rise() {
    let options = StreamOptions::new().key(Case::key());
    let (directory, stream) = open(options.clone());
    let last = stream.append_batch(&["a", "b", "c", "d"]).unwrap().wait();
    assert_eq!(last, Ok(4));
    assert_eq!(stream.acknowledge_as("index", 0).unwrap(), 0);
    assert_eq!(stream.acknowledge_as("mail", 3).unwrap(), 3);
    assert_eq!(stream.acknowledge_as("mail", 2).unwrap(), 3);
    let ahead = stream.acknowledge_as("mail", 5).unwrap_err();
    assert!(matches!(
        ahead,
        ConsumerError::NotDurable {
            sequence: 5,
            durable: 4
        }
    ));
    for name in ["", &"n".repeat(56)] {
        let refused = stream.acknowledge_as(name, 1);
        assert!(matches!(refused, Err(ConsumerError::Name { .. })), "{name}");
    }
    stream.close().unwrap();
    let stream = options.open(directory.path()).unwrap();
    let both = [("index".to_owned(), 0), ("mail".to_owned(), 3)];
    assert_eq!(sorted(&stream), both);
    for index in 2..CONSUMERS_MAX {
        stream
            .acknowledge_as(&format!("consumer {index}"), 1)
            .unwrap();
    }
    let refused = stream.acknowledge_as("one too many", 1);
    assert!(matches!(refused, Err(ConsumerError::TooMany)));
    assert!(stream.remove_consumer("index").unwrap());
    assert!(!stream.remove_consumer("index").unwrap());
    stream.acknowledge_as("another", 4).unwrap();
    stream.close().unwrap();
    // What a truncation removes nobody has read.
    let stream = options.open_truncated(directory.path(), 2).unwrap();
    let consumers = stream.consumers();
    assert_eq!(consumers.len(), CONSUMERS_MAX);
    assert!(consumers.iter().all(|(_, position)| *position <= 2));
}

#[test]
fn retention_waits_for_the_slowest_consumer_but_not_beyond_its_bytes() {
    let acknowledged = Retention {
        acknowledged: true,
        ..Retention::default()
    };
    let options = StreamOptions::new().segment_bytes(SEGMENT_BYTES);
    let (directory, stream) = open(options.clone().retention(acknowledged));
    fill(&stream, 4);
    let last = stream.sequences().durable;
    stream.acknowledge_as("slow", 1).unwrap();
    stream.acknowledge_as("fast", last).unwrap();
    let finished = stream.snapshot().segments_finished;
    assert!(finished >= 3);
    stream.close().unwrap();
    // Also when the stream is opened again, before anybody acknowledges.
    let by_age = Retention {
        age: Some(Duration::ZERO),
        ..acknowledged
    };
    let stream = options
        .clone()
        .retention(by_age)
        .open(directory.path())
        .unwrap();
    assert_eq!(stream.append(b"next").unwrap().wait(), Ok(last + 1));
    assert!(stream.snapshot().segments_finished >= finished);
    stream.acknowledge_as("slow", last).unwrap();
    eventually("the acknowledged segments to go", || {
        stream.snapshot().segments_finished == 0
    });
    assert_eq!(stream.snapshot().segments_unread, 0);
    stream.close().unwrap();
    let bytes = Retention {
        bytes: Some(2 * SEGMENT_BYTES),
        ..Retention::default()
    };
    let stream = options.retention(bytes).open(directory.path()).unwrap();
    fill(&stream, 6);
    eventually("unread segments to go", || {
        stream.snapshot().segments_unread > 0
    });
}

#[test]
fn a_page_that_is_torn_costs_one_acknowledgement_and_a_forged_one_is_refused() {
    let options = StreamOptions::new().key(Case::key());
    let (directory, stream) = open(options.clone());
    let last = stream.append_batch(&["a", "b", "c"]).unwrap().wait();
    for sequence in 1..=last.unwrap() {
        stream.acknowledge_as("one", sequence).unwrap();
    }
    stream.close().unwrap();
    let path = directory.path().join(POSITIONS);
    let kept = fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        options.open(directory.path())
    };
    // The newest page is the second one.
    let mut torn = kept.clone();
    torn[ALIGNMENT + 100..ALIGNMENT + 512].fill(0);
    assert_eq!(open(&torn).unwrap().consumers(), [("one".to_owned(), 2)]);
    let mut forged = kept.clone();
    let page = &mut forged[ALIGNMENT..];
    page[128 + 56] = 1;
    let checksum = crc32c::crc32c(&page[..ALIGNMENT - 4]);
    page[ALIGNMENT - 4..].copy_from_slice(&checksum.to_le_bytes());
    let refused = open(&forged).unwrap_err();
    assert!(
        refused.to_string().contains("tag does not match"),
        "{refused}"
    );
    let refused = open(&[1; 2 * ALIGNMENT]).unwrap_err();
    assert!(matches!(refused, OpenError::Positions { .. }), "{refused}");
    assert_eq!(open(&kept).unwrap().consumers(), [("one".to_owned(), 3)]);
}

/// Acknowledges while the power or a call fails, and compares the positions after each reboot.
fn acknowledge(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut case = Case::new(&mut dice);
    case.retention = Retention::default();
    let mut disk = SimulatedDisk::new(case.disk);
    // What was noted, and what may have been.
    let mut noted = [(0, 0); 2];
    // Which only mode none may leave.
    let mut is_damage_excused = false;
    for life in 0..5 {
        let is_quiet = life == 0 || life == 4;
        if !is_quiet {
            match dice.one_in(2) {
                true => disk.power_fails_at(dice.by_magnitude(150)),
                false => disk.fail_at(dice.by_magnitude(150), Fault::Io),
            }
        }
        let sync = Case::sync(&mut dice);
        let options = case.options(sync).rollback_unacknowledged(dice.one_in(3));
        let stream = match options.open_on(Arc::new(disk.clone())) {
            Err(OpenError::Damaged(_) | OpenError::Format { .. }) if is_damage_excused => {
                return Ok(());
            }
            Err(error) if is_quiet => return Err(error.to_string()),
            Err(_) => {
                disk = disk.reboot();
                continue;
            }
            Ok(stream) => stream,
        };
        is_damage_excused |= sync == SyncMode::None;
        let end = stream.sequences().accepted;
        for (name, position) in stream.consumers() {
            let (least, most) = noted[usize::from(name == "b")];
            if position > end || position < least.min(end) || position > most {
                let what = format!("{name} is at {position}, noted {least} to {most}, end {end}");
                return Err(format!("life {life}: {what}"));
            }
            noted[usize::from(name == "b")] = (position, position);
        }
        for _ in 0..dice.within(1..12) {
            let _ = stream.append(&vec![1; dice.by_magnitude(6_000) as usize]);
            let _ = stream.flush();
            let (name, noted) = match dice.one_in(2) {
                true => ("a", &mut noted[0]),
                false => ("b", &mut noted[1]),
            };
            let sequence = dice.within(0..stream.sequences().written + 1);
            match stream.acknowledge_as(name, sequence) {
                Ok(position) => *noted = (position, noted.1.max(position)),
                Err(ConsumerError::NotDurable { .. }) => {}
                Err(_) => noted.1 = noted.1.max(sequence),
            }
        }
        // A failed write may have lost records, and the stream was read again: the position fell to its end. Others have
        // their sequences now.
        if sync == SyncMode::None {
            noted = noted.map(|(_, most)| (0, most));
        }
        disk.power_off();
        drop(stream);
        disk = disk.reboot();
    }
    Ok(())
}

#[test]
fn a_noted_position_is_never_lost() {
    for_seeds(600, acknowledge);
}

#[test]
fn a_position_is_noted_only_when_the_name_of_its_file_is_durable() {
    for seed in 0..32 {
        let disk = SimulatedDisk::new(SimulatedSettings {
            seed,
            ..SimulatedSettings::default()
        });
        let options = StreamOptions::new();
        let stream = options.open_on(Arc::new(disk.clone())).unwrap();
        stream.append(b"one").unwrap().wait().unwrap();
        disk.fail_next(Operation::SyncDirectory, Fault::Io);
        eventually("the second attempt", || {
            stream.acknowledge_as("mail", 1).is_ok()
        });
        disk.power_off();
        drop(stream);
        let stream = options.open_on(Arc::new(disk.reboot())).unwrap();
        assert_eq!(stream.consumers(), [("mail".to_owned(), 1)], "seed {seed}");
    }
}

/// The file is made with its first page, and then that page may not be written once more.
#[test]
fn a_position_counts_more_than_those_that_were_not_written() {
    for call in 1..12 {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        let options = StreamOptions::new();
        let stream = options.open_on(Arc::new(disk.clone())).unwrap();
        let appended = stream.append_many(["one", "two"]).unwrap();
        appended.wait().unwrap();
        disk.fail_at(disk.calls() + call, Fault::Io);
        let _ = stream.acknowledge_as("mail", 1);
        eventually("another position", || {
            stream.acknowledge_as("mail", 2).is_ok()
        });
        disk.power_off();
        drop(stream);
        let stream = options.open_on(Arc::new(disk.reboot())).unwrap();
        assert_eq!(stream.consumers(), [("mail".to_owned(), 2)], "call {call}");
    }
}

/// The page cache shows a page that a failed sync has lost. The other one must not be written over.
#[test]
fn a_page_that_holds_is_not_replaced_for_one_that_is_lost() {
    for seed in 0..64 {
        let disk = SimulatedDisk::new(SimulatedSettings {
            seed,
            is_direct: false,
            ..SimulatedSettings::default()
        });
        let options = StreamOptions::new().segment_bytes(SEGMENT_BYTES);
        let stream = options.open_on(Arc::new(disk.clone())).unwrap();
        stream.append_many(["1", "2", "3"]).unwrap().wait().unwrap();
        assert_eq!(stream.acknowledge_as("mail", 1).unwrap(), 1);
        eventually("segment 2 is ready, so that nothing else syncs", || {
            disk.list().unwrap().contains(&segment_name(2))
        });
        disk.fail_next(Operation::Sync, Fault::Io);
        assert!(stream.acknowledge_as("mail", 2).is_err(), "seed {seed}");
        disk.fail_next(Operation::Sync, Fault::Io);
        assert!(stream.append(b"4").unwrap().wait().is_err(), "seed {seed}");
        eventually("the stream was read again", || {
            stream.snapshot().reopenings == 1
        });
        disk.fail_next(Operation::Write, Fault::Io);
        let _ = stream.acknowledge_as("mail", 3);
        disk.power_off();
        drop(stream);
        let stream = options.open_on(Arc::new(disk.reboot()));
        let stream = stream.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(stream.consumers()[0].1 >= 1, "seed {seed}");
    }
}

fn unsynced() -> StreamOptions {
    let (time, bytes) = (Duration::from_secs(3_600), u64::MAX);
    StreamOptions::new()
        .segment_bytes(SEGMENT_BYTES)
        .sync(SyncMode::Interval { time, bytes })
}

#[test]
fn records_that_were_written_and_not_acknowledged_are_removed() {
    for rolls_back in [false, true] {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        let options = unsynced().rollback_unacknowledged(rolls_back);
        let stream = options.open_on(Arc::new(disk.clone())).unwrap();
        drop(stream.append_batch(&["one", "two"]).unwrap());
        assert_eq!(stream.flush(), Ok(2));
        let mut ticket = stream.append(b"three").unwrap();
        // Has it written, though it is not synced for an hour.
        assert_eq!(ticket.wait_timeout(Duration::from_millis(1)), None);
        eventually("it to be written", || stream.sequences().written == 3);
        // The page cache outlives the process.
        let next = disk.kill();
        drop(stream);
        let stream = options.open_on(Arc::new(next.clone())).unwrap();
        let last = if rolls_back { 2 } else { 3 };
        assert_eq!(stream.sequences().durable, last);
        stream.close().unwrap();
        let report = verify(&next, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
        assert!(report.is_whole());
        let shown = report.truncations.first().map(|it| it.records);
        let records = Truncation {
            kept: 2,
            removed: 3,
        };
        assert_eq!(shown, rolls_back.then_some(records));
        // A writer that notes nothing may add to it.
        let stream = StreamOptions::new()
            .open_on(Arc::new(next.clone()))
            .unwrap();
        let added = stream.append(b"more").unwrap().wait().unwrap();
        disk.power_off();
        drop(stream);
        let stream = options.open_on(Arc::new(next.reboot())).unwrap();
        assert_eq!(stream.sequences().durable, added);
    }
}

/// Ends at the last flush that succeeded, or at the one that was interrupted: never in between.
fn roll_back(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let disk = SimulatedSettings {
        seed,
        is_direct: dice.one_in(2),
        ..SimulatedSettings::default()
    };
    let mut disk = SimulatedDisk::new(disk);
    // A page that is written by its age may be synced, and acknowledged, before the rest of a flush.
    let options = unsynced().flush_after(Duration::from_secs(3_600));
    let options = options.shards(1).rollback_unacknowledged(true);
    let mut possible = vec![0];
    for life in 0..5 {
        let is_quiet = life == 4;
        if !is_quiet && !dice.one_in(3) {
            disk.power_fails_at(dice.by_magnitude(120));
        }
        let stream = match options.open_on(Arc::new(disk.clone())) {
            Err(error) if is_quiet => return Err(error.to_string()),
            Err(_) => {
                disk = disk.reboot();
                continue;
            }
            Ok(stream) => stream,
        };
        let mut last = stream.sequences().durable;
        if !possible.contains(&last) {
            return Err(format!(
                "life {life}: it ends at {last}, not at one of {possible:?}"
            ));
        }
        possible = vec![last];
        for _ in 0..dice.within(1..6) {
            for _ in 0..dice.within(1..6) {
                let record = vec![1; dice.by_magnitude(9_000) as usize];
                last += u64::from(stream.append(&record).is_ok());
            }
            if dice.one_in(3) {
                break;
            }
            match stream.flush() {
                Ok(_) => possible = vec![last],
                Err(_) => possible.push(last),
            }
        }
        // Pages go to the file, as if a reader waited; nothing acknowledges them.
        let next = disk.kill();
        drop(stream);
        disk = if dice.one_in(2) { next } else { next.reboot() };
    }
    let reader = ReaderOptions::new().open_on(Arc::new(disk)).unwrap();
    let count = reader
        .map(|it| it.map(drop))
        .collect::<Result<Vec<()>, _>>();
    let count = count.map_err(|error| error.to_string())?.len() as u64;
    match possible.contains(&count) {
        true => Ok(()),
        false => Err(format!("{count} records, not one of {possible:?}")),
    }
}

#[test]
fn a_rollback_ends_at_an_acknowledged_record() {
    for_seeds(600, roll_back);
}

/// A call of the opening that rolls back fails, and then the power or another call does while it is tried again.
#[test]
fn a_rollback_that_fails_at_any_call_ends_at_the_same_record() {
    for call in 1..=60 {
        for again in [None, Some(Fault::Io)] {
            let disk = SimulatedDisk::new(SimulatedSettings {
                seed: call,
                is_direct: call % 2 == 0,
                ..SimulatedSettings::default()
            });
            let options = unsynced().rollback_unacknowledged(true);
            let stream = options.open_on(Arc::new(disk.clone())).unwrap();
            drop(stream.append_batch(&["one", "two"]).unwrap());
            assert_eq!(stream.flush(), Ok(2));
            let mut ticket = stream.append(b"three").unwrap();
            assert_eq!(ticket.wait_timeout(Duration::from_millis(1)), None);
            eventually("it to be written", || stream.sequences().written == 3);
            let mut disk = disk.kill();
            drop(stream);
            for second in [call, call / 2 + 1] {
                match again {
                    Some(fault) => disk.fail_at(second, fault),
                    None if second == call => disk.fail_at(second, Fault::Io),
                    None => disk.power_fails_at(second),
                }
                let interrupted = options.open_on(Arc::new(disk.clone()));
                let next = disk.kill();
                drop(interrupted);
                disk = next;
            }
            let stream = options.open_on(Arc::new(disk.clone())).unwrap();
            assert_eq!(stream.sequences().durable, 2, "call {call}, {again:?}");
            stream.close().unwrap();
            let report = verify(&disk, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
            assert!(report.is_whole(), "call {call}: {:?}", report.damages);
        }
    }
}
