//! The thread that prepares the next segment, and removes old ones.
//!
//! Reserving space and making names durable takes milliseconds, longer than a record ever waits for anything else. So
//! while one segment fills, the next is prepared, from a file that retention has removed if there is one: its extents
//! are written, and a write to it costs only its bytes.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use freeboard_platform::{
    clock,
    sync::{Condvar, Mutex, MutexGuard},
};

use crate::{
    fence::Fence,
    format::segment_name,
    index::{index_name, rebuild_index},
    log::{Finished, LogEnd, Prepared, prepare, spare_name, write_mark},
    seal::MarkSealer,
    storage::{Access, Storage, StorageFile},
};

use super::options::Retention;

/// How often the age of the oldest segment is checked.
const AGE_CHECK: Duration = Duration::from_secs(1);

/// The files of a stream but for the active one, and the thread that manages them.
pub(super) struct SegmentPool {
    storage: Arc<dyn Storage>,
    access: Access,
    segment_bytes: u64,
    retention: Retention,
    fence: Option<Fence>,
    state: Mutex<State>,
    changed: Condvar,
    /// The last record that a reader has acknowledged.
    acknowledged: AtomicU64,
    /// The last record that is durable.
    durable: AtomicU64,
    /// The last record that all named consumers have acknowledged; [`NONE`] without any.
    slowest: AtomicU64,
    /// No ticket of a later record has resolved; [`NONE`] where that is not noted.
    marked: AtomicU64,
    /// Segments that were removed before all consumers had acknowledged them.
    unread: AtomicU64,
}

/// Nobody holds records back.
const NONE: u64 = u64::MAX;

/// A finished segment of mode none, to be synced in the background.
struct Unsynced {
    file: Arc<dyn StorageFile>,
    last_record: u64,
}

/// The work on the files at present, by one thread at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Idle,
    /// A segment is prepared or removed.
    Preparing,
    /// A segment is synced or indexed.
    Tending,
}

/// Whether the thread may begin something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Running,
    /// The stream is being read again: the files stay as they are.
    Resting,
    Stopping,
}

/// A segment that leaves the stream.
#[derive(Clone, Copy, Debug)]
struct Retired {
    number: u64,
    /// Whether its file is removed, because another one waits to be recycled already, or it is too long for that.
    is_removed: bool,
}

#[derive(Default)]
struct State {
    finished: VecDeque<Finished>,
    /// The length of the active segment's file.
    active_bytes: u64,
    /// The number of a retired file that waits to be used again. Its content is stale.
    spare: Option<u64>,
    /// The segment that must be prepared.
    wanted: Option<u64>,
    activity: Activity,
    mode: Mode,
    prepared: Option<Prepared>,
    /// Segments whose index must be written.
    unindexed: Vec<u64>,
    /// Segments that must be synced, the oldest first.
    unsynced: VecDeque<Unsynced>,
    /// The error of a sync in the background, until it was reported.
    failure: Option<io::Error>,
    /// Whether the oldest segment could not be removed. It is tried again after the next roll.
    is_stuck: bool,
    sealer: Option<Arc<MarkSealer>>,
}

impl State {
    /// The bytes of all finished segments.
    fn bytes(&self) -> u64 {
        self.finished.iter().map(|segment| segment.bytes).sum()
    }
}

impl SegmentPool {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        access: Access,
        segment_bytes: u64,
        retention: Retention,
        fence: Option<Fence>,
        finished: VecDeque<Finished>,
    ) -> Self {
        Self {
            storage,
            access,
            segment_bytes,
            retention,
            fence,
            state: Mutex::new(State {
                finished,
                ..State::default()
            }),
            changed: Condvar::new(),
            acknowledged: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            slowest: AtomicU64::new(NONE),
            marked: AtomicU64::new(NONE),
            unread: AtomicU64::new(0),
        }
    }

    /// The records after these are still needed: by the slowest of the named consumers, and by a writer that rolls back.
    pub(super) fn hold(&self, slowest: Option<u64>, marked: Option<u64>) {
        // Ordering: Relaxed, the lock orders it against the thread's check.
        self.slowest
            .store(slowest.unwrap_or(NONE), Ordering::Relaxed);
        self.marked.store(marked.unwrap_or(NONE), Ordering::Relaxed);
        if self.retention.is_bounded() {
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// How many segments were removed before all consumers had acknowledged them.
    pub(super) fn unread(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        self.unread.load(Ordering::Relaxed)
    }

    /// Seals with the key of the segment that is written.
    pub(super) fn sealer(&self) -> Arc<MarkSealer> {
        let sealer = self.lock().sealer.clone();
        sealer.expect("it is given when the stream is opened")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of segment `number`, of `bytes` bytes at least. Waits for it if it is being prepared, and prepares it
    /// here if it is not. If the disk is full, it removes what retention would remove once this segment is begun.
    /// `trouble` is told if that fails.
    pub(super) fn take(
        &self,
        number: u64,
        bytes: u64,
        trouble: &mut dyn FnMut(Trouble),
    ) -> io::Result<Prepared> {
        let more = self.segment_bytes.max(bytes);
        loop {
            match self.take_once(number, bytes) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    match self.make_space(more) {
                        Ok(true) => {}
                        Ok(false) => return Err(error),
                        Err(found) => {
                            trouble(found);
                            return Err(error);
                        }
                    }
                }
                result => return result,
            }
        }
    }

    /// Removes the oldest segment if retention would once `more` bytes are added. Returns whether it did. The first file
    /// that it removes is kept to be used again, unless a prepared one must only grow: that one gets its space.
    fn make_space(&self, more: u64) -> Result<bool, Trouble> {
        let mut state = self.wait_idle();
        if state.prepared.is_some()
            && let Some(spare) = state.spare.take()
        {
            drop(state);
            let removed = self.storage.remove(&spare_name(spare));
            return removed.map(|()| true).map_err(Trouble::Retire);
        }
        if !self.retire_due(&state, more) {
            return Ok(false);
        }
        self.make_ready(state, true).map_or(Ok(true), Err)
    }

    fn take_once(&self, number: u64, bytes: u64) -> io::Result<Prepared> {
        let mut state = self.lock();
        while state.activity == Activity::Preparing {
            state = self.wait(state, None);
        }
        state.wanted = None;
        let prepared = state.prepared.take().filter(|it| it.number == number);
        let mut prepared = match prepared {
            Some(prepared) => {
                drop(state);
                prepared
            }
            None => {
                let spare = state.spare.take();
                drop(state);
                self.prepare(number, spare)?
            }
        };
        if prepared.bytes < bytes {
            let file = prepared.file.file();
            if let Err(error) = file.resize(bytes).and_then(|()| file.sync()) {
                // It is used again: its space would be missing for another one.
                self.lock().prepared = Some(prepared);
                return Err(error);
            }
            prepared.bytes = bytes;
        }
        Ok(prepared)
    }

    /// A segment of `log` was begun: another one is finished thereby, and the next must be prepared.
    pub(super) fn rolled(&self, finished: Option<Finished>, log: &LogEnd) {
        let sealer = Arc::new(log.mark_sealer());
        let mut state = self.lock();
        state.sealer = Some(sealer);
        state.active_bytes = log.active_bytes();
        if let Some(finished) = finished {
            state.finished.push_back(finished);
            state.unindexed.push(finished.number);
        }
        state.wanted = Some(log.next_segment());
        state.is_stuck = false;
        drop(state);
        self.changed.notify_all();
    }

    /// A reader has acknowledged the records up to this one.
    pub(super) fn acknowledge(&self, sequence: u64) {
        // Ordering: Relaxed, the lock orders it against the thread's check.
        self.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        if self.retention.acknowledged {
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// The records up to this one are durable: only such segments are removed. It may fall when a failed stream was read
    /// again.
    pub(super) fn set_durable(&self, sequence: u64) {
        // Ordering: Release pairs with the Acquire of readers: who sees the sequence finds its bytes in the file.
        let before = self.durable.swap(sequence, Ordering::Release);
        if !self.retention.is_bounded() {
            return;
        }
        let is_oldest_due = |oldest: &Finished| (before..sequence).contains(&oldest.last_record);
        if self.lock().finished.front().is_some_and(is_oldest_due) {
            self.changed.notify_all();
        }
    }

    /// The last record that is durable.
    pub(super) fn durable(&self) -> u64 {
        // Ordering: Acquire, as above.
        self.durable.load(Ordering::Acquire)
    }

    /// Has a finished segment of mode none synced in the background: a power failure costs the records of the last
    /// segments, and not more.
    pub(super) fn sync(&self, file: Arc<dyn StorageFile>, last_record: u64) {
        self.lock()
            .unsynced
            .push_back(Unsynced { file, last_record });
        self.changed.notify_all();
    }

    /// Syncs the finished segments in this thread.
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
        (state.finished.len(), state.bytes())
    }

    /// Terminates the thread.
    pub(super) fn stop(&self) {
        self.lock().mode = Mode::Stopping;
        self.changed.notify_all();
    }

    /// Removes the segments that are due, the prepared file and the spare, when the stream is closed in order. A stream
    /// that is open for moments only would otherwise never get to it.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut state = self.wait_idle();
        while !state.is_stuck && self.retire_due(&state, 0) {
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
        let spare = state.spare.take().map(spare_name);
        drop(state);
        for name in prepared.into_iter().chain(spare) {
            self.storage.remove(&name)?;
        }
        self.storage.sync_directory()
    }

    /// Starts anew after the stream was read again.
    pub(super) fn restart(&self, finished: VecDeque<Finished>) {
        let mut state = self.wait_idle();
        state.finished = finished;
        state.active_bytes = 0;
        state.spare = None;
        state.failure = None;
        state.is_stuck = false;
        state.prepared = None;
        state.wanted = None;
        state.unsynced.clear();
        if state.mode != Mode::Stopping {
            state.mode = Mode::Running;
        }
    }

    /// Waits until nothing is being done, and begins nothing until [`restart`](Self::restart).
    pub(super) fn rest(&self) {
        let mut state = self.lock();
        if state.mode != Mode::Stopping {
            state.mode = Mode::Resting;
        }
        drop(state);
        drop(self.wait_idle());
    }

    /// The state, once nothing is being done.
    fn wait_idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.activity != Activity::Idle {
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
            None => {
                let woken = self.changed.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
            Some(time) => {
                let woken = self.changed.wait_timeout(state, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Runs until it is stopped. `trouble` is told of failures.
    pub(super) fn run(&self, trouble: &mut dyn FnMut(Trouble)) {
        let check = self.retention.age.map(|_| AGE_CHECK);
        let mut state = self.lock();
        while state.mode != Mode::Stopping {
            let is_retired = !state.is_stuck && self.retire_due(&state, 0);
            let is_tended = !state.unindexed.is_empty() || !state.unsynced.is_empty();
            let is_idle = !is_retired && state.wanted.is_none() && !is_tended;
            // Another thread may make space now: two that remove the oldest would forget one that nobody has removed.
            let is_elsewhere = state.activity != Activity::Idle;
            if state.mode == Mode::Resting || is_idle || is_elsewhere {
                state = self.wait(state, check);
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

    /// Prepares the next segment, and removes the oldest.
    fn make_ready(&self, mut state: MutexGuard<'_, State>, is_retired: bool) -> Option<Trouble> {
        let busy = Busy::begin(self, &mut state, Activity::Preparing);
        let wanted = state.wanted.take();
        let spare = wanted.and_then(|_| state.spare.take());
        let oldest = state.finished.front().filter(|_| is_retired);
        let retired = oldest.map(|oldest| Retired {
            number: oldest.number,
            // Only files of the usual length are used again.
            is_removed: state.spare.is_some() || oldest.bytes > self.segment_bytes,
        });
        let sealer = state.sealer.clone();
        drop(state);
        let removed = retired.map(|retired| (retired, self.remove(retired, sealer.as_deref())));
        // The thread that needs the segment tries again after a failure, and reports it.
        let prepared = wanted.and_then(|number| self.prepare(number, spare).ok());
        let mut state = self.lock();
        if prepared.is_some() {
            state.prepared = prepared;
        }
        let mut trouble = None;
        match removed {
            // Only now: a segment that could not be removed is still of the stream.
            Some((retired, Ok(()))) => {
                let removed = state.finished.pop_front();
                debug_assert_eq!(removed.as_ref().map(|it| it.number), Some(retired.number));
                // Ordering: Relaxed, figures.
                let slowest = self.slowest.load(Ordering::Relaxed);
                if removed.is_some_and(|it| it.last_record > slowest) {
                    self.unread.fetch_add(1, Ordering::Relaxed);
                }
                if !retired.is_removed {
                    state.spare = Some(retired.number);
                }
            }
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
        let busy = Busy::begin(self, &mut state, Activity::Tending);
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
        if failure.is_some() && state.mode == Mode::Running {
            state.mode = Mode::Resting;
        }
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
            self.fence.as_ref(),
        )
    }

    /// Whether the oldest segment must be removed when the stream takes `more` bytes than now.
    fn retire_due(&self, state: &State, more: u64) -> bool {
        let Some(oldest) = state.finished.front() else {
            return false;
        };
        // Not the last durable segment either: the header of the next is durable with its first record, and without any
        // header that holds there is no stream.
        // Ordering: Relaxed, as of the other limits: a stale value is a lower one, or the lock orders it.
        let [slowest, marked] = [&self.slowest, &self.marked].map(|it| it.load(Ordering::Relaxed));
        if oldest.last_record >= self.durable().min(marked) {
            return false;
        }
        // A segment of one large record is longer than others. A new stream's first one is not begun yet.
        let active = self.segment_bytes.max(state.active_bytes);
        let bytes = state.bytes() + active + more;
        let is_too_much = self.retention.bytes.is_some_and(|limit| bytes > limit);
        let is_too_old = self.retention.age.is_some_and(|age| {
            let now_ns = time_ns();
            u128::from(now_ns.saturating_sub(oldest.ended_ns)) > age.as_nanos()
        });
        // Ordering: Relaxed, it only grows.
        let acknowledged = match self.acknowledged.load(Ordering::Relaxed) {
            // Nobody has acknowledged but, perhaps, named consumers.
            0 if slowest != NONE => slowest,
            acknowledged => acknowledged,
        };
        let is_acknowledged = self.retention.acknowledged && oldest.last_record <= acknowledged;
        is_too_much || oldest.last_record <= slowest && (is_too_old || is_acknowledged)
    }

    /// Takes a segment's name away. Durable before the next one is removed: a gap would be damage.
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
            // An attempt that failed later has done it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
        self.storage.sync_directory()
    }
}

/// A failure in the background.
pub(super) enum Trouble {
    /// A finished segment could not be synced.
    Sync(io::Error),
    /// The oldest segment could not be removed.
    Retire(io::Error),
}

/// A copy of an error that is reported twice.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// An activity. It also ends by a panic, so that no thread waits for it for ever.
struct Busy<'a>(&'a SegmentPool);

impl<'a> Busy<'a> {
    fn begin(pool: &'a SegmentPool, state: &mut State, activity: Activity) -> Self {
        state.activity = activity;
        Self(pool)
    }

    fn end(self, state: &mut State) {
        state.activity = Activity::Idle;
        self.0.changed.notify_all();
        std::mem::forget(self);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().activity = Activity::Idle;
        self.0.changed.notify_all();
    }
}

/// Nanoseconds since 1970.
pub(super) fn time_ns() -> u64 {
    u64::try_from(clock::since_1970().as_nanos()).unwrap_or(u64::MAX)
}
