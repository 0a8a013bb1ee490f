//! A stream that is open for writing: the producers' side.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
};

use freeboard_flow::Admission;
use freeboard_meter::now_ns;
use freeboard_platform::sync::{Condvar, Mutex, MutexGuard};

use crate::{
    fence::{Fence, Stale},
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, record_bytes},
    log::{Identity, LogEnd, WRITE_SLOTS},
    storage::Storage,
};

use super::{
    batch::{Batch, Hurry, wake_all},
    consumers::Consumers,
    demand::Demand,
    error::{AppendError, CloseError, TicketError},
    metrics::{Gauges, StreamSnapshot},
    options::StreamOptions,
    segment_pool::SegmentPool,
    shard::{Filling, Page, Shard},
    sync_mode::SyncMode,
    ticket::Ticket,
    writer_state::{Closing, Due, Interval, Phase, Watch, WriterState},
};

/// How far a stream has come. Each is the sequence of a record, 0 for none; durable <= written <= accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// The last record that was accepted into memory.
    pub accepted: u64,
    /// The last record that was handed to the operating system.
    pub written: u64,
    /// The last record that is durable. In mode none it rises only when the stream is closed.
    pub durable: u64,
}

/// The state that all handles and threads of a stream share.
pub(super) struct Shared {
    pub(super) options: StreamOptions,
    pub(super) path: Option<PathBuf>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) identity: Identity,
    /// The last record when it was opened.
    pub(super) recovered: u64,
    pub(super) tag_bytes: usize,
    pub(super) record_limit: usize,
    /// The most bytes of a batch, heads and tags included.
    pub(super) batch_limit: usize,
    /// The largest page of small records: each shard must be able to have two.
    pub(super) page_bytes_max: usize,
    pub(super) shards: Box<[Shard]>,
    pub(super) demand: Demand,
    pub(super) state: Mutex<WriterState>,
    /// Signalled when a turn is due.
    pub(super) work: Condvar,
    /// Only for the thread whose turn it is; never contended.
    pub(super) log: Mutex<LogEnd>,
    pub(super) segment_pool: SegmentPool,
    /// The check for newer epochs, if the stream has epochs.
    pub(super) fence: Option<Fence>,
    /// Whether a newer epoch was found. It stays.
    pub(super) is_stale: AtomicBool,
    pub(super) consumers: Consumers,
    /// Whether a snapshot is being written.
    pub(super) is_snapshotting: AtomicBool,
    pub(super) gauges: Gauges,
    /// Why the stream is down, or its last failure.
    pub(super) fault: Mutex<Option<String>>,
    /// The result of closing it, once closed.
    pub(super) closed: Mutex<Option<Result<(), CloseError>>>,
    /// The last record before those that the shards count.
    pub(super) base: AtomicU64,
    pub(super) written: AtomicU64,
    /// When the lock was last found in its place, on the process's clock.
    pub(super) lock_checked_ns: AtomicU64,
    /// Itself, for the batches.
    pub(super) this: Weak<Shared>,
}

/// The result of an attempt to append.
pub(super) enum Attempt {
    Done(Ticket),
    /// Memory is full, and the policy is to wait. The given waker is woken when there is capacity.
    Wait,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, WriterState> {
        // A thread that panics with the lock marks the stream as down before it leaves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a writer thread, if one sleeps and a turn is due. If none is due because other threads work, they ask again
    /// when they are done.
    pub(super) fn ring_if_due(&self) {
        let state = self.state();
        let due = state.due(now_ns(), self.demand.is_raised(), self.interval());
        if state.sleeping > 0 && matches!(due, Due::Now(_)) {
            self.work.notify_one();
        }
    }

    pub(super) fn interval(&self) -> Option<Interval> {
        match self.options.sync {
            SyncMode::Interval { time, bytes } => Some(Interval {
                time_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                bytes,
            }),
            _ => None,
        }
    }

    /// Appends a record, or says why not. If memory is full, `waker` is woken when there is capacity.
    #[inline]
    pub(super) fn append(
        &self,
        shard: &Shard,
        filling: &mut Filling,
        payload: &[u8],
        waker: impl FnOnce() -> Waker,
    ) -> Result<Attempt, AppendError> {
        let fits = payload.len() <= self.record_limit;
        let bytes = record_bytes(payload.len(), self.tag_bytes);
        let has_room = filling
            .page
            .as_ref()
            .is_some_and(|page| fits && page.has_room(bytes));
        // A refusal takes effect when the page is taken or full, so that the fast path does not check it.
        if !has_room {
            let too_large = (!fits).then(|| self.too_large(payload.len()));
            if let Some(attempt) = self.turn_page(filling, bytes, too_large, waker)? {
                return Ok(attempt);
            }
        }
        let page = filling.page.as_mut().expect("a page with room");
        let (batch, index) = page.push(payload, self.tag_bytes);
        let batch = batch.clone();
        shard.count(1);
        Ok(Attempt::Done(Ticket::new(batch, index)))
    }

    /// As [`append`](Self::append), of at least one record. All of them go to one page, and so to one chunk: a crash
    /// leaves a chunk whole, or recovery cuts it off.
    pub(super) fn append_batch(
        &self,
        shard: &Shard,
        filling: &mut Filling,
        records: &[&[u8]],
        waker: impl FnOnce() -> Waker,
    ) -> Result<Attempt, AppendError> {
        let large = records.iter().find(|it| it.len() > self.record_limit);
        let bytes = records
            .iter()
            .map(|it| record_bytes(it.len(), self.tag_bytes))
            .fold(0, usize::saturating_add);
        let limit = self.batch_limit;
        let too_large = match large {
            Some(record) => Some(self.too_large(record.len())),
            None => (bytes > limit).then_some(AppendError::BatchTooLarge { bytes, limit }),
        };
        let page = filling.page.as_ref();
        let has_room = too_large.is_none() && page.is_some_and(|page| page.has_room(bytes));
        if !has_room && let Some(attempt) = self.turn_page(filling, bytes, too_large, waker)? {
            return Ok(attempt);
        }
        let page = filling.page.as_mut().expect("a page with room");
        let mut last = None;
        for record in records {
            let (batch, index) = page.push(record, self.tag_bytes);
            last = Some((batch.clone(), index));
        }
        shard.count(records.len() as u64);
        let (batch, index) = last.expect("a batch has a record");
        Ok(Attempt::Done(Ticket::new(batch, index)))
    }

    fn too_large(&self, bytes: usize) -> AppendError {
        AppendError::TooLarge {
            bytes,
            limit: self.record_limit,
        }
    }

    /// Hands the full page over and begins one with room for records that take `bytes`. `Some` if they get none.
    #[cold]
    fn turn_page(
        &self,
        filling: &mut Filling,
        bytes: usize,
        too_large: Option<AppendError>,
        waker: impl FnOnce() -> Waker,
    ) -> Result<Option<Attempt>, AppendError> {
        if let Some(refusal) = filling.refusal.or(too_large) {
            return Err(refusal);
        }
        let bytes = (CHUNK_HEADER_BYTES + bytes)
            .max(self.gauges.buffer_bytes().min(self.page_bytes_max))
            .next_multiple_of(ALIGNMENT);
        let mut state = self.state();
        if let Some(page) = filling.page.take() {
            state.ready.push_back(page.finish());
            if state.sleeping > 0 && !state.activity.is_sealing() && state.in_flight < WRITE_SLOTS {
                self.work.notify_one();
            }
        }
        let buffer = match state.pool.take(bytes) {
            Ok(buffer) => buffer,
            Err(Admission::Wait) => {
                state.pool.wait(&waker());
                drop(state);
                // Writing half-filled pages frees memory too.
                self.demand();
                return Ok(Some(Attempt::Wait));
            }
            Err(Admission::ShedNewest(reason)) => {
                drop(state);
                self.gauges.shed[reason.index()].add(1);
                let outcome = Err(TicketError::Shed(reason));
                return Ok(Some(Attempt::Done(Ticket::settled(outcome))));
            }
            Err(_) => {
                drop(state);
                self.gauges.refused.add(1);
                return Err(AppendError::Full);
            }
        };
        if state.watch == Watch::Off {
            state.watch = Watch::Due;
            self.work.notify_one();
        }
        drop(state);
        let batch = Arc::new(Batch::new(self.this.clone()));
        filling.last = Some(batch.clone());
        filling.page = Some(Page::new(buffer, batch, now_ns()));
        Ok(None)
    }

    /// Checks that no newer epoch has opened the stream: after a record is in the file, and before it is acknowledged.
    pub(super) fn check_epoch(&self) -> io::Result<()> {
        let Some(fence) = &self.fence else {
            return Ok(());
        };
        let checked = fence.check();
        if checked
            .as_ref()
            .is_err_and(|it| Stale::caused(it).is_some())
        {
            // Ordering: Release pairs with the Acquire of `is_stale`. A thread that fails tickets later sees it.
            self.is_stale.store(true, Ordering::Release);
        }
        checked
    }

    pub(super) fn is_stale(&self) -> bool {
        // Ordering: Acquire, as above.
        self.is_stale.load(Ordering::Acquire)
    }

    /// Why appends are refused while the stream has failed.
    pub(super) fn refusal(&self) -> AppendError {
        if self.is_stale() {
            AppendError::Stale
        } else {
            AppendError::Reopening
        }
    }

    /// Refuses all appends from now on, or accepts them again.
    pub(super) fn refuse(&self, refusal: Option<AppendError>) {
        for shard in &self.shards {
            let mut filling = shard.lock();
            // A closed stream stays closed, whichever thread reopens it meanwhile.
            if filling.refusal != Some(AppendError::Closed) {
                filling.refusal = refusal;
            }
        }
    }

    /// Begins to close; the writer threads do the rest.
    pub(super) fn close(&self) {
        // First, so that nothing is added to the shards once closing has begun.
        let is_down = matches!(self.state().phase, Phase::Down | Phase::Closed);
        if !is_down {
            self.refuse(Some(AppendError::Closed));
        }
        let mut state = self.state();
        state.closing.advance(Closing::Begun);
        let wakers = state.pool.give_up();
        drop(state);
        self.work.notify_all();
        wake_all(wakers);
    }

    /// A caller waits for a sync of all that is accepted.
    pub(super) fn want_sync(&self) {
        let mut state = self.state();
        state.sync_wanted = state.sync_wanted.max(self.accepted());
        drop(state);
        self.demand();
    }

    pub(super) fn sequences(&self) -> Sequences {
        // Ordering: Acquire pairs with the Release by which they are raised: the records up to them are in the files. In
        // this order, so that none is seen ahead of the one it follows.
        let durable = self.segment_pool.durable();
        let written = self.written.load(Ordering::Acquire);
        Sequences {
            accepted: self.accepted().max(written),
            written: written.max(durable),
            durable,
        }
    }

    pub(super) fn snapshot(&self) -> StreamSnapshot {
        let Sequences {
            accepted,
            written,
            durable,
        } = self.sequences();
        let (segments, segment_bytes) = self.segment_pool.finished();
        StreamSnapshot {
            recovered: self.recovered,
            accepted,
            written,
            durable,
            memory_bytes: self.state().pool.used_bytes(),
            segments_finished: segments as u64,
            segments_unread: self.segment_pool.unread(),
            segment_bytes,
            is_direct: self.log().end().map(|(file, _)| file.is_direct()),
            ..self.gauges.snapshot()
        }
    }

    pub(super) fn is_disk_full(&self) -> bool {
        matches!(self.state().phase, Phase::DiskFull { .. })
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state().phase, Phase::Closed)
    }

    pub(super) fn log(&self) -> MutexGuard<'_, LogEnd> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of the last record that was accepted.
    fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        let base = self.base.load(Ordering::Relaxed);
        base + self.shards.iter().map(Shard::accepted).sum::<u64>()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
