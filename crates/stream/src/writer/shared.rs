//! What all handles and threads of a stream share.

use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
};

use freeboard_flow::Admission;
use freeboard_meter::now_ns;

use crate::{
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, record_bytes},
    head::Head,
    log::{Identity, Log},
    storage::Storage,
};

use super::{
    batch::Batch,
    demand::Demand,
    error::{AppendError, CloseError, TicketError},
    gauges::{Gauges, StreamSnapshot},
    options::StreamOptions,
    segment_pool::SegmentPool,
    shard::{Filling, Page, Shard},
    stream_writer::Sequences,
    sync_mode::SyncMode,
    ticket::Ticket,
    wake::wake_all,
    writer_state::{Closing, Due, IN_FLIGHT_MAX, Interval, Phase, WriterState},
};

/// A stream that is open for writing.
pub(crate) struct Shared {
    pub(super) options: StreamOptions,
    pub(super) path: Option<PathBuf>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) identity: Identity,
    /// The last record that was there when it was opened.
    pub(super) recovered: u64,
    pub(super) tag_bytes: usize,
    pub(super) record_limit: usize,
    /// The largest page of small records: each shard must be able to have two.
    pub(super) page_bytes_max: usize,
    pub(super) shards: Box<[Shard]>,
    pub(super) demand: Demand,
    pub(super) state: Mutex<WriterState>,
    /// Signalled when there is something for a writer thread to do.
    pub(super) work: Condvar,
    /// Only for the thread whose turn it is; never contended.
    pub(super) log: Mutex<Log>,
    pub(super) segment_pool: SegmentPool,
    pub(super) gauges: Gauges,
    /// Why the stream is down, or what its last failure was.
    pub(super) fault: Mutex<Option<String>>,
    /// How it ended, once it has.
    pub(super) closed: Mutex<Option<Result<(), CloseError>>>,
    /// The last record before those that the shards count.
    pub(super) base: AtomicU64,
    pub(super) written: AtomicU64,
    /// Itself, for the batches.
    pub(super) this: Weak<Shared>,
}

/// What became of an attempt to append.
pub(super) enum Attempt {
    Done(Ticket),
    /// There is no room, and the policy is to wait; the waker that was given is woken.
    Wait,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, WriterState> {
        // A thread that panics with the lock marks the stream as down before it leaves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody waits for what is still in the shards.
    pub(super) fn demand(&self) {
        if self.demand.raise() {
            self.ring_if_due();
        }
    }

    /// Wakes a writer thread, if one sleeps and there is something to do. If there is not because
    /// others are at work, they look again when they have done theirs.
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

    /// Appends a record, or says why not. `waker` is woken when there is room, if there is none.
    #[inline]
    pub(super) fn append(
        &self,
        shard: &Shard,
        filling: &mut Filling,
        payload: &[u8],
        waker: impl FnOnce() -> Waker,
    ) -> Result<Attempt, AppendError> {
        let fits = payload.len() <= self.record_limit;
        let has_room = filling
            .page
            .as_ref()
            .is_some_and(|page| fits && page.has_room(payload.len(), self.tag_bytes));
        // Whoever refuses also takes the pages away, so that the fast path need not look.
        if !has_room && let Some(attempt) = self.turn_page(filling, payload.len(), waker)? {
            return Ok(attempt);
        }
        let page = filling.page.as_mut().expect("a page with room");
        let (batch, index) = page.push(payload, self.tag_bytes);
        let batch = batch.clone();
        shard.count();
        Ok(Attempt::Done(Ticket::new(batch, index)))
    }

    /// Hands the full page over and begins a new one. `Some` if there will be none for this record.
    #[cold]
    fn turn_page(
        &self,
        filling: &mut Filling,
        payload: usize,
        waker: impl FnOnce() -> Waker,
    ) -> Result<Option<Attempt>, AppendError> {
        if let Some(refusal) = filling.refusal {
            return Err(refusal);
        }
        if payload > self.record_limit {
            return Err(AppendError::TooLarge {
                bytes: payload,
                limit: self.record_limit,
            });
        }
        let needed = CHUNK_HEADER_BYTES + record_bytes(payload, self.tag_bytes);
        let bytes = needed
            .max(self.gauges.buffer_bytes().min(self.page_bytes_max))
            .next_multiple_of(ALIGNMENT);
        let mut state = self.state();
        if let Some(page) = filling.page.take() {
            state.ready.push_back(page.finish());
            if state.sleeping > 0 && !state.is_taking && state.in_flight < IN_FLIGHT_MAX {
                self.work.notify_one();
            }
        }
        let buffer = match state.pool.take(bytes) {
            Ok(buffer) => buffer,
            Err(Admission::Wait) => {
                state.pool.wait(&waker());
                drop(state);
                // What half-filled buffers hold is room too.
                self.demand();
                return Ok(Some(Attempt::Wait));
            }
            Err(Admission::ShedNewest(reason)) => {
                drop(state);
                self.gauges.shed(reason);
                let outcome = Err(TicketError::Shed(reason));
                return Ok(Some(Attempt::Done(Ticket::settled(outcome))));
            }
            Err(_) => {
                drop(state);
                self.gauges.refuse();
                return Err(AppendError::Full);
            }
        };
        if state.is_dozing {
            state.is_dozing = false;
            self.work.notify_one();
        }
        drop(state);
        let batch = Arc::new(Batch::new(self.this.clone()));
        filling.last = Some(batch.clone());
        filling.page = Some(Page::new(buffer, batch, now_ns()));
        Ok(None)
    }

    /// Refuses all appends from now on, or accepts them again.
    pub(super) fn refuse(&self, refusal: Option<AppendError>) {
        for shard in &self.shards {
            let mut filling = shard.lock();
            // What is closed stays closed, whoever finds room or reopens meanwhile.
            if filling.refusal != Some(AppendError::Closed) {
                filling.refusal = refusal;
            }
        }
    }

    /// Begins to close; the writer threads do the rest.
    pub(super) fn close(&self) {
        // First, so that what is found in the shards once closing has begun is all there will be.
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

    /// Somebody waits for a sync of all that is accepted.
    pub(super) fn want_sync(&self) {
        let mut state = self.state();
        state.sync_wanted = state.sync_wanted.max(self.accepted());
        drop(state);
        self.demand();
    }

    pub(super) fn sequences(&self) -> Sequences {
        // Ordering: Acquire pairs with the Release by which they are raised: what they say is in the
        // files. In this order, so that none is seen ahead of the one it follows.
        let durable = self.segment_pool.durable();
        let written = self.written.load(Ordering::Acquire);
        Sequences {
            accepted: self.accepted().max(written),
            written: written.max(durable),
            durable,
        }
    }

    pub(super) fn snapshot(&self) -> StreamSnapshot {
        let sequences = self.sequences();
        let (segments, bytes) = self.segment_pool.finished();
        let memory_bytes = self.state().pool.used_bytes();
        let mut snapshot = StreamSnapshot {
            recovered: self.recovered,
            accepted: sequences.accepted,
            written: sequences.written,
            durable: sequences.durable,
            memory_bytes,
            segments_finished: segments as u64,
            segment_bytes: bytes,
            is_direct: self.log().end().map(|(file, _)| file.is_direct()),
            ..StreamSnapshot::default()
        };
        self.gauges.fill(&mut snapshot);
        snapshot
    }

    /// The last record and the tag of its chunk.
    pub(super) fn head(&self) -> Option<Head> {
        let log = self.log();
        let sequence = log.last_record();
        (sequence > 0).then(|| Head::new(sequence, log.tag(), self.identity.algorithm))
    }

    pub(super) fn is_disk_full(&self) -> bool {
        matches!(self.state().phase, Phase::DiskFull { .. })
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state().phase, Phase::Closed)
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
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
