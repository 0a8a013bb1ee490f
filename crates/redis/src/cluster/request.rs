//! One request to a cluster, over all its tries.
//!
//! ```text
//!          ┌────────────── due ─────────── waiting ◀── TRYAGAIN, CLUSTERDOWN, still connecting
//!          ▼                                              │
//!   send: the slot's node ─▶ sent ──▶ outcome ────────────┤
//!          ▲                                              ├── MOVED, ASK ──▶ sent to the node it names
//!          └ any, without a slot                          └── all else ────▶ the caller's
//! ```
//!
//! The deadline covers all tries. A command that may have been executed is never retried; a redirection means
//! that it was not executed.

use std::sync::Arc;

use freeboard_meter::now_ns;

use super::{
    answers::{Redirection, as_error},
    core::Core,
    topology::Node,
};
use crate::{
    error::{DownReason, RedisError},
    pipeline::{Several, Unit},
    pool::Deadline,
    protocol::Value,
    reply::{Delivered, Reply, ReplyResult},
};

/// Sends a unit to the node that owns its keys.
pub(crate) fn submit(core: &Arc<Core>, unit: Unit, deadline: Deadline, reply: Reply) {
    if unit.is_crossing() {
        let refused = reply.complete(Err(RedisError::CrossSlot));
        core.count_refused(!matches!(refused, Delivered::Refused));
        return;
    }
    let request = ClusterRequest {
        core: core.clone(),
        unit: Arc::new(unit),
        deadline_ns: deadline.on_clock(now_ns()),
        reply,
        redirections: 0,
        retries: 0,
    };
    request.send();
}

/// A request that waits for its retry, and its outcome if it is not retried.
pub(crate) struct Parked {
    pub(crate) request: ClusterRequest,
    pub(crate) outcome: ReplyResult,
}

/// A command or unit, and the receiver of its outcome. It keeps the core alive until it has its outcome.
pub(crate) struct ClusterRequest {
    core: Arc<Core>,
    unit: Arc<Unit>,
    deadline_ns: u64,
    reply: Reply,
    redirections: u32,
    retries: u32,
}

impl ClusterRequest {
    /// Upper bound of its bytes on the wire.
    pub(super) fn bytes(&self) -> usize {
        self.unit.len_max()
    }

    /// Sends it to the owner of its slot in the current slot map.
    pub(crate) fn send(self) {
        match self.core.route(self.unit.slot()) {
            Some(node) => self.send_to(node, false),
            None => {
                let outcome = Err(RedisError::Down(DownReason::Connecting));
                let core = self.core.clone();
                core.count_refused(self.try_later(outcome));
            }
        }
    }

    fn send_to(self, node: Arc<Node>, is_asking: bool) {
        let unit = self.unit.clone();
        let deadline = Deadline::Fixed(self.deadline_ns);
        let pool = node.pool.clone();
        let settle = move |outcome| self.settle(&node, is_asking, outcome);
        let reply = Reply::Call(Box::new(settle));
        if is_asking {
            pool.submit(&unit.asking(), deadline, reply);
        } else {
            pool.submit(&unit, deadline, reply);
        }
    }

    /// Handles the result of a try. Returns `false` if the recipient refused the final outcome.
    fn settle(mut self, node: &Node, is_asking: bool, outcome: ReplyResult) -> bool {
        let outcome = match outcome {
            Ok(value) if is_asking => Ok(self.without_asking(value)),
            outcome => outcome,
        };
        let outcome = match outcome {
            Ok(Value::Array(replies)) => Ok(Value::Array(self.keep_executed(node, replies))),
            Err(RedisError::Down(reason)) => {
                self.core.want_refresh();
                let is_new = reason == DownReason::Connecting;
                let outcome = Err(RedisError::Down(reason));
                return if is_new {
                    self.try_later(outcome)
                } else {
                    self.deliver(outcome)
                };
            }
            outcome => outcome,
        };
        let redirection = match &outcome {
            Ok(value) => Redirection::of_reply(&self.unit, value, &node.address),
            Err(_) => None,
        };
        match redirection {
            None => self.deliver(outcome),
            Some(Redirection::Later) => {
                self.core.want_refresh();
                self.try_later(outcome)
            }
            Some(redirection) => self.follow(redirection, outcome),
        }
    }

    /// Removes the replies to `ASKING`.
    fn without_asking(&self, replies: Value) -> Value {
        let Value::Array(mut replies) = replies else {
            return replies;
        };
        match &*self.unit {
            Unit::One(_) => replies.pop().unwrap_or(Value::Null),
            Unit::Several(_) => Value::Array(replies.into_iter().skip(1).step_by(2).collect()),
        }
    }

    /// If a node executed only some commands of a pipeline, keeps their replies and reduces the request to the
    /// other commands. Returns the replies of those.
    fn keep_executed(&mut self, node: &Node, replies: Vec<Value>) -> Vec<Value> {
        let Unit::Several(several) = &*self.unit else {
            return replies;
        };
        let is_left = |reply: &Value| {
            let error = as_error(reply);
            error.is_some_and(|error| Redirection::of(error, &node.address).is_some())
        };
        let left: Vec<usize> = (0..replies.len())
            .filter(|&it| is_left(&replies[it]))
            .collect();
        if left.is_empty() || left.len() == replies.len() {
            return replies;
        }
        let part: Several = several.part(&left);
        let refusals = left.iter().map(|&index| replies[index].clone()).collect();
        self.unit = Arc::new(Unit::Several(part));
        let reply = std::mem::replace(&mut self.reply, Reply::Call(Box::new(|_| true)));
        self.reply = merge_replies(reply, replies, left);
        refusals
    }

    fn follow(mut self, redirection: Redirection, outcome: ReplyResult) -> bool {
        if self.redirections >= self.core.options.redirections {
            return self.deliver(match outcome {
                Ok(Value::Error(error)) => Err(RedisError::TooManyRedirections(error)),
                outcome => outcome,
            });
        }
        self.redirections += 1;
        let core = self.core.clone();
        let (node, is_asking) = match &redirection {
            Redirection::Moved { slot, to } => (core.moved(*slot, to), false),
            Redirection::Ask { to } => (core.asked(to), true),
            Redirection::Later => (None, false),
        };
        match node {
            Some(node) => {
                self.send_to(node, is_asking);
                true
            }
            // Too many nodes, or the system is shutting down.
            None => self.deliver(outcome),
        }
    }

    fn try_later(mut self, outcome: ReplyResult) -> bool {
        let core = self.core.clone();
        if self.retries >= core.options.retries {
            return self.deliver(outcome);
        }
        let due_ns = now_ns().saturating_add(core.delay_ns(self.retries));
        if due_ns >= self.deadline_ns {
            // The server's error says more than a timeout would.
            return self.deliver(outcome);
        }
        self.retries += 1;
        let parked = Parked {
            request: self,
            outcome,
        };
        match core.park(due_ns, parked) {
            Ok(()) => true,
            Err(Parked { request, outcome }) => request.deliver(outcome),
        }
    }

    /// Delivers the outcome. Returns whether it was accepted.
    pub(crate) fn deliver(self, outcome: ReplyResult) -> bool {
        !matches!(self.reply.complete(outcome), Delivered::Refused)
    }
}

/// A receiver that inserts the replies at `left` into a pipeline's replies, and delivers all.
fn merge_replies(reply: Reply, mut replies: Vec<Value>, left: Vec<usize>) -> Reply {
    Reply::Call(Box::new(move |outcome: ReplyResult| {
        let outcome = match outcome {
            Ok(Value::Array(parts)) => {
                for (index, part) in left.into_iter().zip(parts) {
                    replies[index] = part;
                }
                Ok(Value::Array(replies))
            }
            // Not executed: the redirection errors in `replies` already say so.
            Err(error) if error.is_unsent() => Ok(Value::Array(replies)),
            outcome => outcome,
        };
        !matches!(reply.complete(outcome), Delivered::Refused)
    }))
}
