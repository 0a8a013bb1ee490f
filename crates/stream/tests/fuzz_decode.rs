//! Whatever a stream's files hold, reading them ends, panics nowhere, takes memory in proportion to
//! the files, and hands out what was written and nothing else.
//!
//! The bounded form of `fuzz/`, with the same checks.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use freeboard_stream::{
    MasterKey,
    format::{
        ALIGNMENT, Algorithm, ChunkHeader, HeadsSum, SealUnit, SegmentHeader, StreamId, SyncKind,
        TAG_BYTES, Truncation, write_record,
    },
    seal::seal_chunk,
};
use proptest::prelude::*;
use support::{
    decode::{Decoded, decode},
    key,
    memory::Memory,
    mutation::Mutated,
    samples::{Sample, sample},
};

/// What reading takes whatever the files hold: windows and pieces of 1 MiB, a writer's buffers.
const BASE_BYTES: usize = 16 << 20;

/// The largest piece of that.
const BASE_PIECE_BYTES: usize = 2 << 20;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    // Ordering: Relaxed, here and below: they are counts, and whoever reads them has joined or holds
    // the lock of `measured`.
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
    LARGEST.fetch_max(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; the counts touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promise is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promise is passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the caller's promise is passed on.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Ordering: Relaxed, as above.
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Decodes with an eye on memory.
fn measured(memory: &Memory, key: Option<&MasterKey>, written: Option<&[Vec<u8>]>) -> Decoded {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes: usize = memory.0.values().map(|bytes| bytes.len()).sum();
    // Ordering: Relaxed, as above.
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    LARGEST.store(0, Ordering::Relaxed);
    let decoded = decode(memory, key, written);
    let (peak, largest) = (
        PEAK.load(Ordering::Relaxed) - live,
        LARGEST.load(Ordering::Relaxed),
    );
    let (peak_max, largest_max) = (BASE_BYTES + 8 * bytes, BASE_PIECE_BYTES + 2 * bytes);
    assert!(peak <= peak_max, "{peak} bytes for {bytes} of files");
    assert!(largest <= largest_max, "a piece of {largest} for {bytes}");
    decoded
}

/// Numbers at the edges of their range, where sums overflow, and small ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..6u64,
        1 => Just(0),
        1 => prop::sample::select(vec![
            u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 32, 1 << 30, (1 << 30) + 1, u32::MAX.into(),
        ]),
        1 => any::<u64>(),
    ]
}

fn algorithm() -> impl Strategy<Value = (Algorithm, SealUnit)> {
    let units = vec![SealUnit::Record, SealUnit::Batch];
    (
        prop::sample::select(Algorithm::ALL.to_vec()),
        prop::sample::select(units),
    )
}

const STREAM: StreamId = StreamId(*b"a forged stream!");

/// A segment's header that says anything, under a checksum that holds.
fn segment_header() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop::array::uniform6(number());
    let truncation = prop::option::of((number(), number()));
    let fields = (algorithm(), any::<bool>(), numbers, truncation);
    fields.prop_map(|((algorithm, unit), is_recycled, numbers, truncation)| {
        let [
            number,
            epoch,
            first_chunk,
            first_record,
            created_ns,
            segment_bytes,
        ] = numbers;
        let header = SegmentHeader {
            algorithm,
            unit,
            is_recycled,
            stream: STREAM,
            number,
            epoch,
            first_chunk,
            first_record,
            created_ns,
            segment_bytes,
            previous: [0; TAG_BYTES],
            key_check: [0; 32],
            tag: [0; TAG_BYTES],
            truncation: truncation.map(|(kept, removed)| Truncation { kept, removed }),
        };
        header.encode().to_vec()
    })
}

/// A chunk whose header says anything, under a checksum that holds.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop::array::uniform6(number());
    let body = prop::collection::vec(any::<u8>(), 0..64);
    let lengths = (0..4u32, prop_oneof![0..200u32, any::<u32>()]);
    let is_forged = any::<bool>();
    (algorithm(), numbers, lengths, body, is_forged).prop_map(
        |((algorithm, unit), numbers, (count, body_bytes), payload, is_forged)| {
            let [epoch, sequence, first_record, durable, time_ns, _] = numbers;
            let mut body = Vec::new();
            let mut heads = HeadsSum::default();
            heads.add(write_record(&mut body, &payload, 0), &[]);
            // A forged one is whole but for what its numbers say.
            let (algorithm, count, body_bytes) = match is_forged {
                true => (Algorithm::None, 1, body.len() as u32),
                false => (algorithm, count, body_bytes),
            };
            let mut header = ChunkHeader {
                algorithm,
                unit,
                sync: SyncKind::Batch,
                stream: STREAM,
                epoch,
                sequence,
                first_record,
                count,
                body_bytes,
                durable,
                time_ns,
                heads_sum: HeadsSum::default(),
                previous: [0; TAG_BYTES],
                tag: [0; TAG_BYTES],
            };
            if is_forged {
                seal_chunk(None, &mut header, &mut body, heads);
            }
            let mut bytes = header.encode().to_vec();
            bytes.extend_from_slice(&body);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
            bytes
        },
    )
}

/// A segment's file. The seed that a failure prints repeats it; this shows where it comes from.
#[derive(Clone)]
struct File(Vec<u8>);

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pages = self.0.chunks(ALIGNMENT);
        f.debug_list()
            .entries(pages.map(|page| page[..page.len().min(256)].escape_ascii().to_string()))
            .finish()
    }
}

fn memory(files: Vec<File>) -> Memory {
    let segments: Vec<Vec<u8>> = files.into_iter().map(|file| file.0).collect();
    Memory::of(&segments)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..6_000)
}

fn segment() -> impl Strategy<Value = File> {
    let chunks = prop::collection::vec(prop_oneof![8 => chunk(), 1 => bytes()], 0..5);
    let header = prop_oneof![8 => segment_header(), 1 => bytes()];
    (header, chunks).prop_map(|(header, chunks)| File([vec![header], chunks].concat().concat()))
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        segments in prop::collection::vec(bytes().prop_map(File), 1..3),
    ) {
        measured(&memory(segments), Some(&key()), None);
    }

    #[test]
    fn forged_headers_are_read_to_an_end(
        segments in prop::collection::vec(segment(), 1..4),
        has_key in any::<bool>(),
    ) {
        let key = has_key.then(key);
        measured(&memory(segments), key.as_ref(), None);
    }

    #[test]
    fn of_a_stream_that_was_changed_only_what_was_written_is_read(
        kind in any::<u8>(),
        chances in prop::collection::vec(any::<[u8; 8]>(), 0..6),
        has_key in any::<bool>(),
    ) {
        let Sample { maker, written, segments } = sample(kind);
        let mutated = Mutated::new(&segments, &chances);
        let key = (maker.algorithm.is_sealed() && has_key).then(key);
        // Without a key, a forger is believed.
        let is_provable = key.is_some() || !mutated.is_forged();
        let decoded = measured(
            &mutated.memory,
            key.as_ref(),
            is_provable.then_some(written.as_slice()),
        );
        if is_provable
            && decoded.is_read_whole
            && let Some(report) = decoded.report
            && decoded.read.len() == written.len()
        {
            // Each record that is read is one that the check calls whole.
            prop_assert_eq!(report.records, written.len() as u64);
        }
    }
}

#[test]
fn a_check_and_a_reader_agree_on_a_segment_that_begins_with_a_later_chunk() {
    let Sample { segments, .. } = sample(176);
    let later_chunk = [9, 32, 185, 241, 49, 90, 150, 162];
    let checksums_hold = [71, 92, 0, 0, 0, 0, 0, 0];
    let mutated = Mutated::new(&segments, &[later_chunk, checksums_hold]);
    let decoded = measured(&mutated.memory, None, None);
    assert!(!decoded.is_read_whole);
}
