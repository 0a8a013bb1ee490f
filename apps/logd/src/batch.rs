//! The lines of one read, as one message.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    priority::{Group, Priority},
    source::{Shed, Source},
};

/// The format a line was found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Format {
    /// None of the others.
    Plain,
    /// RFC 5424.
    Rfc5424,
    /// RFC 3164, as far as it can be recognised.
    Rfc3164,
    /// A JSON object.
    Json,
}

/// What was odd about a line. It is kept as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks(u8);

impl Marks {
    /// It began like another format, but is not well-formed; it is kept as plain text.
    pub const MALFORMED: Self = Self(1);
    /// It was longer than the bound, and goes on in the next record of the source.
    pub const CONTINUED: Self = Self(2);
    /// The connection ended, or the frame was cut, before the end of the line.
    pub const TRUNCATED: Self = Self(4);
    /// The log server itself wrote it.
    pub const OWN: Self = Self(8);

    /// No mark.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// All marks of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has all marks of the other.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

/// A line: where it is in the text of its batch, and what was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins in the batch's text.
    pub at: u32,
    /// Its bytes.
    pub bytes: u32,
    /// Where its host name begins in the line.
    pub host_at: u16,
    /// The bytes of its host name; 0 if it names none.
    pub host_bytes: u8,
    /// Facility and severity.
    pub priority: Priority,
    /// Its format.
    pub format: Format,
    /// What was odd.
    pub marks: Marks,
}

/// Called once the batch is durable in every sink that can say so (`true`), or was shed (`false`).
type Done = Box<dyn FnOnce(bool) + Send + Sync>;

/// The lines of one read that belong to one severity group.
///
/// A batch that is dropped without [`Batch::taken`] counts its lines as shed.
pub struct Batch {
    source: Arc<Source>,
    group: Group,
    received_ns: u64,
    text: Bytes,
    lines: Box<[Line]>,
    /// The bytes of its lines.
    bytes: u64,
    outcome: Option<Shed>,
    done: Option<Done>,
}

impl Batch {
    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The severity group of its lines.
    #[must_use]
    pub const fn group(&self) -> Group {
        self.group
    }

    /// When it was received, in nanoseconds since 1970.
    #[must_use]
    pub const fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// Its lines with their text, in order.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (&Line, &[u8])> {
        let text = &self.text;
        self.lines
            .iter()
            .map(move |line| (line, &text[line.at as usize..][..line.bytes as usize]))
    }

    /// How many lines it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The bytes of its lines.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The reason that is counted if the batch is dropped without [`Batch::taken`]; [`Shed::Full`] at first.
    pub fn set_reason(&mut self, reason: Shed) {
        self.outcome = Some(reason);
    }

    /// All sinks have taken it.
    pub fn taken(mut self) {
        self.outcome = None;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.source
            .release(self.lines.len() as u64, self.bytes, self.outcome);
        if let Some(done) = self.done.take() {
            done(self.outcome.is_none());
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Batch")
            .field("source", &self.source.name())
            .field("group", &self.group)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

/// Collects the lines of one read.
#[derive(Debug)]
pub struct BatchBuilder {
    group: Group,
    lines: Vec<Line>,
    bytes: u64,
}

impl BatchBuilder {
    /// Of one severity group.
    #[must_use]
    pub const fn new(group: Group) -> Self {
        Self {
            group,
            lines: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a line of the text that [`BatchBuilder::build`] gets.
    pub fn push(&mut self, line: Line) {
        self.bytes += u64::from(line.bytes);
        self.lines.push(line);
    }

    /// The batch, and an empty builder; `None` without lines. Its lines count as accepted.
    ///
    /// `done` is called once: see [`Batch`].
    ///
    /// # Panics
    /// A line is outside of the text.
    pub fn build(
        &mut self,
        source: &Arc<Source>,
        received_ns: u64,
        text: &Bytes,
        done: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
    ) -> Option<Batch> {
        if self.lines.is_empty() {
            return None;
        }
        let is_inside = |line: &Line| line.at as usize + line.bytes as usize <= text.len();
        assert!(self.lines.iter().all(is_inside), "a line is inside");
        let lines = std::mem::take(&mut self.lines).into_boxed_slice();
        let bytes = std::mem::take(&mut self.bytes);
        source.accept(lines.len() as u64, bytes);
        Some(Batch {
            source: Arc::clone(source),
            group: self.group,
            received_ns,
            text: text.clone(),
            lines,
            bytes,
            outcome: Some(Shed::Full),
            done,
        })
    }
}
