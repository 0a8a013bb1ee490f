//! The poller: registers sources, and sees on somebody's turn which are ready.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use freeboard_meter::{PollerSnapshot, now_ns};
use freeboard_sched::{Cadence, Driver, Look, Looker};
use mio::{Interest, Poll, Registry, Token, Waker, event};
use slab::Slab;

use super::{
    counters::{By, Counters},
    dedicated,
    policy::Policy,
    registration::Registration,
    source::Source,
    turn::{Patience, Turn},
};

/// The token of the poller's own waker.
pub(crate) const WAKE: Token = Token(usize::MAX);

/// The monitor looks when nobody has for so long, in nanoseconds.
const UNATTENDED_NS: u64 = 1_000_000;

/// Why there is no poller.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no poller: {0}")]
pub struct PollerError(#[from] io::Error);

/// One epoll, shared by all who look at it. Cheap to clone.
///
/// It is the driver of one scheduler: hand [`Poller::driver`] to its settings.
#[derive(Clone)]
pub struct Poller {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    registry: Registry,
    waker: Waker,
    turn: Mutex<Turn>,
    /// Whether who has the turn waits in the kernel.
    is_waiting: AtomicBool,
    sources: Mutex<Slab<Arc<Source>>>,
    sources_count: AtomicUsize,
    /// Tells a source from the one that had its key before.
    generation: AtomicU32,
    policy: Mutex<Policy>,
    /// The policy's cadence in one word, for the workers.
    cadence: PackedCadence,
    /// The number of the thread of its own that waits; 0 for none.
    dedicated: AtomicU64,
    looked_ns: AtomicU64,
    pub(crate) counters: Counters,
}

/// Runs, microseconds and the priority in one atomic word.
struct PackedCadence(AtomicU64);

impl PackedCadence {
    fn new(cadence: Cadence) -> Self {
        Self(AtomicU64::new(Self::pack(cadence)))
    }

    fn pack(cadence: Cadence) -> u64 {
        let time_us = (cadence.time_ns / 1_000).min(u64::from(u32::MAX >> 1));
        u64::from(cadence.runs) << 32 | time_us << 1 | u64::from(cadence.is_first)
    }

    fn set(&self, cadence: Cadence) {
        // Ordering: Relaxed, a setting.
        self.0.store(Self::pack(cadence), Ordering::Relaxed);
    }

    fn get(&self) -> Cadence {
        // Ordering: Relaxed, a setting.
        let word = self.0.load(Ordering::Relaxed);
        Cadence {
            runs: (word >> 32) as u32,
            time_ns: (word >> 1 & 0x7fff_ffff) * 1_000,
            is_first: word & 1 == 1,
        }
    }
}

impl Poller {
    /// A poller for a scheduler of so many workers.
    ///
    /// # Errors
    /// If the system gives none, for example because all file descriptors are used.
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
                cadence: PackedCadence::new(Policy::EAGER.cadence()),
                dedicated: AtomicU64::new(0),
                looked_ns: AtomicU64::new(now_ns()),
                counters: Counters::new(workers),
            }),
        };
        poller.set_policy(policy)?;
        Ok(poller)
    }

    /// What a system is built with: `System::builder().workers(n).driver(poller.driver())`, with as many
    /// workers as the poller was made for (more share the counters of the last).
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        self.shared.clone()
    }

    /// When busy workers look, at present.
    #[must_use]
    pub fn policy(&self) -> Policy {
        *self.shared.policy()
    }

    /// Changes when busy workers look, while everything runs.
    ///
    /// # Errors
    /// If the thread of [`Policy::Dedicated`] cannot be started; the policy stays as it was then.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        let shared = &self.shared;
        let mut now = shared.policy();
        if policy == Policy::Dedicated {
            if *now != Policy::Dedicated {
                dedicated::start(shared)?;
            }
        } else {
            shared.set_dedicated(0);
        }
        *now = policy;
        shared.cadence.set(policy.cadence());
        drop(now);
        // Whoever waits looks who is to wait from now on.
        shared.wake();
        Ok(())
    }

    /// Watches a socket for what `interest` says. `call` is called when it is ready, on whatever thread
    /// has looked, and then not before [`Registration::take`]: it only has the owner run. What is ready
    /// already counts as news.
    ///
    /// # Errors
    /// What the system says.
    pub fn register(
        &self,
        socket: &mut impl event::Source,
        interest: Interest,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Registration> {
        let shared = &self.shared;
        // Ordering: Relaxed, only that neighbours differ.
        let generation = shared.generation.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Source::new(generation, Box::new(call)));
        let key = shared.sources().insert(source.clone());
        let token = source.token(key);
        let registration = Registration::new(shared.clone(), source, key);
        // Ordering: SeqCst, rare; counted down by `remove`.
        if shared.sources_count.fetch_add(1, Ordering::SeqCst) == 0 {
            // Before it there was nothing to look at.
            // Ordering: Relaxed, a time.
            shared.looked_ns.store(now_ns(), Ordering::Relaxed);
        }
        shared.registry.register(socket, token, interest)?;
        Ok(registration)
    }

    /// Counts a connection that was accepted.
    pub fn count_accept(&self) {
        self.shared.counters.accepts.add(1);
    }

    /// Counts a call that would have blocked.
    pub fn count_again(&self) {
        self.shared.counters.agains.add(1);
    }

    /// What was counted so far.
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

    /// The turn, unless somebody waits in it, or, for a look, has it at all.
    fn try_turn(&self, is_wait: bool) -> Option<MutexGuard<'_, Turn>> {
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            // A look is over in microseconds; who gave up here would sleep where nobody waits.
            // Ordering: Acquire, who sees it set is told that somebody is about to wait.
            if !is_wait || self.is_waiting.load(Ordering::Acquire) {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Whether the turn was to be had, and anything was found.
    pub(crate) fn turn(
        &self,
        by: By,
        mut patience: Patience,
        is_called: &dyn Fn() -> bool,
        found: &mut dyn FnMut(),
    ) -> Look {
        let is_wait = patience != Patience::None;
        let lane = self.counters.of(by);
        lane.attempts.add(1);
        let Some(mut turn) = self.try_turn(is_wait) else {
            return Look::Taken;
        };
        self.note_gap();
        if is_wait && is_called() {
            // The wake that said so may have ended the wait before this one.
            patience = Patience::For(Duration::ZERO);
        }
        if is_wait {
            // Ordering: Release, as in `try_turn`.
            self.is_waiting.store(true, Ordering::Release);
        }
        let asked = turn.ask(patience).map(<[_]>::len);
        if is_wait {
            // Ordering: Release, as in `try_turn`.
            self.is_waiting.store(false, Ordering::Release);
        }
        let now_ns = now_ns();
        // Ordering: Relaxed, a time.
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        // A poller that fails has nothing to say; the next look tries again.
        let events = asked.unwrap_or(0);
        lane.looked(is_wait, events, self.cadence.get().is_first);
        if events == 0 {
            return Look::Nothing;
        }
        self.counters.events_per_look.record_shared(events as u64);
        found();
        self.dispatch(&mut turn, now_ns);
        Look::Found
    }

    /// Has the owners of what was found run.
    fn dispatch(&self, turn: &mut Turn, now_ns: u64) {
        let mut called = std::mem::take(turn.called());
        {
            let sources = self.sources();
            for &(token, ready) in turn.found() {
                // Gone meanwhile, or another one in its place, of which this says nothing.
                let source = sources.get(Source::key(token));
                let source = source.filter(|source| source.is_of(token));
                called.extend(source.filter(|source| source.found(ready, now_ns)).cloned());
            }
        }
        self.counters.found(called.len() as u64);
        freeboard_sched::finding(|| called.drain(..).for_each(|source| source.call()));
        *turn.called() = called;
    }

    fn note_gap(&self) {
        // Ordering: Relaxed, a time.
        let looked_ns = self.looked_ns.load(Ordering::Relaxed);
        if self.is_watching() {
            self.counters
                .gap_ns
                .raise(now_ns().saturating_sub(looked_ns));
        }
    }

    /// The number of the thread that waits instead of the workers; 0 for none.
    pub(crate) fn dedicated(&self) -> u64 {
        // Ordering: SeqCst, rare: set before whoever waits is woken to see it.
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

    fn cadence(&self) -> Cadence {
        let cadence = self.cadence.get();
        // Ordering: Relaxed, hints: a look that is left out or for nothing.
        let is_in_hand = self.sources_count.load(Ordering::Relaxed) == 0
            || self.is_waiting.load(Ordering::Relaxed);
        // Erlang's rule: first all that the last look has found.
        if is_in_hand || cadence.is_first && self.counters.outstanding() > 0 {
            return Cadence::NEVER;
        }
        cadence
    }

    fn is_unattended(&self, now_ns: u64) -> bool {
        // Ordering: Relaxed, a time.
        let looked_ns = self.looked_ns.load(Ordering::Relaxed);
        let is_late = now_ns.saturating_sub(looked_ns) >= UNATTENDED_NS;
        // Ordering: Relaxed, as in `cadence`.
        let is_waited_in = self.is_waiting.load(Ordering::Relaxed);
        is_late && !is_waited_in && !self.is_dedicated() && self.is_watching()
    }

    fn look(&self, looker: Looker) -> Look {
        let by = match looker {
            Looker::Busy(worker) => By::Worker(worker),
            Looker::Monitor => By::Monitor,
        };
        self.turn(by, Patience::None, &|| false, &mut || ())
    }

    fn wait(&self, worker: usize, is_called: &dyn Fn() -> bool, found: &mut dyn FnMut()) -> Look {
        if self.is_dedicated() {
            return Look::Taken;
        }
        // Asked again when the turn is there: the thread of its own may have been started meanwhile.
        let is_called = || is_called() || self.is_dedicated();
        self.turn(By::Worker(worker), Patience::Endless, &is_called, found)
    }

    fn wake(&self) {
        self.counters.wakes.add(1);
        // It can fail only when the counter behind it is full, and then a wake is under way.
        let _ = self.waker.wake();
    }

    fn snapshot(&self) -> PollerSnapshot {
        let sources = self.sources_count.load(Ordering::Relaxed) as u64;
        self.counters.snapshot(self.policy().name(), sources)
    }
}
