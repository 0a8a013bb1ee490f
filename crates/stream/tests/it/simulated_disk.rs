//! What the simulated disk promises, and that it breaks what it does not promise.
//!
//! Each test runs over many seeds: what is promised holds for all of them, and each way in which a
//! disk may forget shows for at least one.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use freeboard_stream::storage::{
    Access, AlignedBuffer, Storage, StorageFile,
    simulated::{Fault, Operation, PowerIsOff, SimulatedDisk, SimulatedSettings},
};

const SEEDS: u64 = 300;
const PAGE: usize = 4_096;

fn disk(seed: u64) -> SimulatedDisk {
    disk_with(|settings| settings.seed = seed)
}

fn disk_with(change: impl FnOnce(&mut SimulatedSettings)) -> SimulatedDisk {
    let mut settings = SimulatedSettings::default();
    change(&mut settings);
    SimulatedDisk::new(settings)
}

fn create(disk: &SimulatedDisk, name: &str, bytes: u64, access: Access) -> Arc<dyn StorageFile> {
    let file = disk.create(name, bytes, access).unwrap();
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    file
}

fn pages(count: usize, byte: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(count * PAGE);
    buffer.as_mut_slice().fill(byte);
    buffer
}

fn content(disk: &SimulatedDisk, name: &str, access: Access) -> Vec<u8> {
    let file = disk.open(name, access).unwrap();
    let mut bytes = vec![0xee; file.bytes().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// The distinct outcomes of `run` over all seeds.
fn outcomes<T: Ord>(run: impl Fn(u64) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(run).collect()
}

/// Which sectors of 512 bytes hold `byte`; every other must be all zeros.
#[track_caller]
fn sectors(bytes: &[u8], byte: u8) -> Vec<bool> {
    let sector = |sector: &[u8]| {
        let is_written = sector[0] == byte;
        let expected = if is_written { byte } else { 0 };
        let is_whole = sector.iter().all(|found| *found == expected);
        assert!(is_whole, "a torn sector");
        is_written
    };
    bytes.chunks(512).map(sector).collect()
}

#[test]
fn what_was_synced_survives() {
    for seed in 0..SEEDS {
        let disk = disk(seed);
        let file = create(&disk, "cached", 0, Access::Cached);
        file.write_at(&[b"one, ", b"two"], 0).unwrap();
        file.sync().unwrap();
        let file = create(&disk, "durable", 2 * PAGE as u64, Access::Durable);
        file.write_at(&[pages(1, 7).as_slice()], PAGE as u64)
            .unwrap();
        let disk = disk.reboot();
        let cached = content(&disk, "cached", Access::Read);
        assert_eq!(cached, b"one, two", "seed {seed}");
        let durable = content(&disk, "durable", Access::Read);
        assert!(durable[..PAGE].iter().all(|byte| *byte == 0), "seed {seed}");
        assert!(durable[PAGE..].iter().all(|byte| *byte == 7), "seed {seed}");
    }
}

#[test]
fn what_was_not_synced_survives_by_sectors() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 2_048, Access::Cached);
        file.write_at(&[&[7; 2_048]], 0).unwrap();
        sectors(&content(&disk.reboot(), "file", Access::Read), 7)
    });
    assert_eq!(found.len(), 16, "any of four sectors: {found:?}");
}

#[test]
fn large_sectors_are_whole() {
    for seed in 0..SEEDS {
        let disk = disk_with(|it| (it.seed, it.sector_bytes) = (seed, PAGE));
        let file = create(&disk, "file", 2 * PAGE as u64, Access::Durable);
        disk.power_fails_at(disk.calls() + 1);
        file.write_at(&[pages(2, 7).as_slice()], 0).unwrap_err();
        let found = sectors(&content(&disk.reboot(), "file", Access::Read), 7);
        let is_whole = |page: &[bool]| page.iter().all(|is| *is == page[0]);
        assert!(found.chunks(8).all(is_whole), "seed {seed}");
    }
}

#[test]
fn a_sector_may_be_as_it_was_in_between() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 512, Access::Cached);
        file.write_at(&[&[1; 512]], 0).unwrap();
        file.write_at(&[&[2; 512]], 0).unwrap();
        content(&disk.reboot(), "file", Access::Read)[0]
    });
    assert_eq!(found, [0, 1, 2].into());
}

#[test]
fn a_durable_write_is_torn_when_the_power_fails_in_it() {
    for access in [Access::Durable, Access::Cached] {
        let found = outcomes(|seed| {
            let disk = disk(seed);
            let file = create(&disk, "file", PAGE as u64, access);
            disk.power_fails_at(disk.calls() + 1);
            let error = file.write_at(&[pages(1, 7).as_slice()], 0).unwrap_err();
            assert!(PowerIsOff::caused(&error), "{error}");
            sectors(&content(&disk.reboot(), "file", Access::Read), 7)
        });
        assert!(found.contains(&vec![false; 8]) && found.contains(&vec![true; 8]));
        let is_end = |found: &Vec<bool>| !found[0] && found[7];
        assert!(found.iter().any(is_end), "the end without the beginning");
    }
}

/// The second of two calls loses power. If the first had returned by then, its write is whole.
#[test]
fn writes_of_two_threads_are_on_their_way_at_once() {
    let is_torn = |found: &[bool]| found.contains(&true) && found.contains(&false);
    let are_both_torn = |seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 2 * PAGE as u64, Access::Durable);
        disk.power_fails_at(disk.calls() + 2);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for at in 0..2 {
                let (file, start) = (&file, &start);
                scope.spawn(move || {
                    start.wait();
                    let _ = file.write_at(&[pages(1, 7).as_slice()], at * PAGE as u64);
                });
            }
        });
        let found = sectors(&content(&disk.reboot(), "file", Access::Read), 7);
        is_torn(&found[..8]) && is_torn(&found[8..])
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut seeds = 0..;
    while !seeds.next().is_some_and(are_both_torn) {
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "one write always ends before the other begins");
    }
}

#[test]
fn unsynced_lengths_survive_in_order() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 3_000, Access::Cached);
        file.write_at(&[&[7; 3_000]], 0).unwrap();
        file.sync().unwrap();
        file.resize(1_000).unwrap();
        file.resize(2_000).unwrap();
        let bytes = content(&disk.reboot(), "file", Access::Read);
        let expected = if bytes.len() == 2_000 { 0 } else { 7 };
        let is_it = bytes[1_000..].iter().all(|byte| *byte == expected);
        assert!(is_it, "seed {seed}");
        bytes.len()
    });
    assert_eq!(found, [1_000, 2_000, 3_000].into());
}

#[test]
fn unsynced_names_survive_or_not() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        create(&disk, "a", 0, Access::Cached);
        disk.create("b", 0, Access::Cached).unwrap().sync().unwrap();
        disk.rename("b", "c").unwrap();
        disk.remove("a").unwrap();
        disk.reboot().list().unwrap().concat()
    });
    let expected = ["", "a", "ab", "ac", "b", "c"].map(str::to_owned);
    let expected = expected.into();
    assert_eq!(found, expected, "a rename needs the creation before it");
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_one() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        create(&disk, "old", 1, Access::Cached);
        create(&disk, "new", 2, Access::Cached);
        disk.rename("new", "old").unwrap();
        let disk = disk.reboot();
        let files = disk.list().unwrap().len();
        (files, content(&disk, "old", Access::Read).len())
    });
    assert_eq!(found, [(2, 1), (1, 2)].into());
}

#[test]
fn old_handles_fail_after_a_power_failure() {
    let disk = disk(1);
    let file = create(&disk, "file", PAGE as u64, Access::Cached);
    let guard = disk.lock().unwrap();
    assert_eq!(disk.lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    disk.power_off();
    let next = disk.reboot();
    assert!(!disk.is_on() && next.is_on());
    let errors = [
        file.write_at(&[b"late"], 0).unwrap_err(),
        file.sync().unwrap_err(),
        file.read_at(&mut [0], 0).unwrap_err(),
        disk.list().unwrap_err(),
        disk.remove("file").unwrap_err(),
    ];
    assert!(errors.iter().all(PowerIsOff::caused), "{errors:?}");
    let lock = next.lock().expect("locks do not survive");
    drop(guard);
    assert!(next.lock().is_err(), "the guard was of an earlier start");
    drop(lock);
    next.lock().unwrap();
    assert_eq!(content(&next, "file", Access::Read), [0; PAGE]);
}

#[test]
fn a_killed_process_loses_its_locks_and_nothing_else() {
    for seed in 0..SEEDS {
        let disk = disk(seed);
        let file = disk.create("file", 0, Access::Cached).unwrap();
        file.write_at(&[b"in the page cache"], 0).unwrap();
        let _guard = disk.lock().unwrap();
        let disk = disk.kill();
        assert!(file.sync().is_err());
        disk.lock().unwrap();
        assert_eq!(content(&disk, "file", Access::Read), b"in the page cache");
    }
}

#[test]
fn a_failed_sync_marks_clean_what_it_lost() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 1_024, Access::Cached);
        file.write_at(&[&[7; 1_024]], 0).unwrap();
        disk.fail_next(Operation::Sync, Fault::Io);
        file.sync().unwrap_err();
        file.sync().expect("the second sync has nothing to do");
        let cache = content(&disk, "file", Access::Read);
        assert_eq!(cache, [7; 1_024], "the cache shows it still");
        let device = content(&disk, "file", Access::ReadDevice);
        let kept = content(&disk.reboot(), "file", Access::Read);
        assert_eq!(device, kept, "seed {seed}");
        sectors(&device, 7)
    });
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn reading_the_device_sees_what_is_dirty_and_keeps_nothing() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", 512, Access::Cached);
        file.write_at(&[&[7; 512]], 0).unwrap();
        assert_eq!(content(&disk, "file", Access::ReadDevice), [7; 512]);
        sectors(&content(&disk.reboot(), "file", Access::Read), 7)
    });
    assert_eq!(found.len(), 2);
}

#[test]
fn a_failed_write_has_written_any_of_its_sectors() {
    let found = outcomes(|seed| {
        let disk = disk(seed);
        let file = create(&disk, "file", PAGE as u64, Access::Durable);
        disk.fail_next(Operation::Write, Fault::Io);
        let error = file.write_at(&[pages(1, 7).as_slice()], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "EIO");
        sectors(&content(&disk, "file", Access::Read), 7)
    });
    assert!(found.len() > 16, "{} outcomes", found.len());
}

#[test]
fn without_direct_io_a_durable_file_is_synced_at_each_write() {
    for seed in 0..SEEDS {
        let disk = disk_with(|it| (it.seed, it.is_direct) = (seed, false));
        let file = create(&disk, "file", 0, Access::Durable);
        assert!(!file.is_direct());
        file.write_at(&[b"not aligned"], 3).unwrap();
        let found = content(&disk.reboot(), "file", Access::Read);
        assert_eq!(found, b"\0\0\0not aligned", "seed {seed}");
    }
}

#[test]
fn direct_writes_are_aligned_or_refused() {
    let disk = disk(1);
    let file = create(&disk, "file", 2 * PAGE as u64, Access::Durable);
    assert!(file.is_direct());
    let buffer = pages(2, 7);
    let bytes = buffer.as_slice();
    for (part, offset) in [
        (&bytes[..PAGE], 512),
        (&bytes[..512], 0),
        (&bytes[512..512 + PAGE], 0),
    ] {
        let error = file.write_at(&[part], offset).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    let reader = disk.open("file", Access::Read).unwrap();
    reader
        .write_at(&[bytes], 0)
        .expect_err("it was opened to be read");
}

#[test]
fn a_full_disk_says_so_and_has_room_again() {
    let disk = disk_with(|it| it.capacity_bytes = Some(3 * PAGE as u64));
    let full = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::StorageFull;
    let file = create(&disk, "file", 2 * PAGE as u64, Access::Cached);
    let too_large = disk.create("large", 2 * PAGE as u64, Access::Cached);
    assert!(full(too_large.map(|_| ())));
    assert!(full(file.resize(4 * PAGE as u64)));
    let two = pages(2, 7);
    assert!(full(file.write_at(&[two.as_slice()], 2 * PAGE as u64)));
    let own = file.write_at(&[two.as_slice()], 0);
    own.expect("this space is its own");
    assert_eq!(disk.list().unwrap(), ["file"]);
    disk.set_capacity(Some(5 * PAGE as u64));
    file.resize(4 * PAGE as u64).unwrap();
    assert!(full(file.resize(6 * PAGE as u64)));
    disk.remove("file").unwrap();
    create(&disk, "large", 5 * PAGE as u64, Access::Cached);
}

#[test]
fn calls_are_counted_and_fail_as_planned() {
    let disk = disk(1);
    let file = create(&disk, "file", 0, Access::Cached);
    assert_eq!(disk.calls(), 3);
    disk.fail_at(5, Fault::Full);
    disk.list().unwrap();
    assert_eq!(disk.list().unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.fail_next(Operation::Bytes, Fault::Io);
    disk.list().unwrap();
    file.bytes().unwrap_err();
    file.bytes().unwrap();
    disk.fail_next(Operation::Sync, Fault::Io);
    let again = disk.kill().open("file", Access::Cached).unwrap();
    again.sync().expect("a new start, a new plan");
}

#[test]
fn a_seed_repeats_a_run() {
    let run = |seed| {
        let disk = disk(seed);
        for name in ["a", "b", "c"] {
            let file = disk.create(name, 8_192, Access::Cached).unwrap();
            file.write_at(&[&[7; 8_192]], 0).unwrap();
        }
        let disk = disk.reboot();
        let files = disk.list().unwrap().into_iter();
        let files = files.map(|name| content(&disk, &name, Access::Read));
        files.collect::<Vec<_>>()
    };
    for seed in 0..SEEDS {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn a_failed_sync_is_told_once_to_each_open_file() {
    let disk = disk(1);
    let first = create(&disk, "file", 1_024, Access::Cached);
    let second = disk.open("file", Access::Cached).unwrap();
    first.write_at(&[&[7; 512]], 0).unwrap();
    second.write_at(&[&[7; 512]], 512).unwrap();
    disk.fail_next(Operation::Sync, Fault::Io);
    second.sync().unwrap_err();
    second.sync().expect("it was told");
    let later = disk.open("file", Access::Cached).unwrap();
    later.sync().expect("another was told before it was opened");
    let error = first.sync().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "EIO");
    first.sync().expect("it was told");
}
