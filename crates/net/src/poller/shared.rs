//! The poller: registers sources, and dispatches their events on one thread's turn.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use freeboard_meter::{Padded, PollerSnapshot, now_ns};
use freeboard_sched::{Driver, PollInterval, PollOrigin, PollOutcome};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

#[cfg(feature = "simulated")]
use crate::simulated;

use super::{
    counters::{Counters, Origin},
    policy::Policy,
    pollable::{Pollable, Sockets},
    source::{Ready, Source},
};

/// The token of the poller's own waker.
const WAKE: Token = Token(usize::MAX);

/// The most events of one poll of a busy worker.
const POLL_EVENTS_MAX: usize = 64;
/// The most events of one wait.
const WAIT_EVENTS_MAX: usize = 1_024;

/// The monitor polls when no other thread has for this time, in nanoseconds.
const UNATTENDED_NS: u64 = 1_000_000;

/// The system could not create a poller.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a poller: {0}")]
pub struct PollerError(#[from] io::Error);

/// One epoll, shared by all threads that poll it, or a simulated one. Cheap to clone.
///
/// It is the driver of one scheduler: pass [`Poller::driver`] to its settings.
#[derive(Clone)]
pub struct Poller {
    shared: Arc<Shared>,
}

/// Busy workers read the policy, the number of sources and `is_waiting` after each run. What each poll writes is on other
/// cache lines.
pub(crate) struct Shared {
    sockets: Sockets,
    /// Whether the thread that has the turn waits in the kernel.
    is_waiting: AtomicBool,
    sources_count: AtomicUsize,
    /// Tells a source from a previous one with the same key.
    generation: AtomicU32,
    policy: Policy,
    /// The policy's.
    interval: PollInterval,
    turn: Padded<Mutex<Turn>>,
    sources: Padded<Mutex<Slab<Arc<Source>>>>,
    polled_ns: Padded<AtomicU64>,
    counters: Counters,
}

/// The events of polls. Only the thread that has the turn uses it.
struct Turn {
    source: EventSource,
    /// The events' tokens and readiness.
    events: Vec<(Token, Ready)>,
    /// Sources whose owners are to be called.
    called: Vec<Arc<Source>>,
}

/// What is asked for events: the kernel's poller with buffers, or a simulated one.
enum EventSource {
    Kernel {
        poll: Poll,
        few: Events,
        many: Events,
    },
    #[cfg(feature = "simulated")]
    Simulated(simulated::Watcher),
}

/// How long to wait for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeout {
    Zero,
    After(Duration),
    Never,
}

impl Turn {
    fn new(source: EventSource) -> Self {
        Self {
            source,
            events: Vec::new(),
            called: Vec::new(),
        }
    }

    /// Asks for events, waiting up to `timeout`; returns their number.
    fn ask(&mut self, timeout: Timeout) -> io::Result<usize> {
        self.events.clear();
        let (poll, few, many) = match &mut self.source {
            EventSource::Kernel { poll, few, many } => (poll, few, many),
            #[cfg(feature = "simulated")]
            EventSource::Simulated(watcher) => {
                watcher.take_events(&mut self.events);
                return Ok(self.events.len());
            }
        };
        let (events, time) = match timeout {
            Timeout::Zero => (few, Some(Duration::ZERO)),
            Timeout::After(time) => (many, Some(time)),
            Timeout::Never => (many, None),
        };
        match poll.poll(events, time) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            result => result?,
        }
        let events = events.iter().filter(|event| event.token() != WAKE);
        self.events
            .extend(events.map(|event| (event.token(), Ready::of(event))));
        Ok(self.events.len())
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
        let source = EventSource::Kernel {
            poll,
            few: Events::with_capacity(POLL_EVENTS_MAX),
            many: Events::with_capacity(WAIT_EVENTS_MAX),
        };
        let sockets = Sockets::Kernel { registry, waker };
        let shared = Arc::new(Shared::new(workers, policy, source, sockets));
        if policy == Policy::Dedicated {
            start_dedicated(&shared)?;
        }
        Ok(Self { shared })
    }

    /// The poller of a simulated host, which events of its network's executor poll. It belongs to this start of the host:
    /// after a crash all its sockets fail.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated(host: &simulated::Host) -> Self {
        let shared = Arc::new_cyclic(|shared: &std::sync::Weak<Shared>| {
            let shared = shared.clone();
            let watcher = host.watcher(Box::new(move || {
                if let Some(shared) = shared.upgrade() {
                    let origin = Origin::Worker(0);
                    shared.turn(origin, Timeout::Zero, &|| false, &mut || ());
                }
            }));
            let source = EventSource::Simulated(watcher.clone());
            Shared::new(1, Policy::EAGER, source, Sockets::Simulated(watcher))
        });
        Self { shared }
    }

    pub(crate) fn sockets(&self) -> &Sockets {
        &self.shared.sockets
    }

    /// The driver for `System::builder().workers(n).driver(poller.driver())`, with the poller's number of workers. Further
    /// workers share the counters of the last one.
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        self.shared.clone()
    }

    /// Registers a socket. When it is ready, the polling thread calls `call`, and not again before [`Registration::take`].
    /// `call` should only schedule the owner. Readiness that exists already is reported, too.
    ///
    /// # Errors
    /// The system's error.
    pub fn register(
        &self,
        socket: &mut impl Pollable,
        interest: Interest,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Registration> {
        let shared = &self.shared;
        // Ordering: Relaxed, only uniqueness matters.
        let generation = shared.generation.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Source::new(generation, Box::new(call)));
        let key = shared.sources().insert(source.clone());
        let token = source.token(key);
        let registration = Registration {
            shared: shared.clone(),
            source,
            key,
        };
        // Ordering: SeqCst, rare; counted down when the registration is dropped.
        if shared.sources_count.fetch_add(1, Ordering::SeqCst) == 0 {
            // Before it there was nothing to poll.
            // Ordering: Relaxed, a time.
            shared.polled_ns.store(now_ns(), Ordering::Relaxed);
        }
        shared.sockets.register(socket.pollee(), token, interest)?;
        Ok(registration)
    }

    /// Counts an accepted connection.
    pub(crate) fn count_accept(&self) {
        self.shared.counters.count_accept();
    }

    /// Counts a call that would have blocked.
    pub(crate) fn count_again(&self) {
        self.shared.counters.count_again();
    }

    /// The counters so far.
    #[must_use]
    pub fn snapshot(&self) -> PollerSnapshot {
        self.shared.snapshot()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Poller")
            .field("policy", &self.shared.policy)
            .finish_non_exhaustive()
    }
}

/// The registration of a socket with the poller; its drop ends it. Keep it beside the socket: closing the socket ends the
/// registration with the kernel.
pub struct Registration {
    shared: Arc<Shared>,
    source: Arc<Source>,
    key: usize,
}

impl Registration {
    /// The readiness since the last call. The owner is called again for later events.
    pub fn take(&self) -> Ready {
        if let Some(called_ns) = self.source.settle() {
            let delay_ns = now_ns().saturating_sub(called_ns);
            self.shared.counters.count_run(delay_ns);
        }
        self.source.take()
    }

    /// Changes the interest. Readiness that exists already is reported again.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_interest(&self, socket: &mut impl Pollable, interest: Interest) -> io::Result<()> {
        let token = self.source.token(self.key);
        let sockets = &self.shared.sockets;
        sockets.reregister(socket.pollee(), token, interest)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Removed first. A poll that finds the source after it was settled would raise its flag for ever, and busy workers
        // under `Drain` and `Lazy`, which poll when all called owners have run, would not poll again.
        self.shared.sources().remove(self.key);
        if self.source.settle().is_some() {
            self.shared.counters.count_dropped();
        }
        // Ordering: SeqCst, as in `register`.
        self.shared.sources_count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Registration")
            .field(&self.key)
            .finish()
    }
}

impl Shared {
    fn new(workers: usize, policy: Policy, source: EventSource, sockets: Sockets) -> Self {
        let interval = policy.interval();
        Self {
            sockets,
            is_waiting: AtomicBool::new(false),
            sources_count: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
            policy,
            interval,
            turn: Padded(Mutex::new(Turn::new(source))),
            sources: Padded::default(),
            polled_ns: Padded(AtomicU64::new(now_ns())),
            counters: Counters::new(workers, interval.is_first()),
        }
    }

    fn sources(&self) -> MutexGuard<'_, Slab<Arc<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn turn(
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
        let asked = turn.ask(timeout);
        if is_wait {
            // Ordering: Release, as in `try_turn`.
            self.is_waiting.store(false, Ordering::Release);
        }
        let now_ns = now_ns();
        // Ordering: Relaxed, a time.
        self.polled_ns.store(now_ns, Ordering::Relaxed);
        // A failed poll counts as empty; the next one tries again.
        let events = asked.unwrap_or(0);
        polls.count(is_wait, events, self.interval.is_first());
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
        let Turn { events, called, .. } = turn;
        {
            let sources = self.sources();
            for &(token, ready) in &*events {
                // The source may have been removed meanwhile, and its key reused.
                let source = sources.get(Source::key(token));
                let source = source.filter(|source| source.has_token(token));
                let source = source.filter(|source| source.set_ready(ready, now_ns));
                called.extend(source.cloned());
            }
        }
        self.counters.count_called(called.len() as u64);
        freeboard_sched::dispatching(|| called.drain(..).for_each(|source| source.call()));
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

    /// Whether the monitor does not poll for busy workers: under `Policy::Lazy`.
    fn has_no_rescue(&self) -> bool {
        matches!(self.interval, PollInterval::Budgets(_))
    }

    fn is_dedicated(&self) -> bool {
        self.policy == Policy::Dedicated
    }
}

impl Driver for Shared {
    fn is_watching(&self) -> bool {
        // Ordering: SeqCst, as in `register`.
        self.sources_count.load(Ordering::SeqCst) > 0
    }

    fn poll_interval(&self) -> PollInterval {
        // Ordering: Relaxed, hints: at worst a poll is omitted or superfluous.
        let is_covered = self.sources_count.load(Ordering::Relaxed) == 0
            || self.is_waiting.load(Ordering::Relaxed);
        // Erlang's rule: first all events of the last poll.
        if is_covered || self.interval.is_first() && self.counters.outstanding() > 0 {
            return PollInterval::Never;
        }
        self.interval
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
            // Under `Lazy` the monitor only wakes an idle worker to wait here, as idle workers do under each policy.
            PollOrigin::Monitor if self.has_no_rescue() => return PollOutcome::Nothing,
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
        let origin = Origin::Worker(worker);
        self.turn(origin, Timeout::Never, is_woken, before_dispatch)
    }

    fn wake(&self) {
        self.counters.wakes.add(1);
        self.sockets.wake();
    }

    fn snapshot(&self) -> PollerSnapshot {
        let sources = self.sources_count.load(Ordering::Relaxed) as u64;
        self.counters.snapshot(self.policy.name(), sources)
    }
}

/// How often the dedicated thread checks whether the poller still exists.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Starts the thread of [`Policy::Dedicated`]. It terminates within [`CHECK_EVERY`] after the poller was dropped.
fn start_dedicated(shared: &Arc<Shared>) -> io::Result<()> {
    let watched = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("freeboard-poller".to_owned());
    let started = thread.spawn(move || {
        while let Some(shared) = watched.upgrade() {
            let timeout = Timeout::After(CHECK_EVERY);
            shared.turn(Origin::Dedicated, timeout, &|| false, &mut || ());
        }
    });
    started.map(drop)
}
