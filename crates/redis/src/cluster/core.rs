//! What handles, commands under way and the keeper of a cluster share.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use freeboard_meter::{Counter, now_ns};
use freeboard_net::poller::Poller;
use parking_lot::{Condvar, Mutex};

use super::{
    address::Address,
    errand::Errand,
    options::ClusterOptions,
    slot_map::SlotMap,
    snapshot::{ClusterSnapshot, NodeSnapshot},
    topology::{Node, Topology},
    waiting::{Parked, Waiting},
};
use crate::{
    error::{DownReason, RedisError},
    pool::Deadline,
    random,
    reply::{Handed, Reply},
    snapshot::RedisSnapshot,
    sync::{AtomicU64, Ordering},
    unit::Unit,
};

/// One million parts per million: the whole.
const PPM: usize = 1_000_000;

pub(crate) struct Core {
    pub(super) options: ClusterOptions,
    pub(super) topology: Topology,
    pub(super) waiting: Waiting,
    refresh: Mutex<Refresh>,
    /// Told when the slots are known, or cannot be had.
    changed: Condvar,
    /// Has the keeper run.
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Steps of chance.
    turn: AtomicU64,
    moved: Counter,
    asked: Counter,
    retried: Counter,
    refreshed: Counter,
    refresh_failures: Counter,
    replies_refused: Counter,
}

/// Where learning the slots is.
#[derive(Default)]
struct Refresh {
    is_wanted: bool,
    /// What a node answered, until the keeper has seen it.
    answer: Option<Result<SlotMap, RedisError>>,
    /// Whether the slots were ever known.
    is_known: bool,
    /// Why they could not be had the last time.
    error: Option<RedisError>,
}

impl Core {
    pub(crate) fn new(poller: Poller, options: ClusterOptions) -> Self {
        let seed = options.node.seed.unwrap_or_else(random::seed);
        Self {
            topology: Topology::new(poller, options.node.clone()),
            waiting: Waiting::new(options.waiting, options.waiting_bytes),
            options,
            refresh: Mutex::default(),
            changed: Condvar::new(),
            call: OnceLock::new(),
            turn: AtomicU64::new(seed),
            moved: Counter::default(),
            asked: Counter::default(),
            retried: Counter::default(),
            refreshed: Counter::default(),
            refresh_failures: Counter::default(),
            replies_refused: Counter::default(),
        }
    }

    /// Sends a command to where it belongs.
    pub(crate) fn submit(self: &Arc<Self>, unit: Unit, deadline: Deadline, reply: Reply) {
        if unit.is_crossing() {
            let refused = reply.complete(Err(RedisError::CrossSlot));
            self.count_refused(!matches!(refused, Handed::Refused));
            return;
        }
        let deadline_ns = deadline.on_clock(now_ns());
        Errand::new(self.clone(), unit, deadline_ns, reply).go();
    }

    /// Waits until the slots are known and all nodes that have any are up.
    pub(crate) fn wait_up(&self, until: Instant) -> Result<(), RedisError> {
        let mut refresh = self.refresh.lock();
        while !refresh.is_known {
            let is_late = self.changed.wait_until(&mut refresh, until).timed_out();
            match &refresh.error {
                Some(error) if is_late || is_final(error) => return Err(error.clone()),
                None if is_late => return Err(RedisError::Down(DownReason::Connecting)),
                _ => {}
            }
        }
        drop(refresh);
        let nodes = self.topology.nodes().into_iter();
        let mut masters = nodes.filter(|(_, slots)| *slots > 0);
        masters.try_for_each(|(node, _)| node.pool.wait_up(until))
    }

    pub(crate) fn connections(&self) -> RedisSnapshot {
        let nodes = self.topology.nodes().into_iter();
        let lines = nodes.flat_map(|(node, _)| node.pool.snapshot().connections);
        RedisSnapshot {
            connections: lines.collect(),
        }
    }

    pub(super) fn snapshot(&self) -> ClusterSnapshot {
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

/// Whether waiting will hardly help.
fn is_final(error: &RedisError) -> bool {
    match error {
        RedisError::Down(reason) => reason.is_refusal(),
        // It is no cluster.
        RedisError::Server(_) | RedisError::Closed => true,
        _ => false,
    }
}

/// For commands under way.
impl Core {
    pub(super) fn route(&self, slot: Option<u16>) -> Option<Arc<Node>> {
        self.topology.route(slot, self.number())
    }

    fn number(&self) -> u64 {
        // Ordering: Relaxed, each caller gets its own number.
        random::number(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// A slot has moved: where to.
    pub(super) fn moved(&self, slot: u16, to: &Address) -> Option<Arc<Node>> {
        self.moved.add(1);
        self.want_refresh();
        self.topology.moved(slot, to)
    }

    pub(super) fn asked(&self, to: &Address) -> Option<Arc<Node>> {
        self.asked.add(1);
        self.topology.named(to)
    }

    pub(super) fn delay_ns(&self, attempt: u32) -> u64 {
        let jitter_ppm = random::below(self.number(), PPM) as u32;
        self.options.backoff.delay_jittered_ns(attempt, jitter_ppm)
    }

    #[allow(clippy::result_large_err, reason = "what is refused comes back")]
    pub(super) fn park(&self, due_ns: u64, parked: Parked) -> Result<(), Parked> {
        if self.waiting.park(due_ns, parked)? {
            self.call();
        }
        self.retried.add(1);
        Ok(())
    }

    /// An outcome was handed over, or refused by the mailbox that it was for.
    pub(super) fn count_refused(&self, is_taken: bool) {
        self.replies_refused.add(u64::from(!is_taken));
    }

    /// Has the slots asked for, once for all who want it, and not too often.
    pub(super) fn want_refresh(&self) {
        let was_wanted = std::mem::replace(&mut self.refresh.lock().is_wanted, true);
        if !was_wanted {
            self.call();
        }
    }

    fn call(&self) {
        if let Some(call) = self.call.get() {
            call();
        }
    }
}

/// For the keeper.
impl Core {
    pub(super) fn on_call(&self, call: impl Fn() + Send + Sync + 'static) {
        // A second one would be of the same actor.
        let _ = self.call.set(Box::new(call));
    }

    /// Whether the slots are to be asked for: they will be then.
    pub(super) fn take_wanted(&self) -> bool {
        std::mem::take(&mut self.refresh.lock().is_wanted)
    }

    pub(super) fn is_refresh_wanted(&self) -> bool {
        self.refresh.lock().is_wanted
    }

    /// A node has answered.
    pub(super) fn answered(&self, answer: Result<SlotMap, RedisError>) {
        self.refresh.lock().answer = Some(answer);
        self.call();
    }

    pub(super) fn refresh_interval_ns(&self) -> u64 {
        u64::try_from(self.options.refresh_interval.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn take_answer(&self) -> Option<Result<SlotMap, RedisError>> {
        self.refresh.lock().answer.take()
    }

    /// The slots are known, or could not be had.
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
        drop(refresh);
        self.changed.notify_all();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The keeper finds nothing to keep.
        self.call();
    }
}
