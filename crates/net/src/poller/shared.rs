//! The poller: registers sources, and dispatches their events on one thread's turn.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use freeboard_meter::{PollerSnapshot, now_ns};
use freeboard_sched::{Driver, PollInterval, PollOrigin, PollOutcome};
use mio::{Interest, Poll, Registry, Token, Waker, event};
use slab::Slab;

use super::{
    counters::{Counters, Origin},
    policy::Policy,
    registration::Registration,
    source::Source,
    turn::{Timeout, Turn},
};

/// The token of the poller's own waker.
pub(crate) const WAKE: Token = Token(usize::MAX);

/// The monitor polls when no other thread has for this time, in nanoseconds.
const UNATTENDED_NS: u64 = 1_000_000;

/// The system could not create a poller.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a poller: {0}")]
pub struct PollerError(#[from] io::Error);

/// One epoll, shared by all threads that poll it. Cheap to clone.
///
/// It is the driver of one scheduler: pass [`Poller::driver`] to its settings.
#[derive(Clone)]
pub struct Poller {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    registry: Registry,
    waker: Waker,
    turn: Mutex<Turn>,
    /// Whether the thread that has the turn waits in the kernel.
    is_waiting: AtomicBool,
    sources: Mutex<Slab<Arc<Source>>>,
    sources_count: AtomicUsize,
    /// Tells a source from a previous one with the same key.
    generation: AtomicU32,
    policy: Mutex<Policy>,
    /// The policy's poll interval in one word, for the workers.
    interval: PackedInterval,
    /// The number of the dedicated thread; 0 for none.
    dedicated: AtomicU64,
    polled_ns: AtomicU64,
    pub(crate) counters: Counters,
}

/// Runs, microseconds and the priority in one atomic word.
struct PackedInterval(AtomicU64);

impl PackedInterval {
    fn new(interval: PollInterval) -> Self {
        Self(AtomicU64::new(Self::pack(interval)))
    }

    fn pack(interval: PollInterval) -> u64 {
        let time_us = (interval.time_ns / 1_000).min(u64::from(u32::MAX >> 1));
        u64::from(interval.runs) << 32 | time_us << 1 | u64::from(interval.is_first)
    }

    fn set(&self, interval: PollInterval) {
        // Ordering: Relaxed, a setting.
        self.0.store(Self::pack(interval), Ordering::Relaxed);
    }

    fn get(&self) -> PollInterval {
        // Ordering: Relaxed, a setting.
        let word = self.0.load(Ordering::Relaxed);
        PollInterval {
            runs: (word >> 32) as u32,
            time_ns: (word >> 1 & 0x7fff_ffff) * 1_000,
            is_first: word & 1 == 1,
        }
    }
}

impl Poller {
    /// A poller for a scheduler with this number of workers.
    ///
    /// # Errors
    /// If the system cannot create one, for example because all file descriptors are used.
    pub fn new(workers: usize, policy: Policy) -> Result<Self, PollerError> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WAKE)?;
        let poller = Self {
            shared: Arc::new(Shared {
                registry,
                waker,
                turn: Mutex::new(Turn::new(poll)),
                is_waiting: AtomicBool::new(false),
                sources: Mutex::default(),
                sources_count: AtomicUsize::new(0),
                generation: AtomicU32::new(0),
                policy: Mutex::new(Policy::EAGER),
                interval: PackedInterval::new(Policy::EAGER.interval()),
                dedicated: AtomicU64::new(0),
                polled_ns: AtomicU64::new(now_ns()),
                counters: Counters::new(workers),
            }),
        };
        poller.set_policy(policy)?;
        Ok(poller)
    }

    /// The driver for `System::builder().workers(n).driver(poller.driver())`, with the poller's number of workers. Further
    /// workers share the counters of the last one.
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        self.shared.clone()
    }

    /// The present policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        *self.shared.policy()
    }

    /// Changes the policy at run time.
    ///
    /// # Errors
    /// If the thread of [`Policy::Dedicated`] cannot be started; then the policy does not change.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        let shared = &self.shared;
        let mut now = shared.policy();
        if policy == Policy::Dedicated {
            if *now != Policy::Dedicated {
                start_dedicated(shared)?;
            }
        } else {
            shared.set_dedicated(0);
        }
        *now = policy;
        shared.interval.set(policy.interval());
        drop(now);
        // The waiting thread checks whether it may continue to wait.
        shared.wake();
        Ok(())
    }

    /// Registers a socket. When it is ready, the polling thread calls `call`, and not again before [`Registration::take`].
    /// `call` should only schedule the owner. Readiness that exists already is reported, too.
    ///
    /// # Errors
    /// The system's error.
    pub fn register(
        &self,
        socket: &mut impl event::Source,
        interest: Interest,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Registration> {
        let shared = &self.shared;
        // Ordering: Relaxed, only uniqueness matters.
        let generation = shared.generation.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Source::new(generation, Box::new(call)));
        let key = shared.sources().insert(source.clone());
        let token = source.token(key);
        let registration = Registration::new(shared.clone(), source, key);
        // Ordering: SeqCst, rare; counted down by `remove`.
        if shared.sources_count.fetch_add(1, Ordering::SeqCst) == 0 {
            // Before it there was nothing to poll.
            // Ordering: Relaxed, a time.
            shared.polled_ns.store(now_ns(), Ordering::Relaxed);
        }
        shared.registry.register(socket, token, interest)?;
        Ok(registration)
    }

    /// Counts an accepted connection.
    pub fn count_accept(&self) {
        self.shared.counters.accepts.add(1);
    }

    /// Counts a call that would have blocked.
    pub fn count_again(&self) {
        self.shared.counters.agains.add(1);
    }

    /// The counters so far.
    #[must_use]
    pub fn snapshot(&self) -> PollerSnapshot {
        self.shared.snapshot()
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Poller")
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn reregister(
        &self,
        socket: &mut impl event::Source,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.registry.reregister(socket, token, interest)
    }

    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, Slab<Arc<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remove(&self, key: usize) {
        self.sources().remove(key);
        // Ordering: SeqCst, as in `register`.
        self.sources_count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes the turn: for a poll if it is free, for a wait unless another thread waits in it.
    fn try_turn(&self, is_wait: bool) -> Option<MutexGuard<'_, Turn>> {
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            // A poll takes microseconds. A worker that gave up here would sleep while no thread waits in the poller.
            // Ordering: Acquire: a thread that reads true knows that another one is about to wait.
            if !is_wait || self.is_waiting.load(Ordering::Acquire) {
                return None;
            }
            thread::yield_now();
        }
    }

    /// Takes the turn, polls or waits, and dispatches the events.
    pub(crate) fn turn(
        &self,
        origin: Origin,
        mut timeout: Timeout,
        is_woken: &dyn Fn() -> bool,
        before_dispatch: &mut dyn FnMut(),
    ) -> PollOutcome {
        let is_wait = timeout != Timeout::Zero;
        let polls = self.counters.of(origin);
        polls.attempts.add(1);
        let Some(mut turn) = self.try_turn(is_wait) else {
            return PollOutcome::Taken;
        };
        self.note_gap();
        if is_wait && is_woken() {
            // That wake may have ended the previous thread's wait.
            timeout = Timeout::After(Duration::ZERO);
        }
        if is_wait {
            // Ordering: Release, as in `try_turn`.
            self.is_waiting.store(true, Ordering::Release);
        }
        let asked = turn.ask(timeout).map(<[_]>::len);
        if is_wait {
            // Ordering: Release, as in `try_turn`.
            self.is_waiting.store(false, Ordering::Release);
        }
        let now_ns = now_ns();
        // Ordering: Relaxed, a time.
        self.polled_ns.store(now_ns, Ordering::Relaxed);
        // A failed poll counts as empty; the next one tries again.
        let events = asked.unwrap_or(0);
        polls.count(is_wait, events, self.interval.get().is_first);
        if events == 0 {
            return PollOutcome::Nothing;
        }
        self.counters.events_per_poll.record_shared(events as u64);
        before_dispatch();
        self.dispatch(&mut turn, now_ns);
        PollOutcome::Dispatched
    }

    /// Calls the owners of the ready sources.
    fn dispatch(&self, turn: &mut Turn, now_ns: u64) {
        let mut called = std::mem::take(turn.called());
        {
            let sources = self.sources();
            for &(token, ready) in turn.events() {
                // The source may have been removed meanwhile, and its key reused.
                let source = sources.get(Source::key(token));
                let source = source.filter(|source| source.has_token(token));
                called.extend(
                    source
                        .filter(|source| source.set_ready(ready, now_ns))
                        .cloned(),
                );
            }
        }
        self.counters.count_called(called.len() as u64);
        freeboard_sched::dispatching(|| called.drain(..).for_each(|source| source.call()));
        *turn.called() = called;
    }

    fn note_gap(&self) {
        // Ordering: Relaxed, a time.
        let polled_ns = self.polled_ns.load(Ordering::Relaxed);
        if self.is_watching() {
            self.counters
                .gap_ns
                .raise(now_ns().saturating_sub(polled_ns));
        }
    }

    /// The number of the dedicated thread; 0 for none.
    pub(crate) fn dedicated(&self) -> u64 {
        // Ordering: SeqCst, rare: set before the waiting thread is woken to read it.
        self.dedicated.load(Ordering::SeqCst)
    }

    pub(crate) fn set_dedicated(&self, number: u64) {
        // Ordering: SeqCst, as in `dedicated`.
        self.dedicated.store(number, Ordering::SeqCst);
    }

    fn is_dedicated(&self) -> bool {
        self.dedicated() != 0
    }
}

impl Driver for Shared {
    fn is_watching(&self) -> bool {
        // Ordering: SeqCst, as in `register`.
        self.sources_count.load(Ordering::SeqCst) > 0
    }

    fn poll_interval(&self) -> PollInterval {
        let interval = self.interval.get();
        // Ordering: Relaxed, hints: at worst a poll is omitted or superfluous.
        let is_covered = self.sources_count.load(Ordering::Relaxed) == 0
            || self.is_waiting.load(Ordering::Relaxed);
        // Erlang's rule: first all events of the last poll.
        if is_covered || interval.is_first && self.counters.outstanding() > 0 {
            return PollInterval::NEVER;
        }
        interval
    }

    fn is_unattended(&self, now_ns: u64) -> bool {
        // Ordering: Relaxed, a time.
        let polled_ns = self.polled_ns.load(Ordering::Relaxed);
        let is_late = now_ns.saturating_sub(polled_ns) >= UNATTENDED_NS;
        // Ordering: Relaxed, as in `poll_interval`.
        let is_waited_in = self.is_waiting.load(Ordering::Relaxed);
        is_late && !is_waited_in && !self.is_dedicated() && self.is_watching()
    }

    fn poll(&self, origin: PollOrigin) -> PollOutcome {
        let origin = match origin {
            PollOrigin::Busy(worker) => Origin::Worker(worker),
            PollOrigin::Monitor => Origin::Monitor,
        };
        self.turn(origin, Timeout::Zero, &|| false, &mut || ())
    }

    fn wait(
        &self,
        worker: usize,
        is_woken: &dyn Fn() -> bool,
        before_dispatch: &mut dyn FnMut(),
    ) -> PollOutcome {
        if self.is_dedicated() {
            return PollOutcome::Taken;
        }
        // Checked again after taking the turn: the dedicated thread may have been started meanwhile.
        let is_woken = || is_woken() || self.is_dedicated();
        self.turn(
            Origin::Worker(worker),
            Timeout::Never,
            &is_woken,
            before_dispatch,
        )
    }

    fn wake(&self) {
        self.counters.wakes.add(1);
        // It fails only when its counter is full, and then a wake is already pending.
        let _ = self.waker.wake();
    }

    fn snapshot(&self) -> PollerSnapshot {
        let sources = self.sources_count.load(Ordering::Relaxed) as u64;
        self.counters.snapshot(self.policy().name(), sources)
    }
}

/// How often the dedicated thread checks whether the poller still exists.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Starts the thread of [`Policy::Dedicated`]. It terminates when the policy changes, and within [`CHECK_EVERY`] after the
/// poller was dropped.
fn start_dedicated(shared: &Arc<Shared>) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    // Ordering: Relaxed, only uniqueness matters.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let watched = Arc::downgrade(shared);
    // Before the thread reads it for the first time.
    shared.set_dedicated(number);
    let started = thread::Builder::new()
        .name("freeboard-poller".to_owned())
        .spawn(move || {
            while let Some(shared) = watched.upgrade() {
                if shared.dedicated() != number {
                    return;
                }
                let is_replaced = || shared.dedicated() != number;
                let timeout = Timeout::After(CHECK_EVERY);
                let outcome = shared.turn(Origin::Dedicated, timeout, &is_replaced, &mut || ());
                if outcome == PollOutcome::Taken {
                    // A worker has the turn, and is being woken.
                    thread::yield_now();
                }
            }
        });
    if started.is_err() {
        shared.set_dedicated(0);
    }
    started.map(drop)
}
