//! The actor that keeps a cluster's topology, and tries commands again when they are due.
//!
//! It asks one node at a time for the slots: when somebody wants it, at the earliest so long after the
//! last time as the options say; after a failure the next node, sooner, with back-off.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use freeboard_actor::{Actor, Context};
use freeboard_meter::now_ns;

use super::{core::Core, slot_map::SlotMap};
use crate::{
    alarm::Alarm,
    command::Command,
    error::{DownReason, RedisError},
    pool::Deadline,
    reply::Reply,
    unit::Unit,
};

pub(crate) struct Keeper {
    /// Handles and commands under way keep it; without them there is nothing to do.
    core: Weak<Core>,
    /// Whether a node was asked and has not answered.
    is_asking: bool,
    /// When the next one may be asked.
    next_ns: u64,
    /// Failures since the slots were last known.
    failures: u32,
    /// Which node is next.
    turn: usize,
    alarm: Alarm,
}

impl Keeper {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::downgrade(core),
            is_asking: false,
            next_ns: 0,
            failures: 0,
            turn: 0,
            alarm: Alarm::default(),
        }
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        let Some(core) = self.core.upgrade() else {
            return cx.stop();
        };
        if let Some(answer) = core.take_answer() {
            self.is_asking = false;
            self.learn(&core, answer);
        }
        let now_ns = now_ns();
        let may_ask = !self.is_asking && self.next_ns <= now_ns;
        if may_ask && core.take_wanted() {
            self.ask(&core, now_ns);
        }
        for parked in core.waiting.take_due(now_ns) {
            parked.errand.go();
        }
        let is_waiting = !self.is_asking && core.is_refresh_wanted();
        let refresh_ns = if is_waiting { self.next_ns } else { u64::MAX };
        let due_ns = refresh_ns.min(core.waiting.due_ns());
        self.alarm.set(due_ns, now_ns, cx, Self::alarmed);
    }

    fn alarmed(&mut self, cx: &mut Context<Self>) {
        self.alarm.fired();
        self.run(cx);
    }

    /// Asks the next node that is up.
    fn ask(&mut self, core: &Arc<Core>, now_ns: u64) {
        self.next_ns = now_ns.saturating_add(core.refresh_interval_ns());
        if self.failures > 0 || self.turn == 0 {
            // Whoever is known may be gone, all of them.
            core.topology.add(core.options.seed_addresses());
        }
        let nodes = core.topology.nodes();
        self.turn = self.turn.wrapping_add(1);
        let in_turn = nodes.iter().cycle().skip(self.turn % nodes.len().max(1));
        let mut in_turn = in_turn.take(nodes.len()).map(|(node, _)| node);
        let Some(node) = in_turn.find(|node| node.pool.is_up()).cloned() else {
            return self.learn(core, Err(why_none_is_up(core)));
        };
        self.is_asking = true;
        let asking = Arc::downgrade(core);
        let pool = node.pool.clone();
        let reply = Reply::Call(Box::new(move |outcome| {
            let answer = outcome.and_then(|answer| SlotMap::read(answer, &node.address));
            if let Some(core) = asking.upgrade() {
                core.answered(answer);
            }
            true
        }));
        let unit = Unit::One(Command::new("CLUSTER").arg("SLOTS"));
        let deadline = Deadline::After(core.options.node.timeout);
        pool.submit(&unit, deadline, reply);
    }

    fn learn(&mut self, core: &Arc<Core>, answer: Result<SlotMap, RedisError>) {
        let outcome = answer.map(|map| core.topology.replace(map));
        if outcome.is_ok() {
            self.failures = 0;
        } else {
            let delay_ns = core.delay_ns(self.failures).min(core.refresh_interval_ns());
            self.next_ns = now_ns().saturating_add(delay_ns);
            self.failures = self.failures.saturating_add(1);
            core.want_refresh();
        }
        core.refreshed(outcome);
    }
}

/// What the first node says that can say why; a refusal rather than that it is still being tried.
fn why_none_is_up(core: &Core) -> RedisError {
    let nodes = core.topology.nodes();
    let now = Instant::now();
    let errors = nodes
        .iter()
        .filter_map(|(node, _)| node.pool.wait_up(now).err());
    let is_connecting = |error: &RedisError| *error == RedisError::Down(DownReason::Connecting);
    let connecting = RedisError::Down(DownReason::Connecting);
    errors
        .into_iter()
        .find(|error| !is_connecting(error))
        .unwrap_or(connecting)
}

impl Actor for Keeper {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(core) = self.core.upgrade() {
            core.topology.begin(cx.system());
            core.on_call(cx.waker_fn(|keeper: &mut Self, cx| keeper.run(cx)));
            core.want_refresh();
        }
        self.run(cx);
    }
}

/// However it ends, what it would have tried again has its outcome.
impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            for parked in core.waiting.close() {
                core.count_refused(parked.errand.deliver(parked.outcome));
            }
            core.refreshed(Err(RedisError::Closed));
        }
    }
}
