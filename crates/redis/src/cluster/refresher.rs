//! The actor that refreshes a cluster's slot map, retries requests when they are due, and moves subscriptions whose
//! nodes are gone.
//!
//! It queries one node at a time, on request, and at most once per refresh interval. After a failure it
//! queries the next node, sooner, with back-off.

use std::sync::{Arc, Weak};

use freeboard_actor::{Actor, Context};
use freeboard_meter::now_ns;
use freeboard_net::Alarm;

use super::{
    answers::{Address, SlotMap},
    core::{Core, Resume},
};
use crate::{
    command::Command,
    error::{DownReason, RedisError},
    in_flight::Awaits,
    options::nanos,
    pool::Deadline,
    reply::Reply,
};

pub(crate) struct TopologyRefresher {
    /// Kept alive by handles and requests; without them there is nothing to do.
    core: Weak<Core>,
    /// Whether a query is in flight.
    is_asking: bool,
    /// Earliest time of the next query.
    next_ns: u64,
    /// Failures since the last success.
    failures: u32,
    /// Index of the next node.
    turn: usize,
    /// When to check the nodes of the subscriptions.
    check_ns: u64,
    alarm: Alarm,
}

impl TopologyRefresher {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::downgrade(core),
            is_asking: false,
            next_ns: 0,
            failures: 0,
            turn: 0,
            check_ns: 0,
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
            (parked.resume)(Resume::Retry);
        }
        let is_waiting = !self.is_asking && core.is_refresh_wanted();
        let refresh_ns = if is_waiting { self.next_ns } else { u64::MAX };
        let mut due_ns = refresh_ns.min(core.waiting.due_ns());
        if !core.subscriptions.is_empty() {
            if self.check_ns <= now_ns {
                core.subscriptions.place(&core.masters());
                self.check_ns = now_ns.saturating_add(nanos(core.options.refresh_interval));
            }
            due_ns = due_ns.min(self.check_ns);
        }
        // Without a timer, the next run tries again.
        let _ = self.alarm.set(due_ns, cx, Self::alarmed);
    }

    fn alarmed(&mut self, cx: &mut Context<Self>) {
        self.alarm.fired();
        self.run(cx);
    }

    /// Queries the next node that is up.
    fn ask(&mut self, core: &Arc<Core>, now_ns: u64) {
        self.next_ns = now_ns.saturating_add(nanos(core.options.refresh_interval));
        if self.failures > 0 || self.turn == 0 {
            // All known nodes may have been replaced.
            let seeds = core.options.seeds.iter();
            core.topology.add(seeds.map(|(host, port)| Address {
                host: host.clone(),
                port: *port,
            }));
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
        let command = Command::new("CLUSTER").arg("SLOTS");
        let deadline = Deadline::After(core.options.node.timeout);
        pool.submit(&command, Awaits::Reply, deadline, reply);
    }

    fn learn(&mut self, core: &Arc<Core>, answer: Result<SlotMap, RedisError>) {
        let outcome = answer.map(|map| core.topology.replace(map));
        if outcome.is_ok() {
            (self.failures, self.check_ns) = (0, 0);
        } else {
            let delay_ns = core.delay_ns(self.failures);
            let delay_ns = delay_ns.min(nanos(core.options.refresh_interval));
            self.next_ns = now_ns().saturating_add(delay_ns);
            self.failures = self.failures.saturating_add(1);
            core.want_refresh();
        }
        core.refreshed(outcome);
    }
}

/// The first node's reason that is not `Connecting`.
fn why_none_is_up(core: &Core) -> RedisError {
    let nodes = core.topology.nodes();
    let errors = nodes
        .iter()
        .filter_map(|(node, _)| node.pool.check_up().err());
    let is_connecting = |error: &RedisError| *error == RedisError::Down(DownReason::Connecting);
    let connecting = RedisError::Down(DownReason::Connecting);
    errors
        .into_iter()
        .find(|error| !is_connecting(error))
        .unwrap_or(connecting)
}

impl Actor for TopologyRefresher {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(core) = self.core.upgrade() {
            core.topology.begin(cx.system());
            core.set_waker(cx.waker_fn(|refresher: &mut Self, cx| refresher.run(cx)));
            core.want_refresh();
        }
        self.run(cx);
    }
}

/// When the actor terminates, parked requests get their outcome.
impl Drop for TopologyRefresher {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            for parked in core.waiting.close() {
                (parked.resume)(Resume::GiveUp);
            }
            core.refreshed(Err(RedisError::Closed));
        }
    }
}
