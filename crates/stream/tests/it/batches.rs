//! Batches are there as a whole or not at all, after any crash.

use std::{collections::BTreeMap, sync::Arc, thread};

use crate::{
    crash::{Case, Dice, seeds::for_seeds},
    open,
};
use freeboard_flow::LaneConfig;
use freeboard_stream::{
    AppendError, ReaderOptions, StreamOptions, StreamWriter, Ticket,
    storage::simulated::{Fault, SimulatedDisk},
};

#[test]
fn a_batch_has_consecutive_sequences_and_one_ticket() {
    let (directory, stream) = open(StreamOptions::new().shards(1));
    assert_eq!(stream.append_batch(&[] as &[&[u8]]).unwrap().wait(), Ok(0));
    drop(stream.append(b"before").unwrap());
    // Far larger than a page.
    let large = vec![vec![7; 100_000]; 40];
    let records: u64 = 1 + 40 + 3;
    drop(stream.append_batch(&large).unwrap());
    let ticket = stream.append_batch(&["one", "two", "three"]).unwrap();
    assert_eq!(ticket.wait(), Ok(records));
    assert_eq!(stream.sequences().accepted, records);
    stream.close().unwrap();
    let reader = ReaderOptions::new().open(directory.path()).unwrap();
    let last: Vec<_> = reader.map(|it| it.unwrap().payload).skip(41).collect();
    assert_eq!(last, [&b"one"[..], b"two", b"three"]);
}

#[test]
fn a_batch_that_is_too_large_is_refused_as_a_whole() {
    let options = StreamOptions::new().memory(LaneConfig::bounded(1 << 20));
    let (_directory, stream) = open(options.shards(1).record_bytes_max(400_000));
    let refused = stream.append_batch(&vec![[1; 1_000]; 520]).unwrap_err();
    let AppendError::BatchTooLarge { bytes, limit } = refused else {
        panic!("{refused}");
    };
    assert_eq!(bytes, 520 * 1_008);
    assert!(((1 << 19) - 8_192..1 << 19).contains(&limit), "{limit}");
    let refused = stream.append_batch(&[vec![1; 10], vec![2; 400_001]]);
    assert!(matches!(refused, Err(AppendError::TooLarge { .. })));
    assert_eq!(stream.sequences().accepted, 0);
    let ticket = stream.append_batch(&vec![[1; 1_000]; 500]).unwrap();
    assert_eq!(ticket.wait(), Ok(500));
}

/// A batch: its number, and the indices of its records.
fn records(batch: u32, dice: &mut Dice) -> Vec<Vec<u8>> {
    let count = dice.by_magnitude(24) as u8;
    let record = |index| {
        let mut record = vec![index, count];
        record.extend(batch.to_le_bytes());
        record.resize(6 + dice.by_magnitude(12_000) as usize, index);
        record
    };
    (0..count).map(record).collect()
}

/// Appends batches until the stream takes no more. Returns their numbers and tickets.
fn produce(stream: &StreamWriter, first: u32, dice: &mut Dice) -> Vec<(u32, Ticket)> {
    let mut sent = Vec::new();
    for batch in first..first + dice.within(1..12) as u32 {
        let records = records(batch, dice);
        let Ok(mut ticket) = stream.append_batch(&records) else {
            break;
        };
        if dice.one_in(3) {
            let _ = ticket.wait_timeout(std::time::Duration::from_millis(5));
        }
        sent.push((batch, ticket));
    }
    sent
}

/// How many records of each batch there are; `Err` if they are not in a row.
fn found(disk: &SimulatedDisk, key: bool) -> Result<BTreeMap<u32, (u8, u8)>, String> {
    let options = ReaderOptions::new().key(key.then(Case::key));
    let reader = match options.open_on(Arc::new(disk.clone())) {
        Err(_) => return Ok(BTreeMap::new()),
        Ok(reader) => reader,
    };
    let mut found: BTreeMap<u32, (u8, u8)> = BTreeMap::new();
    for record in reader {
        let payload = record.map_err(|error| error.to_string())?.payload;
        let batch = u32::from_le_bytes(*payload[2..].first_chunk().unwrap());
        let entry = found.entry(batch).or_insert((0, payload[1]));
        if payload[0] != entry.0 {
            return Err(format!(
                "record {} of batch {batch} is {entry:?}",
                payload[0]
            ));
        }
        entry.0 += 1;
    }
    Ok(found)
}

fn run(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut case = Case::new(&mut dice);
    case.retention = Default::default();
    let mut disk = SimulatedDisk::new(case.disk);
    let (mut acknowledged, mut next) = (Vec::new(), 0);
    for life in 0..4 {
        let is_last = life == 3;
        if !is_last {
            match dice.within(0..3) {
                0 => disk.power_fails_at(dice.by_magnitude(200)),
                1 => disk.fail_at(dice.by_magnitude(200), Fault::Io),
                _ => {}
            }
        }
        let Ok(stream) = case
            .options(freeboard_stream::SyncMode::Batch)
            .open_on(Arc::new(disk.clone()))
        else {
            if is_last {
                return Err("the last life cannot be opened".to_owned());
            }
            disk = disk.reboot();
            continue;
        };
        if is_last {
            break;
        }
        let sent = thread::scope(|scope| {
            let producers: Vec<_> = (0..case.producers as u32)
                .map(|producer| {
                    let (stream, mut dice) = (stream.clone(), Dice::new(dice.next()));
                    let first = next + producer * 1_000;
                    scope.spawn(move || produce(&stream, first, &mut dice))
                })
                .collect();
            let sent = producers.into_iter().map(|it| it.join().unwrap());
            sent.flatten().collect::<Vec<_>>()
        });
        next += 10_000;
        disk.power_off();
        drop(stream);
        let durable = sent
            .iter()
            .filter(|it| matches!(it.1.try_get(), Some(Ok(_))));
        acknowledged.extend(durable.map(|(batch, _)| *batch));
        disk = disk.reboot();
    }
    let found = found(&disk, case.algorithm.is_sealed())?;
    let torn = found.iter().find(|(_, (there, count))| there != count);
    let lost = acknowledged.iter().find(|it| !found.contains_key(it));
    match (torn, lost) {
        (None, None) => Ok(()),
        _ => Err(format!("torn: {torn:?}, lost: {lost:?}\n{case:?}")),
    }
}

#[test]
fn a_crash_leaves_whole_batches_or_none() {
    for_seeds(600, run);
}
