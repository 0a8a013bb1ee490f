//! Lines that repeat the line before of their source, counted instead of written.
//!
//! Two lines are equal if their priorities are, and their texts from the host name on: each message has another timestamp.
//! At the next other line, at the end of the source, or after [`Config::repeat_time`](crate::Config::repeat_time), a line
//! "last message repeated n times" is written. The count is in a lock, because the timer is not the source's thread; its
//! batches are sent under the lock, so that they keep their order. The timer only tries the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{
    batch::{Batch, BatchBuilder, Format, Line, Marks},
    parse::Parsed,
    priority::{Group, Priority},
    source::{Shed, Source},
};

/// The bytes of `Mmm dd hh:mm:ss `.
const TIMESTAMP_BYTES: usize = 16;

/// The last line of a source in one group.
#[derive(Debug, Default)]
pub(crate) struct Last {
    priority: Option<Priority>,
    /// From the host name on.
    text: Vec<u8>,
    host_bytes: u8,
    repeats: u64,
    /// When it was first repeated, in nanoseconds since 1970.
    since_ns: u64,
}

impl Last {
    /// Whether the line repeats the one before; it is counted then. Else it is the line before of the next one.
    pub(crate) fn is_repeated(&mut self, line: &[u8], parsed: &Parsed, received_ns: u64) -> bool {
        let text = without_timestamp(line, parsed);
        if self.priority == Some(parsed.priority) && self.text == text {
            if self.repeats == 0 {
                self.since_ns = received_ns;
            }
            self.repeats += 1;
            return true;
        }
        false
    }

    /// The next lines are compared with this one.
    pub(crate) fn set(&mut self, line: &[u8], parsed: &Parsed) {
        self.priority = Some(parsed.priority);
        self.text.clear();
        self.text.extend_from_slice(without_timestamp(line, parsed));
        self.host_bytes = parsed.host_bytes;
    }

    /// As [`Last::take_line`], as a batch.
    pub(crate) fn take(&mut self, source: &Arc<Source>, received_ns: u64) -> Option<Arc<Batch>> {
        let mut text = Vec::new();
        let line = self.take_line(source, &mut text)?;
        batch_of(source, received_ns, line, text)
    }

    /// The line that says how often it was repeated, if it was; the count is 0 then. Its text is appended to `text`.
    pub(crate) fn take_line(&mut self, source: &Source, text: &mut Vec<u8>) -> Option<Line> {
        let (priority, repeats) = (self.priority?, std::mem::take(&mut self.repeats));
        if repeats == 0 {
            return None;
        }
        // The repeated lines are those of the last one that was written.
        source.refuse(repeats, Shed::Repeated);
        let at = text.len();
        text.extend_from_slice(&self.text[..usize::from(self.host_bytes)]);
        if self.host_bytes > 0 {
            text.push(b' ');
        }
        let times = if repeats == 1 { "time" } else { "times" };
        text.extend_from_slice(format!("last message repeated {repeats} {times}").as_bytes());
        Some(own_line(at, text, priority, self.host_bytes))
    }

    /// As [`Last::take`], if it was first repeated at `before_ns` or earlier.
    pub(crate) fn take_old(
        &mut self,
        source: &Arc<Source>,
        before_ns: u64,
        received_ns: u64,
    ) -> Option<Arc<Batch>> {
        if self.since_ns <= before_ns {
            self.take(source, received_ns)
        } else {
            None
        }
    }
}

/// The last lines of a source, by group.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<[Last; Group::ALL.len()]>);

impl Repeats {
    pub(crate) fn lock(&self) -> MutexGuard<'_, [Last; Group::ALL.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, [Last; Group::ALL.len()]>> {
        self.0.try_lock().ok()
    }
}

/// A batch of one line that the server writes itself. Its host name, if any, is at the beginning.
pub(crate) fn own_batch(
    source: &Arc<Source>,
    received_ns: u64,
    priority: Priority,
    host_bytes: u8,
    text: Vec<u8>,
) -> Option<Arc<Batch>> {
    let line = own_line(0, &text, priority, host_bytes);
    batch_of(source, received_ns, line, text)
}

fn batch_of(
    source: &Arc<Source>,
    received_ns: u64,
    line: Line,
    text: Vec<u8>,
) -> Option<Arc<Batch>> {
    let mut builder = BatchBuilder::new(Group::of(line.priority.severity()));
    builder.push(line);
    builder.build(source, received_ns, &Bytes::from(text), None)
}

/// A line that the server writes itself, from `at` to the end of the text.
fn own_line(at: usize, text: &[u8], priority: Priority, host_bytes: u8) -> Line {
    let short = |bytes: usize| u32::try_from(bytes).expect("it is short");
    Line {
        at: short(at),
        bytes: short(text.len() - at),
        host_at: 0,
        host_bytes,
        priority,
        format: Format::Plain,
        marks: Marks::OWN,
    }
}

fn without_timestamp<'a>(line: &'a [u8], parsed: &Parsed) -> &'a [u8] {
    if parsed.host_bytes > 0 {
        return &line[usize::from(parsed.host_at)..];
    }
    // Local programs send no host name.
    let is_local = parsed.format == Format::Rfc3164;
    let end = line.iter().take(5).position(|byte| *byte == b'>');
    match end {
        Some(end) if is_local => line.get(end + 1 + TIMESTAMP_BYTES..).unwrap_or(line),
        _ => line,
    }
}
