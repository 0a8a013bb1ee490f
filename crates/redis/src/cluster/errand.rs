//! One command on its way through a cluster, over all its tries.
//!
//! ```text
//!          ┌────────────── due ─────────── waiting ◀── TRYAGAIN, CLUSTERDOWN, still connecting
//!          ▼                                              │
//!   go: the slot's node ──▶ sent ──▶ outcome ─────────────┤
//!          ▲                                              ├── MOVED, ASK ──▶ sent to the node it names
//!          └ any, without a slot                          └── all else ────▶ the caller's
//! ```
//!
//! The deadline holds for all tries together. What may have been carried out is never tried again: a
//! redirection says that it was not.

use std::sync::Arc;

use freeboard_meter::now_ns;

use super::{
    core::Core,
    redirection::{Redirection, as_error},
    topology::Node,
    waiting::Parked,
};
use crate::{
    error::{DownReason, RedisError},
    pool::Deadline,
    protocol::Value,
    reply::{Handed, Reply},
    unit::{Several, Unit},
};

type Outcome = Result<Value, RedisError>;

/// A command, or unit, and who waits for its outcome.
pub(crate) struct Errand {
    core: Arc<Core>,
    unit: Arc<Unit>,
    deadline_ns: u64,
    reply: Reply,
    redirections: u32,
    retries: u32,
}

impl Errand {
    pub(crate) fn new(core: Arc<Core>, unit: Unit, deadline_ns: u64, reply: Reply) -> Self {
        Self {
            core,
            unit: Arc::new(unit),
            deadline_ns,
            reply,
            redirections: 0,
            retries: 0,
        }
    }

    /// Its bytes on the wire, or a few more.
    pub(super) fn bytes(&self) -> usize {
        self.unit.len_max()
    }

    /// Sends it to the node that has its slot, as far as is known.
    pub(crate) fn go(self) {
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

    /// What became of a try. Whether the outcome, if it is one, has found its way.
    fn settle(mut self, node: &Node, is_asking: bool, outcome: Outcome) -> bool {
        let outcome = match outcome {
            Ok(value) if is_asking => Ok(self.without_asking(value)),
            outcome => outcome,
        };
        let outcome = match outcome {
            Ok(Value::Array(replies)) => Ok(Value::Array(self.keep_what_is_done(node, replies))),
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

    /// Leaves out the replies to `ASKING`.
    fn without_asking(&self, replies: Value) -> Value {
        let Value::Array(mut replies) = replies else {
            return replies;
        };
        match &*self.unit {
            Unit::One(_) => replies.pop().unwrap_or(Value::Null),
            Unit::Several(several) if several.is_atomic() => Value::Array(replies.split_off(1)),
            Unit::Several(_) => Value::Array(replies.into_iter().skip(1).step_by(2).collect()),
        }
    }

    /// Of a pipeline some commands may be carried out and others not: from here on it is only those, and
    /// the replies of the others are put before its outcome.
    fn keep_what_is_done(&mut self, node: &Node, replies: Vec<Value>) -> Vec<Value> {
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
        if several.is_atomic() || left.is_empty() || left.len() == replies.len() {
            return replies;
        }
        let part: Several = several.part(&left);
        let refusals = left.iter().map(|&index| replies[index].clone()).collect();
        self.unit = Arc::new(Unit::Several(part));
        let reply = std::mem::replace(&mut self.reply, Reply::Call(Box::new(|_| true)));
        self.reply = put_together(reply, replies, left);
        refusals
    }

    fn follow(mut self, redirection: Redirection, outcome: Outcome) -> bool {
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
            // There are too many nodes, or the system ends.
            None => self.deliver(outcome),
        }
    }

    fn try_later(mut self, outcome: Outcome) -> bool {
        let core = self.core.clone();
        if self.retries >= core.options.retries {
            return self.deliver(outcome);
        }
        let due_ns = now_ns().saturating_add(core.delay_ns(self.retries));
        if due_ns >= self.deadline_ns {
            // What the server says is more than that it is late.
            return self.deliver(outcome);
        }
        self.retries += 1;
        let errand = self;
        match core.park(due_ns, Parked { errand, outcome }) {
            Ok(()) => true,
            Err(Parked { errand, outcome }) => errand.deliver(outcome),
        }
    }

    /// Hands the outcome over. Whether it was taken.
    pub(crate) fn deliver(self, outcome: Outcome) -> bool {
        !matches!(self.reply.complete(outcome), Handed::Refused)
    }
}

/// Who gets all replies of a pipeline, of which those at `left` are still to come.
fn put_together(reply: Reply, mut replies: Vec<Value>, left: Vec<usize>) -> Reply {
    Reply::Call(Box::new(move |outcome: Outcome| {
        let outcome = match outcome {
            Ok(Value::Array(parts)) => {
                for (index, part) in left.into_iter().zip(parts) {
                    replies[index] = part;
                }
                Ok(Value::Array(replies))
            }
            // They were not carried out, which the refusals say that are there already.
            Err(error) if error.is_unsent() => Ok(Value::Array(replies)),
            outcome => outcome,
        };
        !matches!(reply.complete(outcome), Handed::Refused)
    }))
}
