//! What the writer's threads share: buffers that are ready, writes on their way, and who sleeps.
//!
//! Two threads take turns, and so does a producer that blocks for its record while nothing is on its
//! way. One seals what has gathered and writes it; while it waits for the disk the
//! other may seal and write the next, if a whole buffer is ready. Records that are waited for but
//! fill no buffer stay until nothing is on its way: that is group commit.
//!
//! ```text
//!   shards ──full──▶ ready ──turn──▶ sealed ──▶ in flight ──▶ done, in order ──▶ tickets
//!          └─────── waited for, or aged ──┘        (at most 2)
//! ```
//!
//! Locks are taken in this order: a shard, the writer state. The state is never locked over I/O, sealing, or
//! waking.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use freeboard_flow::LaneConfig;

use crate::{
    log::{Filled, Part, Placed},
    storage::StorageFile,
};

use super::pool::Pool;

/// The most writes on their way at once; each has a slot of its own, see
/// [`SegmentFile`](crate::log::SegmentFile).
pub(crate) const IN_FLIGHT_MAX: usize = 2;

/// How a stream fares.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Open,
    /// There is no room for a new segment. What was accepted waits in memory.
    DiskFull {
        retry_ns: u64,
        /// Whether the stream must be read again first.
        is_failed: bool,
    },
    /// A write or sync failed; as soon as nothing is on its way the stream is read again.
    Failed,
    /// It failed, and could not be read again.
    Down,
    Closed,
}

/// How far a close has come. It only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    No,
    Begun,
    /// Writing was tried since it began.
    Tried,
    /// All shards were found empty since it began.
    Drained,
}

impl Closing {
    pub(super) fn has_begun(self) -> bool {
        self != Self::No
    }

    pub(super) fn advance(&mut self, to: Self) {
        *self = to.max(*self);
    }
}

/// A write on its way, or done while an earlier one is not.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// What was written; there once it is.
    pub(super) placed: Option<Placed>,
}

/// What was written and not yet synced, in mode interval.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    pub(super) bytes: u64,
    pub(super) since_ns: u64,
    pub(super) files: Vec<Arc<dyn StorageFile>>,
    /// Batches and the sequences of their first records.
    pub(super) batches: Vec<(Part, u64)>,
    pub(super) last_record: u64,
}

impl Unsynced {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn add(&mut self, file: &Arc<dyn StorageFile>, bytes: u64, now_ns: u64) {
        if self.is_empty() {
            self.since_ns = now_ns;
        }
        if !self.files.iter().any(|known| Arc::ptr_eq(known, file)) {
            self.files.push(file.clone());
        }
        self.bytes += bytes;
    }
}

/// What a writer thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Seal and write: all there is, or only the buffers that are full.
    Commit { is_all: bool },
    /// Sync what was written.
    Sync,
    /// See whether a record has waited too long in a shard.
    Watch,
    /// Read the stream again after a failure.
    Reopen,
    /// Write the end; nothing follows.
    Finish,
    /// Leave.
    Exit,
}

/// When there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now(Turn),
    /// Not before this time.
    At(u64),
    Never,
}

/// What the writer's threads share, behind one lock.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) phase: Phase,
    /// Full buffers, in each shard's order.
    pub(super) ready: VecDeque<Filled>,
    pub(super) order: VecDeque<Entry>,
    /// Writes that failed; their entries stay in `order`, so that nothing behind them is done.
    pub(super) failed: Vec<Placed>,
    pub(super) next_entry: u64,
    /// Whether a thread is gathering and sealing.
    pub(super) is_taking: bool,
    pub(super) in_flight: usize,
    /// The write slots that are in use, each by a turn.
    pub(super) slots: [bool; IN_FLIGHT_MAX],
    pub(super) is_syncing: bool,
    pub(super) unsynced: Unsynced,
    /// The file that was written to last, in mode none.
    pub(super) growing: Option<Arc<dyn StorageFile>>,
    /// The record up to which somebody waits for a sync.
    pub(super) sync_wanted: u64,
    /// The last record that was synced.
    pub(super) synced: u64,
    /// Whether a record has been in a shard for too long.
    pub(super) is_aged: bool,
    /// Threads that sleep.
    pub(super) sleeping: usize,
    /// Whether one of them looks after the shards from time to time.
    pub(super) is_watched: bool,
    /// Whether none does, because all have been empty for long: a record that begins a buffer rings.
    pub(super) is_dozing: bool,
    pub(super) closing: Closing,
    pub(super) pool: Pool,
}

/// The limits of mode interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) time_ns: u64,
    pub(super) bytes: u64,
}

impl WriterState {
    pub(super) fn new(memory: LaneConfig) -> Self {
        Self {
            phase: Phase::Open,
            ready: VecDeque::new(),
            order: VecDeque::new(),
            failed: Vec::new(),
            next_entry: 0,
            is_taking: false,
            in_flight: 0,
            slots: [false; IN_FLIGHT_MAX],
            is_syncing: false,
            unsynced: Unsynced::default(),
            growing: None,
            sync_wanted: 0,
            synced: 0,
            is_aged: false,
            sleeping: 0,
            is_watched: false,
            is_dozing: false,
            closing: Closing::No,
            pool: Pool::new(memory),
        }
    }

    /// Whether there is anything to be written to.
    pub(super) fn is_writable(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::DiskFull { .. })
    }

    /// A write or a sync has failed. What is worse already stays so.
    pub(super) fn fail_phase(&mut self) {
        if self.is_writable() {
            self.phase = Phase::Failed;
        }
    }

    /// What is to be done at `now_ns`, given whether somebody waits.
    pub(super) fn due(&self, now_ns: u64, is_demanded: bool, interval: Option<Interval>) -> Due {
        let is_idle = !self.is_taking && self.in_flight == 0 && !self.is_syncing;
        match self.phase {
            Phase::Open => self.due_open(now_ns, is_demanded, interval),
            Phase::DiskFull {
                retry_ns,
                is_failed,
            } => {
                let sync = self.due_sync(now_ns, interval);
                if matches!(sync, Due::Now(_)) || !is_idle {
                    // Who is at work looks again when it is done.
                    return sync;
                }
                if self.closing.has_begun() {
                    // There may be room by now.
                    return Due::Now(if is_failed || self.closing >= Closing::Tried {
                        Turn::Finish
                    } else {
                        Turn::Commit { is_all: true }
                    });
                }
                match sync {
                    _ if now_ns >= retry_ns && is_failed => Due::Now(Turn::Reopen),
                    _ if now_ns >= retry_ns => Due::Now(Turn::Commit { is_all: true }),
                    Due::At(sync_ns) => Due::At(sync_ns.min(retry_ns)),
                    _ => Due::At(retry_ns),
                }
            }
            Phase::Failed if is_idle => Due::Now(Turn::Reopen),
            Phase::Failed => Due::Never,
            Phase::Down if self.closing.has_begun() && is_idle => Due::Now(Turn::Finish),
            Phase::Down => Due::Never,
            Phase::Closed => Due::Now(Turn::Exit),
        }
    }

    /// When what was written is to be synced, in mode interval.
    fn due_sync(&self, now_ns: u64, interval: Option<Interval>) -> Due {
        if self.unsynced.is_empty() || self.is_syncing {
            return Due::Never;
        }
        let due_ns = interval.map_or(u64::MAX, |interval| {
            self.unsynced.since_ns.saturating_add(interval.time_ns)
        });
        let is_full = interval.is_some_and(|interval| self.unsynced.bytes >= interval.bytes);
        if is_full || self.sync_wanted > self.synced || self.closing.has_begun() || now_ns >= due_ns
        {
            return Due::Now(Turn::Sync);
        }
        Due::At(due_ns)
    }

    fn due_open(&self, now_ns: u64, is_demanded: bool, interval: Option<Interval>) -> Due {
        let deadline = self.due_sync(now_ns, interval);
        if matches!(deadline, Due::Now(_)) {
            return deadline;
        }
        // A disk that syncs slower than memory is written must not gather it without bound.
        let is_stalled = self.is_syncing
            && interval.is_some_and(|interval| self.unsynced.bytes >= interval.bytes);
        if self.is_taking || is_stalled {
            return deadline;
        }
        if !self.ready.is_empty() && self.in_flight < IN_FLIGHT_MAX {
            return Due::Now(Turn::Commit { is_all: false });
        }
        if self.in_flight > 0 {
            return deadline;
        }
        if is_demanded
            || self.is_aged
            || self.closing.has_begun() && self.closing < Closing::Drained
        {
            return Due::Now(Turn::Commit { is_all: true });
        }
        if self.closing.has_begun() && !self.is_syncing && self.unsynced.is_empty() {
            return Due::Now(Turn::Finish);
        }
        deadline
    }

    /// Notes a write that is on its way, in the order of its records.
    pub(super) fn begin(&mut self) -> u64 {
        let id = self.next_entry;
        self.next_entry += 1;
        self.order.push_back(Entry { id, placed: None });
        id
    }

    /// Notes that it is done; returns those that are done with all before them.
    ///
    /// # Errors
    ///
    /// The stream has failed meanwhile: what became of this one is as unknown as the rest.
    pub(super) fn end(&mut self, id: u64, placed: Placed) -> Result<Vec<Placed>, Placed> {
        let place = self
            .order
            .front()
            .and_then(|first| id.checked_sub(first.id));
        let Some(entry) = place.and_then(|place| self.order.get_mut(place as usize)) else {
            return Err(placed);
        };
        entry.placed = Some(placed);
        let mut done = Vec::new();
        while self.order.front().is_some_and(|it| it.placed.is_some()) {
            done.extend(self.order.pop_front().and_then(|entry| entry.placed));
        }
        Ok(done)
    }

    /// Takes everything that was written or waits to be, when the stream has failed: batches whose
    /// fate is unknown, and those that were not written.
    pub(super) fn fail(&mut self) -> (Vec<Part>, Vec<Part>, Vec<Waker>) {
        let mut waking = Vec::new();
        let mut unknown = Vec::new();
        let done = std::mem::take(&mut self.order);
        let done = done.into_iter().filter_map(|entry| entry.placed);
        let written = done.chain(std::mem::take(&mut self.failed));
        for chunk in written.flat_map(|placed| placed.chunks) {
            unknown.extend(chunk.batches);
            waking.extend(self.pool.put(chunk.buffer));
        }
        self.growing = None;
        let unsynced = std::mem::take(&mut self.unsynced);
        unknown.extend(unsynced.batches.into_iter().map(|(part, _)| part));
        let mut unwritten = Vec::new();
        for filled in std::mem::take(&mut self.ready) {
            unwritten.extend(filled.batches);
            waking.extend(self.pool.put(filled.buffer));
        }
        (unknown, unwritten, waking)
    }
}
