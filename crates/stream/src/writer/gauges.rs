//! What is counted while a stream is written.

use std::sync::atomic::{AtomicUsize, Ordering};

use freeboard_flow::ShedReason;
use freeboard_meter::{Counter, Histogram, HistogramSummary};

use super::buffer_size::BufferSize;

/// The counters and histograms of a stream.
pub(super) struct Gauges {
    size: BufferSize,
    /// The size of new buffers, in bytes.
    buffer_bytes: AtomicUsize,
    shed: [Counter; ShedReason::COUNT],
    refused: Counter,
    unknown: Counter,
    unwritten: Counter,
    bytes: Counter,
    chunks: Counter,
    syncs: Counter,
    reopenings: Counter,
    flush_bytes: Histogram,
    write_ns: Histogram,
    acknowledge_ns: Histogram,
}

impl Gauges {
    pub(super) fn new(size: BufferSize) -> Self {
        Self {
            buffer_bytes: AtomicUsize::new(size.smallest()),
            size,
            shed: [const { Counter::new() }; ShedReason::COUNT],
            refused: Counter::new(),
            unknown: Counter::new(),
            unwritten: Counter::new(),
            bytes: Counter::new(),
            chunks: Counter::new(),
            syncs: Counter::new(),
            reopenings: Counter::new(),
            flush_bytes: Histogram::new(),
            write_ns: Histogram::new(),
            acknowledge_ns: Histogram::new(),
        }
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        // Ordering: Relaxed, any recent size will do.
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn shed(&self, reason: ShedReason) {
        self.shed[reason.index()].add(1);
    }

    pub(super) fn refuse(&self) {
        self.refused.add(1);
    }

    pub(super) fn wrote(&self, bytes: u64, chunks: usize, time_ns: u64) {
        self.bytes.add(bytes);
        self.chunks.add(chunks as u64);
        self.flush_bytes.record_shared(bytes);
        self.write_ns.record_shared(time_ns);
        let size = self.size.after(self.buffer_bytes(), bytes, time_ns);
        // Ordering: Relaxed, as above.
        self.buffer_bytes.store(size, Ordering::Relaxed);
    }

    pub(super) fn synced(&self) {
        self.syncs.add(1);
    }

    /// A buffer's records are durable, the first of them after this time.
    pub(super) fn acknowledged(&self, time_ns: u64) {
        self.acknowledge_ns.record_shared(time_ns);
    }

    pub(super) fn failed(&self, unknown: u64, unwritten: u64) {
        self.unknown.add(unknown);
        self.unwritten.add(unwritten);
    }

    pub(super) fn reopened(&self) {
        self.reopenings.add(1);
    }

    pub(super) fn fill(&self, snapshot: &mut StreamSnapshot) {
        snapshot.buffer_bytes = self.buffer_bytes() as u64;
        snapshot.records_shed = ShedReason::ALL
            .into_iter()
            .map(|reason| (reason, self.shed[reason.index()].get()))
            .filter(|(_, count)| *count > 0)
            .collect();
        snapshot.records_refused = self.refused.get();
        snapshot.records_unknown = self.unknown.get();
        snapshot.records_unwritten = self.unwritten.get();
        snapshot.bytes_written = self.bytes.get();
        snapshot.chunks_written = self.chunks.get();
        snapshot.syncs = self.syncs.get();
        snapshot.reopenings = self.reopenings.get();
        snapshot.flush_bytes = self.flush_bytes.summary();
        snapshot.write_ns = self.write_ns.summary();
        snapshot.acknowledge_ns = self.acknowledge_ns.summary();
    }
}

/// How a stream fares, as plain data.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StreamSnapshot {
    /// The last record that was there when the stream was opened.
    pub recovered: u64,
    /// The last record that was accepted.
    pub accepted: u64,
    /// The last record that was handed to the operating system.
    pub written: u64,
    /// The last record that is durable in the stream's mode.
    pub durable: u64,
    /// Records that the overload policy has shed, by reason.
    pub records_shed: Vec<(ShedReason, u64)>,
    /// Records that were given back since memory was full.
    pub records_refused: u64,
    /// Accepted records whose write failed: they may be on the disk or not.
    pub records_unknown: u64,
    /// Accepted records that were in memory when the stream failed.
    pub records_unwritten: u64,
    /// Bytes written, headers and padding included.
    pub bytes_written: u64,
    /// Chunks written.
    pub chunks_written: u64,
    /// Syncs of mode interval, and at the end.
    pub syncs: u64,
    /// How many times the stream was read again after a failure.
    pub reopenings: u64,
    /// The bytes of all buffers in memory.
    pub memory_bytes: u64,
    /// The size of new buffers, in bytes.
    pub buffer_bytes: u64,
    /// Finished segments.
    pub segments_finished: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Whether writes go past the page cache; `None` before the first segment.
    pub is_direct: Option<bool>,
    /// The bytes of each write.
    pub flush_bytes: HistogramSummary,
    /// The time each write took, in nanoseconds.
    pub write_ns: HistogramSummary,
    /// The time from a buffer's first record until it was durable, in nanoseconds.
    pub acknowledge_ns: HistogramSummary,
}
