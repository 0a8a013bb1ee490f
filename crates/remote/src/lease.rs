//! The lease of a node: the right to keep keys, for a time.
//!
//! The page `directory/README.md` has the protocol and its proof. In short: the lease is a key that expires (bucket
//! `PREFIX-leases`). The node renews it by compare-and-set. It counts its time from *before* it sent the renewal, on its own
//! monotonic clock, and less a margin. The server counts from when the renewal arrived. So the node stops first. Another node
//! that wants what this one keeps first creates the lease's key itself: that succeeds only if the lease has expired.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Actor, ActorRef, Context, Handler};
use freeboard_flow::Epoch;
use freeboard_platform::{clock, planted};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    engine::{BucketInfo, ConnectionEvent, Done, EngineError, Entry, Expected},
    node::{Change, NodeInner},
    wire::NodeId,
};

/// The key of `PREFIX-names` that says that claims are allowed: see `README.md`, "New buckets".
const OPEN_KEY: &str = "open";

/// Renewals in the time of a lease.
const RENEWALS: u32 = 4;

/// The part of a lease's time that a node does not use, for clocks of different speed.
const MARGIN_PART: u32 = 10;

/// A lease: of one start of a node, with the revision of its key's creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseId {
    pub(crate) node: NodeId,
    pub(crate) number: u64,
}

/// The value of a lease's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LeaseValue {
    /// Held. `number` is 0 in the value that creates the key.
    Held { node: NodeId, number: u64 },
    /// Another node has found that it had expired.
    Dead { by: NodeId },
}

pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Bytes {
    Bytes::from(postcard::to_stdvec(value).expect("plain data into memory"))
}

pub(crate) fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// What other threads read of the lease.
#[derive(Debug, Default)]
pub(crate) struct LeaseShared {
    /// The number of the lease that is held; 0 without one.
    number: AtomicU64,
    /// On this node's monotonic clock.
    valid_until_ns: AtomicU64,
    /// Claims are allowed.
    is_open: AtomicBool,
    generation: AtomicU64,
    /// Why there is none.
    pub(crate) why: Mutex<String>,
}

impl LeaseShared {
    pub(crate) fn number(&self) -> u64 {
        // Ordering: Acquire, pairs with the Release of `hold`.
        self.number.load(Ordering::Acquire)
    }

    /// The time until which this lease is valid; `None` if it is over.
    pub(crate) fn valid_until_ns(&self, number: u64) -> Option<u64> {
        if planted!("remote-lease-kept-too-long") {
            return Some(clock::now_ns() + 1_000_000_000);
        }
        // Ordering: Acquire, pairs with the Release stores of `hold` and `lose`. The number is read after the time: if it is
        // still this one, the time is its own, because times only rise while a lease is held and `lose` stores 0 first.
        let until_ns = self.valid_until_ns.load(Ordering::Acquire);
        let is_held = self.number() == number && number != 0;
        (is_held && clock::now_ns() < until_ns).then_some(until_ns)
    }

    /// The number of a lease that is valid now, if claims are allowed.
    pub(crate) fn claims_with(&self) -> Option<u64> {
        let number = self.number();
        // Ordering: Acquire, as above.
        let is_open = self.is_open.load(Ordering::Acquire);
        (is_open && self.valid_until_ns(number).is_some()).then_some(number)
    }

    /// Why there is none, if that is known.
    pub(crate) fn trouble(&self) -> Option<String> {
        let why = self.why.lock();
        (self.claims_with().is_none() && !why.is_empty()).then(|| why.clone())
    }

    pub(crate) fn epoch(&self, revision: u64) -> Epoch {
        // Ordering: Relaxed: it is stored before claims are allowed, and not after that while the lease is held.
        Epoch::new(self.generation.load(Ordering::Relaxed), revision)
    }

    fn hold(&self, number: u64, until_ns: u64) {
        // Ordering: Release, see `valid_until_ns`.
        self.valid_until_ns.store(until_ns, Ordering::Release);
        self.number.store(number, Ordering::Release);
    }

    fn lose(&self) {
        // Ordering: Release, see `valid_until_ns`.
        self.number.store(0, Ordering::Release);
        self.valid_until_ns.store(0, Ordering::Release);
        self.is_open.store(false, Ordering::Release);
    }
}

/// The right of one activation to write: its epoch, while the lease that it was claimed with is valid.
#[derive(Debug, Clone)]
pub struct Fence {
    pub(crate) partition: u32,
    pub(crate) epoch: Epoch,
    pub(crate) number: u64,
    pub(crate) lease: Arc<LeaseShared>,
}

impl Fence {
    /// The epoch: larger than that of each earlier activation of the key, on all nodes. Whatever the actor writes carries
    /// it, and the target refuses older ones.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The partition of the key, from 0: all keys of a partition have the same epoch, so they can share a stream.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Whether the node's lease is valid now. It may end right after the call, for example because the process is paused: a
    /// check does not replace the epoch.
    pub fn is_valid(&self) -> bool {
        self.valid_until_ns().is_some()
    }

    /// The time until which the lease is valid, unless it is renewed.
    pub fn valid_until(&self) -> Option<Instant> {
        self.valid_until_ns().map(clock::to_instant)
    }

    pub(crate) fn valid_until_ns(&self) -> Option<u64> {
        self.lease.valid_until_ns(self.number)
    }
}

/// Who hears of the lease.
pub(crate) type LeaseListener = Arc<dyn Fn(LeaseChange) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    /// Claims are allowed.
    Ready,
    /// Nothing is kept any more.
    Lost,
}

/// Names and times of the buckets.
#[derive(Debug, Clone)]
pub(crate) struct LeasePlan {
    pub(crate) leases: String,
    pub(crate) names: String,
    pub(crate) ttl: Duration,
}

impl LeasePlan {
    pub(crate) fn new(prefix: &str, ttl: Duration) -> Self {
        Self {
            leases: format!("{prefix}-leases"),
            names: format!("{prefix}-names"),
            ttl,
        }
    }

    fn margin(&self) -> Duration {
        self.ttl / MARGIN_PART
    }

    pub(crate) fn key_of(node: &str) -> String {
        node.replace('/', ".")
    }
}

enum Step {
    Leases(Result<BucketInfo, EngineError>),
    Names(Result<BucketInfo, EngineError>),
    /// What a renewal or a creation gave; it was sent then.
    Renewed {
        sent_ns: u64,
        outcome: Result<u64, EngineError>,
    },
    /// The lease's key, after a conflict.
    Found(Result<Option<Entry>, EngineError>),
    Opened(Result<Option<Entry>, EngineError>),
    MarkerPut,
    Change(Change),
    Listen(LeaseListener),
    Release,
}

/// Sent to a lease's actor.
pub(crate) struct LeaseStep(Step);

enum State {
    /// Opening the buckets, or no connection.
    Closed,
    /// Creating the key, right after the buckets were opened. Each error, and each wait, leads to `Closed`: meanwhile the
    /// server may lose its data, and the key would be created in buckets that this node has not seen.
    Taking,
    Held {
        number: u64,
        revision: u64,
    },
}

pub(crate) struct Lease {
    node: Arc<NodeInner>,
    plan: LeasePlan,
    shared: Arc<LeaseShared>,
    state: State,
    listeners: Vec<LeaseListener>,
    leases_created_ms: u64,
    /// Since when the buckets are known not to be open.
    unopened_since_ns: u64,
    is_under_way: bool,
    has_timer: bool,
    is_open: bool,
    is_released: bool,
}

impl Lease {
    pub(crate) fn new(node: Arc<NodeInner>, plan: LeasePlan, shared: Arc<LeaseShared>) -> Self {
        Self {
            node,
            plan,
            shared,
            state: State::Closed,
            listeners: Vec::new(),
            leases_created_ms: 0,
            unopened_since_ns: 0,
            is_under_way: false,
            has_timer: false,
            is_open: false,
            is_released: false,
        }
    }

    /// A callback that tells this actor a result.
    fn done<T: Send + 'static>(
        cx: &Context<Self>,
        step: fn(T) -> Step,
    ) -> impl FnOnce(T) + Send + use<T> {
        let me = cx.actor_ref();
        move |outcome| {
            let _ = me.tell(LeaseStep(step(outcome)));
        }
    }

    fn begin(&mut self, cx: &mut Context<Self>) {
        let done: Done<BucketInfo> = Box::new(Self::done(cx, Step::Leases));
        let (leases, ttl) = (&self.plan.leases, self.plan.ttl);
        self.node.engine.open_bucket(leases, Some(ttl), done);
    }

    fn again(&mut self, cx: &mut Context<Self>) {
        if let State::Taking = self.state {
            self.state = State::Closed;
        }
        self.tick_after(self.plan.ttl / (2 * RENEWALS), cx);
    }

    /// There is one timer: a connection that comes and goes begins no others.
    fn tick_after(&mut self, time: Duration, cx: &mut Context<Self>) {
        if !mem::replace(&mut self.has_timer, true) {
            let _ = cx.wake_after(time, |this: &mut Self, cx| {
                this.has_timer = false;
                this.tick(cx);
            });
        }
    }

    /// The next thing to do. Each call of the engine ends in a step, which sets the timer again.
    fn tick(&mut self, cx: &mut Context<Self>) {
        self.check();
        if self.node.is_closed() || self.is_released || self.is_under_way {
            return;
        }
        match self.state {
            State::Closed => {
                self.is_under_way = true;
                self.begin(cx);
            }
            State::Taking => self.put(Expected::Absent, 0, cx),
            State::Held { number, revision } => {
                self.put(Expected::Revision(revision), number, cx);
            }
        }
    }

    fn put(&mut self, expected: Expected, number: u64, cx: &mut Context<Self>) {
        self.is_under_way = true;
        let value = LeaseValue::Held {
            node: self.node.id.clone(),
            number,
        };
        let key = LeasePlan::key_of(&self.node.id.name);
        // Before it is sent: the server's time begins later.
        let sent_ns = clock::now_ns();
        let me = cx.actor_ref();
        let done: Done<u64> = Box::new(move |outcome| {
            let _ = me.tell(LeaseStep(Step::Renewed { sent_ns, outcome }));
        });
        let (engine, leases) = (&self.node.engine, &self.plan.leases);
        engine.put(leases, &key, to_bytes(&value), expected, done);
    }

    fn renewed(&mut self, sent_ns: u64, outcome: Result<u64, EngineError>, cx: &mut Context<Self>) {
        self.is_under_way = false;
        match outcome {
            // It was given up meanwhile.
            Ok(revision) if self.is_released => self.delete(revision),
            Ok(revision) => {
                let number = match self.state {
                    State::Held { number, .. } => number,
                    State::Taking => revision,
                    // It was given up meanwhile: the next one has another number.
                    State::Closed => return self.tick(cx),
                };
                let time = self.plan.ttl - self.plan.margin();
                self.shared
                    .hold(number, sent_ns.saturating_add(time.as_nanos() as u64));
                self.state = State::Held { number, revision };
                if !self.is_open {
                    self.look_for_marker(cx);
                }
                self.check();
                self.tick_after(self.plan.ttl / RENEWALS, cx);
            }
            Err(EngineError::Conflict) => {
                self.is_under_way = true;
                let done: Done<Option<Entry>> = Box::new(Self::done(cx, Step::Found));
                let key = LeasePlan::key_of(&self.node.id.name);
                self.node.engine.get(&self.plan.leases, &key, done);
            }
            Err(error) => self.failed(&error, cx),
        }
    }

    /// The lease's key is not as expected.
    fn found(&mut self, entry: Option<Entry>, cx: &mut Context<Self>) {
        self.is_under_way = false;
        let value = entry.as_ref().and_then(|it| from_bytes(&it.value));
        let revision = entry.as_ref().map_or(0, |it| it.revision);
        match (value, &self.state) {
            // A renewal without an answer was made.
            (Some(LeaseValue::Held { node, number }), State::Held { number: own, .. })
                if node == self.node.id && number == *own =>
            {
                self.state = State::Held { number, revision };
                self.tick(cx);
            }
            // A creation without an answer, or a lease that this node has lost before it expired: the next one has another
            // number.
            (Some(LeaseValue::Held { node, .. }), State::Taking) if node == self.node.id => {
                self.put(Expected::Revision(revision), 0, cx);
            }
            (Some(LeaseValue::Dead { .. }), State::Taking) => {
                self.put(Expected::Revision(revision), 0, cx);
            }
            // A later start of the node's name waits for the end of the earlier one.
            (Some(LeaseValue::Held { node, .. }), State::Taking) => {
                format!("the lease is held by {node}").clone_into(&mut self.shared.why.lock());
                self.again(cx);
            }
            (None, State::Taking) => self.again(cx),
            // The key is another one: also the buckets may be others.
            (Some(LeaseValue::Held { node, .. }), _) => {
                self.lose_and_reopen(&format!("the lease is held by {node}"), cx);
            }
            (Some(LeaseValue::Dead { by }), _) => {
                self.lose_and_reopen(&format!("the lease had expired, as {by} found"), cx);
            }
            (None, _) => self.lose_and_reopen("the lease has expired", cx),
        }
    }

    fn lose_and_reopen(&mut self, why: &str, cx: &mut Context<Self>) {
        self.lose(why);
        self.tick(cx);
    }

    fn failed(&mut self, error: &EngineError, cx: &mut Context<Self>) {
        self.is_under_way = false;
        error.to_string().clone_into(&mut self.shared.why.lock());
        if matches!(error, EngineError::Refused(_)) {
            // The buckets are gone, or foreign: what was kept by them cannot be renewed.
            self.lose(&error.to_string());
        }
        self.again(cx);
    }

    /// Ends the lease by this node's own clock.
    fn check(&mut self) {
        if let State::Held { number, .. } = self.state
            && self.shared.valid_until_ns(number).is_none()
        {
            self.lose("the lease was not renewed in time");
        }
    }

    fn check_by_timer(&mut self, cx: &mut Context<Self>) {
        self.check();
        let _ = cx.wake_after(self.plan.margin() / 2, Self::check_by_timer);
    }

    /// The next lease begins with the buckets: this one may have ended because the server has lost them.
    fn lose(&mut self, why: &str) {
        self.state = State::Closed;
        why.clone_into(&mut self.shared.why.lock());
        if self.shared.number() == 0 {
            return;
        }
        tracing::warn!("node {}: {why}; its actors stop", self.node.id);
        self.shared.lose();
        self.is_open = false;
        self.tell(LeaseChange::Lost);
    }

    fn tell(&self, change: LeaseChange) {
        for listener in &self.listeners {
            listener(change);
        }
    }

    /// Looks whether claims are allowed.
    fn look_for_marker(&self, cx: &Context<Self>) {
        let done: Done<Option<Entry>> = Box::new(Self::done(cx, Step::Opened));
        self.node.engine.get(&self.plan.names, OPEN_KEY, done);
    }

    fn marker(&mut self, entry: Option<Entry>, cx: &mut Context<Self>) {
        let State::Held { .. } = self.state else {
            return;
        };
        if self.is_open {
            // A later read was answered first.
            return;
        }
        let created_ms = entry.as_ref().and_then(|it| from_bytes::<u64>(&it.value));
        if created_ms == Some(self.leases_created_ms) {
            // Ordering: Release, pairs with the Acquire of `claims_with`.
            self.shared.is_open.store(true, Ordering::Release);
            self.is_open = true;
            self.unopened_since_ns = 0;
            self.tell(LeaseChange::Ready);
            return;
        }
        // New buckets: leases of old ones may be valid for a lease's time.
        let now_ns = clock::now_ns();
        if self.unopened_since_ns == 0 {
            self.unopened_since_ns = now_ns;
        }
        if now_ns.saturating_sub(self.unopened_since_ns) < self.plan.ttl.as_nanos() as u64 {
            // Or only one of them is new. The next renewal opens both again. Nothing is claimed yet, so nothing is lost.
            self.shared.lose();
            self.state = State::Closed;
        } else {
            // Two nodes that name different buckets do not replace each other's marker for ever.
            self.unopened_since_ns = 0;
            let expected = entry.map_or(Expected::Absent, |it| Expected::Revision(it.revision));
            let done: Done<u64> = Box::new(Self::done(cx, |_| Step::MarkerPut));
            let value = to_bytes(&self.leases_created_ms);
            let names = &self.plan.names;
            self.node.engine.put(names, OPEN_KEY, value, expected, done);
        }
    }

    fn step(&mut self, step: Step, cx: &mut Context<Self>) {
        match step {
            Step::Leases(Ok(info)) => {
                if self.leases_created_ms != info.created_ms {
                    self.leases_created_ms = info.created_ms;
                    self.unopened_since_ns = 0;
                }
                let done: Done<BucketInfo> = Box::new(Self::done(cx, Step::Names));
                self.node.engine.open_bucket(&self.plan.names, None, done);
            }
            Step::Names(Ok(info)) => {
                let generation = &self.shared.generation;
                // Ordering: Relaxed, see `epoch`.
                if generation.swap(info.created_ms, Ordering::Relaxed) != info.created_ms {
                    self.unopened_since_ns = 0;
                }
                self.state = State::Taking;
                self.is_under_way = false;
                self.tick(cx);
            }
            Step::Leases(Err(error)) | Step::Names(Err(error)) => self.failed(&error, cx),
            Step::Renewed { sent_ns, outcome } => self.renewed(sent_ns, outcome, cx),
            Step::Found(Ok(entry)) => self.found(entry, cx),
            Step::Found(Err(error)) => self.failed(&error, cx),
            Step::Opened(Ok(entry)) => self.marker(entry, cx),
            // The next renewal looks again.
            Step::Opened(Err(_)) => {}
            Step::MarkerPut => self.look_for_marker(cx),
            Step::Change(Change::Connection(ConnectionEvent::Up)) => self.tick(cx),
            Step::Change(_) => {
                if self.node.is_closed() {
                    self.lose("this node has left");
                    cx.stop();
                }
            }
            Step::Listen(listener) => {
                if self.shared.claims_with().is_some() {
                    listener(LeaseChange::Ready);
                }
                self.listeners.push(listener);
            }
            Step::Release => self.release(),
        }
    }

    /// Gives the lease up, so that others need not wait for its end.
    fn release(&mut self) {
        self.is_released = true;
        if let State::Held { revision, .. } = self.state {
            self.lose("the lease was given up");
            self.delete(revision);
        }
    }

    fn delete(&self, revision: u64) {
        let key = LeasePlan::key_of(&self.node.id.name);
        let (engine, leases) = (&self.node.engine, &self.plan.leases);
        engine.delete(leases, &key, revision, Box::new(|_| {}));
    }
}

/// Adds a listener, from any thread.
pub(crate) fn listen(lease: &ActorRef<Lease>, listener: LeaseListener) {
    let _ = lease.tell(LeaseStep(Step::Listen(listener)));
}

/// Gives the lease up, once all that was kept is saved.
pub(crate) fn release(lease: &ActorRef<Lease>) {
    let _ = lease.tell(LeaseStep(Step::Release));
}

/// Whether the entry of a node's key shows that this lease is over: then it can never be renewed again.
pub(crate) fn is_over(lease: &LeaseId, entry: &Entry) -> bool {
    match from_bytes(&entry.value) {
        Some(LeaseValue::Held { node, number }) => {
            let number = if number == 0 { entry.revision } else { number };
            node != lease.node || number != lease.number
        }
        Some(LeaseValue::Dead { .. }) => true,
        // Foreign: nobody can renew a lease over it.
        None => true,
    }
}

impl Actor for Lease {
    fn started(&mut self, cx: &mut Context<Self>) {
        let me = cx.actor_ref();
        self.node.listen(self.node.next_id(), move |change| {
            let _ = me.tell(LeaseStep(Step::Change(change.clone())));
        });
        self.tick(cx);
        self.check_by_timer(cx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.lose("this node has left");
    }
}

impl Handler<LeaseStep> for Lease {
    type Reply = ();

    fn handle(&mut self, step: LeaseStep, cx: &mut Context<Self>) {
        self.step(step.0, cx);
    }
}
