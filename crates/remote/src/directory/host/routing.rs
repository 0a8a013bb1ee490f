//! The route of a message through a host: to an activation here, to another node, or to the messages that wait for a claim.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use freeboard_actor::{Actor, Context, DirectoryError};
use freeboard_platform::clock;

use super::{Host, Outcome, Ownership, Waiting};
use crate::{
    directory::{
        RemoteKey, choose, host_subject, partition_of, peer_options,
        routed::{Owned, Routed, RoutedReply},
    },
    error::{Failure, RemoteAskError},
    message,
    node::Node,
    wire::NodeId,
};

/// Messages that wait for claims, of all partitions.
const WAITING_MAX: usize = 4_096;
/// Nodes that may choose where the message to a partition without a keeper goes.
const CHOICES_MAX: u8 = 2;
/// Nodes that a message may come through.
const HOPS_MAX: u8 = 4;

impl<K: RemoteKey, A: Actor> Host<K, A> {
    pub(super) fn route(&mut self, mut routed: Routed, reply: RoutedReply, cx: &mut Context<Self>) {
        let index = partition_of(&routed.key, self.shared.partitions);
        let since_ns = clock::now_ns();
        match &mut self.partitions[index as usize].ownership {
            Ownership::Kept(owned) => {
                let owned = owned.clone();
                self.deliver(&owned, routed, reply, cx);
                return;
            }
            Ownership::Claiming(waiting) | Ownership::Releasing(_, waiting) => {
                if self.shared.waiting.load(Ordering::Relaxed) >= WAITING_MAX as u64 {
                    self.refuse(reply, Failure::Full);
                    return;
                }
                self.shared.waiting.fetch_add(1, Ordering::Relaxed);
                waiting.push_back((routed, reply, since_ns));
                self.later(cx);
                return;
            }
            Ownership::Free => {}
        }
        let keeper = self.partitions[index as usize].entry.as_ref();
        let keeper = keeper.map(|(_, lease)| lease.node.clone());
        let to = match keeper {
            Some(node) if node != self.node.id && self.node.table.is_up(&node) => Some(node),
            // Nodes may choose differently for a while: then the third one that is asked takes it over. Not the second one,
            // which may have just given the partition up, while messages to it were under way.
            Some(_) | None if routed.hops >= CHOICES_MAX => None,
            Some(_) | None => {
                let chosen = choose(index, self.live_hosts().into_iter());
                let chosen = chosen.filter(|name| *name != self.node.id.name);
                chosen.and_then(|name| self.hosts.get(name).cloned())
            }
        };
        match to {
            Some(node) if routed.hops < HOPS_MAX => {
                routed.hops += 1;
                self.forward(&node, routed, reply, cx);
            }
            Some(_) => self.refuse(reply, Failure::Stale("too many nodes".to_owned())),
            None if self.sends_only && routed.hops >= CHOICES_MAX => {
                self.refuse(reply, Failure::Stale("the node keeps no keys".to_owned()));
            }
            None if self.has_left || self.is_leaving.is_some() => {
                let why = "the node leaves, and no other takes part".to_owned();
                self.refuse(reply, Failure::Down(why));
            }
            None => {
                let waiting = VecDeque::from([(routed, reply, since_ns)]);
                self.shared.waiting.fetch_add(1, Ordering::Relaxed);
                self.partitions[index as usize].ownership = Ownership::Claiming(waiting);
                self.claim(index, cx);
                self.later(cx);
            }
        }
    }

    fn refuse(&self, reply: RoutedReply, failure: Failure) {
        self.shared.refused.add(1);
        reply.reply(Err(failure));
    }

    fn deliver(
        &mut self,
        owned: &Arc<Owned<K, A>>,
        routed: Routed,
        reply: RoutedReply,
        cx: &mut Context<Self>,
    ) {
        let Some(until_ns) = owned.fence.valid_until_ns() else {
            self.refuse(reply, Failure::Stale("the lease is over".to_owned()));
            return;
        };
        let key = match message::decode::<K>(&routed.key) {
            Ok(key) => key,
            Err(failure) => {
                self.refuse(reply, failure);
                return;
            }
        };
        let deliver = match self.accepts.find(&routed) {
            Ok(deliver) => deliver,
            Err(failure) => {
                self.refuse(reply, failure);
                return;
            }
        };
        let mut reply = reply;
        loop {
            let actor = match owned.directory.get(&key) {
                Ok(actor) => actor,
                Err(DirectoryError::Closed) => {
                    self.refuse(reply, Failure::Down("this node has left".to_owned()));
                    return;
                }
                Err(_) => {
                    self.refuse(reply, Failure::Full);
                    return;
                }
            };
            if actor.depth() >= self.shared.mailbox.bound() {
                self.refuse(reply, Failure::Full);
                return;
            }
            reply = match deliver(&actor, &routed, until_ns, reply, cx) {
                Ok(()) => {
                    self.shared.delivered.add(1);
                    return;
                }
                // It was passivated since: the next activation gets the message.
                Err((reply, Failure::Stale(_))) => reply,
                Err((reply, failure)) => {
                    self.refuse(reply, failure);
                    return;
                }
            };
        }
    }

    fn forward(
        &mut self,
        node: &NodeId,
        routed: Routed,
        reply: RoutedReply,
        cx: &mut Context<Self>,
    ) {
        if !self.peers.contains_key(node) {
            let subject = host_subject(&self.node, &self.name, node);
            let name = format!("{}@{}", self.name, node.name);
            let owner = Node {
                inner: self.node.clone(),
            };
            match owner.remote_at::<Routed>(&name, subject, peer_options(self.waiting)) {
                Ok(peer) => {
                    self.peers.insert(node.clone(), peer);
                }
                Err(error) => {
                    self.refuse(reply, Failure::Down(error.to_string()));
                    return;
                }
            }
        }
        let peer = &self.peers[node];
        if !reply.is_wanted() {
            // `try`: the host waits for no single node.
            match peer.try_tell(routed) {
                Ok(()) => self.shared.forwarded.add(1),
                Err(_) => self.shared.refused.add(1),
            }
            return;
        }
        // An ask that waits here would hold up all others.
        if peer.depth() >= self.waiting.bound() {
            self.refuse(reply, Failure::Full);
            return;
        }
        let deadline = reply.deadline();
        let asked = peer.ask_into(routed, deadline, cx, move |outcome| Outcome {
            reply,
            outcome: flatten(outcome),
        });
        match asked {
            Ok(()) => self.shared.forwarded.add(1),
            Err(outcome) => {
                self.shared.refused.add(1);
                outcome.reply.reply(outcome.outcome);
            }
        }
    }

    pub(super) fn route_again(&mut self, waiting: Waiting, cx: &mut Context<Self>) {
        for (routed, reply, _) in waiting {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.route(routed, reply, cx);
        }
    }

    /// Messages that have waited too long for a claim get an error.
    pub(super) fn expire(&mut self) {
        let wait_ns = 2 * self.plan.ttl.as_nanos() as u64;
        let oldest_ns = clock::now_ns().saturating_sub(wait_ns);
        let mut expired = Vec::new();
        for partition in &mut self.partitions {
            if let Ownership::Claiming(waiting) | Ownership::Releasing(_, waiting) =
                &mut partition.ownership
            {
                while waiting.front().is_some_and(|it| it.2 < oldest_ns) {
                    expired.extend(waiting.pop_front());
                }
                if waiting.is_empty() && matches!(partition.ownership, Ownership::Claiming(_)) {
                    partition.ownership = Ownership::Free;
                }
            }
        }
        let why = self.shared.trouble();
        let why = why.unwrap_or_else(|| "the partition could not be claimed in time".to_owned());
        for (_, reply, _) in expired {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.refuse(reply, Failure::Down(why.clone()));
        }
    }
}

fn flatten(outcome: Result<Result<Bytes, Failure>, RemoteAskError>) -> Result<Bytes, Failure> {
    match outcome {
        Ok(outcome) => outcome,
        Err(error) => Err(error.into()),
    }
}
