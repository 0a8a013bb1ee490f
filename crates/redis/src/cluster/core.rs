//! The state shared by a cluster's handles, its commands in flight, and its topology refresher.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use freeboard_actor::Recipient;
use freeboard_flow::random;
use freeboard_meter::Counter;
use freeboard_net::poller::Poller;
use parking_lot::Mutex;

use super::{
    answers::{Address, SlotMap},
    subscriptions::{ClusterSubscription, ClusterSubscriptions},
    topology::{Node, Topology},
};
use crate::{
    error::{DownReason, RedisError},
    metrics::{ClusterSnapshot, NodeSnapshot, RedisSnapshot},
    options::ClusterOptions,
    routing::{random_number, random_seed},
    subscribers::PubSub,
    sync::{AtomicU64, Ordering},
};

/// Parts per million.
const PPM: usize = 1_000_000;

pub(crate) struct Core {
    pub(super) options: ClusterOptions,
    pub(super) topology: Topology,
    pub(super) waiting: Waiting,
    pub(super) subscriptions: ClusterSubscriptions,
    refresh: Mutex<Refresh>,
    /// Wakes the refresher.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Random numbers drawn so far, from the seed.
    turn: AtomicU64,
    moved: Counter,
    asked: Counter,
    retried: Counter,
    refreshed: Counter,
    refresh_failures: Counter,
    replies_refused: Counter,
}

/// The state of the slot map's refresh.
#[derive(Default)]
struct Refresh {
    is_wanted: bool,
    /// A node's answer, until the refresher takes it.
    answer: Option<Result<SlotMap, RedisError>>,
    /// Whether a refresh has ever succeeded.
    is_known: bool,
    /// Why the last refresh failed.
    error: Option<RedisError>,
}

impl Core {
    pub(crate) fn new(poller: Poller, options: ClusterOptions) -> Self {
        let seed = options.node.seed.unwrap_or_else(random_seed);
        Self {
            topology: Topology::new(poller, options.node.clone()),
            waiting: Waiting::new(options.waiting, options.waiting_bytes),
            options,
            subscriptions: ClusterSubscriptions::default(),
            refresh: Mutex::default(),
            waker: OnceLock::new(),
            turn: AtomicU64::new(seed),
            moved: Counter::default(),
            asked: Counter::default(),
            retried: Counter::default(),
            refreshed: Counter::default(),
            refresh_failures: Counter::default(),
            replies_refused: Counter::default(),
        }
    }

    /// Waits until the slot map is known and all of its nodes are up.
    pub(crate) fn check_up(&self) -> Result<(), RedisError> {
        let refresh = self.refresh.lock();
        if !refresh.is_known {
            let connecting = || RedisError::Down(DownReason::Connecting);
            return Err(refresh.error.clone().unwrap_or_else(connecting));
        }
        drop(refresh);
        let mut masters = self.masters().into_iter();
        masters.try_for_each(|node| node.pool.check_up())
    }

    /// The nodes that own slots, in an order that begins anywhere.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let nodes = self.topology.nodes().into_iter();
        let masters = nodes.filter(|(_, slots)| *slots > 0);
        let mut masters: Vec<_> = masters.map(|(node, _)| node).collect();
        let first = random::below(self.number(), masters.len());
        masters.rotate_left(first);
        masters
    }

    pub(crate) fn subscribe(
        self: &Arc<Self>,
        name: Bytes,
        to: Recipient<PubSub>,
    ) -> Result<Arc<ClusterSubscription>, RedisError> {
        let subscription = self.subscriptions.add(self, name, to)?;
        // From now on, the refresher watches its node.
        self.wake();
        Ok(subscription)
    }

    pub(crate) fn connections(&self) -> RedisSnapshot {
        let nodes = self.topology.nodes().into_iter();
        let lines = nodes.flat_map(|(node, _)| node.pool.snapshot().connections);
        RedisSnapshot {
            connections: lines.collect(),
        }
    }

    pub(crate) fn snapshot(&self) -> ClusterSnapshot {
        let nodes = self.topology.nodes().into_iter();
        let nodes = nodes.map(|(node, slots)| NodeSnapshot {
            address: node.address.to_string(),
            slots: slots as u64,
            client: node.pool.snapshot(),
        });
        ClusterSnapshot {
            nodes: nodes.collect(),
            moved: self.moved.get(),
            asked: self.asked.get(),
            retried: self.retried.get(),
            waiting: self.waiting.len() as u64,
            refreshed: self.refreshed.get(),
            refresh_failures: self.refresh_failures.get(),
            replies_refused: self.replies_refused.get(),
        }
    }
}

/// For requests.
impl Core {
    pub(super) fn route(&self, slot: Option<u16>) -> Option<Arc<Node>> {
        self.topology.route(slot, self.number())
    }

    fn number(&self) -> u64 {
        // Ordering: Relaxed, each caller gets its own number.
        random_number(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the node that a redirection names. `moved` is the slot that it owns now.
    pub(super) fn redirected(&self, to: &Address, moved: Option<u16>) -> Option<Arc<Node>> {
        match moved {
            Some(_) => {
                self.moved.add(1);
                self.want_refresh();
            }
            None => self.asked.add(1),
        }
        self.topology.redirected(to, moved)
    }

    pub(super) fn delay_ns(&self, attempt: u32) -> u64 {
        let jitter_ppm = random::below(self.number(), PPM) as u32;
        self.options.backoff.delay_jittered_ns(attempt, jitter_ppm)
    }

    /// Keeps a request until it is due. Beyond the limits it gives up at once.
    pub(super) fn park(&self, due_ns: u64, parked: Parked) {
        match self.waiting.park(due_ns, parked) {
            Ok(is_first) => {
                self.retried.add(1);
                if is_first {
                    self.wake();
                }
            }
            Err(parked) => (parked.resume)(Resume::GiveUp),
        }
    }

    /// Counts an outcome that the recipient's mailbox refused.
    pub(super) fn count_refused(&self, is_taken: bool) {
        self.replies_refused.add(u64::from(!is_taken));
    }

    /// Requests a refresh. Requests are coalesced and rate-limited.
    pub(super) fn want_refresh(&self) {
        let was_wanted = mem::replace(&mut self.refresh.lock().is_wanted, true);
        if !was_wanted {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

/// For the refresher.
impl Core {
    pub(super) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second call would set an equal waker.
        let _ = self.waker.set(Box::new(wake));
    }

    /// Takes the request for a refresh.
    pub(super) fn take_wanted(&self) -> bool {
        mem::take(&mut self.refresh.lock().is_wanted)
    }

    pub(super) fn is_refresh_wanted(&self) -> bool {
        self.refresh.lock().is_wanted
    }

    /// Stores a node's answer.
    pub(super) fn answered(&self, answer: Result<SlotMap, RedisError>) {
        self.refresh.lock().answer = Some(answer);
        self.wake();
    }

    pub(super) fn take_answer(&self) -> Option<Result<SlotMap, RedisError>> {
        self.refresh.lock().answer.take()
    }

    /// Records the result of a refresh.
    pub(super) fn refreshed(&self, outcome: Result<(), RedisError>) {
        let mut refresh = self.refresh.lock();
        match outcome {
            Ok(()) => {
                self.refreshed.add(1);
                (refresh.is_known, refresh.error) = (true, None);
            }
            Err(error) => {
                self.refresh_failures.add(1);
                refresh.error = Some(error);
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The refresher then finds no core, and stops.
        self.wake();
    }
}

/// A request that waits for its retry.
pub(crate) struct Parked {
    /// Upper bound of its bytes on the wire.
    bytes: usize,
    pub(super) resume: Box<dyn FnOnce(Resume) + Send>,
}

/// How a parked request continues.
pub(crate) enum Resume {
    /// It is sent again.
    Retry,
    /// It gets the outcome of its last try.
    GiveUp,
}

impl Parked {
    pub(super) fn new(bytes: usize, resume: impl FnOnce(Resume) + Send + 'static) -> Self {
        Self {
            bytes,
            resume: Box::new(resume),
        }
    }
}

/// Requests that wait for their retry, by due time.
pub(crate) struct Waiting {
    state: Mutex<WaitingState>,
    max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct WaitingState {
    /// By due time and order of arrival.
    parked: BTreeMap<(u64, u64), Parked>,
    /// Bytes of all requests.
    bytes: usize,
    turn: u64,
    /// The refresher has terminated.
    is_closed: bool,
}

impl Waiting {
    pub(crate) fn new(max: usize, bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            max,
            bytes_max,
        }
    }

    /// Returns whether the request is the first to be due, or the request itself if the limits are reached.
    fn park(&self, due_ns: u64, parked: Parked) -> Result<bool, Parked> {
        let mut state = self.state.lock();
        let bytes = state.bytes + parked.bytes;
        if state.is_closed || state.parked.len() >= self.max || bytes > self.bytes_max {
            return Err(parked);
        }
        state.bytes = bytes;
        state.turn += 1;
        let key = (due_ns, state.turn);
        state.parked.insert(key, parked);
        let first = state.parked.first_key_value().map(|(first, _)| *first);
        Ok(first == Some(key))
    }

    /// Takes the due requests.
    pub(crate) fn take_due(&self, now_ns: u64) -> Vec<Parked> {
        let mut state = self.state.lock();
        let later = state.parked.split_off(&(now_ns, u64::MAX));
        let due = mem::replace(&mut state.parked, later);
        let due: Vec<Parked> = due.into_values().collect();
        state.bytes -= due.iter().map(|it| it.bytes).sum::<usize>();
        due
    }

    /// When the next request is due.
    pub(crate) fn due_ns(&self) -> u64 {
        let state = self.state.lock();
        let first = state.parked.first_key_value();
        first.map_or(u64::MAX, |((due_ns, _), _)| *due_ns)
    }

    /// Takes all requests, and refuses new ones from now on.
    pub(crate) fn close(&self) -> Vec<Parked> {
        let mut state = self.state.lock();
        (state.is_closed, state.bytes) = (true, 0);
        mem::take(&mut state.parked).into_values().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().parked.len()
    }
}
