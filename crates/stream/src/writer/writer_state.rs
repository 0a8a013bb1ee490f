//! The state that the writer's threads share: pages that are ready, writes in flight, and which threads sleep.
//!
//! Two threads take turns, and so does a producer that blocks for its record while nothing is in flight. One thread
//! seals the gathered pages and writes them. While it waits for the disk, the other may seal and write the next, if a
//! whole page is ready. Records that are waited for but fill no page stay until nothing is in flight: that is group
//! commit.
//!
//! ```text
//!   shards ──full──▶ ready ──turn──▶ sealed ──▶ in flight ──▶ done, in order ──▶ tickets
//!          └─────── waited for, or aged ──┘        (at most 2)
//! ```
//!
//! Locks are taken in this order: a shard, the writer state. The state is never locked over I/O, sealing, or waking.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use freeboard_flow::LaneConfig;

use crate::{log::WRITE_SLOTS, storage::StorageFile};

use super::{batch::Part, pool::Pool, shard::Filled, write::Write};

/// The most bytes that one turn takes from the pages that are ready.
const TURN_BYTES_MAX: usize = 8 << 20;

/// The pause before the next attempt on a full disk.
pub(super) const DISK_FULL_RETRY_NS: u64 = 100_000_000;

/// The condition of a stream.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Open,
    /// The disk has no space for a new segment. Accepted records wait in memory.
    DiskFull {
        retry_ns: u64,
        /// Whether the stream must be read again first.
        is_failed: bool,
    },
    /// A write or sync failed. As soon as nothing is in flight the stream is read again.
    Failed,
    /// It failed, and could not be read again.
    Down,
    Closed,
}

/// How far a close has come. It only advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    #[default]
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

/// The turns in progress, without the writes. At most one thread seals and at most one syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    #[default]
    Idle,
    /// A thread gathers and seals, or reads the stream again, or ends it.
    Sealing,
    Syncing,
    SealingAndSyncing,
}

impl Activity {
    pub(super) fn is_sealing(self) -> bool {
        matches!(self, Self::Sealing | Self::SealingAndSyncing)
    }

    pub(super) fn is_syncing(self) -> bool {
        matches!(self, Self::Syncing | Self::SealingAndSyncing)
    }

    pub(super) fn set_sealing(&mut self, is_sealing: bool) {
        *self = Self::of(is_sealing, self.is_syncing());
    }

    pub(super) fn set_syncing(&mut self, is_syncing: bool) {
        *self = Self::of(self.is_sealing(), is_syncing);
    }

    fn of(is_sealing: bool, is_syncing: bool) -> Self {
        match (is_sealing, is_syncing) {
            (false, false) => Self::Idle,
            (true, false) => Self::Sealing,
            (false, true) => Self::Syncing,
            (true, true) => Self::SealingAndSyncing,
        }
    }
}

/// The regular check for records that stay in a shard for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Watch {
    /// The next thread that sleeps does it.
    #[default]
    Due,
    /// A thread sleeps until it does it, or does it.
    Held,
    /// All shards have been empty for long. A record that begins a page turns it on again.
    Off,
}

/// A write in flight, or done while an earlier one is not.
#[derive(Debug)]
pub(super) struct Entry {
    id: u64,
    /// The write, once it is done.
    write: Option<Write>,
}

/// Data that was written and not yet synced, in mode interval.
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

    pub(super) fn add(&mut self, write: &Write, now_ns: u64) {
        if self.is_empty() {
            self.since_ns = now_ns;
        }
        let file = write.file.file();
        if !self.files.iter().any(|known| Arc::ptr_eq(known, file)) {
            self.files.push(file.clone());
        }
        self.bytes += write.bytes();
        self.last_record = write.last_record;
    }
}

/// The next action of a writer thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Seal and write: everything, or only the pages that are full.
    Commit { is_all: bool },
    /// Sync the written data.
    Sync,
    /// Read the stream again after a failure.
    Reopen,
    /// Write the end; nothing follows.
    Finish,
    /// Terminate.
    Exit,
}

/// When the next turn is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now(Turn),
    /// Not before this time.
    At(u64),
    Never,
}

/// The pages that a commit takes when it begins.
pub(super) struct Gathered {
    pub(super) pages: VecDeque<Filled>,
    /// Whether everything is taken, which begins only while nothing is in flight.
    pub(super) is_all: bool,
    /// Whether it takes the pages of the shards too. They follow the pages that have left the shards.
    pub(super) takes_shards: bool,
    pub(super) is_closing: bool,
    /// Whether the disk was full.
    pub(super) was_full: bool,
}

/// The state that the writer's threads share, behind one lock.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    pub(super) phase: Phase,
    /// Full pages, in each shard's order.
    pub(super) ready: VecDeque<Filled>,
    order: VecDeque<Entry>,
    /// Writes that failed. Their entries stay in `order`, so that nothing behind them is done.
    pub(super) failed: Vec<Write>,
    next_entry: u64,
    pub(super) activity: Activity,
    pub(super) in_flight: usize,
    /// The write slots that are in use, each by a turn.
    pub(super) slots: [bool; WRITE_SLOTS],
    pub(super) unsynced: Unsynced,
    /// The file of the last write, in mode none.
    pub(super) growing: Option<Arc<dyn StorageFile>>,
    /// The last record for which a caller waits for a sync.
    pub(super) sync_wanted: u64,
    /// The last record that was synced.
    pub(super) synced: u64,
    /// Whether a record has been in a shard for too long.
    pub(super) is_aged: bool,
    /// How many threads sleep.
    pub(super) sleeping: usize,
    pub(super) watch: Watch,
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
            pool: Pool::new(memory),
            ..Self::default()
        }
    }

    /// Whether the stream can be written to.
    pub(super) fn is_writable(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::DiskFull { .. })
    }

    /// A write or a sync has failed. A worse phase stays.
    pub(super) fn fail_phase(&mut self) {
        if self.is_writable() {
            self.phase = Phase::Failed;
        }
    }

    /// The turn that is due at `now_ns`, given whether a caller waits for a record.
    pub(super) fn due(&self, now_ns: u64, is_demanded: bool, interval: Option<Interval>) -> Due {
        let is_idle = self.activity == Activity::Idle && self.in_flight == 0;
        match self.phase {
            Phase::Open => self.due_open(now_ns, is_demanded, interval),
            Phase::DiskFull {
                retry_ns,
                is_failed,
            } => {
                let sync = self.due_sync(now_ns, interval);
                if matches!(sync, Due::Now(_)) || !is_idle {
                    // A thread that works asks again when it is done.
                    return sync;
                }
                if self.closing.has_begun() {
                    // There may be space by now.
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

    /// When the written data must be synced, in mode interval.
    fn due_sync(&self, now_ns: u64, interval: Option<Interval>) -> Due {
        if self.unsynced.is_empty() || self.activity.is_syncing() {
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
        let is_syncing = self.activity.is_syncing();
        // Data must not gather without bound while a disk syncs slower than memory is written.
        let is_stalled =
            is_syncing && interval.is_some_and(|interval| self.unsynced.bytes >= interval.bytes);
        if self.activity.is_sealing() || is_stalled {
            return deadline;
        }
        if !self.ready.is_empty() && self.in_flight < WRITE_SLOTS {
            return Due::Now(Turn::Commit { is_all: false });
        }
        if self.in_flight > 0 {
            return deadline;
        }
        let must_drain = self.closing.has_begun() && self.closing < Closing::Drained;
        if is_demanded || self.is_aged || must_drain {
            return Due::Now(Turn::Commit { is_all: true });
        }
        if self.closing.has_begun() && !is_syncing && self.unsynced.is_empty() {
            return Due::Now(Turn::Finish);
        }
        deadline
    }

    /// Takes the pages that are ready, for a commit that begins.
    pub(super) fn gather(&mut self, is_all: bool) -> Gathered {
        let is_closing = self.closing.has_begun();
        if is_closing {
            self.closing.advance(Closing::Tried);
        }
        let (mut pages, mut bytes) = (VecDeque::new(), 0);
        while bytes < TURN_BYTES_MAX
            && let Some(page) = self.ready.pop_front()
        {
            bytes += page.body.bytes();
            pages.push_back(page);
        }
        let takes_shards = is_all && self.ready.is_empty();
        self.is_aged &= !takes_shards;
        Gathered {
            pages,
            is_all,
            takes_shards,
            is_closing,
            was_full: matches!(self.phase, Phase::DiskFull { .. }),
        }
    }

    /// Enters a write that will be in flight, in the order of its records. Returns its id.
    pub(super) fn begin(&mut self) -> u64 {
        let id = self.next_entry;
        self.next_entry += 1;
        self.order.push_back(Entry { id, write: None });
        id
    }

    /// Notes that a write is done; returns those that are done with all before them.
    ///
    /// # Errors
    ///
    /// The stream has failed meanwhile: the outcome of this write is as unknown as that of the others.
    pub(super) fn end(&mut self, id: u64, write: Write) -> Result<Vec<Write>, Write> {
        let first = self.order.front();
        let index = first.and_then(|first| id.checked_sub(first.id));
        let Some(entry) = index.and_then(|index| self.order.get_mut(index as usize)) else {
            return Err(write);
        };
        entry.write = Some(write);
        let mut done = Vec::new();
        while let Some(write) = self.order.front_mut().and_then(|it| it.write.take()) {
            self.order.pop_front();
            done.push(write);
        }
        Ok(done)
    }

    /// Takes everything that was written or waits to be, when the stream has failed: batches whose outcome is unknown,
    /// and those that were not written.
    pub(super) fn fail(&mut self) -> (Vec<Part>, Vec<Part>, Vec<Waker>) {
        let mut wakers = Vec::new();
        let mut unknown = Vec::new();
        let done = std::mem::take(&mut self.order).into_iter();
        let done = done.filter_map(|entry| entry.write);
        let written = done.chain(std::mem::take(&mut self.failed));
        for chunk in written.flat_map(|write| write.chunks) {
            unknown.extend(chunk.parts);
            wakers.extend(self.pool.put(chunk.body.buffer));
        }
        self.growing = None;
        let unsynced = std::mem::take(&mut self.unsynced);
        unknown.extend(unsynced.batches.into_iter().map(|(part, _)| part));
        let mut unwritten = Vec::new();
        for page in std::mem::take(&mut self.ready) {
            unwritten.extend(page.parts);
            wakers.extend(self.pool.put(page.body.buffer));
        }
        (unknown, unwritten, wakers)
    }
}
