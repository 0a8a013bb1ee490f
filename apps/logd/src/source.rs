//! A source of lines: its name, its bound and its counters.

use std::sync::{
    Arc,
    // Not those of `sync`: they only count.
    atomic::{AtomicU64, Ordering},
};

use crate::{SOURCE_NAME_BYTES_MAX, room::Room};

pub use crate::room::SourceBound;

/// Why a line reached no sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shed {
    /// The policy of its group dropped it: the source was at its bound, or the reservoir was full.
    Full,
    /// Its group samples under pressure, and this line was not in the sample.
    Sampled,
    /// It repeats the line before, and was counted there instead.
    Repeated,
    /// A sink failed for good.
    SinkFailed,
    /// The server stopped before the sinks took it.
    Stopped,
    /// The kernel dropped its datagram, because its buffer was full. The sender is not known.
    Kernel,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Full,
        Self::Sampled,
        Self::Repeated,
        Self::SinkFailed,
        Self::Stopped,
        Self::Kernel,
    ];

    /// The reasons that summaries name: repeated lines have a line of their own.
    pub(crate) const SUMMARISED: [Self; 5] = [
        Self::Full,
        Self::Sampled,
        Self::SinkFailed,
        Self::Stopped,
        Self::Kernel,
    ];

    /// Its name in metrics and summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sampled => "sampled",
            Self::Repeated => "repeated",
            Self::SinkFailed => "sink_failed",
            Self::Stopped => "stopped",
            Self::Kernel => "kernel",
        }
    }
}

/// A source: a connection, or the sender's address of datagrams.
///
/// accepted = taken + shed + held, where held is what waits in memory.
#[derive(Debug)]
pub struct Source {
    name: Box<str>,
    room: Room,
    accepted: AtomicU64,
    taken: AtomicU64,
    shed: [AtomicU64; Shed::ALL.len()],
    /// The part of `shed` that summaries have named.
    reported: [AtomicU64; Shed::ALL.len()],
}

impl Source {
    /// A source that has sent nothing yet. The name is cut at [`SOURCE_NAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new(name: &str, bound: SourceBound) -> Arc<Self> {
        let mut end = name.len().min(SOURCE_NAME_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Arc::new(Self {
            name: name[..end].into(),
            room: Room::new(bound),
            accepted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            shed: Default::default(),
            reported: Default::default(),
        })
    }

    /// Its name, as `tcp:127.0.0.1:50312`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its bound, and the wake-up.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn accept(&self, lines: u64, bytes: u64) {
        // Ordering: Relaxed: a counter, as below.
        self.accepted.fetch_add(lines, Ordering::Relaxed);
        self.room.add(lines, bytes);
    }

    /// Counts lines that are shed as soon as they are accepted.
    pub(crate) fn refuse(&self, lines: u64, reason: Shed) {
        self.accepted.fetch_add(lines, Ordering::Relaxed);
        self.shed[reason as usize].fetch_add(lines, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, lines: u64, bytes: u64, shed: Option<Shed>) {
        let counter = shed.map_or(&self.taken, |shed| &self.shed[shed as usize]);
        // Ordering: Relaxed: the removal publishes it.
        counter.fetch_add(lines, Ordering::Relaxed);
        self.room.remove(lines, bytes);
    }

    /// Lines accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
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

    /// Lines shed for this reason since the last call. One thread at a time calls it.
    pub(crate) fn take_unreported(&self, reason: Shed) -> u64 {
        let shed = self.shed(reason);
        shed - self.reported[reason as usize].swap(shed, Ordering::Relaxed)
    }

    /// Whether a summary has to name it.
    pub(crate) fn has_unreported(&self) -> bool {
        let is_unreported = |reason: &Shed| {
            self.shed(*reason) > self.reported[*reason as usize].load(Ordering::Relaxed)
        };
        Shed::SUMMARISED.iter().any(is_unreported)
    }

    /// Lines in memory.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.room.lines()
    }
}
