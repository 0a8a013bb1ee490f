//! Snapshots of a store: whole or not there, and with the records after them the same state as all records.

use std::{
    fs,
    io::{Read, Write},
    sync::Arc,
};

use crate::{
    crash::{Case, Dice, seeds::for_seeds},
    open,
    support::eventually,
};
use freeboard_stream::{
    ReadFrom, ReaderOptions, Retention, SNAPSHOTS_KEPT, SnapshotError, StreamOptions, SyncMode,
    newest_snapshot,
    storage::{
        Disk, Storage,
        simulated::{Fault, SimulatedDisk},
    },
};

/// A store whose state is a number that depends on all records and their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    sequence: u64,
    value: u64,
}

impl Sum {
    fn apply(&mut self, record: &[u8]) {
        self.sequence += 1;
        let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        self.value = record.iter().fold(self.value, add);
    }

    /// Reads the newest snapshot and the records after it. Returns the snapshot's sequence too.
    fn load(disk: &SimulatedDisk, case: &Case) -> Result<(u64, Self), String> {
        let key = case.algorithm.is_sealed().then(Case::key);
        let mut sum = Self::default();
        let newest = newest_snapshot(disk, key.as_ref()).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        if let Some(mut snapshot) = newest {
            let read = snapshot.read_to_end(&mut bytes);
            read.map_err(|error| error.to_string())?;
            sum.sequence = snapshot.sequence;
            sum.value = u64::from_le_bytes(*bytes.first_chunk().unwrap());
        }
        let from = sum.sequence;
        let reader = ReaderOptions::new()
            .key(key)
            .from(ReadFrom::Sequence(from + 1));
        let reader = reader.open_on(Arc::new(disk.clone()));
        for record in reader.map_err(|error| error.to_string())? {
            let record = record.map_err(|error| format!("from {from}: {error}"))?;
            sum.apply(&record.payload);
        }
        Ok((from, sum))
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut case = Case::new(&mut dice);
    case.segment_bytes = 64 << 10;
    case.shards = 1;
    case.retention = Retention {
        acknowledged: true,
        ..Retention::default()
    };
    let mut disk = SimulatedDisk::new(case.disk);
    // The state after each record, and the last snapshot that was written.
    let (mut states, mut noted) = (vec![Sum::default()], 0);
    // The records up to this one are no longer needed.
    let mut unneeded = 0;
    for life in 0..5 {
        let is_quiet = life == 4;
        if !is_quiet {
            match dice.within(0..3) {
                0 => disk.power_fails_at(dice.by_magnitude(250)),
                1 => disk.fail_at(dice.by_magnitude(250), Fault::Io),
                _ => {}
            }
        }
        let options = case.options(SyncMode::Batch);
        let kept = dice.within(unneeded..states.len() as u64);
        let is_cut = life > 0 && dice.one_in(4);
        let stream = match is_cut {
            true => options.open_truncated_on(Arc::new(disk.clone()), kept),
            false => options.open_on(Arc::new(disk.clone())),
        };
        let stream = match stream {
            Err(error) if is_quiet && !is_cut => return Err(error.to_string()),
            Err(_) => {
                disk = disk.reboot();
                drop(options.open_on(Arc::new(disk.clone())));
                disk = disk.reboot();
                let (_, sum) = Sum::load(&disk, &case)?;
                states.truncate(sum.sequence as usize + 1);
                noted = if is_cut { 0 } else { noted.min(sum.sequence) };
                continue;
            }
            Ok(stream) => stream,
        };
        let end = stream.sequences().durable;
        states.truncate(end as usize + 1);
        noted = noted.min(if is_cut { 0 } else { end });
        if disk.is_on() {
            let loaded = Sum::load(&disk, &case);
            match loaded {
                Err(_) if !disk.is_on() || !is_quiet => {}
                Err(reason) => return Err(reason),
                Ok((from, sum)) if from < noted || states.last() != Some(&sum) => {
                    return Err(format!(
                        "life {life}: {sum:?} from {from}, noted {noted}, {:?}",
                        states.last()
                    ));
                }
                Ok(_) => {}
            }
        }
        for _ in 0..dice.within(1..24) {
            let record = vec![dice.next() as u8; dice.by_magnitude(12_000) as usize];
            let Ok(Ok(sequence)) = stream.append(&record).map(|ticket| ticket.wait()) else {
                break;
            };
            let mut sum = states[sequence as usize - 1];
            sum.apply(&record);
            states.truncate(sequence as usize);
            states.push(sum);
            if dice.one_in(4) {
                let padding = vec![1; dice.by_magnitude(3 << 20) as usize];
                let written = stream.write_snapshot(sequence, |writer| {
                    writer.write_all(&sum.value.to_le_bytes())?;
                    writer.write_all(&padding)
                });
                let Ok(oldest) = written else { break };
                unneeded = oldest;
                noted = sequence;
                stream.acknowledge(unneeded);
            }
        }
        disk.power_off();
        drop(stream);
        disk = disk.reboot();
        // A record whose ticket failed may be there, and its state is not known.
        drop(
            case.options(SyncMode::Batch)
                .open_on(Arc::new(disk.clone())),
        );
        let (_, sum) = Sum::load(&disk, &case)?;
        match states.get(sum.sequence as usize) {
            Some(known) if *known != sum => return Err(format!("{sum:?}, not {known:?}")),
            Some(_) => {}
            None => states.push(sum),
        }
        disk = disk.reboot();
    }
    Ok(())
}

#[test]
fn the_newest_snapshot_and_the_records_after_it_are_the_state() {
    for_seeds(400, run);
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_old_segments_go() {
    let options = StreamOptions::new()
        .key(Case::key())
        .segment_bytes(64 << 10);
    let options = options.retention(Retention {
        acknowledged: true,
        ..Retention::default()
    });
    let (directory, stream) = open(options.clone());
    assert!(matches!(
        stream.write_snapshot(1, |_| Ok(())),
        Err(SnapshotError::NotDurable {
            sequence: 1,
            durable: 0
        })
    ));
    let mut unneeded = Vec::new();
    for round in 1..=3_u64 {
        for _ in 0..20 {
            stream.append(&[7; 10_000]).unwrap().wait().unwrap();
        }
        let written = stream.write_snapshot(round * 20, |writer| {
            let busy = stream.write_snapshot(round * 20, |_| Ok(()));
            assert!(matches!(busy, Err(SnapshotError::Busy)));
            writer.write_all(format!("state {round}").as_bytes())
        });
        unneeded.push(written.unwrap());
        stream.acknowledge(unneeded[unneeded.len() - 1]);
    }
    assert_eq!(unneeded, [0, 20, 40]);
    let failed = stream.write_snapshot(60, |_| Err(std::io::Error::other("the state is locked")));
    assert!(
        failed
            .unwrap_err()
            .to_string()
            .contains("the state is locked")
    );
    let names = stream.storage().list().unwrap();
    let is_left = |name: &String| name.ends_with(".snapshot.preparing");
    assert!(!names.iter().any(is_left), "{names:?}");
    eventually("the segments before the older snapshot to go", || {
        stream.snapshot().segments_finished <= 4
    });
    stream.close().unwrap();
    let path = |sequence: u64| directory.path().join(format!("{sequence:020}.snapshot"));
    let names = Disk::open(directory.path()).unwrap().list().unwrap();
    let count = names
        .iter()
        .filter(|name| name.ends_with(".snapshot"))
        .count();
    assert_eq!(count, SNAPSHOTS_KEPT);
    let newest = || {
        let disk = Disk::open(directory.path()).unwrap();
        let newest = newest_snapshot(&disk, Some(&Case::key())).unwrap();
        newest.map(|mut snapshot| {
            let mut text = String::new();
            snapshot.read_to_string(&mut text).unwrap();
            (snapshot.sequence, text)
        })
    };
    assert_eq!(newest(), Some((60, "state 3".to_owned())));
    let mut bytes = fs::read(path(60)).unwrap();
    bytes[256] ^= 1;
    fs::write(path(60), &bytes).unwrap();
    assert_eq!(newest(), Some((40, "state 2".to_owned())));
    // Forged by somebody without the key, with the right hash and checksum.
    let hash = blake3::hash(&bytes[256..]);
    bytes[64..96].copy_from_slice(hash.as_bytes());
    let checksum = crc32c::crc32c(&bytes[..252]);
    bytes[252..256].copy_from_slice(&checksum.to_le_bytes());
    fs::write(path(60), &bytes).unwrap();
    assert_eq!(newest(), Some((40, "state 2".to_owned())));
    drop(options.open_truncated(directory.path(), 50).unwrap());
    assert!(!path(60).exists() && path(40).exists());
}
