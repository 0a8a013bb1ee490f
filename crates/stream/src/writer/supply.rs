//! The thread that has the next segment ready, and lets old ones go.
//!
//! Reserving room and making names durable takes milliseconds, which would be the longest waits a
//! record ever has. So while one segment fills, the next is made; from a file that retention has set
//! free, where there is one: its extents are written, and a write to it costs only its bytes.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    format::segment_name,
    index::{index_name, rebuild_index},
    log::{Finished, Prepared, Segments, prepare, spare_name},
    storage::{Access, Storage, StorageFile},
};

use super::retention::Retention;

/// How often segments are looked at that may have become too old.
const AGE_LOOK: Duration = Duration::from_secs(1);

/// The files of a stream, and the thread that tends them.
pub(super) struct Supply {
    storage: Arc<dyn Storage>,
    access: Access,
    segment_bytes: u64,
    retention: Retention,
    state: Mutex<State>,
    changed: Condvar,
    /// The last record that a reader has acknowledged.
    acknowledged: AtomicU64,
    /// The last record that is durable.
    durable: AtomicU64,
}

/// A finished segment of mode none, to be synced in the background.
struct Unsynced {
    file: Arc<dyn StorageFile>,
    last_record: u64,
}

struct State {
    segments: Segments,
    /// The segment that is to be made ready.
    wanted: Option<u64>,
    is_preparing: bool,
    prepared: Option<Prepared>,
    /// Segments whose index is to be written.
    unindexed: Vec<u64>,
    /// Segments that are to be synced, the oldest first.
    unsynced: VecDeque<Unsynced>,
    /// Whether the directory is somebody else's for the time being.
    is_resting: bool,
    is_stopping: bool,
}

impl Supply {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        access: Access,
        segment_bytes: u64,
        retention: Retention,
        segments: Segments,
    ) -> Self {
        Self {
            storage,
            access,
            segment_bytes,
            retention,
            state: Mutex::new(State {
                segments,
                wanted: None,
                is_preparing: false,
                prepared: None,
                unindexed: Vec::new(),
                unsynced: VecDeque::new(),
                is_resting: false,
                is_stopping: false,
            }),
            changed: Condvar::new(),
            acknowledged: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of segment `number`, with room for `bytes` at least. Waits for it if it is being
    /// made, and makes it here if it is not.
    pub(super) fn take(&self, number: u64, bytes: u64) -> io::Result<Prepared> {
        let mut state = self.lock();
        while state.is_preparing {
            state = self.wait(state, None);
        }
        state.wanted = None;
        let prepared = state
            .prepared
            .take()
            .filter(|prepared| prepared.number == number);
        let spare = match prepared {
            Some(_) => None,
            None => state.segments.take_spare(),
        };
        drop(state);
        let mut prepared = match prepared {
            Some(prepared) => prepared,
            None => self.prepare(number, spare)?,
        };
        if prepared.bytes < bytes {
            prepared.file.resize(bytes)?;
            prepared.file.sync()?;
            prepared.bytes = bytes;
        }
        Ok(prepared)
    }

    /// Takes note of a finished segment, and has the one after the new one made ready.
    pub(super) fn rolled(&self, finished: Option<Finished>, next: u64) {
        let mut state = self.lock();
        if let Some(finished) = finished {
            state.segments.finished.push_back(finished);
            state.unindexed.push(finished.number);
        }
        state.wanted = Some(next);
        drop(state);
        self.changed.notify_all();
    }

    /// Takes note of what was acknowledged by a reader.
    pub(super) fn acknowledge(&self, sequence: u64) {
        // Ordering: Relaxed, a figure that only grows; a look that misses it is followed by others.
        self.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        if self.retention.acknowledged {
            self.changed.notify_all();
        }
    }

    /// Takes note of what is durable: only such segments go. It may fall when a failed stream was
    /// read again.
    pub(super) fn set_durable(&self, sequence: u64) {
        // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its bytes
        // in the file.
        self.durable.store(sequence, Ordering::Release);
    }

    /// The last record that is durable.
    pub(super) fn durable(&self) -> u64 {
        // Ordering: Acquire, as above.
        self.durable.load(Ordering::Acquire)
    }

    /// Has a finished segment of mode none synced in the background: its power failures cost what the
    /// last segments hold, and not more.
    pub(super) fn sync(&self, file: Arc<dyn StorageFile>, last_record: u64) {
        self.lock()
            .unsynced
            .push_back(Unsynced { file, last_record });
        self.changed.notify_all();
    }

    /// Syncs what waits for it, in this thread.
    pub(super) fn sync_now(&self) -> io::Result<()> {
        loop {
            let mut state = self.lock();
            while state.is_preparing {
                state = self.wait(state, None);
            }
            let Some(unsynced) = state.unsynced.pop_front() else {
                return Ok(());
            };
            drop(state);
            unsynced.file.sync()?;
            self.set_durable(unsynced.last_record);
        }
    }

    /// How many segments are finished, and their bytes.
    pub(super) fn finished(&self) -> (usize, u64) {
        let state = self.lock();
        (state.segments.finished.len(), state.segments.bytes())
    }

    /// Ends the thread, and forgets what it has made ready.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Removes the prepared file and the spare, when the stream is closed in order.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut state = self.lock();
        while state.is_preparing {
            state = self.wait(state, None);
        }
        let prepared = state
            .prepared
            .take()
            .map(|prepared| segment_name(prepared.number));
        let spare = state.segments.take_spare().map(spare_name);
        drop(state);
        for name in prepared.into_iter().chain(spare) {
            self.storage.remove(&name)?;
        }
        self.storage.sync_directory()
    }

    /// Starts anew after the stream was read again.
    pub(super) fn restart(&self, segments: Segments) {
        let mut state = self.lock();
        while state.is_preparing {
            state = self.wait(state, None);
        }
        state.segments = segments;
        state.prepared = None;
        state.wanted = None;
        state.unsynced.clear();
        state.is_resting = false;
    }

    /// Waits until nothing is being made, and makes nothing until [`restart`](Self::restart): the
    /// directory's files stay what they are.
    pub(super) fn rest(&self) {
        let mut state = self.lock();
        state.is_resting = true;
        while state.is_preparing {
            state = self.wait(state, None);
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match time {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                self.changed
                    .wait_timeout(state, time)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        }
    }

    /// What the thread does until it is stopped.
    pub(super) fn run(&self, on_failed_sync: &mut dyn FnMut(io::Error)) {
        let look = self.retention.age.map(|_| AGE_LOOK);
        let mut state = self.lock();
        while !state.is_stopping {
            let is_retired = self.retire_due(&state);
            let is_idle = !is_retired
                && state.wanted.is_none()
                && state.unindexed.is_empty()
                && state.unsynced.is_empty();
            if is_idle || state.is_resting {
                state = self.wait(state, look);
                continue;
            }
            // From here on the directory is this thread's: `take` and `rest` wait.
            state.is_preparing = true;
            let retired = is_retired.then(|| state.segments.retire()).flatten();
            let wanted = state.wanted.take();
            let spare = wanted.and_then(|_| state.segments.take_spare());
            let unindexed = state.unindexed.pop();
            let unsynced = state.unsynced.pop_front();
            drop(state);
            // What fails here is tried again by who needs it, and says there what is wrong. A
            // retired segment that could not go is one that is found when the stream is next opened.
            if let Some(retired) = retired {
                let _ = self.remove(retired.number, retired.is_removed);
            }
            let prepared = wanted.and_then(|number| self.prepare(number, spare).ok());
            let synced = unsynced.map(|unsynced| (unsynced.file.sync(), unsynced.last_record));
            let mut failure = None;
            match synced {
                Some((Ok(()), last_record)) => self.set_durable(last_record),
                Some((Err(error), _)) => failure = Some(error),
                None => {}
            }
            if let Some(number) = unindexed {
                let _ = rebuild_index(self.storage.as_ref(), number);
            }
            state = self.lock();
            state.is_preparing = false;
            state.is_resting |= failure.is_some();
            if prepared.is_some() {
                state.prepared = prepared;
            }
            self.changed.notify_all();
            if let Some(error) = failure {
                drop(state);
                on_failed_sync(error);
                state = self.lock();
            }
        }
    }

    fn prepare(&self, number: u64, spare: Option<u64>) -> io::Result<Prepared> {
        prepare(
            self.storage.as_ref(),
            number,
            self.segment_bytes,
            self.access,
            spare,
        )
    }

    /// Whether the oldest segment may go.
    fn retire_due(&self, state: &State) -> bool {
        let Some(oldest) = state.segments.finished.front() else {
            return false;
        };
        // Not the last durable segment either: the header of the next is durable with its first
        // record, and without any header that holds there is no stream.
        if oldest.last_record >= self.durable() {
            return false;
        }
        let bytes = state.segments.bytes() + self.segment_bytes;
        let is_too_much = self.retention.bytes.is_some_and(|limit| bytes > limit);
        let is_too_old = self.retention.age.is_some_and(|age| {
            let now_ns = time_ns();
            u128::from(now_ns.saturating_sub(oldest.ended_ns)) > age.as_nanos()
        });
        let is_acknowledged = self.retention.acknowledged
            // Ordering: Relaxed, it only grows.
            && oldest.last_record <= self.acknowledged.load(Ordering::Relaxed);
        is_too_much || is_too_old || is_acknowledged
    }

    /// Takes a segment's name away. Durable before the next one goes: a gap would be damage.
    fn remove(&self, number: u64, is_removed: bool) -> io::Result<()> {
        let name = segment_name(number);
        // An index without its segment is removed with the next one, or never read.
        let _ = self.storage.remove(&index_name(number));
        if is_removed {
            self.storage.remove(&name)?;
        } else {
            self.storage.rename(&name, &spare_name(number))?;
        }
        self.storage.sync_directory()
    }
}

impl std::fmt::Debug for Supply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply")
            .field("segment_bytes", &self.segment_bytes)
            .finish_non_exhaustive()
    }
}

/// Nanoseconds since 1970.
pub(super) fn time_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
