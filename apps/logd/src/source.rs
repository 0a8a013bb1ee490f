//! A source of lines: its name, its bound and its counters.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Why a line reached no sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shed {
    /// The lane's policy dropped it: the reservoir was full.
    Full,
    /// The lane samples under pressure, and this line was not in the sample.
    Sampled,
    /// It repeats the line before, and was counted there instead.
    Repeated,
    /// A sink failed for good.
    SinkFailed,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Full, Self::Sampled, Self::Repeated, Self::SinkFailed];

    /// Its name in metrics and summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sampled => "sampled",
            Self::Repeated => "repeated",
            Self::SinkFailed => "sink_failed",
        }
    }
}

/// What one source may have in memory: accepted and not yet taken by the sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceBound {
    /// In lines.
    pub lines: u64,
    /// In bytes.
    pub bytes: u64,
}

impl Default for SourceBound {
    /// Some milliseconds of a fast sink, so that one source delays the others by no more.
    fn default() -> Self {
        Self {
            lines: 4_096,
            bytes: 1 << 20,
        }
    }
}

/// A source: a connection, or the sender's address of datagrams.
///
/// accepted = taken + shed + held, where held is what waits in memory.
#[derive(Debug)]
pub struct Source {
    name: Box<str>,
    bound: SourceBound,
    held_lines: AtomicU64,
    held_bytes: AtomicU64,
    accepted: AtomicU64,
    taken: AtomicU64,
    shed: [AtomicU64; Shed::ALL.len()],
}

impl Source {
    /// A source that has sent nothing yet. The name is cut at [`SOURCE_NAME_BYTES_MAX`](crate::SOURCE_NAME_BYTES_MAX)
    /// bytes.
    #[must_use]
    pub fn new(name: &str, bound: SourceBound) -> Arc<Self> {
        let mut end = name.len().min(crate::SOURCE_NAME_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Arc::new(Self {
            name: name[..end].into(),
            bound,
            held_lines: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            shed: Default::default(),
        })
    }

    /// Its name, as `tcp:127.0.0.1:50312`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may send more: it holds less than its bound. The batch that passes the bound is the last one.
    #[must_use]
    pub fn has_room(&self) -> bool {
        // Ordering: Relaxed: only the source itself adds; a stale value makes it wait for the wake-up that follows.
        self.held_lines.load(Ordering::Relaxed) < self.bound.lines
            && self.held_bytes.load(Ordering::Relaxed) < self.bound.bytes
    }

    pub(crate) fn accept(&self, lines: u64, bytes: u64) {
        // Ordering: Relaxed: counters.
        self.accepted.fetch_add(lines, Ordering::Relaxed);
        self.held_lines.fetch_add(lines, Ordering::Relaxed);
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, lines: u64, bytes: u64, shed: Option<Shed>) {
        let counter = shed.map_or(&self.taken, |shed| &self.shed[shed as usize]);
        // Ordering: Relaxed: counters.
        counter.fetch_add(lines, Ordering::Relaxed);
        self.held_lines.fetch_sub(lines, Ordering::Relaxed);
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Lines accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        // Ordering: Relaxed: a counter, as below.
        self.accepted.load(Ordering::Relaxed)
    }

    /// Lines that all sinks have taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lines shed for this reason.
    #[must_use]
    pub fn shed(&self, reason: Shed) -> u64 {
        self.shed[reason as usize].load(Ordering::Relaxed)
    }

    /// Lines in memory.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held_lines.load(Ordering::Relaxed)
    }
}
