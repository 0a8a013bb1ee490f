//! What happens when a write has failed, and at the end.

use std::{
    collections::VecDeque,
    io,
    sync::{PoisonError, atomic::Ordering},
};

use freeboard_meter::now_ns;

use crate::{
    log::{Finished, Log, OpenError, Part, Segments, recover},
    seal::Secret,
};

use super::{
    error::{AppendError, CloseError, TicketError},
    segment_pool::time_ns,
    shard::Shard,
    shared::Shared,
    turn_guard::TurnGuard,
    wake::wake_all,
    writer_state::Phase,
};

/// How long after a full disk room is looked for again.
pub(super) const DISK_FULL_RETRY_NS: u64 = 100_000_000;

impl Shared {
    /// Why the stream is down, or what its last failure was.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_fault(&self, reason: String) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// Reads the stream again from the device, and goes on in a new segment: the pages of the old
    /// one are not to be trusted. Everything accepted that is not known to be durable has failed.
    pub(super) fn reopen(&self, guard: &TurnGuard<'_>) {
        self.fail_pending();
        self.segment_pool.rest();
        let phase = match self.read_again() {
            Ok(()) => {
                self.gauges.reopened();
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
                self.note_fault(error.to_string());
                self.refuse(Some(AppendError::Down));
                Phase::Down
            }
        };
        let mut state = self.state();
        guard.give_taken(&mut state, 0);
        state.phase = phase;
        let wakers = state.pool.give_up();
        drop(state);
        self.work.notify_all();
        wake_all(wakers);
    }

    /// Fails the tickets of all that is not durable, with the appends refused.
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
        let unknown = fail(unknown, TicketError::Unknown);
        let unwritten = fail(unwritten, TicketError::NotWritten);
        self.gauges.failed(unknown, unwritten);
        unwritten
    }

    fn read_again(&self) -> Result<(), OpenError> {
        let storage = self.storage.as_ref();
        let asked = (self.identity.algorithm, self.identity.unit);
        let kept = self.log().kept();
        let secret = kept.as_ref().map(Secret::Kept);
        let mut recovered = recover(storage, secret, asked, self.segment_pool.durable())?;
        // What follows goes to a new file: the one that failed is finished where it ends now.
        if let Some((number, offset)) = recovered.active.take() {
            recovered.finished.push_back(Finished {
                number,
                last_record: recovered.next_record - 1,
                ended_ns: time_ns(),
                bytes: offset,
            });
        }
        let last_record = recovered.next_record - 1;
        let mut identity = self.identity;
        if let Some(header) = &recovered.header {
            identity.stream = header.stream;
        }
        self.segment_pool
            .restart(Segments::new(recovered.finished.clone()));
        let log = Log::new(identity, secret, &recovered, None);
        *self.log() = log;
        // Nothing is accepted meanwhile. Under the state's lock, because `want_sync` counts under it.
        let mut state = self.state();
        self.shards.iter().for_each(Shard::reset);
        // Ordering: Relaxed, a figure.
        self.base.store(last_record, Ordering::Relaxed);
        // What was waited for is durable or has failed. Before records are accepted again: those who wait for them
        // want a sync of their own.
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
        let mut state = self.state();
        if !matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Down;
        }
        let wakers = state.pool.give_up();
        drop(state);
        self.work.notify_all();
        wake_all(wakers);
    }

    /// Writes the end: everything accepted is written by now, or cannot be.
    pub(super) fn finish(&self, guard: &TurnGuard<'_>) {
        self.segment_pool.stop();
        let phase = self.state().phase.clone();
        let result = match phase {
            Phase::Down => Err(CloseError::Down {
                reason: self.fault().unwrap_or_default(),
            }),
            // What failed was not read again: its files are not to be touched.
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
        let mut state = self.state();
        state.phase = Phase::Closed;
        guard.give_taken(&mut state, 0);
        let wakers = state.pool.give_up();
        drop(state);
        self.work.notify_all();
        wake_all(wakers);
    }

    /// Makes all durable, whatever the mode, and cuts the last segment to what it holds.
    fn end(&self) -> io::Result<()> {
        let end = {
            let log = self.log();
            log.end()
                .map(|(file, offset)| (file, offset, log.last_record()))
        };
        if let Some((file, offset, last_record)) = end {
            // The segments before it first: what a sequence says to be durable is so up to there.
            self.segment_pool.sync_now()?;
            file.resize(offset)?;
            file.sync()?;
            self.gauges.synced();
            self.segment_pool.set_durable(last_record);
        }
        self.segment_pool.clear()
    }
}
