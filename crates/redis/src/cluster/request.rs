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
    answers::{Address, Redirection},
    core::{Core, Parked, Resume},
    topology::Node,
};
use crate::{
    command::Command,
    error::{DownReason, RedisError},
    in_flight::Awaits,
    pool::Deadline,
    protocol::Value,
    reply::{Reply, ReplyResult},
};

/// Limit of redirections of a command (`MOVED`, `ASK`).
const REDIRECTIONS_MAX: u32 = 5;
/// Limit of retries of a command (`TRYAGAIN`, `CLUSTERDOWN`, a node that is still connecting).
const RETRIES_MAX: u32 = 16;

/// Sends a command to the node that owns its keys.
pub(crate) fn submit(core: &Arc<Core>, command: Command, deadline: Deadline, reply: Reply) {
    if command.is_crossing() {
        let refused = reply.complete(Err(RedisError::CrossSlot));
        core.count_refused(refused.is_accepted());
        return;
    }
    let request = ClusterRequest {
        core: core.clone(),
        command: Arc::new(command),
        deadline_ns: deadline.on_clock(now_ns()),
        reply,
        redirections: 0,
        retries: 0,
    };
    request.send();
}

/// Where a command was sent, and how.
type Sent = (Arc<Node>, Awaits);

/// A command, and the receiver of its outcome. It keeps the core alive until it has its outcome.
struct ClusterRequest {
    core: Arc<Core>,
    command: Arc<Command>,
    deadline_ns: u64,
    reply: Reply,
    redirections: u32,
    retries: u32,
}

impl ClusterRequest {
    /// Sends it to the owner of its slot in the current slot map.
    fn send(self) {
        match self.core.route(self.command.slot()) {
            Some(node) => self.send_to(node, Awaits::Reply),
            None => {
                let outcome = Err(RedisError::Down(DownReason::Connecting));
                let core = self.core.clone();
                core.count_refused(self.try_later(outcome, None));
            }
        }
    }

    fn send_to(self, node: Arc<Node>, awaits: Awaits) {
        let command = self.command.clone();
        let deadline = Deadline::Fixed(self.deadline_ns);
        let pool = node.pool.clone();
        let settle = move |outcome| self.settle((node, awaits), outcome);
        pool.submit(&command, awaits, deadline, Reply::Call(Box::new(settle)));
    }

    /// Handles the result of a try. Returns `false` if the recipient refused the final outcome.
    fn settle(self, (node, awaits): Sent, outcome: ReplyResult) -> bool {
        let redirection = match &outcome {
            Ok(Value::Error(error)) => Redirection::of(error, &node.address),
            Err(RedisError::Down(reason)) => {
                self.core.want_refresh();
                if *reason == DownReason::Connecting {
                    // The node is new. The slot map may not name it yet, and would only lead here again.
                    return self.try_later(outcome, Some((node, awaits)));
                }
                None
            }
            _ => None,
        };
        match redirection {
            None => self.deliver(outcome),
            Some(Redirection::Later) => {
                self.core.want_refresh();
                self.try_later(outcome, None)
            }
            Some(Redirection::To { node, moved }) => self.follow(outcome, &node, moved),
        }
    }

    /// `moved` is the slot that the node owns now. Without it, the slot is only moving there.
    fn follow(mut self, outcome: ReplyResult, to: &Address, moved: Option<u16>) -> bool {
        if self.redirections >= REDIRECTIONS_MAX {
            return self.deliver(match outcome {
                Ok(Value::Error(error)) => Err(RedisError::TooManyRedirections(error)),
                outcome => outcome,
            });
        }
        self.redirections += 1;
        match self.core.redirected(to, moved) {
            Some(node) => {
                self.send_to(
                    node,
                    moved.map_or(Awaits::ReplyAfterAsking, |_| Awaits::Reply),
                );
                true
            }
            // Too many nodes, or the system is shutting down.
            None => self.deliver(outcome),
        }
    }

    /// Sends it again after a while: to this node, or to the owner of its slot then.
    fn try_later(mut self, outcome: ReplyResult, to: Option<Sent>) -> bool {
        if self.retries >= RETRIES_MAX {
            return self.deliver(outcome);
        }
        let due_ns = now_ns().saturating_add(self.core.delay_ns(self.retries));
        if due_ns >= self.deadline_ns {
            // The server's error says more than a timeout would.
            return self.deliver(outcome);
        }
        self.retries += 1;
        let core = self.core.clone();
        let bytes = self.command.encoded_len_max();
        let resume = move |resume| match resume {
            Resume::Retry => match to {
                Some((node, awaits)) => self.send_to(node, awaits),
                None => self.send(),
            },
            Resume::GiveUp => {
                let core = self.core.clone();
                core.count_refused(self.deliver(outcome));
            }
        };
        core.park(due_ns, Parked::new(bytes, resume));
        true
    }

    /// Delivers the outcome. Returns whether it was accepted.
    fn deliver(self, outcome: ReplyResult) -> bool {
        self.reply.complete(outcome).is_accepted()
    }
}
