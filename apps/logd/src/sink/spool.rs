//! A spool: a stream on disk that holds what its reader has not taken.
//!
//! ```text
//!   batches ─▶ StreamSink ─▶ stream ─▶ Consumer ─▶ Chunk ─▶ split ─▶ batches
//! ```

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use bytes::Bytes;
use freeboard::{
    platform::sync::Mutex,
    stream::{Retention, SEGMENT_BYTES_MIN, StreamOptions},
};

use super::{
    StreamSinkConfig,
    consumer::{Acks, Chunk, Part},
    lock,
};
use crate::{
    batch::{Batch, BatchBuilder, Done, Line},
    priority::Group,
    record::{LogRecord, decode_batch},
    source::{Source, SourceBound},
};

/// The largest segment of a spool, in bytes.
const SEGMENT_BYTES_MAX: u64 = 32 << 20;

/// What happens when a spool has reached its bound, or its disk is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpoolFull {
    /// The oldest lines are removed, and counted as lost. On a full disk, new lines are shed.
    #[default]
    DropOldest,
    /// It takes no more. The writer waits, and with it all sinks.
    Wait,
}

/// A stream on disk that holds what its reader has not taken.
#[derive(Clone, Debug)]
pub struct SpoolConfig {
    /// Its directory. It is created when it is needed.
    pub path: PathBuf,
    /// The bound of its finished segments, in bytes, at least 512 KiB. One that is being written and one that is prepared
    /// take at most a quarter of that in addition.
    pub bytes_max: u64,
    /// What happens then.
    pub full: SpoolFull,
    /// How it is sealed and synced, its memory. Retention and the size of segments are the spool's.
    pub options: StreamOptions,
}

impl SpoolConfig {
    /// A spool of up to 1 GiB that drops the oldest lines.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            bytes_max: 1 << 30,
            full: SpoolFull::default(),
            options: StreamOptions::new(),
        }
    }

    /// The settings of its stream, and the bytes at which it waits.
    pub(super) fn stream(&self) -> (StreamSinkConfig, Option<u64>) {
        let segment_bytes = (self.bytes_max / 8).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let bytes_max = self.bytes_max.max(SEGMENT_BYTES_MIN * 8);
        let (bytes, bytes_wait) = match self.full {
            SpoolFull::DropOldest => (Some(bytes_max), None),
            SpoolFull::Wait => (None, Some(bytes_max)),
        };
        let retention = Retention {
            bytes,
            acknowledged: true,
            ..Retention::default()
        };
        let options = self.options.clone().retention(retention);
        let config = StreamSinkConfig {
            path: self.path.clone(),
            options: options.segment_bytes(segment_bytes),
        };
        (config, bytes_wait)
    }
}

/// The durable position moves behind a chunk when its last batch has left the sink.
struct ChunkAtWork {
    acks: Arc<Mutex<Acks>>,
    part: Part,
}

impl Drop for ChunkAtWork {
    fn drop(&mut self) {
        lock(&self.acks).finish(self.part);
    }
}

/// Records of one source, group and time of receipt.
type Run = (Arc<Source>, Group, u64, BatchBuilder);

/// Makes batches of records: one for each run. Records before `given_before` are left out.
pub(super) fn split(
    chunk: Chunk,
    given_before: u64,
    acks: &Arc<Mutex<Acks>>,
    batches: &mut VecDeque<Arc<Batch>>,
) {
    let part = lock(acks).begin(chunk.last);
    let at_work = Arc::new(ChunkAtWork {
        acks: acks.clone(),
        part,
    });
    let body = Bytes::from(chunk.body);
    let mut run: Option<Run> = None;
    let mut finish = |run: Option<Run>| {
        let Some((source, _, received_ns, mut builder)) = run else {
            return;
        };
        let at_work = at_work.clone();
        let done: Done = Box::new(move |_| drop(at_work));
        if let Some(batch) = builder.build(&source, received_ns, &body, Some(done)) {
            let _ = batch.claim(1);
            batches.push_back(batch);
        }
    };
    let mut sequence = chunk.first;
    for record in decode_batch(&body) {
        let (at, record) = record.expect("a chunk has whole lines");
        sequence += 1;
        if sequence <= given_before {
            continue;
        }
        let group = Group::of(record.priority.severity());
        let is_same = |run: &Run| {
            run.0.name() == record.source && run.1 == group && run.2 == record.received_ns
        };
        if !run.as_ref().is_some_and(is_same) {
            finish(run.take());
            let source = Source::new(record.source, SourceBound::NONE);
            run = Some((source, group, record.received_ns, BatchBuilder::new(group)));
        }
        if let Some((.., builder)) = &mut run {
            builder.push(line_of(at, &record));
        }
    }
    finish(run.take());
}

fn line_of(at: usize, record: &LogRecord<'_>) -> Line {
    let narrow = |value: usize| u32::try_from(value).expect("a chunk is small");
    Line {
        at: narrow(at),
        bytes: narrow(record.text.len()),
        host_at: record.host_at,
        host_bytes: record.host_bytes,
        priority: record.priority,
        format: record.format,
        marks: record.marks,
    }
}
