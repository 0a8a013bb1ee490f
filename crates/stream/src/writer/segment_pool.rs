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
    log::{Finished, Prepared, Retired, Segments, prepare, spare_name, write_mark},
    seal::MarkSealer,
    storage::{Access, Storage, StorageFile},
};

use super::retention::Retention;

/// How often segments are looked at that may have become too old.
const AGE_LOOK: Duration = Duration::from_secs(1);

/// The files of a stream, and the thread that tends them.
pub(super) struct SegmentPool {
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
    /// Whether the thread makes a segment ready, or lets one go.
    is_preparing: bool,
    /// Whether it syncs or indexes one.
    is_tending: bool,
    prepared: Option<Prepared>,
    /// Segments whose index is to be written.
    unindexed: Vec<u64>,
    /// Segments that are to be synced, the oldest first.
    unsynced: VecDeque<Unsynced>,
    /// What a sync in the background said, until somebody has heard it.
    failure: Option<io::Error>,
    /// Whether the oldest segment could not be let go; it is tried again after the next roll.
    is_stuck: bool,
    /// Whether the directory is somebody else's for the time being.
    is_resting: bool,
    is_stopping: bool,
    sealer: Option<Arc<MarkSealer>>,
}

impl SegmentPool {
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
                is_tending: false,
                prepared: None,
                unindexed: Vec::new(),
                unsynced: VecDeque::new(),
                failure: None,
                is_stuck: false,
                is_resting: false,
                is_stopping: false,
                sealer: None,
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
            prepared.file.file().resize(bytes)?;
            prepared.file.file().sync()?;
            prepared.bytes = bytes;
        }
        Ok(prepared)
    }

    /// Takes note of a finished segment, and has the one after the new one made ready.
    pub(super) fn rolled(&self, finished: Option<Finished>, next: u64, sealer: MarkSealer) {
        let mut state = self.lock();
        state.sealer = Some(Arc::new(sealer));
        if let Some(finished) = finished {
            state.segments.finished.push_back(finished);
            state.unindexed.push(finished.number);
        }
        state.wanted = Some(next);
        state.is_stuck = false;
        drop(state);
        self.changed.notify_all();
    }

    /// Takes note of what was acknowledged by a reader.
    pub(super) fn acknowledge(&self, sequence: u64) {
        // Ordering: Relaxed, the lock orders it against the thread's look.
        self.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        if self.retention.acknowledged {
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Takes note of what is durable: only such segments go. It may fall when a failed stream was
    /// read again.
    pub(super) fn set_durable(&self, sequence: u64) {
        // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its bytes
        // in the file.
        let before = self.durable.swap(sequence, Ordering::Release);
        if !self.retention.is_bounded() {
            return;
        }
        let is_oldest_due = |oldest: &Finished| (before..sequence).contains(&oldest.last_record);
        let is_due = self
            .lock()
            .segments
            .finished
            .front()
            .is_some_and(is_oldest_due);
        if is_due {
            self.changed.notify_all();
        }
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
            let mut state = self.wait_idle();
            if let Some(error) = state.failure.take() {
                return Err(error);
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

    /// Lets go what is due, and removes the prepared file and the spare, when the stream is closed in
    /// order. A stream that is open for moments only would else never get to it.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut state = self.wait_idle();
        while !state.is_stuck && self.retire_due(&state) {
            state.wanted = None;
            if let Some(Trouble::Retire(error)) = self.make_ready(state, true) {
                return Err(error);
            }
            state = self.wait_idle();
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
        let mut state = self.wait_idle();
        state.segments = segments;
        state.failure = None;
        state.is_stuck = false;
        state.prepared = None;
        state.wanted = None;
        state.unsynced.clear();
        state.is_resting = false;
    }

    /// Waits until nothing is being made, and makes nothing until [`restart`](Self::restart): the
    /// directory's files stay what they are.
    pub(super) fn rest(&self) {
        self.lock().is_resting = true;
        drop(self.wait_idle());
    }

    /// The state, when the thread is at nothing.
    fn wait_idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.is_preparing || state.is_tending {
            state = self.wait(state, None);
        }
        state
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

    /// What the thread does until it is stopped. `trouble` is told what went wrong.
    pub(super) fn run(&self, trouble: &mut dyn FnMut(Trouble)) {
        let look = self.retention.age.map(|_| AGE_LOOK);
        let mut state = self.lock();
        while !state.is_stopping {
            let is_retired = !state.is_stuck && self.retire_due(&state);
            let is_tended = !state.unindexed.is_empty() || !state.unsynced.is_empty();
            if state.is_resting || !is_retired && state.wanted.is_none() && !is_tended {
                state = self.wait(state, look);
                continue;
            }
            let found = if is_retired || state.wanted.is_some() {
                self.make_ready(state, is_retired)
            } else {
                self.tend(state)
            };
            if let Some(found) = found {
                trouble(found);
            }
            state = self.lock();
        }
    }

    /// Makes the next segment ready, and lets the oldest go.
    fn make_ready(&self, mut state: MutexGuard<'_, State>, is_retired: bool) -> Option<Trouble> {
        let busy = Busy::preparing(self, &mut state);
        let wanted = state.wanted.take();
        let spare = wanted.and_then(|_| state.segments.take_spare());
        let retired = is_retired.then(|| state.segments.oldest()).flatten();
        let sealer = state.sealer.clone();
        drop(state);
        let removed = retired.map(|retired| (retired, self.remove(retired, sealer.as_deref())));
        // What fails is tried again by who needs it, and says there what is wrong.
        let prepared = wanted.and_then(|number| self.prepare(number, spare).ok());
        let mut state = self.lock();
        if prepared.is_some() {
            state.prepared = prepared;
        }
        let mut trouble = None;
        match removed {
            // Only now: what could not go is still of the stream.
            Some((retired, Ok(()))) => state.segments.retire(retired),
            Some((_, Err(error))) => {
                state.is_stuck = true;
                trouble = Some(Trouble::Retire(error));
            }
            None => {}
        }
        busy.end(&mut state);
        trouble
    }

    /// Syncs a finished segment, and writes its index.
    fn tend(&self, mut state: MutexGuard<'_, State>) -> Option<Trouble> {
        let busy = Busy::tending(self, &mut state);
        let unsynced = state.unsynced.pop_front();
        let unindexed = state.unindexed.pop();
        drop(state);
        let mut failure = None;
        if let Some(unsynced) = unsynced {
            match unsynced.file.sync() {
                Ok(()) => self.set_durable(unsynced.last_record),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(number) = unindexed {
            // It can be made again, and is never trusted.
            let _ = rebuild_index(self.storage.as_ref(), number);
        }
        let mut state = self.lock();
        let trouble = failure.as_ref().map(|error| Trouble::Sync(copy(error)));
        state.is_resting |= failure.is_some();
        state.failure = failure.or(state.failure.take());
        busy.end(&mut state);
        trouble
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
    fn remove(&self, retired: Retired, sealer: Option<&MarkSealer>) -> io::Result<()> {
        if let Some(sealer) = sealer {
            write_mark(self.storage.as_ref(), &sealer.mark(retired.number + 1))?;
        }
        let name = segment_name(retired.number);
        // An index without its segment is removed with the next one, or never read.
        let _ = self.storage.remove(&index_name(retired.number));
        let done = if retired.is_removed {
            self.storage.remove(&name)
        } else {
            self.storage.rename(&name, &spare_name(retired.number))
        };
        match done {
            // Done by an attempt that failed later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
        self.storage.sync_directory()
    }
}

/// What went wrong in the background.
pub(super) enum Trouble {
    /// A finished segment could not be synced.
    Sync(io::Error),
    /// The oldest segment could not be let go.
    Retire(io::Error),
}

/// An error that two must hear of.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The thread is at work; also a panic ends that, so that nobody waits for it for ever.
struct Busy<'a>(&'a SegmentPool);

impl<'a> Busy<'a> {
    fn preparing(pool: &'a SegmentPool, state: &mut State) -> Self {
        state.is_preparing = true;
        Self(pool)
    }

    fn tending(pool: &'a SegmentPool, state: &mut State) -> Self {
        state.is_tending = true;
        Self(pool)
    }

    fn end(self, state: &mut State) {
        state.rest();
        self.0.changed.notify_all();
        std::mem::forget(self);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().rest();
        self.0.changed.notify_all();
    }
}

impl State {
    fn rest(&mut self) {
        (self.is_preparing, self.is_tending) = (false, false);
    }
}

impl std::fmt::Debug for SegmentPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentPool")
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
