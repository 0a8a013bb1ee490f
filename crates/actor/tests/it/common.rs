//! What the tests share: the names that they use, waiting with a deadline, a system that shuts down with its test,
//! gates that hold actors, ledgers that count drops, one actor for most tests, and the sums that must hold.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub(crate) use std::{
    any::type_name,
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    future::{Future, IntoFuture, pending, poll_fn},
    num::NonZeroU32,
    ops::{Deref, Range},
    pin::{Pin, pin},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
        mpsc,
    },
    task::{Context as TaskContext, Poll, Wake, Waker},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub(crate) use freeboard_actor::*;
pub(crate) use freeboard_flow::{
    AdaptiveLimit, LaneConfig, Overload, ReservoirBound, ShedReason, WeightedRounds,
};
pub(crate) use freeboard_meter::{
    Exposition, LaneSnapshot, LongRunSnapshot, MemberSnapshot, ReasonCount, SystemSnapshot,
    TypeSnapshot, WorkerSnapshot, WorkerState, by_type, render,
};

/// The deadline of every wait. Only a failing test takes that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::yield_now();
    }
}

/// A deadline that only a failing test reaches.
pub(crate) fn soon() -> Instant {
    Instant::now() + LIMIT
}

/// A system that shuts down with its test, unless it has before: each actor must terminate by itself.
pub(crate) struct TestSystem {
    system: System,
    is_abandoned: bool,
}

impl TestSystem {
    /// Drops the system without a shutdown.
    pub(crate) fn abandon(mut self) {
        self.is_abandoned = true;
    }
}

impl Deref for TestSystem {
    type Target = System;
    fn deref(&self) -> &System {
        &self.system
    }
}

impl Drop for TestSystem {
    fn drop(&mut self) {
        if !self.is_abandoned && !thread::panicking() && !self.system.has_ended() {
            finish(&self.system);
        }
    }
}

pub(crate) fn build(builder: SystemBuilder) -> TestSystem {
    TestSystem {
        system: builder.build().expect("valid settings"),
        is_abandoned: false,
    }
}

/// A system of two workers.
pub(crate) fn system() -> TestSystem {
    system_of(2)
}

pub(crate) fn system_of(workers: usize) -> TestSystem {
    build(System::builder().workers(workers))
}

/// With as many threads, no spare one takes over a blocked worker's slot.
pub(crate) fn system_within(workers: usize, threads_max: usize) -> TestSystem {
    build(System::builder().workers(workers).threads_max(threads_max))
}

/// Checks that a run counts no collapse. A sender that the machine keeps from its processor between its push and
/// its wake, for three checks of the monitor, counts as one: not in three runs in a row.
#[track_caller]
pub(crate) fn check_no_collapse(mut run: impl FnMut() -> u64) {
    let collapses: Vec<u64> = (0..3).map(|_| run()).take_while(|&it| it > 0).collect();
    assert!(collapses.len() < 3, "collapses: {collapses:?}");
}

/// A machine under load may keep an actor from its processor for longer than the grace period of a shutdown, or than a
/// grant of capacity lasts: not in three runs in a row. `run` tells whether it went as without load.
#[track_caller]
pub(crate) fn once_in_three(what: &str, run: impl FnMut() -> bool) {
    assert!(std::iter::repeat_with(run).take(3).any(|it| it), "{what}");
}

/// Shuts down and checks that every actor terminated by itself.
#[track_caller]
pub(crate) fn finish(system: &System) {
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(system.actors_alive(), 0);
}

/// Shuts down on a thread of its own.
pub(crate) fn shut_down(system: &System, timeout: Duration) -> JoinHandle<ShutdownReport> {
    let system = system.clone();
    thread::spawn(move || system.shutdown(timeout))
}

/// Waits until the actor waits: for a future, for capacity, or for its children.
#[track_caller]
pub(crate) fn suspended<A: Actor>(actor: &ActorRef<A>) {
    eventually("it is suspended", || actor.snapshot().state == "suspended");
}

/// Waits until each blocked thread has returned.
#[track_caller]
pub(crate) fn all_back(system: &System) {
    eventually("no thread is displaced", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
}

/// Waits until the actor has terminated.
#[track_caller]
pub(crate) fn ended<A: Actor>(actor: &ActorRef<A>) -> Terminated {
    actor
        .wait_ended_until(soon())
        .unwrap_or_else(|| panic!("{actor:?} does not end: {:?}", actor.snapshot()))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A gate at which handlers wait until a test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    arrived: u64,
}

impl Gate {
    /// Waits at the gate. Gives up after [`LIMIT`], so that a failed test ends.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = lock(state);
        state.arrived += 1;
        changed.notify_all();
        let deadline = soon() + LIMIT;
        while !state.is_open {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    pub(crate) fn open(&self) {
        lock(&self.0.0).is_open = true;
        self.0.1.notify_all();
    }

    /// Waits until `count` handlers have come to the gate.
    #[track_caller]
    pub(crate) fn wait_arrived(&self, count: u64) {
        eventually("arrival at a gate", || lock(&self.0.0).arrived >= count);
    }
}

/// Makes an actor wait at a gate.
#[track_caller]
pub(crate) fn hold<A: Handler<Gate>>(actor: &ActorRef<A>) -> Gate {
    let gate = Gate::default();
    actor.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    gate
}

/// Counts created and dropped tokens.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<(AtomicU64, AtomicU64)>);

/// One thing that a ledger counts.
pub(crate) struct Token(Ledger);

impl Ledger {
    pub(crate) fn token(&self) -> Token {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        Token(self.clone())
    }

    pub(crate) fn made(&self) -> u64 {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.1.load(Ordering::SeqCst)
    }

    /// Waits until all is dropped, and checks that it was `made` times and nothing twice.
    #[track_caller]
    pub(crate) fn settle(&self, made: u64) {
        assert_eq!(self.made(), made);
        let dropped = || self.dropped();
        eventually("everything is dropped", || dropped() >= made);
        assert_eq!(dropped(), made, "dropped more often than made");
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.0.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// A list that actors append to and tests read.
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl Notes<u64> {
    /// Without the zeros that filled a lane.
    pub(crate) fn nonzero(&self) -> Vec<u64> {
        let mut numbers = self.all();
        numbers.retain(|number| *number > 0);
        numbers
    }

    /// Each of these came once, besides zeros.
    #[track_caller]
    pub(crate) fn check_all(&self, wanted: impl IntoIterator<Item = u64>) {
        let mut numbers = self.nonzero();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(wanted), "{numbers:?}");
    }
}

impl<T: Clone> Notes<T> {
    pub(crate) fn push(&self, note: T) {
        lock(&self.0).push(note);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        lock(&self.0).clone()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Waits until there are `len` notes, and returns them.
    #[track_caller]
    pub(crate) fn wait_len(&self, len: usize) -> Vec<T> {
        eventually("enough notes", || self.len() >= len);
        self.all()
    }
}

/// How many there are of one reason.
pub(crate) fn count_of(counts: &[ReasonCount], reason: &str) -> u64 {
    counts
        .iter()
        .find(|counted| counted.reason == reason)
        .map_or(0, |counted| counted.count)
}

/// The gauges of an actor's lane.
pub(crate) fn lane<A: Actor>(actor: &ActorRef<A>, rank: usize) -> LaneSnapshot {
    actor.snapshot().lanes.swap_remove(rank)
}

pub(crate) fn shed<A: Actor>(actor: &ActorRef<A>, reason: &str) -> u64 {
    actor
        .snapshot()
        .lanes
        .iter()
        .map(|lane| count_of(&lane.shed, reason))
        .sum()
}

/// Reasons of those that had been accepted before.
pub(crate) const AFTER_ACCEPTANCE: [&str; 8] = [
    "dropped_oldest",
    "coalesced",
    "expired",
    "asker_gone",
    "handler_panicked",
    "stopped",
    "codel",
    "too_old",
];

/// Checks that accepted = handled + shed after acceptance + queued. Only for a lane at rest to which
/// no muted actor's outbox was emptied after it closed.
#[track_caller]
pub(crate) fn check_balance(lane: &LaneSnapshot) {
    let shed: u64 = AFTER_ACCEPTANCE
        .iter()
        .map(|reason| count_of(&lane.shed, reason))
        .sum();
    assert_eq!(lane.accepted, lane.handled + shed + lane.depth, "{lane:?}");
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, with no runtime. Fails at [`LIMIT`].
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = TaskContext::from_waker(&waker);
    let mut future = pin!(future);
    let deadline = soon();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "a future is never ready");
        thread::park_timeout(left);
    }
}

/// Polls a future once with a waker that counts its wakes.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    std::pin::Pin::new(future).poll(&mut TaskContext::from_waker(&waker))
}

/// Counts wakes.
#[derive(Default)]
pub(crate) struct Wakes(AtomicU64);

impl Wakes {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Calls a function at each wake.
pub(crate) struct OnWake<F>(pub(crate) F);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A tokio runtime of two threads, with its clock.
pub(crate) fn tokio_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_time();
    builder.build().expect("a runtime")
}

/// Marsaglia's xorshift, for choices that a seed repeats.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// The actor of most tests: it records its numbers, waits at gates, and runs the functions that it is sent.
#[derive(Default)]
pub(crate) struct Probe {
    pub(crate) notes: Notes<u64>,
    pub(crate) ends: Notes<Terminated>,
    pub(crate) on_started: Option<Script>,
    pub(crate) on_stopped: Option<Script>,
    pub(crate) on_drop: OnDrop,
}

/// Requests only a reply.
pub(crate) struct Ping;

/// Computes until the sender is dropped, or [`LIMIT`] has passed.
pub(crate) struct Spin(pub(crate) mpsc::Receiver<()>);

/// A function that a [`Probe`] runs once.
pub(crate) type Script = Box<dyn FnOnce(&mut Context<Probe>) + Send>;

pub(crate) type BoxFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A future that a [`Probe`] awaits once.
pub(crate) type AsyncScript =
    Box<dyn for<'a> FnOnce(&'a mut Context<Probe>) -> BoxFuture<'a> + Send>;

pub(crate) struct Act(pub(crate) Script);

pub(crate) struct Await(pub(crate) AsyncScript);

/// Has a probe run a function in a handler.
pub(crate) fn act(
    probe: &ActorRef<Probe>,
    script: impl FnOnce(&mut Context<Probe>) + Send + 'static,
) {
    probe.tell(Act(Box::new(script))).expect("alive");
}

/// Runs a function in a handler of a probe, and returns its result.
#[track_caller]
pub(crate) fn within<R: Send + 'static>(
    probe: &ActorRef<Probe>,
    script: impl FnOnce(&mut Context<Probe>) -> R + Send + 'static,
) -> R {
    let (sender, result) = mpsc::channel();
    // The test may have failed meanwhile.
    act(probe, move |cx| drop(sender.send(script(cx))));
    result.recv_timeout(LIMIT).expect("the handler returns")
}

/// Has a probe await a future in an async handler.
pub(crate) fn act_async(
    probe: &ActorRef<Probe>,
    script: impl for<'a> FnOnce(&'a mut Context<Probe>) -> BoxFuture<'a> + Send + 'static,
) {
    probe.tell(Await(Box::new(script))).expect("alive");
}

/// Has a probe tell each of these numbers to another one in a handler.
pub(crate) fn act_tell(probe: &ActorRef<Probe>, to: &ActorRef<Probe>, numbers: Range<u64>) {
    let to = to.clone();
    act(probe, move |_| tell_all(&to, numbers));
}

pub(crate) fn tell_all<A: Handler<u64>>(to: &ActorRef<A>, numbers: Range<u64>) {
    for number in numbers {
        to.tell(number).expect("accepted");
    }
}

impl Actor for Probe {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(script) = self.on_started.take() {
            script(cx);
        }
    }

    fn stopped(&mut self, cx: &mut Context<Self>) {
        if let Some(script) = self.on_stopped.take() {
            script(cx);
        }
    }
}

impl Handler<u64> for Probe {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.notes.push(number);
        number
    }

    /// The last digit.
    fn coalesce_key(number: &u64) -> Option<u64> {
        Some(number % 10)
    }
}

impl Handler<Gate> for Probe {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

impl Handler<Ping> for Probe {
    type Reply = ();
    fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {}
}

impl Handler<Spin> for Probe {
    type Reply = ();
    fn handle(&mut self, spin: Spin, _cx: &mut Context<Self>) {
        let deadline = soon();
        while spin.0.try_recv() != Err(mpsc::TryRecvError::Disconnected)
            && Instant::now() < deadline
        {
            std::hint::spin_loop();
        }
    }
}

impl Handler<Token> for Probe {
    type Reply = ();
    fn handle(&mut self, _token: Token, _cx: &mut Context<Self>) {}
}

impl Handler<Act> for Probe {
    type Reply = ();
    fn handle(&mut self, act: Act, cx: &mut Context<Self>) {
        act.0(cx);
    }
}

impl AsyncHandler<Await> for Probe {
    type Reply = ();
    async fn handle(&mut self, script: Await, cx: &mut Context<Self>) {
        script.0(cx).await;
    }
}

impl Handler<Terminated> for Probe {
    type Reply = ();
    fn handle(&mut self, ended: Terminated, _cx: &mut Context<Self>) {
        self.ends.push(ended);
    }
}

/// Calls a function when it is dropped.
#[derive(Default)]
pub(crate) struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

impl OnDrop {
    pub(crate) fn call(function: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(function)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

/// Each policy of a full lane; sampling takes one in three.
pub(crate) const POLICIES: [Overload; 8] = [
    Overload::Wait,
    Overload::Reject,
    Overload::DropNewest,
    Overload::DropOldest,
    Overload::Coalesce,
    Overload::Sample {
        one_in: NonZeroU32::new(3).unwrap(),
    },
    ALWAYS_OVERLOADED,
    // Long, so that a busy machine does not shed the message that holds an actor.
    Overload::MaxAge(Duration::from_secs(3_600)),
];

/// Sheds every message but the first of those that are queued at once.
pub(crate) const ALWAYS_OVERLOADED: Overload = Overload::CoDel {
    target: Duration::from_nanos(1),
    interval: Duration::from_nanos(2),
};

/// A lane of this bound.
pub(crate) fn bounded(messages: usize) -> SpawnOptions {
    SpawnOptions::new().lane(LaneConfig::bounded(messages))
}

/// Restarts without a delay.
pub(crate) fn at_once() -> Supervision {
    Supervision::restart().backoff(Duration::ZERO, Duration::ZERO)
}

/// A probe, and the numbers that it records.
pub(crate) fn probe(system: &System) -> (ActorRef<Probe>, Notes<u64>) {
    probe_with(system, SpawnOptions::new())
}

pub(crate) fn probes(system: &System, count: usize) -> Vec<ActorRef<Probe>> {
    (0..count).map(|_| probe(system).0).collect()
}

/// A probe with these options; a restarted one keeps its notes.
#[track_caller]
pub(crate) fn probe_with(system: &System, options: SpawnOptions) -> (ActorRef<Probe>, Notes<u64>) {
    let notes = Notes::default();
    let kept = notes.clone();
    let probe = system.spawn_with(options, move || Probe {
        notes: kept.clone(),
        ..Probe::default()
    });
    (probe.expect("valid options"), notes)
}

/// A child of a probe.
pub(crate) fn child_of(
    parent: &ActorRef<Probe>,
    options: SpawnOptions,
) -> (ActorRef<Probe>, Notes<u64>) {
    let child = Probe::default();
    let notes = child.notes.clone();
    let child = within(parent, move |cx| cx.spawn_once(options, child));
    (child.expect("valid options"), notes)
}

/// A probe that is held at a gate.
#[track_caller]
pub(crate) fn held(system: &System, options: SpawnOptions) -> (ActorRef<Probe>, Gate, Notes<u64>) {
    let (probe, notes) = probe_with(system, options);
    let gate = hold(&probe);
    (probe, gate, notes)
}

/// A held probe whose first lane is full of zeros.
#[track_caller]
pub(crate) fn full(system: &System, options: SpawnOptions) -> (ActorRef<Probe>, Gate, Notes<u64>) {
    let (probe, gate, notes) = held(system, options);
    while probe.try_tell(0_u64).is_ok() {}
    (probe, gate, notes)
}

/// A further actor is served, in order.
#[track_caller]
pub(crate) fn check_served(system: &System, count: u64) {
    let (probe, notes) = probe(system);
    tell_all(&probe, 0..count);
    assert_eq!(probe.ask(count).timeout(LIMIT).wait(), Ok(count));
    assert!(notes.all().into_iter().eq(0..=count));
}

/// So many actors that block at one gate.
pub(crate) fn block(system: &System, count: usize) -> (Vec<ActorRef<Probe>>, Gate) {
    let gate = Gate::default();
    let probes = probes(system, count);
    for probe in &probes {
        probe.tell(gate.clone()).expect("alive");
    }
    (probes, gate)
}

/// Futures that are polled in the order in which they are woken, on this thread.
pub(crate) struct Driver<F> {
    futures: Vec<Option<F>>,
    sender: mpsc::Sender<usize>,
    woken: mpsc::Receiver<usize>,
    /// How often one was woken.
    pub(crate) wakes: u64,
}

struct WakeSender(usize, Mutex<mpsc::Sender<usize>>);

impl Wake for WakeSender {
    fn wake(self: Arc<Self>) {
        // The driving thread may have stopped.
        let _ = lock(&self.1).send(self.0);
    }
}

impl<F: Future + Unpin> Driver<F> {
    pub(crate) fn new() -> Self {
        let (sender, woken) = mpsc::channel();
        Self {
            futures: Vec::new(),
            sender,
            woken,
            wakes: 0,
        }
    }

    fn poll(&mut self, index: usize) -> Poll<F::Output> {
        let future = self.futures[index].as_mut().expect("not ready before");
        let waker = Waker::from(Arc::new(WakeSender(index, Mutex::new(self.sender.clone()))));
        let polled = Pin::new(future).poll(&mut TaskContext::from_waker(&waker));
        if polled.is_ready() {
            self.futures[index] = None;
        }
        polled
    }

    /// Polls one for the first time: it must have to wait.
    #[track_caller]
    pub(crate) fn start(&mut self, future: F) {
        self.futures.push(Some(future));
        let index = self.futures.len() - 1;
        assert!(
            self.poll(index).is_pending(),
            "future {index} does not wait"
        );
    }

    /// Those that are ready, in this order, until there are `count` of them.
    #[track_caller]
    pub(crate) fn finish(&mut self, count: usize) -> Vec<(usize, F::Output)> {
        let deadline = soon();
        let mut ready = Vec::new();
        while ready.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(index) = self.woken.recv_timeout(left) else {
                panic!("{} of {count} futures are ready", ready.len());
            };
            self.wakes += 1;
            if self.futures[index].is_some()
                && let Poll::Ready(output) = self.poll(index)
            {
                ready.push((index, output));
            }
        }
        ready
    }
}

impl<F: Future<Output = Result<(), TellError<u64>>> + Unpin> Driver<F> {
    /// Sends that must have to wait.
    #[track_caller]
    pub(crate) fn of(sends: impl IntoIterator<Item = F>) -> Self {
        let mut driver = Self::new();
        sends.into_iter().for_each(|send| driver.start(send));
        driver
    }

    /// Waits until each has sent its message.
    #[track_caller]
    pub(crate) fn all_sent(&mut self) {
        for (_, sent) in self.finish(self.futures.len()) {
            sent.expect("alive");
        }
    }

    /// Waits until each has its message back from a closed actor.
    #[track_caller]
    pub(crate) fn all_closed(&mut self) {
        for (_, sent) in self.finish(self.futures.len()) {
            assert!(matches!(sent, Err(TellError::Closed(_))), "{sent:?}");
        }
    }
}
