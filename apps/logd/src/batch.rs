//! The lines of one read, as one message.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    priority::{Group, Priority},
    source::{Shed, Source, SourceBound},
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

impl Format {
    /// All formats, by their number.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Rfc5424, Self::Rfc3164, Self::Json];

    /// Its name in metrics and queries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Rfc5424 => "rfc5424",
            Self::Rfc3164 => "rfc3164",
            Self::Json => "json",
        }
    }
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

    /// Their names in JSON and in messages.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (Self::MALFORMED, "malformed"),
            (Self::CONTINUED, "continued"),
            (Self::TRUNCATED, "truncated"),
            (Self::OWN, "own"),
        ];
        let has = move |(mark, name): (Self, _)| self.has(mark).then_some(name);
        all.into_iter().filter_map(has)
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
pub type Done = Box<dyn FnOnce(bool) + Send + Sync>;

/// The lines of one read that belong to one severity group.
///
/// It travels as an `Arc`: each sink that takes it says so with [`Batch::note_taken`] and drops its reference. If the last
/// reference is dropped and a sink has not taken it, its lines count as shed.
pub struct Batch {
    source: Arc<Source>,
    group: Group,
    received_ns: u64,
    text: Bytes,
    lines: Vec<Line>,
    /// The bytes of its lines.
    bytes: u64,
    /// One of the constants below.
    stage: AtomicU8,
    /// Sinks that have not taken it.
    untaken: AtomicU32,
    /// A [`Shed`].
    reason: AtomicU8,
    done: Option<Done>,
}

/// It waits in a dam or in the writer's mailbox; its source may evict it.
const QUEUED: u8 = 0;
/// The writer has it.
const CLAIMED: u8 = 1;
/// Its source has shed it.
const EVICTED: u8 = 2;

impl Batch {
    /// The same lines, without a copy of their text, of a source that has the same name and no bound. They are not counted
    /// as lines of the server, and nobody waits for them.
    pub(crate) fn detached(&self) -> Arc<Self> {
        let source = Source::new(self.source.name(), SourceBound::NONE);
        source.accept(self.lines.len() as u64, self.bytes);
        Arc::new(Self {
            source,
            group: self.group,
            received_ns: self.received_ns,
            text: self.text.clone(),
            lines: self.lines.clone(),
            bytes: self.bytes,
            stage: AtomicU8::new(CLAIMED),
            untaken: AtomicU32::new(1),
            reason: AtomicU8::new(Shed::Full as u8),
            done: None,
        })
    }

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
        self.lines_from(0)
    }

    /// The lines from this index on.
    ///
    /// # Panics
    /// There are fewer lines.
    pub fn lines_from(&self, index: usize) -> impl ExactSizeIterator<Item = (&Line, &[u8])> {
        let text = &self.text;
        self.lines[index..]
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

    /// What it takes in memory, in bytes: its text, and the descriptions of its lines.
    #[must_use]
    pub fn weight(&self) -> u64 {
        (self.text.len() + self.lines.capacity() * size_of::<Line>() + size_of::<Self>()) as u64
    }

    /// Whether somebody waits until it is durable. A sink then keeps its reference until it is.
    #[must_use]
    pub const fn wants_durable(&self) -> bool {
        self.done.is_some()
    }

    /// Sets the reason that is counted if a sink does not take it: [`Shed::Full`] at first, or [`Shed::Stopped`] in a group
    /// that waits.
    pub fn set_reason(&self, reason: Shed) {
        // Ordering: Relaxed: the last reference orders it, as `untaken`.
        self.reason.store(reason as u8, Ordering::Relaxed);
    }

    /// A sink has taken it.
    pub fn note_taken(&self) {
        // Ordering: Relaxed: the drop of the last reference comes after that of this one.
        self.untaken.fetch_sub(1, Ordering::Relaxed);
    }

    /// A sink that had taken it has lost it: it does not become durable.
    pub fn note_lost(&self) {
        self.set_reason(Shed::SinkFailed);
        self.untaken.fetch_add(1, Ordering::Relaxed);
    }

    /// The writer takes it, for so many sinks; `false` if its source has shed it.
    pub(crate) fn claim(&self, sinks: u32) -> bool {
        self.untaken.store(sinks, Ordering::Relaxed);
        // Ordering: Relaxed: the exchange decides, and guards no other memory.
        let claimed = (Ordering::Relaxed, Ordering::Relaxed);
        self.stage
            .compare_exchange(QUEUED, CLAIMED, claimed.0, claimed.1)
            .is_ok()
    }

    /// Its source sheds it, unless the writer has it.
    pub(crate) fn evict(&self) {
        let evicted = (Ordering::Relaxed, Ordering::Relaxed);
        let exchanged = self
            .stage
            .compare_exchange(QUEUED, EVICTED, evicted.0, evicted.1);
        if exchanged.is_ok() {
            self.source
                .release(self.len() as u64, self.bytes, Some(Shed::Full));
        }
    }

    /// Whether its source may still shed it.
    pub(crate) fn is_queued(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == QUEUED
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let is_taken = *self.untaken.get_mut() == 0;
        if *self.stage.get_mut() != EVICTED {
            let reason = Shed::ALL[usize::from(*self.reason.get_mut())];
            let shed = (!is_taken).then_some(reason);
            self.source
                .release(self.lines.len() as u64, self.bytes, shed);
        }
        if let Some(done) = self.done.take() {
            done(is_taken);
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
    /// The number of lines of the batch before: the next one has about as many.
    expected: usize,
}

impl BatchBuilder {
    /// Of one severity group.
    #[must_use]
    pub const fn new(group: Group) -> Self {
        Self {
            group,
            lines: Vec::new(),
            bytes: 0,
            expected: 0,
        }
    }

    /// Adds a line of the text that [`BatchBuilder::build`] gets.
    #[inline]
    pub fn push(&mut self, line: Line) {
        if self.lines.capacity() == 0 {
            self.lines
                .reserve_exact(self.expected + self.expected / 8 + 1);
        }
        self.bytes += u64::from(line.bytes);
        self.lines.push(line);
    }

    /// The group of its lines.
    #[must_use]
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Whether it has no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
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
        done: Option<Done>,
    ) -> Option<Arc<Batch>> {
        if self.lines.is_empty() {
            return None;
        }
        let is_inside = |line: &Line| line.at as usize + line.bytes as usize <= text.len();
        assert!(self.lines.iter().all(is_inside), "a line is inside");
        self.expected = self.lines.len();
        let mut lines = std::mem::take(&mut self.lines);
        if lines.capacity() > 2 * lines.len() {
            lines.shrink_to_fit();
        }
        let bytes = std::mem::take(&mut self.bytes);
        let text = if bytes * COPIED_BELOW < text.len() as u64 {
            copied(text, &mut lines, bytes)
        } else {
            text.clone()
        };
        source.accept(lines.len() as u64, bytes);
        Some(Arc::new(Batch {
            source: Arc::clone(source),
            group: self.group,
            received_ns,
            text,
            lines,
            bytes,
            stage: AtomicU8::new(QUEUED),
            untaken: AtomicU32::new(1),
            reason: AtomicU8::new(Shed::Full as u8),
            done,
        }))
    }
}

/// A batch with less than half of the bytes of its read gets a copy of its text. Otherwise one short line would keep a read
/// of 64 KiB in memory. So a batch keeps at most twice the bytes that its source's bound counts.
const COPIED_BELOW: u64 = 2;

/// A text of these lines alone. The lines become ranges of it.
fn copied(text: &[u8], lines: &mut [Line], bytes: u64) -> Bytes {
    let mut own = Vec::with_capacity(bytes as usize);
    for line in lines {
        let of_line = &text[line.at as usize..][..line.bytes as usize];
        // It is shorter than the read, whose ranges are 32 bits.
        line.at = own.len() as u32;
        own.extend_from_slice(of_line);
    }
    own.into()
}
