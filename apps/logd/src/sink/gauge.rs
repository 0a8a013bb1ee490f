//! The state of a sink, for metrics.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use freeboard::meter::{Counter, now_ns};

use super::SinkError;

/// A failure is logged at most this often: the log may come back as lines of this server.
const TELL_EVERY_NS: u64 = 10_000_000_000;

/// The state of a sink, as any thread may read it.
#[derive(Debug, Default)]
pub struct SinkGauge {
    name: String,
    batches: Counter,
    lines: Counter,
    bytes: Counter,
    errors: Counter,
    panics: Counter,
    /// When the attempts began to fail, on the process's clock; 0 if the last one succeeded.
    failing_since_ns: AtomicU64,
    /// When its failure was last logged, and whether its recovery is to be.
    told_at_ns: AtomicU64,
    is_told: AtomicBool,
    /// When the call that runs began; 0 between calls.
    called_at_ns: AtomicU64,
    lost: Counter,
    refused: Counter,
    /// Lines of a queue in memory.
    behind_in_memory: AtomicU64,
    /// The last record of the queue on disk, and the last one that its reader has finished.
    spooled: AtomicU64,
    drained: AtomicU64,
    is_dead: AtomicBool,
    /// Whether those who wait for a line wait for it, though it has no actor.
    is_awaited: bool,
    rotations: AtomicU64,
    waker: OnceLock<Waker>,
    is_closed: AtomicBool,
    last_error: Mutex<Option<String>>,
}

impl SinkGauge {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Batches that it has taken.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches.get()
    }

    /// Lines that it has taken.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// Bytes of these lines.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Failed attempts, with those that panicked.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.get()
    }

    /// Attempts that panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// For how long all attempts have failed; `None` if the last one succeeded.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        // Ordering: Relaxed: a gauge.
        let since_ns = self.failing_since_ns.load(Ordering::Relaxed);
        (since_ns > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(since_ns)))
    }

    /// How long the call that runs has taken so far: a sink that hangs does not return from it.
    #[must_use]
    pub fn in_call_for(&self) -> Option<Duration> {
        // Ordering: Relaxed: a gauge, as below.
        let since_ns = self.called_at_ns.load(Ordering::Relaxed);
        (since_ns > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(since_ns)))
    }

    /// Lines of its queue, in memory and on disk, that it has not taken yet.
    #[must_use]
    pub fn behind(&self) -> u64 {
        // Ordering: Relaxed: a gauge.
        let [in_memory, spooled, drained] = [&self.behind_in_memory, &self.spooled, &self.drained]
            .map(|value| value.load(Ordering::Relaxed));
        in_memory + spooled.saturating_sub(drained)
    }

    /// Lines that it had taken and has lost: a write or a sync failed, or the bound on the disk removed them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// Lines that it has refused. They count as shed.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Whether it takes nothing any more ([`SinkError::Closed`]).
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Why it does no work: it is dead, or has failed or not returned from a call for longer than this.
    pub(crate) fn problem(&self, after: Duration) -> Option<String> {
        let (name, error) = (self.name(), self.last_error().unwrap_or_default());
        if self.is_dead() {
            return Some(format!("the sink {name} takes nothing any more: {error}"));
        }
        let seconds = |time: Option<Duration>| time.filter(|it| *it > after).map(|it| it.as_secs());
        if let Some(seconds) = seconds(self.failing_for()) {
            return Some(format!("the sink {name} fails for {seconds} s: {error}"));
        }
        let seconds = seconds(self.in_call_for())?;
        Some(format!("the sink {name} hangs for {seconds} s"))
    }

    /// Asks it to begin a new file.
    pub(crate) fn rotate(&self) {
        // Ordering: Relaxed: the wake-up orders it.
        self.rotations.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Has the sink called.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Whether it was closed without an error.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Ordering: Relaxed: it is read after the actor has terminated.
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The last error.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        let error = self.last_error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, error: &SinkError) {
        self.errors.add(1);
        let now = now_ns();
        let text = Some(error.to_string());
        let last_error = self.last_error.lock();
        let mut last_error = last_error.unwrap_or_else(PoisonError::into_inner);
        // Both with the lock: a thread that has seen one of them finds the other.
        let since = &self.failing_since_ns;
        let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        *last_error = text;
        drop(last_error);
        let told_at = self.told_at_ns.load(Ordering::Relaxed);
        // One that began soon after the last is logged if it lasts.
        let is_due = told_at == 0 || now.saturating_sub(told_at) >= TELL_EVERY_NS;
        // The senders of a relay may fail at once: one of them logs it.
        if is_due && !self.is_told.swap(true, Ordering::Relaxed) {
            self.told_at_ns.store(now, Ordering::Relaxed);
            tracing::warn!("the sink {} fails: {error}", self.name);
        }
    }

    pub(super) fn panicked(&self) {
        self.panics.add(1);
    }

    pub(super) fn take(&self, lines: u64, bytes: u64) {
        self.batches.add(1);
        self.lines.add(lines);
        self.bytes.add(bytes);
        self.recover();
    }

    pub(super) fn recover(&self) {
        if self.failing_since_ns.load(Ordering::Relaxed) != 0 && !self.is_dead() {
            self.failing_since_ns.store(0, Ordering::Relaxed);
            if self.is_told.swap(false, Ordering::Relaxed) {
                tracing::warn!("the sink {} works again", self.name);
            }
        }
    }

    pub(super) fn lose(&self, lines: u64) {
        self.lost.add(lines);
    }

    pub(super) fn refuse(&self, lines: u64) {
        self.refused.add(lines);
    }

    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        // Ordering: Relaxed, see `is_closed`.
        self.is_closed.store(!self.is_dead(), Ordering::Relaxed);
    }

    pub(super) fn begin_call(&self) {
        self.called_at_ns.store(now_ns(), Ordering::Relaxed);
    }

    pub(super) fn end_call(&self) {
        self.called_at_ns.store(0, Ordering::Relaxed);
    }

    /// How often it was asked to begin a new file.
    pub(super) fn rotations(&self) -> u64 {
        // Ordering: Relaxed, see `rotate`.
        self.rotations.load(Ordering::Relaxed)
    }

    /// What [`wake`](Self::wake) wakes.
    pub(super) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    pub(super) fn show_behind_in_memory(&self, lines: u64) {
        self.behind_in_memory.store(lines, Ordering::Relaxed);
    }

    pub(super) fn show_spooled(&self, last: u64) {
        self.spooled.store(last, Ordering::Relaxed);
    }

    pub(super) fn show_drained(&self, last: u64) {
        self.drained.store(last, Ordering::Relaxed);
    }

    /// Whether those who wait for a line wait for this receiver of a stream.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    #[cfg(feature = "nats")]
    pub(super) fn awaited(name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            is_awaited: true,
            ..Self::default()
        })
    }

    pub(super) fn named(name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_begins_soon_after_another_is_logged_if_it_lasts() {
        let gauge = SinkGauge::named("test");
        let fail = || {
            gauge.fail(&SinkError::Busy("it is away".to_owned()));
            gauge.is_told.load(Ordering::Relaxed)
        };
        assert!(fail());
        gauge.recover();
        assert!(!fail());
        // As after a long time.
        gauge.told_at_ns.store(0, Ordering::Relaxed);
        assert!(fail());
    }
}
