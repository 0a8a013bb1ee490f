//! Bodies of encoded records, from the relay of another server: source, priority and time survive.
//!
//! `record.rs` has the format. Consecutive records of one source and one time of receipt become one batch per severity group, as they were one read
//! before. The groups' policies for sources do not apply again: a line that was kept is not sampled or counted as a repeat.

use std::{num::NonZeroUsize, sync::Arc};

use bytes::{Bytes, BytesMut};
use freeboard::net::{
    http::{BodyFlow, BodySink, Reply, Resume},
    types::StatusCode,
};
use lru::LruCache;

use crate::{
    batch::{BatchBuilder, Line, Marks},
    priority::Group,
    record::{BATCH_HEAD_BYTES, LogRecord, RECORD_HEAD_BYTES, SOURCE_NAME_BYTES_MAX},
    server::ServerHandle,
    sources::{Kinds, OpenSource},
};

use super::{
    http::{Outcome, refusal},
    relayed::Admission,
};

/// The most sources of one request that are open at once.
const SOURCES_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Batches that are sent before the connection lets other actors run, and its outbox become empty: records of many sources or
/// times make many, and an outbox takes 1,024.
const SENT_AT_ONCE: usize = 256;

/// Takes a body of records.
pub(super) struct Records {
    server: ServerHandle,
    resume: Resume,
    outcome: Arc<Outcome>,
    sources: LruCache<Box<str>, OpenSource>,
    /// The record that is not complete: at most the longest one. While `is_more`, what is left of the piece.
    rest: Bytes,
    /// Batches that were sent since the last pause.
    sent: usize,
    /// Whether it has paused within `rest`.
    is_more: bool,
}

/// The records of one source and one time of receipt.
struct Run<'a> {
    source: &'a str,
    received_ns: u64,
    groups: [BatchBuilder; Group::ALL.len()],
}

impl Records {
    pub(super) fn new(server: &ServerHandle, resume: Resume, outcome: Arc<Outcome>) -> Self {
        Self {
            server: server.clone(),
            resume,
            outcome,
            sources: LruCache::new(SOURCES_MAX),
            rest: Bytes::new(),
            sent: 0,
            is_more: false,
        }
    }

    /// Sends a run. Whether its source is at its bound.
    fn send(&mut self, mut run: Run<'_>, text: &Bytes) -> bool {
        if !self.sources.contains(run.source) {
            let source = OpenSource::new(&self.server, run.source);
            source.allow_cut();
            let resume = self.resume.clone();
            source.source().room().on_room(move || resume.resume());
            self.sources.push(run.source.into(), source);
        }
        let source = self.sources.get(run.source).expect("it is there").source();
        for builder in &mut run.groups {
            let done = (!builder.is_empty()).then(|| Outcome::done(&self.outcome));
            if let Some(batch) = builder.build(source, run.received_ns, text, done) {
                self.server.lanes().send(batch);
                self.sent += 1;
            }
        }
        source.room().pauses()
    }

    /// Takes whole records of `text`, until it pauses. Where the rest begins, and whether a source is at its bound.
    fn take(&mut self, text: &Bytes) -> Result<(usize, bool), (StatusCode, String)> {
        let bytes_max =
            RECORD_HEAD_BYTES + SOURCE_NAME_BYTES_MAX + self.server.config().line_bytes_max;
        let (mut at, mut is_full) = (0, false);
        let mut refused = None;
        let mut current: Option<Run<'_>> = None;
        let mut kinds = Kinds::default();
        self.is_more = false;
        while let Some(length) = text[at..].first_chunk::<BATCH_HEAD_BYTES>() {
            self.is_more = self.sent >= SENT_AT_ONCE;
            if self.is_more {
                break;
            }
            let length = u32::from_le_bytes(*length) as usize;
            if length > bytes_max {
                let text = format!("a record has {length} bytes, the limit is {bytes_max}");
                refused = Some((StatusCode::PAYLOAD_TOO_LARGE, text));
                break;
            }
            let begin = at + BATCH_HEAD_BYTES;
            let Some(bytes) = text.get(begin..begin + length) else {
                break;
            };
            let record = match LogRecord::decode(bytes) {
                Ok(record) => record,
                Err(error) => {
                    refused = Some((StatusCode::BAD_REQUEST, error.to_string()));
                    break;
                }
            };
            match self.outcome.admit_record() {
                Admission::New => {}
                Admission::Durable => {
                    at = begin + length;
                    continue;
                }
                Admission::AtWork => {
                    let text = "an earlier request with these records is not finished".to_owned();
                    refused = Some((StatusCode::SERVICE_UNAVAILABLE, text));
                    break;
                }
            }
            at = begin + length;
            let is_same = |run: &Run<'_>| {
                run.source == record.source && run.received_ns == record.received_ns
            };
            if !current.as_ref().is_some_and(is_same)
                && let Some(run) = current.take()
            {
                is_full |= self.send(run, text);
            }
            let run = current.get_or_insert_with(|| Run {
                source: record.source,
                received_ns: record.received_ns,
                groups: Group::ALL.map(BatchBuilder::new),
            });
            kinds.formats[record.format as usize] += 1;
            kinds.malformed += u64::from(record.marks.has(Marks::MALFORMED));
            run.groups[Group::of(record.priority.severity()) as usize].push(Line {
                at: (at - record.text.len()) as u32,
                bytes: record.text.len() as u32,
                host_at: record.host_at,
                host_bytes: record.host_bytes,
                priority: record.priority,
                format: record.format,
                marks: record.marks,
            });
        }
        // Also before a record that is refused: what was admitted counts as durable later.
        if let Some(run) = current {
            is_full |= self.send(run, text);
        }
        self.server.sources().count(&kinds);
        refused.map_or(Ok((at, is_full)), Err)
    }
}

impl Records {
    fn advance(&mut self, text: &Bytes) -> BodyFlow {
        match self.take(text) {
            Ok((at, is_full)) => {
                self.rest = if self.is_more {
                    self.resume.resume();
                    text.slice(at..)
                } else {
                    // Without the rest of the piece.
                    Bytes::copy_from_slice(&text[at..])
                };
                if is_full || self.is_more {
                    BodyFlow::Wait
                } else {
                    BodyFlow::Continue
                }
            }
            Err((status, text)) => BodyFlow::Respond(refusal(status, text)),
        }
    }
}

impl BodySink for Records {
    fn piece(&mut self, piece: Bytes) -> BodyFlow {
        if self.rest.is_empty() {
            return self.advance(&piece);
        }
        let mut text = BytesMut::from(&self.rest[..]);
        text.extend_from_slice(&piece);
        self.advance(&text.freeze())
    }

    fn resumed(&mut self) -> BodyFlow {
        self.sent = 0;
        if self.is_more {
            let text = std::mem::take(&mut self.rest);
            self.advance(&text)
        } else {
            BodyFlow::Continue
        }
    }

    fn end(self: Box<Self>, reply: Reply) {
        if self.rest.is_empty() {
            self.server.unanswered().wait(&self.outcome, reply);
        } else {
            let text = "the body ends within a record".to_owned();
            reply.send(refusal(StatusCode::BAD_REQUEST, text));
        }
    }
}
