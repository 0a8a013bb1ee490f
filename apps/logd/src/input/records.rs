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

/// Takes a body of records.
pub(super) struct Records {
    server: ServerHandle,
    resume: Resume,
    outcome: Arc<Outcome>,
    sources: LruCache<Box<str>, OpenSource>,
    /// The record that is not complete: at most the longest one.
    rest: BytesMut,
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
            rest: BytesMut::new(),
        }
    }

    /// Sends a run. Whether its source is at its bound.
    fn send(&mut self, mut run: Run<'_>, text: &Bytes) -> bool {
        if !self.sources.contains(run.source) {
            let source = OpenSource::new(&self.server, run.source);
            let resume = self.resume.clone();
            source.source().room().on_room(move || resume.resume());
            self.sources.push(run.source.into(), source);
        }
        let source = self.sources.get(run.source).expect("it is there").source();
        for builder in &mut run.groups {
            let done = (!builder.is_empty()).then(|| Outcome::done(&self.outcome));
            if let Some(batch) = builder.build(source, run.received_ns, text, done) {
                self.server.lanes().send(batch);
            }
        }
        source.room().pauses()
    }

    /// Takes the whole records of `text`. Where the rest begins, and whether a source is at its bound.
    fn take(&mut self, text: &Bytes) -> Result<(usize, bool), (StatusCode, String)> {
        let bytes_max =
            RECORD_HEAD_BYTES + SOURCE_NAME_BYTES_MAX + self.server.config().line_bytes_max;
        let (mut at, mut is_full, mut is_at_work) = (0, false, false);
        let mut current: Option<Run<'_>> = None;
        let mut kinds = Kinds::default();
        while let Some(length) = text[at..].first_chunk::<BATCH_HEAD_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > bytes_max {
                let text = format!("a record has {length} bytes, the limit is {bytes_max}");
                return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            let begin = at + BATCH_HEAD_BYTES;
            let Some(bytes) = text.get(begin..begin + length) else {
                break;
            };
            let record = LogRecord::decode(bytes)
                .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            match self.outcome.admit_record() {
                Admission::New => {}
                Admission::Durable => {
                    at = begin + length;
                    continue;
                }
                Admission::AtWork => {
                    is_at_work = true;
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
        if let Some(run) = current {
            is_full |= self.send(run, text);
        }
        self.server.sources().count(&kinds);
        if is_at_work {
            let text = "an earlier request with these records is not finished".to_owned();
            return Err((StatusCode::SERVICE_UNAVAILABLE, text));
        }
        Ok((at, is_full))
    }
}

impl BodySink for Records {
    fn piece(&mut self, piece: Bytes) -> BodyFlow {
        let text = if self.rest.is_empty() {
            piece
        } else {
            self.rest.extend_from_slice(&piece);
            std::mem::take(&mut self.rest).freeze()
        };
        match self.take(&text) {
            Ok((at, is_full)) => {
                self.rest = BytesMut::from(&text[at..]);
                if is_full {
                    BodyFlow::Wait
                } else {
                    BodyFlow::Continue
                }
            }
            Err((status, text)) => BodyFlow::Respond(refusal(status, text)),
        }
    }

    fn end(self: Box<Self>, reply: Reply) {
        if self.rest.is_empty() {
            self.outcome.set_reply(reply);
        } else {
            let text = "the body ends within a record".to_owned();
            reply.send(refusal(StatusCode::BAD_REQUEST, text));
        }
    }
}
