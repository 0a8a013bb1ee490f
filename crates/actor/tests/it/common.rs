//! Shared helpers: waiting for conditions, gates that hold actors, ledgers that count drops, actors that record
//! their messages, and the sums that must hold.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::{Context as TaskContext, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use freeboard_actor::{
    Actor, ActorRef, AsyncHandler, Context, Handler, SpawnOptions, System, Terminated,
};
use freeboard_meter::{LaneSnapshot, ReasonCount};

/// The deadline of every wait. Only a failing test takes that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::yield_now();
    }
}

/// A deadline that only a failing test reaches.
pub(crate) fn soon() -> Instant {
    Instant::now() + LIMIT
}

/// A system of two workers.
pub(crate) fn system() -> System {
    system_of(2)
}

pub(crate) fn system_of(workers: usize) -> System {
    System::builder()
        .workers(workers)
        .build()
        .expect("valid settings")
}

/// Checks that a run counts no collapse. A sender that the machine keeps from its processor between its push and
/// its wake, for three checks of the monitor, counts as one: not in three runs in a row.
#[track_caller]
pub(crate) fn check_no_collapse(mut run: impl FnMut() -> u64) {
    let collapses: Vec<u64> = (0..3).map(|_| run()).take_while(|&it| it > 0).collect();
    assert!(collapses.len() < 3, "collapses: {collapses:?}");
}

/// Shuts down and checks that every actor terminated by itself.
#[track_caller]
pub(crate) fn finish(system: &System) {
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(system.actors_alive(), 0);
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

/// An actor that notes each number it is told, and waits at its gate when told [`Hold`].
#[derive(Default)]
pub(crate) struct Noter {
    pub(crate) gate: Gate,
    pub(crate) notes: Notes<u64>,
}

/// Makes a [`Noter`] wait at its gate.
pub(crate) struct Hold;

/// Requests only a reply.
pub(crate) struct Ping;

/// Makes a [`Noter`] compute until the sender is dropped, or [`LIMIT`] has passed.
pub(crate) struct Spin(pub(crate) mpsc::Receiver<()>);

impl Actor for Noter {}

impl Handler<u64> for Noter {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.notes.push(number);
        number
    }

    fn coalesce_key(number: &u64) -> Option<u64> {
        Some(number % 10)
    }
}

impl Handler<Hold> for Noter {
    type Reply = ();
    fn handle(&mut self, _hold: Hold, _cx: &mut Context<Self>) {
        self.gate.pass();
    }
}

impl Handler<Gate> for Noter {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

impl Handler<Ping> for Noter {
    type Reply = ();
    fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {}
}

impl Handler<Spin> for Noter {
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

impl Handler<Token> for Noter {
    type Reply = ();
    fn handle(&mut self, _token: Token, _cx: &mut Context<Self>) {}
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
pub(crate) const AFTER_ACCEPTANCE: [&str; 6] = [
    "dropped_oldest",
    "coalesced",
    "expired",
    "asker_gone",
    "handler_panicked",
    "stopped",
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

/// A function that a [`Puppet`] runs once.
pub(crate) type Script = Box<dyn FnOnce(&mut Context<Puppet>) + Send>;

pub(crate) type BoxFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A future that a [`Puppet`] awaits once.
pub(crate) type AsyncScript =
    Box<dyn for<'a> FnOnce(&'a mut Context<Puppet>) -> BoxFuture<'a> + Send>;

/// An actor that runs the functions it is sent, and records numbers.
#[derive(Default)]
pub(crate) struct Puppet {
    pub(crate) notes: Notes<u64>,
    pub(crate) ends: Notes<Terminated>,
    pub(crate) on_started: Option<Script>,
    pub(crate) on_stopped: Option<Script>,
    pub(crate) on_drop: OnDrop,
}

/// A [`Puppet`] runs it in a handler.
pub(crate) struct Act(pub(crate) Script);

/// A [`Puppet`] awaits its future in an async handler.
pub(crate) struct Await(pub(crate) AsyncScript);

pub(crate) fn act(
    puppet: &ActorRef<Puppet>,
    script: impl FnOnce(&mut Context<Puppet>) + Send + 'static,
) {
    puppet.tell(Act(Box::new(script))).expect("alive");
}

pub(crate) fn act_async(
    puppet: &ActorRef<Puppet>,
    script: impl for<'a> FnOnce(&'a mut Context<Puppet>) -> BoxFuture<'a> + Send + 'static,
) {
    puppet.tell(Await(Box::new(script))).expect("alive");
}

impl Actor for Puppet {
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

impl Handler<Act> for Puppet {
    type Reply = ();
    fn handle(&mut self, act: Act, cx: &mut Context<Self>) {
        act.0(cx);
    }
}

impl AsyncHandler<Await> for Puppet {
    type Reply = ();
    async fn handle(&mut self, script: Await, cx: &mut Context<Self>) {
        script.0(cx).await;
    }
}

impl Handler<u64> for Puppet {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.notes.push(number);
        number
    }
}

impl Handler<Terminated> for Puppet {
    type Reply = ();
    fn handle(&mut self, ended: Terminated, _cx: &mut Context<Self>) {
        self.ends.push(ended);
    }
}

/// A noter with this lane, held at its gate.
pub(crate) fn held_noter(
    system: &System,
    options: SpawnOptions,
) -> (ActorRef<Noter>, Gate, Notes<u64>) {
    let (gate, notes) = (Gate::default(), Notes::default());
    let noter = Noter {
        gate: gate.clone(),
        notes: notes.clone(),
    };
    let noter = system.spawn_once(options, noter).expect("valid options");
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    (noter, gate, notes)
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
