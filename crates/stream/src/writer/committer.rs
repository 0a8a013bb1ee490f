//! The turns of the writer's threads: gather, seal, write, acknowledge.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{PoisonError, atomic::Ordering},
    task::Waker,
    time::Duration,
};

use freeboard_meter::now_ns;
use freeboard_platform::planted;

use crate::{
    format::{ALIGNMENT, SyncKind, chunk_bytes},
    log::WRITE_SLOTS,
    storage::AlignedBuffer,
};

use super::{
    batch::{Hurry, Part, wake_all},
    ending::TurnGuard,
    error::AppendError,
    options::{Observer, Written},
    segment_pool::{Trouble, time_ns},
    shard::{Filled, Page},
    shared::Shared,
    write::Write,
    writer_state::{
        Closing, DISK_FULL_RETRY_NS, Due, Gathered, Phase, Turn, Unsynced, Watch, WriterState,
    },
};

/// Chunks up to this size are put together into one, in bytes of records.
const SMALL_BYTES: usize = 64 << 10;

/// After so many checks of empty shards the watch is turned off.
const QUIET_CHECKS: u32 = 100;

/// The pause between two checks of the lock.
const LOCK_CHECK_NS: u64 = 1_000_000_000;

/// Runs until the stream is closed.
pub(super) fn run(shared: &Shared) {
    let guard = TurnGuard::new(shared);
    let mut quiet_checks = 0;
    loop {
        match shared.next_turn(&guard) {
            Work::Commit(gathered) => {
                quiet_checks = 0;
                shared.commit(gathered, &guard);
            }
            Work::Sync(unsynced) => shared.sync(unsynced, &guard),
            Work::Watch => shared.watch(&mut quiet_checks),
            Work::Reopen => shared.reopen(&guard),
            Work::Finish => shared.finish(&guard),
            Work::Exit => break,
        }
    }
    guard.finish();
}

/// A turn that has begun, with what it took from the state.
enum Work {
    Commit(Gathered),
    Sync(Unsynced),
    /// Check whether a record has waited too long in a shard.
    Watch,
    Reopen,
    Finish,
    Exit,
}

/// The end of a turn. It runs user code, so no lock is held then.
#[derive(Default)]
struct Completions {
    /// For the observer.
    written: Vec<Written>,
    /// Batches that are durable in the stream's mode, and the sequences of their first records.
    settled: Vec<(Part, u64)>,
    wakers: Vec<Waker>,
}

impl Hurry for Shared {
    /// While nothing is in flight the caller writes, which spares two wake-ups.
    fn help(&self) {
        // In mode interval callers wait for a sync, whose time the writer threads keep.
        if self.identity.sync == SyncKind::Interval {
            return;
        }
        let must_ring = self.demand.raise();
        let mut state = self.state();
        let due = state.due(now_ns(), true, None);
        if due == Due::Now(Turn::Commit { is_all: true }) {
            let guard = TurnGuard::new(self);
            guard.seal(&mut state);
            let gathered = state.gather(true);
            drop(state);
            self.commit(gathered, &guard);
            guard.finish();
            self.ring_if_due();
        } else if must_ring && state.sleeping > 0 && matches!(due, Due::Now(_)) {
            self.work.notify_one();
        }
    }

    fn demand(&self) {
        if self.demand.raise() {
            self.ring_if_due();
        }
    }
}

impl Shared {
    /// Waits for the next turn, and begins it.
    fn next_turn(&self, guard: &TurnGuard<'_>) -> Work {
        let period = self
            .options
            .flush_after
            .clamp(Duration::from_millis(1), Duration::from_secs(1));
        let mut state = self.state();
        loop {
            let now = now_ns();
            let deadline = match state.due(now, self.demand.is_raised(), self.interval()) {
                Due::Now(turn) => return begin(turn, &mut state, guard),
                Due::At(deadline) => {
                    Some(Duration::from_nanos(deadline.saturating_sub(now).max(1)))
                }
                Due::Never => None,
            };
            let is_watcher = state.watch == Watch::Due && matches!(state.phase, Phase::Open);
            if is_watcher {
                state.watch = Watch::Held;
            }
            state.sleeping += 1;
            let time = deadline.into_iter().chain(is_watcher.then_some(period));
            let is_timeout;
            (state, is_timeout) = match time.min() {
                None => {
                    let woken = self.work.wait(state);
                    (woken.unwrap_or_else(PoisonError::into_inner), false)
                }
                Some(time) => {
                    let woken = self.work.wait_timeout(state, time);
                    let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                    (state, timeout.timed_out())
                }
            };
            state.sleeping -= 1;
            if is_watcher && is_timeout {
                return Work::Watch;
            }
            if is_watcher {
                state.watch = Watch::Due;
            }
        }
    }

    /// Checks whether a record has waited too long in a shard. After many checks of empty shards the watch is turned
    /// off until a record begins a page.
    fn watch(&self, quiet_checks: &mut u32) {
        *quiet_checks += 1;
        let is_off = *quiet_checks > QUIET_CHECKS;
        if is_off {
            // Before the shards are read: a record that begins a page after that, under the shard's lock, sees it and
            // rings.
            self.state().watch = Watch::Off;
            *quiet_checks = 0;
        }
        let now = now_ns();
        let pages = self.shards.iter();
        let oldest = pages
            .filter_map(|shard| shard.lock().page.as_ref().map(|page| page.begun_ns))
            .min();
        let mut state = self.state();
        if let Some(begun_ns) = oldest {
            *quiet_checks = 0;
            let limit_ns = u64::try_from(self.options.flush_after.as_nanos()).unwrap_or(u64::MAX);
            state.is_aged |= now.saturating_sub(begun_ns) >= limit_ns;
        }
        // If it was turned on meanwhile, another thread may hold it.
        if !is_off || oldest.is_some() && state.watch == Watch::Off {
            state.watch = Watch::Due;
        }
    }

    /// Seals the gathered pages and writes them.
    fn commit(&self, mut gathered: Gathered, guard: &TurnGuard<'_>) {
        let emptied = self.take_shards(&mut gathered);
        let mut pages = gathered.pages;
        let (writes, failure) = self.seal(&mut pages, gathered.is_all);
        // The shards learn it before the phase does: from then on the other thread may reopen the stream, and its
        // message to the shards must come last.
        match &failure {
            Some(error) => self.refuse(Some(refusal_for(error))),
            // Nothing else is in flight while the disk is full.
            None if gathered.was_full && self.is_disk_full() => self.refuse(None),
            None => {}
        }
        let mut completions = Completions::default();
        let mut state = self.state();
        let ids: Vec<u64> = writes.iter().map(|_| state.begin()).collect();
        let places = writes.last().map_or(0, |last| match last.zeros {
            0 => 1,
            _ => WRITE_SLOTS,
        });
        guard.write(&mut state, places);
        while let Some(page) = pages.pop_back() {
            state.ready.push_front(page);
        }
        for buffer in emptied {
            completions.wakers.extend(state.pool.put(buffer));
        }
        match failure {
            None if matches!(state.phase, Phase::DiskFull { .. }) => state.phase = Phase::Open,
            None => {}
            Some(error) => {
                self.no_segment(&mut state, &error);
                // Producers that wait for capacity learn why there is none.
                completions.wakers.extend(state.pool.give_up());
            }
        }
        if !state.ready.is_empty() && state.sleeping > 0 {
            self.work.notify_one();
        }
        let mut is_writable = state.is_writable();
        drop(state);
        let count = writes.len();
        for (index, (write, id)) in writes.into_iter().zip(ids).enumerate() {
            let last = (index + 1 == count).then_some(guard);
            let slot = guard.slot();
            is_writable = self.write(write, id, slot, is_writable, last, &mut completions);
        }
        self.complete(completions);
    }

    /// Takes the pages of the shards, if they are due, and puts small pages together. Returns the buffers that this has
    /// emptied.
    fn take_shards(&self, gathered: &mut Gathered) -> Vec<AlignedBuffer> {
        if !gathered.takes_shards {
            return Vec::new();
        }
        self.demand.lower();
        self.empty_shards(&mut gathered.pages);
        if gathered.is_closing && gathered.pages.is_empty() {
            self.state().closing.advance(Closing::Drained);
        }
        let mut emptied = Vec::new();
        let mut together: VecDeque<Filled> = VecDeque::with_capacity(gathered.pages.len());
        for mut page in gathered.pages.drain(..) {
            if page.body.bytes() <= SMALL_BYTES
                && let Some(last) = together.back_mut()
            {
                match last.body.absorb(page.body) {
                    Ok(buffer) => {
                        emptied.push(buffer);
                        last.parts.append(&mut page.parts);
                        continue;
                    }
                    Err(body) => page.body = body,
                }
            }
            together.push_back(page);
        }
        gathered.pages = together;
        emptied
    }

    /// Takes the pages of the shards, after those that have left them.
    pub(super) fn empty_shards(&self, pages: &mut VecDeque<Filled>) {
        for shard in &self.shards {
            let mut filling = shard.lock();
            if let Some(page) = filling.page.take() {
                // While the shard is locked, none of its pages can come between those that are ready and this one.
                pages.append(&mut self.state().ready);
                pages.push_back(Page::finish(page));
            }
        }
    }

    /// Seals the pages. Those that are left wait for a segment that could not be begun.
    fn seal(&self, pages: &mut VecDeque<Filled>, is_all: bool) -> (Vec<Write>, Option<io::Error>) {
        // A lower figure than the true one is true as well.
        let durable = self.segment_pool.durable();
        let mut writes = Vec::new();
        let mut log = self.log();
        while let Some(first) = pages.front() {
            let now = time_ns();
            let mut header = None;
            if log.must_roll(&first.body) {
                let needed = ALIGNMENT as u64 + chunk_bytes(first.body.bytes() as u32);
                let taken = self
                    .segment_pool
                    .take(log.next_segment(), needed, &mut |it| self.troubled(it));
                let prepared = match taken {
                    Ok(prepared) => prepared,
                    Err(error) => return (writes, Some(error)),
                };
                let (buffer, finished) = log.roll(prepared, now);
                self.segment_pool.rolled(finished, &log);
                header = Some(buffer);
            }
            writes.push(Write::seal(&mut log, pages, header, durable, now));
        }
        // Everything is taken only while nothing is in flight.
        if is_all
            && self.identity.sync == SyncKind::Batch
            && let Some(last) = writes.last_mut()
        {
            last.zeros = log.zeros_after(last.bytes());
        }
        (writes, None)
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

    /// Writes, unless a write before it failed: it could not be reached then. With the last write of a turn the turn
    /// releases its slot. Returns whether the stream can be written to.
    fn write(
        &self,
        write: Write,
        id: u64,
        slot: usize,
        is_writable: bool,
        last: Option<&TurnGuard<'_>>,
        completions: &mut Completions,
    ) -> bool {
        let begun = now_ns();
        let result = if is_writable {
            let written = write.run(slot).and_then(|()| self.check_lock(begun));
            // In mode interval the sync checks it.
            match self.identity.sync {
                SyncKind::Interval => written,
                SyncKind::Batch | SyncKind::None => written.and_then(|()| self.check_epoch()),
            }
        } else {
            Err(io::Error::other("an earlier write failed"))
        };
        match result {
            Ok(()) => {
                let (bytes, time_ns) = (write.bytes(), now_ns() - begun);
                self.gauges.wrote(bytes, write.chunks.len(), time_ns);
                if self.options.observer.is_some() {
                    completions.written.push(Written {
                        records: write.last_record + 1 - write.first_record,
                        bytes,
                        time: Duration::from_nanos(time_ns),
                    });
                }
                self.wrote(write, id, last, completions)
            }
            Err(error) => {
                if is_writable {
                    self.note_fault(format!("a write failed: {error}"));
                }
                // Before the phase says so, as in `commit`.
                self.refuse(Some(self.refusal()));
                let mut state = self.state();
                if let Some(guard) = last {
                    guard.release(&mut state);
                }
                state.failed.push(write);
                state.fail_phase();
                false
            }
        }
    }

    /// A write has returned: completes it and the later ones that waited for it. Returns whether the stream can be
    /// written to.
    fn wrote(
        &self,
        write: Write,
        id: u64,
        last: Option<&TurnGuard<'_>>,
        completions: &mut Completions,
    ) -> bool {
        let now = now_ns();
        let mut settled: Vec<(Part, u64)> = Vec::new();
        let mut state = self.state();
        if let Some(guard) = last {
            guard.release(&mut state);
        }
        let is_writable = state.is_writable();
        let done = match state.end(id, write) {
            Ok(done) => done,
            Err(lost) => {
                drop(state);
                // Not under the lock: its tickets wake those who wait.
                drop(lost);
                return is_writable;
            }
        };
        for write in done {
            // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its bytes in the file.
            // Stored under the state's lock, so it never falls.
            self.written.store(write.last_record, Ordering::Release);
            match self.identity.sync {
                SyncKind::Batch => self.segment_pool.set_durable(write.last_record),
                // The first write to a segment: all those to the one before have returned.
                SyncKind::None if write.segment_header.is_some() => {
                    if let Some(file) = state.growing.replace(write.file.file().clone()) {
                        self.segment_pool.sync(file, write.first_record - 1);
                    }
                }
                SyncKind::None => {
                    let growing = &mut state.growing;
                    growing.get_or_insert_with(|| write.file.file().clone());
                }
                SyncKind::Interval => state.unsynced.add(&write, now),
            }
            let mut first = write.first_record;
            for chunk in write.chunks {
                for part in chunk.parts {
                    let count = u64::from(part.count);
                    settled.push((part, first));
                    first += count;
                }
                completions.wakers.extend(state.pool.put(chunk.body.buffer));
            }
        }
        if self.identity.sync == SyncKind::Interval && !planted!("acknowledged-before-sync") {
            state.unsynced.batches.append(&mut settled);
        }
        drop(state);
        completions.settled.append(&mut settled);
        is_writable
    }

    /// Settles the tickets and wakes those who wait.
    fn complete(&self, mut completions: Completions) {
        if let Some(Observer(observer)) = &self.options.observer {
            for written in completions.written.drain(..) {
                // As for wakers: a panic must not stop a thread that others depend on.
                let _ = catch_unwind(AssertUnwindSafe(|| observer(written)));
            }
        }
        let last = completions.settled.iter();
        let last = last.map(|(part, first)| first + u64::from(part.count) - 1);
        if self.options.rolls_back
            && let Some(last) = last.max()
            // A newer epoch removes the records that the mark does not name when it opens the stream.
            && let Err(error) = self.mark(last).and_then(|()| self.check_epoch())
        {
            self.note_fault(format!("the mark of acknowledged records failed: {error}"));
            for (part, _) in completions.settled.drain(..) {
                self.gauges.unknown.add(part.count.into());
                part.batch.settle(Err(self.unknown()));
            }
        }
        let now = now_ns();
        for (part, first) in completions.settled {
            let time_ns = now.saturating_sub(part.begun_ns);
            self.gauges.acknowledge_ns.record_shared(time_ns);
            part.batch.settle(Ok(first));
        }
        wake_all(completions.wakers);
    }

    /// Notes durably that the tickets up to this record are about to resolve.
    pub(super) fn mark(&self, last_record: u64) -> io::Result<()> {
        let storage = self.storage.as_ref();
        self.consumers
            .mark(storage, &self.segment_pool, last_record)
    }

    /// Makes the written data durable, in mode interval.
    fn sync(&self, unsynced: Unsynced, guard: &TurnGuard<'_>) {
        let result = unsynced.files.iter().try_for_each(|file| file.sync());
        let result = match result {
            Err(_) if planted!("sync-tried-again") => {
                unsynced.files.iter().try_for_each(|file| file.sync())
            }
            result => result,
        };
        let result = result
            .and_then(|()| self.check_lock(now_ns()))
            .and_then(|()| self.check_epoch());
        if let Err(error) = result {
            self.note_fault(format!("a sync failed: {error}"));
            // Before the phase says so, as in `commit`.
            self.refuse(Some(self.refusal()));
            let mut state = self.state();
            guard.release(&mut state);
            // Never a second time: the pages are marked clean now, and a sync that succeeds would prove nothing. What
            // was written meanwhile is as unknown.
            let newer = std::mem::replace(&mut state.unsynced, unsynced);
            state.unsynced.batches.extend(newer.batches);
            state.fail_phase();
            return;
        }
        let mut state = self.state();
        guard.release(&mut state);
        state.synced = unsynced.last_record;
        self.segment_pool.set_durable(unsynced.last_record);
        drop(state);
        self.gauges.syncs.add(1);
        self.complete(Completions {
            settled: unsynced.batches,
            ..Completions::default()
        });
    }

    /// Checks, at most once a second, that no other writer can have opened the stream.
    fn check_lock(&self, now_ns: u64) -> io::Result<()> {
        // Ordering: Relaxed, it only spaces the checks.
        let checked_ns = self.lock_checked_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(checked_ns) < LOCK_CHECK_NS {
            return Ok(());
        }
        self.storage.check_lock()?;
        self.lock_checked_ns.store(now_ns, Ordering::Relaxed);
        Ok(())
    }

    /// The segment pool has met a failure.
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
        // It is not read again before the shards know: that message to the shards must come last.
        state.in_flight += 1;
        drop(state);
        self.refuse(Some(AppendError::Reopening));
        self.state().in_flight -= 1;
        self.work.notify_one();
    }
}

/// Begins a turn.
fn begin(turn: Turn, state: &mut WriterState, guard: &TurnGuard<'_>) -> Work {
    match turn {
        Turn::Commit { is_all } => {
            guard.seal(state);
            Work::Commit(state.gather(is_all))
        }
        Turn::Sync => {
            guard.sync(state);
            Work::Sync(std::mem::take(&mut state.unsynced))
        }
        Turn::Reopen => {
            guard.seal(state);
            Work::Reopen
        }
        Turn::Finish => {
            guard.seal(state);
            Work::Finish
        }
        Turn::Exit => Work::Exit,
    }
}

fn refusal_for(error: &io::Error) -> AppendError {
    if error.kind() == io::ErrorKind::StorageFull {
        AppendError::DiskFull
    } else {
        AppendError::Reopening
    }
}
