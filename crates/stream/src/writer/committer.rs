//! What a writer thread does: gather, seal, write, acknowledge.

use std::{
    collections::VecDeque,
    io,
    sync::{PoisonError, atomic::Ordering},
    task::Waker,
    time::Duration,
};

use freeboard_meter::now_ns;

use crate::{
    format::{ALIGNMENT, SyncKind, chunk_bytes},
    log::{Filled, Part, Placed},
    storage::AlignedBuffer,
};

use super::{
    ending::DISK_FULL_RETRY_NS,
    error::AppendError,
    segment_pool::{Trouble, time_ns},
    shard::Page,
    shared::Shared,
    turn_guard::TurnGuard,
    wake::wake_all,
    writer_state::{Closing, Due, IN_FLIGHT_MAX, Phase, Turn, WriterState},
};

/// The most bytes that one turn takes from the full buffers.
const TURN_BYTES_MAX: usize = 8 << 20;

/// Chunks up to this size are put together into one, in bytes of records.
const SMALL_BYTES: usize = 64 << 10;

/// After so many looks at empty shards nobody looks any more.
const QUIET_LOOKS: u32 = 100;

/// Runs until the stream is closed.
pub(super) fn run(shared: &Shared) {
    let guard = TurnGuard::new(shared);
    let mut quiet_looks = 0;
    loop {
        match shared.next_turn(&guard) {
            Turn::Commit { is_all } => {
                quiet_looks = 0;
                shared.commit(is_all, &guard);
            }
            Turn::Sync => shared.sync(&guard),
            Turn::Watch => shared.watch(&mut quiet_looks),
            Turn::Reopen => shared.reopen(&guard),
            Turn::Finish => shared.finish(&guard),
            Turn::Exit => break,
        }
    }
    guard.finish();
}

/// What a turn leaves to be done when nothing is held any more: it runs code of the user's.
#[derive(Default)]
struct Completions {
    /// Batches that are durable in the stream's mode, and the sequences of their first records.
    settled: Vec<(Part, u64)>,
    wakers: Vec<Waker>,
}

impl Shared {
    /// Somebody is about to block until what is in the shards is durable: while nothing is on its
    /// way he writes it himself, which spares waking a writer thread and being woken by it.
    pub(super) fn help(&self) {
        // What is waited for there is a sync, whose time the writer threads keep.
        if self.identity.sync == SyncKind::Interval {
            return;
        }
        let must_ring = self.demand.raise();
        let mut state = self.state();
        let due = state.due(now_ns(), true, None);
        if due == Due::Now(Turn::Commit { is_all: true }) {
            let guard = TurnGuard::new(self);
            guard.take(&mut state);
            drop(state);
            self.commit(true, &guard);
            guard.finish();
            self.ring_if_due();
        } else if must_ring && state.sleeping > 0 && matches!(due, Due::Now(_)) {
            self.work.notify_one();
        }
    }

    /// Waits for something to do, and marks it as begun.
    fn next_turn(&self, guard: &TurnGuard<'_>) -> Turn {
        let period = self
            .options
            .flush_after
            .clamp(Duration::from_millis(1), Duration::from_secs(1));
        let mut state = self.state();
        loop {
            let now = now_ns();
            let deadline = match state.due(now, self.demand.is_raised(), self.interval()) {
                Due::Now(turn) => {
                    match turn {
                        Turn::Commit { .. } | Turn::Reopen | Turn::Finish => guard.take(&mut state),
                        Turn::Sync => guard.sync(&mut state),
                        Turn::Watch | Turn::Exit => {}
                    }
                    return turn;
                }
                Due::At(deadline) => {
                    Some(Duration::from_nanos(deadline.saturating_sub(now).max(1)))
                }
                Due::Never => None,
            };
            let is_watch =
                !state.is_watched && !state.is_dozing && matches!(state.phase, Phase::Open);
            state.is_watched |= is_watch;
            let time = match (deadline, is_watch) {
                (Some(deadline), true) => Some(deadline.min(period)),
                (deadline, false) => deadline,
                (None, true) => Some(period),
            };
            state.sleeping += 1;
            let is_timeout;
            (state, is_timeout) = match time {
                None => {
                    let state = self
                        .work
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                    (state, false)
                }
                Some(time) => {
                    let (state, timeout) = self
                        .work
                        .wait_timeout(state, time)
                        .unwrap_or_else(PoisonError::into_inner);
                    (state, timeout.timed_out())
                }
            };
            state.sleeping -= 1;
            if is_watch {
                state.is_watched = false;
                if is_timeout {
                    return Turn::Watch;
                }
            }
        }
    }

    /// Looks whether a record has waited too long in a shard; after a long quiet, nobody looks any
    /// more until one begins a buffer.
    fn watch(&self, quiet_looks: &mut u32) {
        let limit_ns = u64::try_from(self.options.flush_after.as_nanos()).unwrap_or(u64::MAX);
        *quiet_looks += 1;
        let is_dozing = *quiet_looks > QUIET_LOOKS;
        if is_dozing {
            // Before the shards are looked at: who begins a buffer after that look, under the
            // shard's lock, sees it and rings.
            self.state().is_dozing = true;
            *quiet_looks = 0;
        }
        let now = now_ns();
        let oldest = self
            .shards
            .iter()
            .filter_map(|shard| shard.lock().page.as_ref().map(|page| page.begun_ns))
            .min();
        if let Some(begun_ns) = oldest {
            *quiet_looks = 0;
            let mut state = self.state();
            state.is_dozing = false;
            state.is_aged |= now.saturating_sub(begun_ns) >= limit_ns;
        }
    }

    /// Gathers what has filled, seals it and writes it.
    fn commit(&self, is_all: bool, guard: &TurnGuard<'_>) {
        let (mut waiting, emptied) = self.gather(is_all);
        let (sealed, failure) = self.seal(&mut waiting, is_all);
        // The shards learn it before the phase says so: as soon as it does, the other thread may
        // reopen the stream, and would be overtaken.
        match &failure {
            Some(error) => self.refuse(Some(refusal_for(error))),
            // Nothing else is on its way while the disk is full.
            None if self.is_disk_full() => self.refuse(None),
            None => {}
        }
        let mut completions = Completions::default();
        let mut state = self.state();
        let ids: Vec<u64> = sealed.iter().map(|_| state.begin()).collect();
        let places = match sealed.last() {
            None => 0,
            Some(last) if last.zeros > 0 => IN_FLIGHT_MAX,
            Some(_) => 1,
        };
        guard.give_taken(&mut state, places);
        while let Some(filled) = waiting.pop_back() {
            state.ready.push_front(filled);
        }
        for buffer in emptied {
            completions.wakers.extend(state.pool.put(buffer));
        }
        match failure {
            None if matches!(state.phase, Phase::DiskFull { .. }) => state.phase = Phase::Open,
            None => {}
            Some(error) => {
                self.no_segment(&mut state, &error);
                // Who waits for room learns why there is none.
                completions.wakers.extend(state.pool.give_up());
            }
        }
        if !state.ready.is_empty() && state.sleeping > 0 {
            self.work.notify_one();
        }
        drop(state);
        let count = sealed.len();
        for (index, (placed, id)) in sealed.into_iter().zip(ids).enumerate() {
            let is_last = index + 1 == count;
            self.write(placed, id, guard, is_last, &mut completions);
        }
        self.finish_turn(completions);
    }

    fn finish_turn(&self, completions: Completions) {
        let now = now_ns();
        for (part, first) in completions.settled {
            self.gauges.acknowledged(now.saturating_sub(part.begun_ns));
            part.batch.settle(Ok(first));
        }
        wake_all(completions.wakers);
    }

    /// Takes the full buffers, and, if all is wanted, what the shards hold; puts small ones
    /// together. Also returns the buffers that this has emptied.
    fn gather(&self, is_all: bool) -> (VecDeque<Filled>, Vec<AlignedBuffer>) {
        let mut waiting = VecDeque::new();
        let mut bytes = 0;
        let mut state = self.state();
        let is_closing = state.closing.has_begun();
        if is_closing {
            state.closing.advance(Closing::Tried);
        }
        while bytes < TURN_BYTES_MAX
            && let Some(filled) = state.ready.pop_front()
        {
            bytes += filled.body_bytes();
            waiting.push_back(filled);
        }
        // What is in the shards comes after what has left them.
        if !is_all || !state.ready.is_empty() {
            return (waiting, Vec::new());
        }
        state.is_aged = false;
        drop(state);
        self.demand.lower();
        self.empty_shards(&mut waiting);
        if is_closing && waiting.is_empty() {
            self.state().closing.advance(Closing::Drained);
        }
        collapse(waiting)
    }

    /// Takes what the shards hold, behind what they have handed over.
    pub(super) fn empty_shards(&self, waiting: &mut VecDeque<Filled>) {
        for shard in &self.shards {
            let mut filling = shard.lock();
            // With the shard locked nothing of it can come between what is ready and its page.
            waiting.append(&mut self.state().ready);
            waiting.extend(filling.page.take().map(Page::finish));
        }
    }

    /// Seals what is waiting and gives it places. What is left waits for a segment that could not
    /// be begun.
    fn seal(
        &self,
        waiting: &mut VecDeque<Filled>,
        is_all: bool,
    ) -> (Vec<Placed>, Option<io::Error>) {
        // A lower figure than the true one is true as well.
        let durable = self.segment_pool.durable();
        let mut sealed = Vec::new();
        let mut log = self.log();
        while let Some(first) = waiting.front() {
            let now = time_ns();
            let mut header = None;
            if log.must_roll(first) {
                let needed = ALIGNMENT as u64 + chunk_bytes(first.body_bytes() as u32);
                match self.segment_pool.take(log.next_segment(), needed) {
                    Ok(prepared) => {
                        let (buffer, finished) = log.roll(prepared, now);
                        self.segment_pool
                            .rolled(finished, log.next_segment(), log.mark_sealer());
                        header = Some(buffer);
                    }
                    Err(error) => return (sealed, Some(error)),
                }
            }
            sealed.push(log.place(waiting, durable, now, header));
        }
        // Everything is taken only while nothing is on its way.
        if is_all
            && self.identity.sync == SyncKind::Batch
            && let Some(last) = sealed.last_mut()
        {
            log.look_ahead(last);
        }
        (sealed, None)
    }

    /// A new segment could not be begun. Nothing was written, so nothing is unknown.
    fn no_segment(&self, state: &mut WriterState, error: &io::Error) {
        match refusal_for(error) {
            // A write of the other thread may have failed meanwhile, which is worse.
            AppendError::DiskFull if state.is_writable() => {
                state.phase = Phase::DiskFull {
                    retry_ns: now_ns() + DISK_FULL_RETRY_NS,
                    is_failed: false,
                };
            }
            AppendError::DiskFull => {}
            _ => {
                self.note_fault(format!("a new segment could not be begun: {error}"));
                state.fail_phase();
            }
        }
    }

    /// With the last one of a turn, what the turn holds is given back.
    fn write(
        &self,
        placed: Placed,
        id: u64,
        guard: &TurnGuard<'_>,
        is_last: bool,
        completions: &mut Completions,
    ) {
        let last = is_last.then_some(guard);
        let begun = now_ns();
        // Behind a write that failed nothing more is written: it could not be reached.
        let is_failed = !self.state().is_writable();
        let result = if is_failed {
            Err(io::Error::other("an earlier write failed"))
        } else {
            placed.write(guard.slot())
        };
        match result {
            Ok(()) => {
                let time = now_ns() - begun;
                let bytes = placed.bytes() - placed.zeros;
                self.gauges.wrote(bytes, placed.chunks.len(), time);
                self.wrote(placed, id, last, completions);
            }
            Err(error) => {
                if !is_failed {
                    self.note_fault(format!("a write failed: {error}"));
                }
                // Before the phase says so, as in `commit`.
                self.refuse(Some(AppendError::Reopening));
                let mut state = self.state();
                if let Some(guard) = last {
                    guard.give_places(&mut state);
                }
                state.failed.push(placed);
                state.fail_phase();
            }
        }
    }

    /// A write has returned: acknowledges it and what was done before it and waited for it.
    fn wrote(
        &self,
        placed: Placed,
        id: u64,
        last: Option<&TurnGuard<'_>>,
        completions: &mut Completions,
    ) {
        let now = now_ns();
        let mut settled: Vec<(Part, u64)> = Vec::new();
        let mut state = self.state();
        if let Some(guard) = last {
            guard.give_places(&mut state);
        }
        let done = match state.end(id, placed) {
            Ok(done) => done,
            Err(lost) => {
                drop(state);
                // Not under the lock: its tickets wake whoever waits.
                return drop(lost);
            }
        };
        for mut placed in done {
            let mut first = placed.first_record;
            let bytes = placed.bytes();
            for chunk in std::mem::take(&mut placed.chunks) {
                for part in chunk.batches {
                    let count = part.count;
                    settled.push((part, first));
                    first += u64::from(count);
                }
                completions.wakers.extend(state.pool.put(chunk.buffer));
            }
            // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its
            // bytes in the file. Stored under the state's lock, so it never falls.
            self.written.store(placed.last_record, Ordering::Release);
            match self.identity.sync {
                SyncKind::Batch => self.segment_pool.set_durable(placed.last_record),
                // The first write to a segment: all those to the one before have returned.
                SyncKind::None if placed.segment_header.is_some() => {
                    if let Some(file) = state.growing.replace(placed.file.file().clone()) {
                        self.segment_pool.sync(file, placed.first_record - 1);
                    }
                }
                SyncKind::None => {
                    state
                        .growing
                        .get_or_insert_with(|| placed.file.file().clone());
                }
                SyncKind::Interval => {
                    state.unsynced.add(placed.file.file(), bytes, now);
                    state.unsynced.last_record = placed.last_record;
                }
            }
        }
        if self.identity.sync == SyncKind::Interval {
            state.unsynced.batches.append(&mut settled);
        }
        drop(state);
        completions.settled.append(&mut settled);
    }

    /// Makes durable what was written, in mode interval and at the end.
    fn sync(&self, guard: &TurnGuard<'_>) {
        let unsynced = std::mem::take(&mut self.state().unsynced);
        let result = unsynced.files.iter().try_for_each(|file| file.sync());
        match result {
            Ok(()) => {
                let mut state = self.state();
                guard.give_synced(&mut state);
                state.synced = unsynced.last_record;
                self.segment_pool.set_durable(unsynced.last_record);
                drop(state);
                self.gauges.synced();
                self.finish_turn(Completions {
                    settled: unsynced.batches,
                    wakers: Vec::new(),
                });
            }
            Err(error) => {
                self.note_fault(format!("a sync failed: {error}"));
                // Before the phase says so, as in `commit`.
                self.refuse(Some(AppendError::Reopening));
                let mut state = self.state();
                guard.give_synced(&mut state);
                // Never a second time: the pages are marked clean now, and a sync that succeeds
                // would prove nothing. What was written meanwhile is as unknown.
                let newer = std::mem::replace(&mut state.unsynced, unsynced);
                state.unsynced.batches.extend(newer.batches);
                state.fail_phase();
            }
        }
    }

    /// The segment pool's thread met trouble.
    pub(super) fn troubled(&self, trouble: Trouble) {
        match trouble {
            Trouble::Sync(error) => self.sync_failed(&error),
            Trouble::Retire(error) => {
                self.note_fault(format!("an old segment could not be removed: {error}"));
            }
        }
    }

    fn sync_failed(&self, error: &io::Error) {
        self.note_fault(format!("a sync failed: {error}"));
        let mut state = self.state();
        if !state.is_writable() {
            // It is being read again already, or never will be.
            return;
        }
        state.phase = Phase::Failed;
        // It is not read again before the shards know: that would overtake it.
        state.in_flight += 1;
        drop(state);
        self.refuse(Some(AppendError::Reopening));
        self.state().in_flight -= 1;
        self.work.notify_one();
    }
}

fn refusal_for(error: &io::Error) -> AppendError {
    if error.kind() == io::ErrorKind::StorageFull {
        AppendError::DiskFull
    } else {
        AppendError::Reopening
    }
}

/// Puts small neighbours together, so that what goes to the disk is short and contiguous. Returns
/// the buffers that this has emptied.
fn collapse(waiting: VecDeque<Filled>) -> (VecDeque<Filled>, Vec<AlignedBuffer>) {
    let mut together: VecDeque<Filled> = VecDeque::with_capacity(waiting.len());
    let mut emptied = Vec::new();
    for filled in waiting {
        match together.back_mut() {
            Some(last) if filled.body_bytes() <= SMALL_BYTES && last.has_room_for(&filled) => {
                emptied.push(last.absorb(filled));
            }
            _ => together.push_back(filled),
        }
    }
    (together, emptied)
}
