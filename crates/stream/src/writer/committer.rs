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
    desk::{Desk, Due, IN_FLIGHT_MAX, Phase, Turn},
    ending::DISK_FULL_RETRY_NS,
    error::AppendError,
    shard::Page,
    shared::Shared,
    supply::{Trouble, time_ns},
    turn::Held,
    wake::wake_all,
};

/// The most bytes that one turn takes from the full buffers.
const TURN_BYTES_MAX: usize = 8 << 20;

/// Chunks up to this size are put together into one, in bytes of records.
const SMALL_BYTES: usize = 64 << 10;

/// After so many looks at empty shards nobody looks any more.
const QUIET_LOOKS: u32 = 100;

/// Runs until the stream is closed.
pub(super) fn run(shared: &Shared) {
    let held = Held::new(shared);
    let mut quiet_looks = 0;
    loop {
        match shared.next_turn(&held) {
            Turn::Commit { is_all } => {
                quiet_looks = 0;
                shared.commit(is_all, &held);
            }
            Turn::Sync => shared.sync(&held),
            Turn::Watch => shared.watch(&mut quiet_looks),
            Turn::Reopen => shared.reopen(&held),
            Turn::Finish => shared.finish(&held),
            Turn::Exit => break,
        }
    }
    held.finish();
}

/// What a turn leaves to be done when nothing is held any more: it runs code of the user's.
#[derive(Default)]
struct Aftermath {
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
        let mut desk = self.desk();
        let due = desk.due(now_ns(), true, None);
        if due == Due::Now(Turn::Commit { is_all: true }) {
            let held = Held::new(self);
            held.take(&mut desk);
            drop(desk);
            self.commit(true, &held);
            held.finish();
            self.ring_if_due();
        } else if must_ring && desk.sleeping > 0 && matches!(due, Due::Now(_)) {
            self.work.notify_one();
        }
    }

    /// Waits for something to do, and marks it as begun.
    fn next_turn(&self, held: &Held<'_>) -> Turn {
        let period = self
            .options
            .flush_after
            .clamp(Duration::from_millis(1), Duration::from_secs(1));
        let mut desk = self.desk();
        loop {
            let now = now_ns();
            let deadline = match desk.due(now, self.demand.is_raised(), self.interval()) {
                Due::Now(turn) => {
                    match turn {
                        Turn::Commit { .. } | Turn::Reopen | Turn::Finish => held.take(&mut desk),
                        Turn::Sync => held.sync(&mut desk),
                        Turn::Watch | Turn::Exit => {}
                    }
                    return turn;
                }
                Due::At(deadline) => {
                    Some(Duration::from_nanos(deadline.saturating_sub(now).max(1)))
                }
                Due::Never => None,
            };
            let is_watch = !desk.is_watched && !desk.is_dozing && matches!(desk.phase, Phase::Open);
            desk.is_watched |= is_watch;
            let time = match (deadline, is_watch) {
                (Some(deadline), true) => Some(deadline.min(period)),
                (deadline, false) => deadline,
                (None, true) => Some(period),
            };
            desk.sleeping += 1;
            let is_timeout;
            (desk, is_timeout) = match time {
                None => {
                    let desk = self.work.wait(desk).unwrap_or_else(PoisonError::into_inner);
                    (desk, false)
                }
                Some(time) => {
                    let (desk, timeout) = self
                        .work
                        .wait_timeout(desk, time)
                        .unwrap_or_else(PoisonError::into_inner);
                    (desk, timeout.timed_out())
                }
            };
            desk.sleeping -= 1;
            if is_watch {
                desk.is_watched = false;
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
            self.desk().is_dozing = true;
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
            let mut desk = self.desk();
            desk.is_dozing = false;
            desk.is_aged |= now.saturating_sub(begun_ns) >= limit_ns;
        }
    }

    /// Gathers what has filled, seals it and writes it.
    fn commit(&self, is_all: bool, held: &Held<'_>) {
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
        let mut after = Aftermath::default();
        let mut desk = self.desk();
        let ids: Vec<u64> = sealed.iter().map(|_| desk.begin()).collect();
        let places = match sealed.last() {
            None => 0,
            Some(last) if last.zeros > 0 => IN_FLIGHT_MAX,
            Some(_) => 1,
        };
        held.give_taken(&mut desk, places);
        while let Some(filled) = waiting.pop_back() {
            desk.ready.push_front(filled);
        }
        for buffer in emptied {
            after.wakers.extend(desk.pool.put(buffer));
        }
        match failure {
            None if matches!(desk.phase, Phase::DiskFull { .. }) => desk.phase = Phase::Open,
            None => {}
            Some(error) => {
                self.no_segment(&mut desk, &error);
                // Who waits for room learns why there is none.
                after.wakers.extend(desk.pool.give_up());
            }
        }
        if !desk.ready.is_empty() && desk.sleeping > 0 {
            self.work.notify_one();
        }
        drop(desk);
        let count = sealed.len();
        for (index, (placed, id)) in sealed.into_iter().zip(ids).enumerate() {
            let is_last = index + 1 == count;
            self.write(placed, id, held, is_last, &mut after);
        }
        self.finish_turn(after);
    }

    fn finish_turn(&self, after: Aftermath) {
        let now = now_ns();
        for (part, first) in after.settled {
            self.gauges.acknowledged(now.saturating_sub(part.begun_ns));
            part.batch.settle(Ok(first));
        }
        wake_all(after.wakers);
    }

    /// Takes the full buffers, and, if all is wanted, what the shards hold; puts small ones
    /// together. Also returns the buffers that this has emptied.
    fn gather(&self, is_all: bool) -> (VecDeque<Filled>, Vec<AlignedBuffer>) {
        let mut waiting = VecDeque::new();
        let mut bytes = 0;
        let mut desk = self.desk();
        desk.has_tried_last |= desk.is_closing;
        while bytes < TURN_BYTES_MAX
            && let Some(filled) = desk.ready.pop_front()
        {
            bytes += filled.body_bytes();
            waiting.push_back(filled);
        }
        // What is in the shards comes after what has left them.
        if !is_all || !desk.ready.is_empty() {
            return (waiting, Vec::new());
        }
        desk.is_aged = false;
        let is_closing = desk.is_closing;
        drop(desk);
        self.demand.lower();
        self.empty_shards(&mut waiting);
        if is_closing && waiting.is_empty() {
            self.desk().is_drained = true;
        }
        collapse(waiting)
    }

    /// Takes what the shards hold, behind what they have handed over.
    pub(super) fn empty_shards(&self, waiting: &mut VecDeque<Filled>) {
        for shard in &self.shards {
            let mut filling = shard.lock();
            // With the shard locked nothing of it can come between what is ready and its page.
            waiting.append(&mut self.desk().ready);
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
        let durable = self.supply.durable();
        let mut sealed = Vec::new();
        let mut log = self.log();
        while let Some(first) = waiting.front() {
            let now = time_ns();
            let mut header = None;
            if log.must_roll(first) {
                let needed = ALIGNMENT as u64 + chunk_bytes(first.body_bytes() as u32);
                match self.supply.take(log.next_segment(), needed) {
                    Ok(prepared) => {
                        let (buffer, finished) = log.roll(prepared, now);
                        self.supply
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
    fn no_segment(&self, desk: &mut Desk, error: &io::Error) {
        match refusal_for(error) {
            // A write of the other thread may have failed meanwhile, which is worse.
            AppendError::DiskFull if desk.is_writable() => {
                desk.phase = Phase::DiskFull {
                    retry_ns: now_ns() + DISK_FULL_RETRY_NS,
                    is_failed: false,
                };
            }
            AppendError::DiskFull => {}
            _ => {
                self.note_fault(format!("a new segment could not be begun: {error}"));
                desk.fail_phase();
            }
        }
    }

    /// With the last one of a turn, what the turn holds is given back.
    fn write(
        &self,
        placed: Placed,
        id: u64,
        held: &Held<'_>,
        is_last: bool,
        after: &mut Aftermath,
    ) {
        let last = is_last.then_some(held);
        let begun = now_ns();
        // Behind a write that failed nothing more is written: it could not be reached.
        let is_failed = !self.desk().is_writable();
        let result = if is_failed {
            Err(io::Error::other("an earlier write failed"))
        } else {
            placed.write(held.slot())
        };
        match result {
            Ok(()) => {
                let time = now_ns() - begun;
                let bytes = placed.bytes() - placed.zeros;
                self.gauges.wrote(bytes, placed.chunks.len(), time);
                self.wrote(placed, id, last, after);
            }
            Err(error) => {
                if !is_failed {
                    self.note_fault(format!("a write failed: {error}"));
                }
                // Before the phase says so, as in `commit`.
                self.refuse(Some(AppendError::Reopening));
                let mut desk = self.desk();
                if let Some(held) = last {
                    held.give_places(&mut desk);
                }
                desk.failed.push(placed);
                desk.fail_phase();
            }
        }
    }

    /// A write has returned: acknowledges it and what was done before it and waited for it.
    fn wrote(&self, placed: Placed, id: u64, last: Option<&Held<'_>>, after: &mut Aftermath) {
        let now = now_ns();
        let mut settled: Vec<(Part, u64)> = Vec::new();
        let mut desk = self.desk();
        if let Some(held) = last {
            held.give_places(&mut desk);
        }
        let done = match desk.end(id, placed) {
            Ok(done) => done,
            Err(lost) => {
                drop(desk);
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
                after.wakers.extend(desk.pool.put(chunk.buffer));
            }
            // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its
            // bytes in the file. Stored under the desk's lock, so they never fall.
            self.written.store(placed.last_record, Ordering::Release);
            match self.identity.sync {
                SyncKind::Batch => self.supply.set_durable(placed.last_record),
                // The first write to a segment: all those to the one before have returned.
                SyncKind::None if placed.segment_header.is_some() => {
                    if let Some(file) = desk.growing.replace(placed.file.file().clone()) {
                        self.supply.sync(file, placed.first_record - 1);
                    }
                }
                SyncKind::None => {
                    desk.growing
                        .get_or_insert_with(|| placed.file.file().clone());
                }
                SyncKind::Interval => {
                    desk.unsynced.add(placed.file.file(), bytes, now);
                    desk.unsynced.last_record = placed.last_record;
                }
            }
        }
        if self.identity.sync == SyncKind::Interval {
            desk.unsynced.batches.append(&mut settled);
        }
        drop(desk);
        after.settled.append(&mut settled);
    }

    /// Makes durable what was written, in mode interval and at the end.
    fn sync(&self, held: &Held<'_>) {
        let unsynced = std::mem::take(&mut self.desk().unsynced);
        let result = unsynced.files.iter().try_for_each(|file| file.sync());
        match result {
            Ok(()) => {
                let mut desk = self.desk();
                held.give_synced(&mut desk);
                desk.synced = unsynced.last_record;
                self.supply.set_durable(unsynced.last_record);
                drop(desk);
                self.gauges.synced();
                self.finish_turn(Aftermath {
                    settled: unsynced.batches,
                    wakers: Vec::new(),
                });
            }
            Err(error) => {
                self.note_fault(format!("a sync failed: {error}"));
                // Before the phase says so, as in `commit`.
                self.refuse(Some(AppendError::Reopening));
                let mut desk = self.desk();
                held.give_synced(&mut desk);
                // Never a second time: the pages are marked clean now, and a sync that succeeds
                // would prove nothing. What was written meanwhile is as unknown.
                let newer = std::mem::replace(&mut desk.unsynced, unsynced);
                desk.unsynced.batches.extend(newer.batches);
                desk.fail_phase();
            }
        }
    }

    /// The supply thread met trouble.
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
        let mut desk = self.desk();
        if !desk.is_writable() {
            // It is being read again already, or never will be.
            return;
        }
        desk.phase = Phase::Failed;
        // It is not read again before the shards know: that would overtake it.
        desk.in_flight += 1;
        drop(desk);
        self.refuse(Some(AppendError::Reopening));
        self.desk().in_flight -= 1;
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
