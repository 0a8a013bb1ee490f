//! What somebody may do to a stream's files, and whether `verify` sees it. To add an attack, add a line to [`ATTACKS`].

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use crate::support::{
    StreamMaker, each_seal, key,
    memory::{Memory, read_past_damage},
};
use freeboard_stream::{
    Head, OpenError, ReadError, ReadFrom, ReaderOptions, SalvageOptions, SalvageReport,
    StreamOptions, VerifyOptions,
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, HeadsSum, RECORD_HEAD_BYTES,
        SealUnit, StreamId, SyncKind, TAG_BYTES, segment_name, segment_number,
    },
    salvage,
    storage::Disk,
    verify,
};

const OURS: StreamId = StreamId(*b"a stream of ours");
const THEIRS: StreamId = StreamId(*b"a stream, theirs");

/// What is done to the files, and who sees it: `always`, or `head` for an attack that leaves a shorter or another
/// stream, which only a head shows. The second word is for when a file for a next segment follows.
///
/// The stream has segments 1 to 3 with three chunks each, counted from 0, of four records each.
///
/// - `cut S C`: only the first C chunks of segment S are left; `tear S`: half of its last chunk is missing
/// - `empty S`, `zeros S`: the file has no bytes, or only zeros; `delete S`
/// - `swap A B`: the files change their names
/// - `splice S`: the file is the one of another stream with the same key; `foreign S` adds one
/// - `older S`: the file is as it was when it had one chunk
/// - `flip S C header`, `flip S C body`: one bit is changed
const ATTACKS: &[(&str, &str, &str)] = &[
    ("cut 3 2", "head", "head"),
    ("cut 3 0", "head", "head"),
    ("cut 2 2", "always", "always"),
    ("cut 1 0", "always", "always"),
    ("cut 1 0; delete 2; delete 3", "head", "always"),
    ("tear 3", "always", "always"),
    ("tear 1", "always", "always"),
    ("empty 3", "head", "head"),
    ("empty 2", "always", "always"),
    ("empty 1", "always", "always"),
    ("empty 1; delete 2; delete 3", "always", "always"),
    ("empty 2; empty 3", "head", "head"),
    ("zeros 3", "head", "head"),
    ("zeros 2", "always", "always"),
    ("zeros 1", "always", "always"),
    ("zeros 2; zeros 3", "head", "head"),
    ("delete 3", "head", "always"),
    ("delete 2", "always", "always"),
    ("delete 1", "always", "always"),
    ("delete 1; delete 2", "always", "always"),
    ("delete 1; delete 2; delete 3", "always", "always"),
    ("swap 1 2", "always", "always"),
    ("swap 2 3", "always", "always"),
    ("swap 1 3", "always", "always"),
    ("splice 1", "always", "always"),
    ("splice 2", "always", "always"),
    ("splice 3", "always", "always"),
    ("splice 1; splice 2; splice 3", "head", "head"),
    ("foreign 4", "always", "always"),
    ("older 3", "head", "head"),
    ("older 2", "always", "always"),
    ("older 1", "always", "always"),
    ("older 2; delete 3", "head", "always"),
    ("flip 3 2 header", "always", "always"),
    ("flip 3 2 body", "always", "always"),
    ("flip 3 0 header", "always", "always"),
    ("flip 2 2 header", "always", "always"),
    ("flip 1 0 body", "always", "always"),
];

/// A next segment's file that a writer has made ready.
const SUCCESSORS: [Option<usize>; 3] = [None, Some(0), Some(3 * ALIGNMENT)];

fn maker(stream: StreamId, sealing: Sealing) -> StreamMaker {
    let mut maker = StreamMaker::of(stream, sealing.algorithm, sealing.unit);
    maker.is_recycled = sealing.is_recycled;
    maker.thirty_six();
    maker
}

fn memory(stream: StreamId, sealing: Sealing) -> Memory {
    maker(stream, sealing).memory()
}

#[derive(Clone, Copy, Debug)]
struct Sealing {
    algorithm: Algorithm,
    unit: SealUnit,
    is_recycled: bool,
}

const BLAKE3: Sealing = Sealing {
    algorithm: Algorithm::Blake3,
    unit: SealUnit::Batch,
    is_recycled: false,
};

fn chunk_at(chunk: usize) -> usize {
    ALIGNMENT * (chunk + 1)
}

fn carry_out(attack: &str, memory: &mut Memory, other: &Memory) {
    for operation in attack.split("; ") {
        let words: Vec<&str> = operation.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let segment = number(1);
        let name = segment_name(segment);
        match words[0] {
            "cut" => memory
                .segment(segment)
                .truncate(chunk_at(number(2) as usize)),
            "tear" => memory
                .segment(segment)
                .truncate(chunk_at(2) + ALIGNMENT / 64),
            "empty" => memory.segment(segment).clear(),
            "zeros" => memory.segment(segment).fill(0),
            "delete" => drop(memory.0.remove(&name)),
            "swap" => {
                let second = memory.segment(number(2)).clone();
                let first = std::mem::replace(memory.segment(segment), second);
                *memory.segment(number(2)) = first;
            }
            "splice" => drop(memory.0.insert(name.clone(), other.0[&name].clone())),
            "foreign" => drop(memory.0.insert(name, other.0[&segment_name(3)].clone())),
            "older" => memory.segment(segment).truncate(chunk_at(1)),
            "flip" => {
                let offset =
                    chunk_at(number(2) as usize) + if words[3] == "header" { 90 } else { 300 };
                memory.segment(segment)[offset] ^= 1;
            }
            unknown => panic!("{unknown} is no attack"),
        }
    }
}

/// Whether `verify` does not find the stream whole.
fn is_seen(memory: &Memory, has_key: bool, head: Option<Head>) -> bool {
    let key = memory.key().filter(|_| has_key);
    memory
        .verify(key.as_ref(), head)
        .map_or(true, |report| !report.is_whole())
}

fn each_sealing(mut check: impl FnMut(Sealing, bool)) {
    each_seal(|algorithm, unit| {
        for is_recycled in [false, true] {
            let sealing = Sealing {
                algorithm,
                unit,
                is_recycled,
            };
            check(sealing, false);
            check(sealing, true);
        }
    });
}

fn add_successor(memory: &mut Memory, bytes: Option<usize>) {
    let numbers = memory.0.keys().filter_map(|name| segment_number(name));
    let next = numbers.max().map_or(4, |last| last.max(3) + 1);
    if let Some(bytes) = bytes {
        let file = Arc::new(vec![0; bytes]);
        memory.0.insert(segment_name(next), file);
    }
}

#[test]
fn each_attack_is_seen() {
    let mut wrong = Vec::new();
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        let head = Head::new(36, ours.tag(), sealing.algorithm);
        let other = memory(THEIRS, sealing);
        for successor in SUCCESSORS {
            let case = format!("{sealing:?}, key {has_key}, successor {successor:?}");
            let mut whole = ours.memory();
            add_successor(&mut whole, successor);
            assert!(!is_seen(&whole, has_key, Some(head)), "{case}: it is whole");
            for &(attack, alone, followed) in ATTACKS {
                let mut memory = ours.memory();
                carry_out(attack, &mut memory, &other);
                add_successor(&mut memory, successor);
                let expected = if successor.is_some() { followed } else { alone };
                let found = match (
                    is_seen(&memory, has_key, None),
                    is_seen(&memory, has_key, Some(head)),
                ) {
                    (true, true) => "always",
                    (false, true) => "head",
                    _ => "never with a head",
                };
                if found != expected {
                    wrong.push(format!("{attack}: {found}, not {expected} ({case})"));
                }
            }
        }
    });
    let (count, wrong) = (wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{count} cases:\n{wrong}");
}

#[test]
fn only_the_head_that_the_stream_has_is_accepted() {
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        let theirs = maker(THEIRS, sealing);
        let heads = [
            Head::new(999_999_999, [0; 64], sealing.algorithm),
            Head::new(36, [0; 64], sealing.algorithm),
            Head::new(35, ours.tag(), sealing.algorithm),
            Head::new(36, theirs.tag(), sealing.algorithm),
        ];
        for successor in SUCCESSORS {
            let mut memory = ours.memory();
            add_successor(&mut memory, successor);
            for head in heads {
                let case = format!("{head}, {sealing:?}, {successor:?}");
                assert!(is_seen(&memory, has_key, Some(head)), "{case}");
            }
        }
    });
}

/// A file in the stream's directory that no writer has put there, and whether `verify` names it.
const STRAYS: &[(&str, Stray, bool)] = &[
    ("00000000000000000000.segment", Stray::Empty, true),
    ("00000000001000000000.segment", Stray::Empty, true),
    ("18446744073709551614.segment", Stray::Empty, true),
    ("18446744073709551615.segment", Stray::Copy, true),
    // What would stop a reader for ever is left alone: the next segment's file takes its place.
    ("00000000000000000004.segment", Stray::Pipe, false),
    ("00000000000000000004.segment", Stray::Directory, false),
    // As a file made ready for the next segment.
    ("00000000000000000004.segment", Stray::Sparse, false),
    ("00000000000000000004.segment.orig", Stray::Copy, false),
    ("4.segment", Stray::Copy, false),
];

#[derive(Debug)]
enum Stray {
    Empty,
    /// Of segment 1.
    Copy,
    Pipe,
    Directory,
    /// A tebibyte of zeros.
    Sparse,
}

impl Stray {
    fn put(&self, directory: &Path, name: &str) {
        let path = directory.join(name);
        match self {
            Self::Empty => fs::write(path, []).unwrap(),
            Self::Copy => drop(fs::copy(directory.join(segment_name(1)), path).unwrap()),
            Self::Pipe => {
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
            }
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::Sparse => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        }
    }
}

#[test]
fn a_stray_file_stops_no_tool() {
    let ours = maker(OURS, BLAKE3);
    for (name, stray, is_named) in STRAYS {
        let case = format!("{name}, {stray:?}");
        let directory = tempfile::tempdir().unwrap();
        ours.write(directory.path());
        stray.put(directory.path(), name);
        let disk = Arc::new(Disk::open(directory.path()).unwrap());
        let check =
            || verify(&*disk, Some(&key()), &VerifyOptions::default(), &mut |_| {}).unwrap();
        let report = check();
        let damages: Vec<String> = report.damages.iter().map(ToString::to_string).collect();
        let is_found = damages.iter().any(|it| it.contains(name));
        assert_eq!(is_found, *is_named, "{case}: {damages:?}");
        let found = (report.records, damages.len());
        assert_eq!(found, (36, usize::from(*is_named)), "{case}");
        let mut copied = 0;
        let options = SalvageOptions::default();
        salvage(&*disk, Some(&key()), &options, &mut |_| {}, &mut |_| {
            copied += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(copied, 36, "{case}");
        let reader = ReaderOptions::new().key(key()).open_on(disk.clone());
        assert_eq!(reader.unwrap().map(Result::unwrap).count(), 36, "{case}");
        let options = StreamOptions::new()
            .seal(BLAKE3.algorithm, BLAKE3.unit)
            .segment_bytes(64 << 10)
            .key(key());
        let stream = options.open(directory.path()).unwrap();
        for _ in 0..20 {
            let wrote = stream.append(&[9; 10_000]).unwrap().wait();
            assert!(wrote.is_ok(), "{case}: {:?}", stream.fault());
        }
        stream.close().unwrap();
        let report = check();
        let found = (report.records, report.damage_count);
        assert_eq!(
            found,
            (56, u64::from(*is_named)),
            "{case}: {:?}",
            report.damages
        );
        assert!(report.segments > 4, "{case}");
        if matches!(stray, Stray::Directory) {
            let kept = directory.path().join(format!("{name}.0.broken"));
            assert!(kept.is_dir(), "it is set aside");
        }
    }
}

/// A segment of another stream after the end, under the next number and with several chunks that follow each other.
#[test]
fn a_segment_of_another_stream_after_the_end_is_kept() {
    each_seal(|algorithm, unit| {
        let case = format!("{algorithm} by {unit}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let sealing = Sealing {
            algorithm,
            unit,
            is_recycled: false,
        };
        maker(OURS, sealing).write(path);
        let mut theirs = maker(THEIRS, sealing);
        theirs.segment().chunk(["one"]).chunk(["two"]);
        let foreign = &theirs.segments()[3];
        fs::write(path.join(segment_name(4)), foreign).unwrap();
        let options = StreamOptions::new().seal(algorithm, unit).key(key());
        let stream = options.open(path).expect(&case);
        assert_eq!(stream.append(b"the next").unwrap().wait(), Ok(37), "{case}");
        stream.close().unwrap();
        let kept = fs::read(path.join(format!("{}.0.broken", segment_name(4)))).expect(&case);
        assert!(kept == *foreign, "{case}");
    });
}

/// The records that salvage hands over, and its report.
fn salvaged(memory: &Memory, has_key: bool) -> (Vec<u64>, SalvageReport) {
    let key = memory.key().filter(|_| has_key);
    memory.salvage(key.as_ref(), |_, _| {}).unwrap()
}

#[test]
fn salvage_takes_nothing_that_was_let_go() {
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        let segments = ours.segments();
        // Segment 3 is in the file of segment 1, and ends after its first chunk.
        let mut recycled = segments[2][..chunk_at(1)].to_vec();
        recycled.extend_from_slice(&segments[0][chunk_at(1)..]);
        let mut memory = Memory::of(&[segments[0].clone(), segments[1].clone(), recycled]);
        memory.0.remove(&segment_name(1));
        let (sequences, report) = salvaged(&memory, has_key);
        assert!(
            sequences.into_iter().eq(13..=28),
            "{sealing:?}, {has_key}: {report:?}"
        );
        assert_eq!(report.lost, []);
    });
}

#[test]
fn salvage_says_that_it_cannot_read_the_last_header() {
    each_sealing(|sealing, has_key| {
        for successor in SUCCESSORS {
            let mut memory = memory(OURS, sealing);
            carry_out("flip 3 2 header", &mut memory, &Memory::default());
            add_successor(&mut memory, successor);
            let (sequences, report) = salvaged(&memory, has_key);
            assert!(
                sequences.into_iter().eq(1..=32),
                "{sealing:?}, {has_key}: {report:?}"
            );
            assert_eq!(report.unreadable, [(3, chunk_at(2) as u64)]);
        }
    });
}

#[test]
fn salvage_takes_no_chunk_out_of_a_payload() {
    each_sealing(|sealing, has_key| {
        // A chunk with the stream's own id, as its author would see it in a file, inside of a record. It stands
        // where a page of the segment begins.
        let mut forger = StreamMaker::of(OURS, Algorithm::None, SealUnit::Batch);
        for number in 0..9_u8 {
            forger.chunk([vec![number; 100]]);
        }
        let forged = &forger.segments()[0][chunk_at(8)..];
        let mut payload = vec![7; 2 * ALIGNMENT];
        let at = ALIGNMENT - CHUNK_HEADER_BYTES - RECORD_HEAD_BYTES;
        payload[at..at + forged.len()].copy_from_slice(forged);
        let mut ours = StreamMaker::of(OURS, sealing.algorithm, sealing.unit);
        ours.chunk([payload]).chunk([b"second"]);
        let mut memory = ours.memory();
        let (sequences, _) = salvaged(&memory, has_key);
        assert_eq!(sequences, [1, 2], "{sealing:?}, {has_key}");
        // Behind the forged chunk, in the same payload.
        memory.segment(1)[chunk_at(2) - 1] ^= 1;
        let (sequences, report) = salvaged(&memory, has_key);
        assert_eq!(sequences, [2], "{sealing:?}, {has_key}: {report:?}");
        assert_eq!(report.lost, [(1, 1)]);
    });
}

/// What the pages of a payload say that look like chunks, each as long as the rest of the segment: stream, epoch,
/// sequence, and whether the segment was recycled.
const FORGERIES: &[(StreamId, u64, u64, bool)] = &[
    (OURS, 2, 3, false),
    (OURS, 1, 3, false),
    (OURS, 2, 1, false),
    (OURS, 2, 1, true),
    (THEIRS, 2, 3, false),
    (THEIRS, 2, 3, true),
];

/// A stream with record 2 full of forged headers, and its own chunk's header damaged.
fn forged(forgery: (StreamId, u64, u64, bool), algorithm: Algorithm) -> Memory {
    const PAGES: usize = 1_024;
    let (stream, epoch, sequence, is_recycled) = forgery;
    let unit = SealUnit::Batch;
    let mut payload = vec![7; PAGES * ALIGNMENT];
    // The payload begins behind the chunk's header and its own head.
    let at = ALIGNMENT - CHUNK_HEADER_BYTES - RECORD_HEAD_BYTES;
    for page in 0..PAGES - 1 {
        let rest = (PAGES - page) * ALIGNMENT;
        let header = ChunkHeader {
            algorithm,
            unit,
            sync: SyncKind::Batch,
            stream,
            epoch,
            sequence,
            first_record: sequence,
            count: 1,
            body_bytes: (rest - CHUNK_HEADER_BYTES) as u32,
            durable: sequence - 1,
            time_ns: 1,
            heads_sum: HeadsSum::default(),
            previous: [0; TAG_BYTES],
            tag: [0; TAG_BYTES],
        };
        let begin = page * ALIGNMENT + at;
        payload[begin..begin + CHUNK_HEADER_BYTES].copy_from_slice(&header.encode());
    }
    let mut ours = StreamMaker::of(OURS, algorithm, unit);
    (ours.epoch, ours.is_recycled) = (2, is_recycled);
    ours.chunk([b"first"]).chunk([payload]).chunk([b"third"]);
    let mut memory = ours.memory();
    memory.segment(1)[chunk_at(1) + 90] ^= 1;
    memory
}

/// A search that tried the body of each page would read a segment as often as it has pages.
#[test]
fn no_search_reads_a_body_for_each_page() {
    for &forgery in FORGERIES {
        for (algorithm, has_key) in [
            (Algorithm::None, false),
            (Algorithm::Blake3, false),
            (Algorithm::Blake3, true),
        ] {
            let whole = forged(forgery, algorithm);
            let mut headless = forged(forgery, algorithm);
            headless.segment(1)[20] ^= 1;
            headless.segment(1)[chunk_at(0) + 90] ^= 1;
            for memory in [whole, headless] {
                let key = has_key.then(key);
                let read = |what: &str, run: &dyn Fn()| {
                    // Ordering: Relaxed, all reads are of this thread.
                    let before = memory.1.load(Ordering::Relaxed);
                    run();
                    let read = memory.1.load(Ordering::Relaxed) - before;
                    let bytes = memory.0[&segment_name(1)].len() as u64;
                    assert!(
                        read < 64 * bytes,
                        "{what} read {} times the segment: {forgery:?}, {algorithm:?}, {has_key}",
                        read / bytes
                    );
                };
                read("verify", &|| {
                    let report = memory.verify(key.as_ref(), None);
                    assert!(!report.is_ok_and(|report| report.is_whole()));
                });
                read("salvage", &|| drop(memory.salvage(key.as_ref(), |_, _| {})));
                read("a reader", &|| {
                    let mut reader = memory.reader(key.clone(), ReadFrom::Start).unwrap();
                    let (records, _) = read_past_damage(&mut reader);
                    assert!(records.is_empty() || records == [1, 3], "{records:?}");
                });
                // The third chunk says that the second had been durable, so the stream is not changed.
                read("recovery", &|| {
                    let mut options = StreamOptions::new();
                    if algorithm.is_sealed() {
                        options = options.key(self::key());
                    }
                    let refused = options.open_on(Arc::new(memory.clone())).unwrap_err();
                    let is_damage =
                        matches!(refused, OpenError::Damaged(_) | OpenError::Format { .. });
                    assert!(is_damage, "{forgery:?}: {refused}");
                });
            }
        }
    }
}

/// Empty files whose numbers are far from the stream's, more of them than it has segments.
#[test]
fn strays_do_not_take_the_place_of_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let options = StreamOptions::new();
    let stream = options.open(directory.path()).unwrap();
    stream.append(b"first").unwrap().wait().unwrap();
    stream.close().unwrap();
    for number in 5_000_001..5_000_009 {
        fs::write(directory.path().join(segment_name(number)), []).unwrap();
    }
    let stream = options.open(directory.path()).unwrap();
    stream.append(b"second").unwrap().wait().unwrap();
    stream.close().unwrap();
    let reader = ReaderOptions::new().open(directory.path()).unwrap();
    let payloads: Vec<_> = reader.map(|record| record.unwrap().payload).collect();
    assert_eq!(payloads, [&b"first"[..], b"second"]);
    let disk = Disk::open(directory.path()).unwrap();
    let report = verify(&disk, None, &VerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.records, report.damage_count), (2, 8));
}

/// A segment of which only the header's bytes are zero, or that is empty: nothing is passed over in silence.
#[test]
fn a_blank_header_is_no_end() {
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        for (case, whole) in [("empty 2", 24), ("header 2", 36), ("header 1", 36)] {
            let mut memory = ours.memory();
            match case {
                "empty 2" => memory.segment(2).clear(),
                "header 2" => memory.segment(2)[..ALIGNMENT].fill(0),
                _ => memory.segment(1)[..ALIGNMENT].fill(0),
            }
            let key = memory.key().filter(|_| has_key);
            let case = format!("{case}, {sealing:?}, {has_key}");
            let (salvaged, report) = salvaged(&memory, has_key);
            assert_eq!(salvaged.len(), whole, "{case}: {report:?}");
            let mut reader = memory.reader(key, ReadFrom::Start).unwrap();
            let (records, damages) = read_past_damage(&mut reader);
            assert_eq!((records.len(), damages.is_empty()), (24, false), "{case}");
        }
    });
}

/// A first segment that the key does not agree with: of an unsealed stream, or sealed with another key.
#[test]
fn a_foreign_first_segment_is_passed_over() {
    let unsealed = StreamMaker::of(OURS, Algorithm::None, SealUnit::Batch);
    let mut other_key = StreamMaker::of(OURS, BLAKE3.algorithm, BLAKE3.unit);
    other_key.key(b"another key for tests, and only for them");
    for mut theirs in [unsealed, other_key] {
        theirs.chunk([b"foreign"]);
        let mut memory = memory(OURS, BLAKE3);
        *memory.segment(1) = theirs.segments()[0].clone();
        let mut reader = memory.reader(Some(key()), ReadFrom::Start).unwrap();
        assert!(matches!(
            reader.next_record(),
            Err(ReadError::Damaged { segment: 1, .. })
        ));
        reader.skip_damage().unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), 24);
    }
}

/// Segments of another stream with the same key, and which records of ours are left.
#[test]
fn most_headers_say_which_stream_it_is() {
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        let other = memory(THEIRS, sealing);
        for (attack, stream, first, last) in [
            ("splice 1", OURS, 13, 36),
            ("splice 3", OURS, 1, 24),
            ("splice 1; splice 2", THEIRS, 1, 24),
        ] {
            let mut memory = ours.memory();
            carry_out(attack, &mut memory, &other);
            let case = format!("{attack}, {sealing:?}, key {has_key}");
            let key = memory.key().filter(|_| has_key);
            let report = memory.verify(key.as_ref(), None).unwrap();
            assert_eq!(report.stream, stream, "{case}");
            let (sequences, report) = salvaged(&memory, has_key);
            assert!(sequences.into_iter().eq(first..=last), "{case}: {report:?}");
            for from in [ReadFrom::Start, ReadFrom::Sequence(first)] {
                let mut reader = memory.reader(key.clone(), from).unwrap();
                if from == ReadFrom::Start && first > 1 {
                    let refused = reader.next_record().unwrap_err();
                    assert!(
                        matches!(refused, ReadError::Damaged { segment: 1, .. }),
                        "{case}: {refused}"
                    );
                    reader.skip_damage().unwrap();
                }
                let sequences = reader.map_while(Result::ok).map(|record| record.sequence);
                assert!(sequences.eq(first..=last), "{case}, {from:?}");
            }
        }
    });
}

#[test]
fn a_reader_passes_over_each_attack_and_comes_to_an_end() {
    each_sealing(|sealing, has_key| {
        let ours = maker(OURS, sealing);
        let other = memory(THEIRS, sealing);
        for &(attack, ..) in ATTACKS {
            let mut memory = ours.memory();
            carry_out(attack, &mut memory, &other);
            let key = memory.key().filter(|_| has_key);
            let Ok(mut reader) = memory.reader(key, ReadFrom::Start) else {
                continue;
            };
            let case = format!("{attack}, {sealing:?}, key {has_key}");
            let (sequences, _) = read_past_damage(&mut reader);
            assert!(sequences.is_sorted_by(|left, right| left < right), "{case}");
            let expected = match attack {
                "foreign 4" => 36,
                "splice 1" | "splice 2" | "splice 3" => 24,
                _ => continue,
            };
            assert_eq!(sequences.len(), expected, "{case}: {sequences:?}");
        }
    });
}
