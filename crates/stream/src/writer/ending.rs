//! The end of a stream: after a failed write, after a panic, and when it is closed.

use std::{
    cell::Cell,
    collections::VecDeque,
    io,
    sync::{PoisonError, atomic::Ordering},
};

use freeboard_meter::now_ns;

use crate::{
    log::{Finished, LogEnd, OpenError, recover},
    seal::Secret,
};

use super::{
    batch::{Part, wake_all},
    error::{AppendError, CloseError, TicketError},
    segment_pool::time_ns,
    shard::Shard,
    shared::Shared,
    writer_state::{DISK_FULL_RETRY_NS, Phase, WriterState},
};

/// The part of the writer state that a turn holds. If the turn panics, the guard releases it and takes the stream down.
pub(super) struct TurnGuard<'a> {
    shared: &'a Shared,
    held: Cell<Held>,
}

#[derive(Clone, Copy, Default)]
enum Held {
    #[default]
    Nothing,
    Sealing,
    Syncing,
    /// A write slot, and so many places among the writes in flight.
    Writing {
        slot: usize,
        places: usize,
    },
}

impl<'a> TurnGuard<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            held: Cell::default(),
        }
    }

    /// Begins to seal.
    pub(super) fn seal(&self, state: &mut WriterState) {
        state.activity.set_sealing(true);
        self.held.set(Held::Sealing);
    }

    /// Begins to sync.
    pub(super) fn sync(&self, state: &mut WriterState) {
        state.activity.set_syncing(true);
        self.held.set(Held::Syncing);
    }

    /// Ends sealing, and begins writes that take so many places.
    pub(super) fn write(&self, state: &mut WriterState, places: usize) {
        self.release(state);
        if places > 0 {
            let slot = state.slots.iter().position(|is_used| !is_used);
            // A turn begins only while a write may be added to those in flight.
            let slot = slot.expect("a slot for each write in flight");
            state.slots[slot] = true;
            state.in_flight += places;
            self.held.set(Held::Writing { slot, places });
        }
    }

    /// The slot of its writes.
    pub(super) fn slot(&self) -> usize {
        match self.held.get() {
            Held::Writing { slot, .. } => slot,
            _ => unreachable!("its writes have begun"),
        }
    }

    /// Ends its present work.
    pub(super) fn release(&self, state: &mut WriterState) {
        match self.held.take() {
            Held::Nothing => {}
            Held::Sealing => state.activity.set_sealing(false),
            Held::Syncing => state.activity.set_syncing(false),
            Held::Writing { slot, places } => {
                state.slots[slot] = false;
                state.in_flight -= places;
            }
        }
    }

    /// Ends without a panic.
    pub(super) fn finish(self) {
        std::mem::forget(self);
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.release(&mut self.shared.state());
        self.shared
            .go_down("a thread that wrote it panicked".to_owned());
    }
}

impl Shared {
    /// Why the stream is down, or its last failure.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_fault(&self, reason: String) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// Reads the stream again from the device, and continues in a new segment: the pages of the old one cannot be
    /// trusted. Everything accepted that is not known to be durable has failed.
    pub(super) fn reopen(&self, guard: &TurnGuard<'_>) {
        // A stale writer must not change the files that a newer one may be copying.
        let checked = self.check_epoch();
        self.fail_pending();
        self.segment_pool.rest();
        let checked = checked.map_err(OpenError::io("check the epoch"));
        let phase = match checked.and_then(|()| self.read_again()) {
            Ok(()) => {
                self.gauges.reopenings.add(1);
                self.refuse(None);
                Phase::Open
            }
            Err(error) if error.is_disk_full() => {
                self.refuse(Some(AppendError::DiskFull));
                Phase::DiskFull {
                    retry_ns: now_ns() + DISK_FULL_RETRY_NS,
                    is_failed: true,
                }
            }
            Err(error) => {
                let cause = self.fault().unwrap_or_default();
                self.note_fault(format!(
                    "{cause}; the stream could not be read again: {error}"
                ));
                self.refuse(Some(match self.is_stale() {
                    true => AppendError::Stale,
                    false => AppendError::Down,
                }));
                Phase::Down
            }
        };
        self.enter(phase, Some(guard));
    }

    /// Ends a turn with this phase, unless the stream is closed. Wakes all threads and all producers that wait for
    /// capacity.
    fn enter(&self, phase: Phase, guard: Option<&TurnGuard<'_>>) {
        let mut state = self.state();
        if let Some(guard) = guard {
            guard.release(&mut state);
        }
        if !matches!(state.phase, Phase::Closed) {
            state.phase = phase;
        }
        let wakers = state.pool.give_up();
        drop(state);
        self.work.notify_all();
        wake_all(wakers);
    }

    /// Fails the tickets of all that is not durable, while appends are refused. Returns how many records were not
    /// written.
    fn fail_pending(&self) -> u64 {
        let mut pages = VecDeque::new();
        self.empty_shards(&mut pages);
        let mut state = self.state();
        state.ready.extend(pages);
        let (unknown, unwritten, wakers) = state.fail();
        drop(state);
        wake_all(wakers);
        let fail = |parts: Vec<Part>, error| -> u64 {
            let mut records = 0;
            for part in parts {
                records += u64::from(part.count);
                part.batch.settle(Err(error));
            }
            records
        };
        let unknown = fail(unknown, self.unknown());
        let unwritten = fail(unwritten, TicketError::NotWritten);
        self.gauges.unknown.add(unknown);
        self.gauges.unwritten.add(unwritten);
        unwritten
    }

    /// The error of a record that may be on the disk or not.
    pub(super) fn unknown(&self) -> TicketError {
        if self.is_stale() {
            TicketError::Stale
        } else {
            TicketError::Unknown
        }
    }

    fn read_again(&self) -> Result<(), OpenError> {
        let storage = self.storage.as_ref();
        let asked = (self.identity.algorithm, self.identity.unit);
        let kept = self.log().kept();
        let secret = kept.as_ref().map(Secret::Kept);
        let mut recovered = recover(storage, secret, asked, self.segment_pool.durable())?;
        let last_record = recovered.next_record - 1;
        // New records go to a new file: the one that failed is finished where it ends now.
        if let Some((number, offset)) = recovered.active.take() {
            recovered.finished.push_back(Finished {
                number,
                last_record,
                ended_ns: time_ns(),
                bytes: offset,
            });
        }
        let mut identity = self.identity;
        if let Some(header) = &recovered.header {
            identity.stream = header.stream;
        }
        let log = LogEnd::new(identity, secret, &recovered, None);
        self.segment_pool.restart(recovered.finished);
        let epoch = if self.options.rolls_back {
            recovered.epoch
        } else {
            0
        };
        self.consumers
            .begin(storage, &self.segment_pool, epoch, last_record)?;
        *self.log() = log;
        // Nothing is accepted meanwhile. Under the state's lock, because `want_sync` counts under it.
        let mut state = self.state();
        self.shards.iter().for_each(Shard::reset);
        // Ordering: Relaxed, a figure.
        self.base.store(last_record, Ordering::Relaxed);
        // The records that callers waited for are durable or have failed. Before records are accepted again: callers
        // that wait for them want a sync of their own.
        state.sync_wanted = 0;
        drop(state);
        // Ordering: Release, as when it was written.
        self.written.store(last_record, Ordering::Release);
        self.segment_pool.set_durable(last_record);
        Ok(())
    }

    /// Takes the stream down for good.
    pub(super) fn go_down(&self, reason: String) {
        self.note_fault(reason);
        self.refuse(Some(AppendError::Down));
        self.fail_pending();
        self.enter(Phase::Down, None);
    }

    /// Writes the end: everything accepted is written by now, or cannot be.
    pub(super) fn finish(&self, guard: &TurnGuard<'_>) {
        self.segment_pool.stop();
        let phase = self.state().phase.clone();
        let result = match phase {
            Phase::Down => Err(CloseError::Down {
                reason: self.fault().unwrap_or_default(),
            }),
            // The stream was not read again after a failure: its files must not be touched.
            Phase::DiskFull {
                is_failed: true, ..
            } => Err(CloseError::DiskFull {
                records: self.fail_pending(),
            }),
            Phase::DiskFull { .. } => {
                let records = self.fail_pending();
                let end = self.end().map_err(CloseError::End);
                if records > 0 {
                    Err(CloseError::DiskFull { records })
                } else {
                    end
                }
            }
            // A sync in the background has failed just now.
            Phase::Failed => {
                self.fail_pending();
                let reason = self.fault().unwrap_or_default();
                Err(CloseError::End(io::Error::other(reason)))
            }
            Phase::Open | Phase::Closed => self.end().map_err(CloseError::End),
        };
        if let Err(error) = &result {
            self.note_fault(error.to_string());
        }
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.enter(Phase::Closed, Some(guard));
    }

    /// Makes all durable, whatever the mode, and cuts the last segment to its chunks.
    fn end(&self) -> io::Result<()> {
        let end = {
            let log = self.log();
            log.end()
                .map(|(file, offset)| (file, offset, log.last_record()))
        };
        if let Some((file, offset, last_record)) = end {
            // The segments before it first: a durable sequence covers all before it.
            self.segment_pool.sync_now()?;
            file.resize(offset)?;
            file.sync()?;
            self.check_epoch()?;
            self.gauges.syncs.add(1);
            self.segment_pool.set_durable(last_record);
            if self.options.rolls_back {
                self.mark(last_record)?;
            }
        }
        self.segment_pool.clear()
    }
}
