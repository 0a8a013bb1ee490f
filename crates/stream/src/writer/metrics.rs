//! The counters of a stream that is written, and its Prometheus families.

use std::sync::atomic::{AtomicUsize, Ordering};

use freeboard_flow::ShedReason;
use freeboard_meter::{Counter, Exposition, Histogram, HistogramSummary, metrics};

use super::buffer_size::BufferSize;

/// The counters and histograms of a stream.
#[derive(Default)]
pub(super) struct Gauges {
    size: BufferSize,
    /// The size of new buffers, in bytes.
    buffer_bytes: AtomicUsize,
    pub(super) shed: [Counter; ShedReason::COUNT],
    pub(super) refused: Counter,
    pub(super) unknown: Counter,
    pub(super) unwritten: Counter,
    bytes: Counter,
    chunks: Counter,
    pub(super) syncs: Counter,
    pub(super) reopenings: Counter,
    flush_bytes: Histogram,
    write_ns: Histogram,
    pub(super) acknowledge_ns: Histogram,
}

impl Gauges {
    pub(super) fn new(size: BufferSize) -> Self {
        Self {
            buffer_bytes: AtomicUsize::new(size.smallest()),
            size,
            ..Self::default()
        }
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        // Ordering: Relaxed, any recent size will do.
        self.buffer_bytes.load(Ordering::Relaxed)
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

    /// The fields that are counted here; the others are zero.
    pub(super) fn snapshot(&self) -> StreamSnapshot {
        let shed = ShedReason::ALL.into_iter();
        StreamSnapshot {
            buffer_bytes: self.buffer_bytes() as u64,
            records_shed: shed
                .map(|reason| (reason, self.shed[reason.index()].get()))
                .filter(|(_, count)| *count > 0)
                .collect(),
            records_refused: self.refused.get(),
            records_unknown: self.unknown.get(),
            records_unwritten: self.unwritten.get(),
            bytes_written: self.bytes.get(),
            chunks_written: self.chunks.get(),
            syncs: self.syncs.get(),
            reopenings: self.reopenings.get(),
            flush_bytes: self.flush_bytes.summary(),
            write_ns: self.write_ns.summary(),
            acknowledge_ns: self.acknowledge_ns.summary(),
            ..StreamSnapshot::default()
        }
    }
}

/// The state and the counters of a stream, as plain data.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StreamSnapshot {
    /// The last record when the stream was opened.
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
    /// Segments that the limit of bytes has removed before all named consumers had acknowledged their records.
    pub segments_unread: u64,
    /// Whether writes go past the page cache; `None` before the first segment.
    pub is_direct: Option<bool>,
    /// The bytes of each write.
    pub flush_bytes: HistogramSummary,
    /// The time each write took, in nanoseconds.
    pub write_ns: HistogramSummary,
    /// The time from a page's first record until it was durable, in nanoseconds.
    pub acknowledge_ns: HistogramSummary,
}

impl StreamSnapshot {
    /// Adds the families to `text`, labelled with `stream`. Records are counted from when the stream was opened.
    pub fn render(&self, stream: &str, text: &mut Exposition) {
        text.metrics(STREAM, &[("stream", stream)], self);
    }
}

metrics! {
    const STREAM: StreamSnapshot;
    counter "freeboard_stream_records_accepted_total" = |it| it.accepted.saturating_sub(it.recovered),
        "Records that were accepted.";
    counter "freeboard_stream_records_written_total" = |it| it.written.saturating_sub(it.recovered),
        "Records that were handed to the operating system.";
    counter "freeboard_stream_records_durable_total" = |it| it.durable.saturating_sub(it.recovered),
        "Records that are durable in the stream's mode.";
    gauge "freeboard_stream_records_lag" = |it| it.accepted.saturating_sub(it.durable),
        "Records that were accepted and are not durable yet.";
    gauge "freeboard_stream_durable_sequence" = |it| it.durable,
        "The number of the last record that is durable.";
    counter "freeboard_stream_records_refused_total" = |it| it.records_refused,
        "Records that were given back since memory was full.";
    counter "freeboard_stream_records_unknown_total" = |it| it.records_unknown,
        "Accepted records whose write failed: they may be on the disk or not.";
    counter "freeboard_stream_records_unwritten_total" = |it| it.records_unwritten,
        "Accepted records that were in memory when the stream failed.";
    counter "freeboard_stream_written_bytes_total" = |it| it.bytes_written,
        "Bytes written, headers and padding included.";
    counter "freeboard_stream_chunks_written_total" = |it| it.chunks_written,
        "Chunks written, each of them a batch of records.";
    counter "freeboard_stream_syncs_total" = |it| it.syncs, "Syncs of mode interval, and at the end.";
    counter "freeboard_stream_reopenings_total" = |it| it.reopenings,
        "Times the stream was read again after a failure.";
    gauge "freeboard_stream_memory_bytes" = |it| it.memory_bytes, "The bytes of all buffers in memory.";
    gauge "freeboard_stream_buffer_bytes" = |it| it.buffer_bytes, "The size of new buffers.";
    gauge "freeboard_stream_segments_finished" = |it| it.segments_finished,
        "Finished segments that are kept.";
    counter "freeboard_stream_segments_unread_total" = |it| it.segments_unread,
        "Segments that were removed for their bytes before all consumers had read them.";
    gauge "freeboard_stream_segments_bytes" = |it| it.segment_bytes, "The bytes of finished segments.";
    counter "freeboard_stream_records_shed_total" by "reason" = |it| {
        it.records_shed.iter().map(|(reason, count)| (reason.as_str(), *count))
    }, "Records that the overload policy has shed, by reason.";
    gauge "freeboard_stream_direct" = |it| it.is_direct, "Whether writes go past the page cache: 1 or 0.";
    summary "freeboard_stream_flush_bytes" = |it| &it.flush_bytes, "The bytes of each write.";
    summary "freeboard_stream_write_seconds" = |it| &it.write_ns, "The time each write took.";
    summary "freeboard_stream_acknowledge_seconds" = |it| &it.acknowledge_ns,
        "From a buffer's first record until it was durable.";
}
