//! The records after a sequence are removed, all or none, whatever happens meanwhile; and it shows.

use std::{fs, sync::Arc};

use crate::{
    crash::{Case, Dice, seeds::for_seeds},
    open,
};
use freeboard_stream::{
    DamageKind, OpenError, ReadError, ReaderOptions, StreamOptions, SyncMode, VerifyOptions,
    VerifyReport,
    format::{Algorithm, Truncation, segment_name},
    storage::{
        Storage,
        simulated::{Fault, SimulatedDisk, SimulatedSettings},
    },
    verify,
};

type Records = Vec<Vec<u8>>;

fn read(disk: &SimulatedDisk, case: &Case) -> Result<Records, ReadError> {
    let key = case.algorithm.is_sealed().then(Case::key);
    let reader = ReaderOptions::new().key(key);
    let reader = reader.open_on(Arc::new(disk.clone()))?;
    reader.map(|record| Ok(record?.payload)).collect()
}

fn report(disk: &SimulatedDisk, case: &Case) -> VerifyReport {
    let key = case.algorithm.is_sealed().then(Case::key);
    verify(disk, key.as_ref(), &VerifyOptions::default(), &mut |_| {}).unwrap()
}

fn options(case: &Case) -> StreamOptions {
    case.options(SyncMode::Batch)
}

/// Appends records of random sizes, and waits until they are durable.
fn append(disk: &SimulatedDisk, case: &Case, records: &mut Records, dice: &mut Dice) {
    let stream = options(case).open_on(Arc::new(disk.clone())).unwrap();
    for _ in 0..dice.within(1..24) {
        let record = vec![dice.next() as u8; dice.by_magnitude(16_000) as usize];
        let ticket = stream.append(&record).unwrap();
        if dice.one_in(3) {
            ticket.wait().unwrap();
        }
        records.push(record);
        // One handle, so the order is that of the calls.
    }
    stream.flush().unwrap();
    if dice.one_in(2) {
        stream.close().unwrap();
    }
}

fn case(seed: u64, dice: &mut Dice) -> Case {
    let mut case = Case::new(dice);
    case.retention = Default::default();
    case.disk.seed = seed;
    case
}

/// Truncates after a random record while something fails at `call`, and compares what is found after that.
fn truncate(
    disk: &mut SimulatedDisk,
    case: &Case,
    records: &mut Records,
    dice: &mut Dice,
    (call, fault): (u64, Option<Fault>),
) -> Result<(), String> {
    let last = records.len() as u64;
    let kept = dice.within(0..last + 1);
    match fault {
        Some(fault) => disk.fail_at(call, fault),
        None => disk.power_fails_at(call),
    }
    let done = options(case).open_truncated_on(Arc::new(disk.clone()), kept);
    let is_done = done.is_ok();
    if let Ok(stream) = &done {
        assert_eq!(stream.sequences().durable, kept);
    }
    // After an error the same machine may try again, with what is not durable yet.
    let next = match dice.one_in(2) {
        true => disk.kill(),
        false => disk.reboot(),
    };
    drop(done);
    *disk = next;
    // The opening that completes it may be interrupted too.
    if dice.one_in(2) {
        disk.power_fails_at(dice.by_magnitude(60));
        drop(options(case).open_on(Arc::new(disk.clone())));
        disk.power_off();
        *disk = disk.reboot();
    }
    let stream = options(case).open_on(Arc::new(disk.clone()));
    stream
        .map_err(|error| format!("it cannot be opened: {error}"))?
        .close()
        .unwrap();
    let found = read(disk, case).map_err(|error| error.to_string())?;
    let is_whole = found == *records && (!is_done || kept == last);
    if !is_whole && found != records[..kept as usize] {
        return Err(format!(
            "{} of {last} records, {kept} kept, {is_done}",
            found.len()
        ));
    }
    if last == 0 {
        return Ok(());
    }
    let report = report(disk, case);
    if !report.is_whole() {
        return Err(format!("{kept} of {last}: {:?}", report.damages));
    }
    if !is_whole {
        let shown = report.truncations.last().map(|it| it.records);
        if shown.is_none_or(|it| it.kept != kept || it.removed < last) {
            return Err(format!("{kept} of {last}: {shown:?}"));
        }
        records.truncate(kept as usize);
    }
    Ok(())
}

fn run(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let case = case(seed, &mut dice);
    let mut disk = SimulatedDisk::new(case.disk);
    let mut records = Vec::new();
    for _ in 0..3 {
        append(&disk, &case, &mut records, &mut dice);
        disk = disk.reboot();
        let fault = [None, Some(Fault::Io), Some(Fault::Full)];
        let (call, fault) = (dice.by_magnitude(120), dice.choose(&fault));
        truncate(&mut disk, &case, &mut records, &mut dice, (call, fault))
            .map_err(|reason| format!("{reason}\n{case:?}"))?;
    }
    append(&disk, &case, &mut records, &mut dice);
    disk = disk.reboot();
    options(&case)
        .open_on(Arc::new(disk.clone()))
        .unwrap()
        .close()
        .unwrap();
    let found = read(&disk, &case).map_err(|error| error.to_string())?;
    if found == records && report(&disk, &case).is_whole() {
        Ok(())
    } else {
        Err(format!("{} records, not {}", found.len(), records.len()))
    }
}

#[test]
fn a_crash_leaves_all_records_or_those_that_were_kept() {
    for_seeds(600, run);
}

#[test]
fn the_power_or_a_call_fails_at_each_call() {
    for fault in [None, Some(Fault::Io)] {
        for call in 1..=90 {
            let mut dice = Dice::new(7);
            let case = Case {
                algorithm: Algorithm::Blake3,
                segment_bytes: 64 << 10,
                disk: SimulatedSettings::default(),
                ..case(call, &mut dice)
            };
            let mut disk = SimulatedDisk::new(case.disk);
            let mut records = Vec::new();
            for _ in 0..2 {
                append(&disk, &case, &mut records, &mut dice);
                disk = disk.reboot();
            }
            let truncated = truncate(&mut disk, &case, &mut records, &mut dice, (call, fault));
            truncated.unwrap_or_else(|reason| panic!("call {call}, {fault:?}: {reason}"));
        }
    }
}

/// A call fails after the truncation was prepared, and the power fails while the next opening completes it.
#[test]
fn the_power_fails_while_an_interrupted_truncation_is_completed() {
    for call in 1..=90 {
        for second in 1..=60 {
            let mut dice = Dice::new(7);
            let case = Case {
                algorithm: Algorithm::Blake3,
                segment_bytes: 64 << 10,
                disk: SimulatedSettings {
                    seed: call * 100 + second,
                    ..SimulatedSettings::default()
                },
                ..case(call, &mut dice)
            };
            let disk = SimulatedDisk::new(case.disk);
            let mut records = Vec::new();
            for _ in 0..3 {
                append(&disk.kill(), &case, &mut records, &mut dice);
            }
            let disk = disk.reboot();
            disk.fail_at(call, Fault::Io);
            let interrupted = options(&case).open_truncated_on(Arc::new(disk.clone()), 3);
            let next = disk.kill();
            drop(interrupted);
            let names = next.list().unwrap();
            if !names.iter().any(|name| name == "truncation.pending") {
                break;
            }
            next.power_fails_at(second);
            drop(options(&case).open_on(Arc::new(next.clone())));
            let disk = next.reboot();
            let stream = options(&case).open_on(Arc::new(disk.clone()));
            let at = format!("call {call}, then {second}");
            stream
                .unwrap_or_else(|error| panic!("{at}: {error}"))
                .close()
                .unwrap();
            let found = read(&disk, &case).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(
                found == records || found == records[..3],
                "{at}: {} of {} records",
                found.len(),
                records.len()
            );
            let report = report(&disk, &case);
            assert!(report.is_whole(), "{at}: {:?}", report.damages);
        }
    }
}

fn nine() -> (tempfile::TempDir, StreamOptions) {
    let options = StreamOptions::new().key(Case::key());
    let (directory, stream) = open(options.clone());
    for records in [["1", "2", "3"], ["4", "5", "6"], ["7", "8", "9"]] {
        stream.append_batch(&records).unwrap().wait().unwrap();
    }
    stream.close().unwrap();
    (directory, options)
}

#[test]
fn a_kept_head_of_a_removed_record_is_explained_and_earlier_truncations_stay_known() {
    let (directory, options) = nine();
    let stream = options.open_truncated(directory.path(), 8).unwrap();
    drop(stream.append(b"nine").unwrap());
    let head = stream.close().unwrap();
    let stream = options.open_truncated(directory.path(), 5).unwrap();
    assert_eq!(stream.append(b"six").unwrap().wait(), Ok(6));
    stream.close().unwrap();
    let disk = freeboard_stream::storage::Disk::open(directory.path()).unwrap();
    let expect = VerifyOptions {
        expect_head: head,
        ..VerifyOptions::default()
    };
    let report = verify(&disk, Some(&Case::key()), &expect, &mut |_| {}).unwrap();
    let records = Truncation {
        kept: 5,
        removed: 9,
    };
    assert_eq!(report.truncations[0].records, records);
    assert_eq!(report.truncation_count, 1);
    let [damage] = &report.damages[..] else {
        panic!("{:?}", report.damages);
    };
    assert_eq!(damage.kind, DamageKind::Truncated);
    assert!(
        damage.detail.contains("records 6 to 9 were removed"),
        "{damage}"
    );
    for kept in [7, u64::MAX] {
        let refused = options.open_truncated(directory.path(), kept).unwrap_err();
        let OpenError::Truncation { asked, first, last } = refused else {
            panic!("{refused}");
        };
        assert_eq!((asked, first, last), (kept, 1, 6));
    }
}

#[test]
fn a_copy_of_a_truncated_segment_is_no_pending_truncation() {
    let (directory, options) = nine();
    options
        .open_truncated(directory.path(), 4)
        .unwrap()
        .close()
        .unwrap();
    let pending = directory.path().join("truncation.pending");
    fs::copy(directory.path().join(segment_name(2)), &pending).unwrap();
    let refused = options.open(directory.path()).unwrap_err();
    assert!(refused.to_string().contains("older"), "{refused}");
    for bytes in [&b"nothing"[..], &[0; 5_000]] {
        fs::write(&pending, bytes).unwrap();
        let refused = options.open(directory.path()).unwrap_err();
        assert!(matches!(refused, OpenError::PendingTruncation { .. }));
    }
    fs::remove_file(&pending).unwrap();
    assert_eq!(
        options.open(directory.path()).unwrap().sequences().durable,
        4
    );
}
