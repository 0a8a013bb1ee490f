//! What a stream has counted, as Prometheus families.

use freeboard_meter::{Exposition, FamilyKind, HistogramSummary};

use crate::writer::StreamSnapshot;

impl StreamSnapshot {
    /// Adds the families to `text`, labelled with `stream`. Records are counted from when the stream was
    /// opened.
    pub fn render(&self, stream: &str, text: &mut Exposition) {
        let label = ("stream", stream);
        for (name, kind, help, field) in FAMILIES {
            text.family(name, *kind, help);
            text.sample(name, &[label], field(self) as f64);
        }
        let name = "freeboard_stream_records_shed_total";
        let help = "Records that the overload policy has shed, by reason.";
        text.family(name, FamilyKind::Counter, help);
        for (reason, count) in &self.records_shed {
            text.sample(name, &[label, ("reason", reason.as_str())], *count as f64);
        }
        let name = "freeboard_stream_direct";
        let help = "Whether writes go past the page cache: 1 or 0.";
        text.family(name, FamilyKind::Gauge, help);
        if let Some(is_direct) = self.is_direct {
            text.sample(name, &[label], f64::from(u8::from(is_direct)));
        }
        let name = "freeboard_stream_flush_bytes";
        text.family(name, FamilyKind::Summary, "The bytes of each write.");
        text.summary(name, &[label], &self.flush_bytes);
        for (name, help, summary) in TIMES {
            text.family(name, FamilyKind::Summary, help);
            text.summary(name, &[label], summary(self));
        }
    }
}

type Family = (
    &'static str,
    FamilyKind,
    &'static str,
    fn(&StreamSnapshot) -> u64,
);

const FAMILIES: &[Family] = &[
    (
        "freeboard_stream_records_accepted_total",
        FamilyKind::Counter,
        "Records that were accepted.",
        |it| it.accepted.saturating_sub(it.recovered),
    ),
    (
        "freeboard_stream_records_written_total",
        FamilyKind::Counter,
        "Records that were handed to the operating system.",
        |it| it.written.saturating_sub(it.recovered),
    ),
    (
        "freeboard_stream_records_durable_total",
        FamilyKind::Counter,
        "Records that are durable in the stream's mode.",
        |it| it.durable.saturating_sub(it.recovered),
    ),
    (
        "freeboard_stream_records_lag",
        FamilyKind::Gauge,
        "Records that were accepted and are not durable yet.",
        |it| it.accepted.saturating_sub(it.durable),
    ),
    (
        "freeboard_stream_durable_sequence",
        FamilyKind::Gauge,
        "The number of the last record that is durable.",
        |it| it.durable,
    ),
    (
        "freeboard_stream_records_refused_total",
        FamilyKind::Counter,
        "Records that were given back since memory was full.",
        |it| it.records_refused,
    ),
    (
        "freeboard_stream_records_unknown_total",
        FamilyKind::Counter,
        "Accepted records whose write failed: they may be on the disk or not.",
        |it| it.records_unknown,
    ),
    (
        "freeboard_stream_records_unwritten_total",
        FamilyKind::Counter,
        "Accepted records that were in memory when the stream failed.",
        |it| it.records_unwritten,
    ),
    (
        "freeboard_stream_written_bytes_total",
        FamilyKind::Counter,
        "Bytes written, headers and padding included.",
        |it| it.bytes_written,
    ),
    (
        "freeboard_stream_chunks_written_total",
        FamilyKind::Counter,
        "Chunks written, each of them a batch of records.",
        |it| it.chunks_written,
    ),
    (
        "freeboard_stream_syncs_total",
        FamilyKind::Counter,
        "Syncs of mode interval, and at the end.",
        |it| it.syncs,
    ),
    (
        "freeboard_stream_reopenings_total",
        FamilyKind::Counter,
        "Times the stream was read again after a failure.",
        |it| it.reopenings,
    ),
    (
        "freeboard_stream_memory_bytes",
        FamilyKind::Gauge,
        "The bytes of all buffers in memory.",
        |it| it.memory_bytes,
    ),
    (
        "freeboard_stream_buffer_bytes",
        FamilyKind::Gauge,
        "The size of new buffers.",
        |it| it.buffer_bytes,
    ),
    (
        "freeboard_stream_segments_finished",
        FamilyKind::Gauge,
        "Finished segments that are kept.",
        |it| it.segments_finished,
    ),
    (
        "freeboard_stream_segments_bytes",
        FamilyKind::Gauge,
        "The bytes of finished segments.",
        |it| it.segment_bytes,
    ),
];

type Times = (
    &'static str,
    &'static str,
    fn(&StreamSnapshot) -> &HistogramSummary,
);

const TIMES: &[Times] = &[
    (
        "freeboard_stream_write_seconds",
        "The time each write took.",
        |it| &it.write_ns,
    ),
    (
        "freeboard_stream_acknowledge_seconds",
        "From a buffer's first record until it was durable.",
        |it| &it.acknowledge_ns,
    ),
];
