//! A message on its way to an activation, and what other threads read of a node's part of a directory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use freeboard_actor::{Actor, ActorRef, AskError, Context, Deferred, Receives, TellError};
use freeboard_flow::{Epoch, LaneConfig};
use freeboard_meter::Counter;
use freeboard_platform::clock;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use super::{
    Part, RemoteDirectoryCounters, RemoteDirectoryOptions, RemoteKey,
    host::{Host, Outcome},
    partition_of,
};
use crate::{
    error::Failure,
    lease::{Fence, LeaseShared},
    message::{self, RemoteMessage},
};

/// A message to the activation of a key, between the hosts of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Routed {
    pub(crate) key: Bytes,
    pub(crate) type_name: String,
    pub(crate) type_version: u32,
    pub(crate) payload: Bytes,
    /// Nodes that it has come through.
    pub(crate) hops: u8,
}

impl Routed {
    pub(crate) fn new<M: RemoteMessage>(key: Bytes, payload: Bytes) -> Self {
        Self {
            key,
            type_name: M::NAME.to_owned(),
            type_version: M::VERSION,
            payload,
            hops: 0,
        }
    }
}

impl RemoteMessage for Routed {
    const NAME: &'static str = "freeboard.directory";
    const VERSION: u32 = 1;
    type Reply = Result<Bytes, Failure>;
}

pub(crate) type RoutedReply = Deferred<Result<Bytes, Failure>>;

type Deliver<K, A> =
    fn(&ActorRef<A>, &Routed, u64, RoutedReply, &mut Context<Host<K, A>>) -> Result<(), Refused>;

/// A message that was not delivered: its reply port, and why. [`Failure::Stale`]: the activation takes no more messages.
pub(crate) type Refused = (RoutedReply, Failure);

/// The message types that come over the network, by name.
pub(crate) struct Accepts<K: RemoteKey, A: Actor>(BTreeMap<&'static str, (u32, Deliver<K, A>)>);

impl<K: RemoteKey, A: Actor> Default for Accepts<K, A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: RemoteKey, A: Actor> Accepts<K, A> {
    pub(crate) fn add<M: RemoteMessage>(&mut self)
    where
        A: Receives<M, Reply = M::Reply>,
    {
        self.0.insert(M::NAME, (M::VERSION, deliver::<K, A, M>));
    }

    pub(crate) fn find(&self, routed: &Routed) -> Result<Deliver<K, A>, Failure> {
        match self.0.get(routed.type_name.as_str()) {
            Some((version, deliver)) if *version == routed.type_version => Ok(*deliver),
            Some((version, _)) => Err(Failure::Unknown(format!(
                "the directory takes version {version} of `{}`",
                routed.type_name
            ))),
            None => Err(Failure::Unknown(format!(
                "the directory takes no messages `{}`",
                routed.type_name
            ))),
        }
    }
}

/// Gives a message to an activation of this node; the reply is sent when the handler has replied. The message ends with the
/// lease, so one that waited in the mailbox of a paused process is not handled.
fn deliver<K: RemoteKey, A: Actor + Receives<M, Reply = M::Reply>, M: RemoteMessage>(
    actor: &ActorRef<A>,
    routed: &Routed,
    lease_until_ns: u64,
    reply: RoutedReply,
    cx: &mut Context<Host<K, A>>,
) -> Result<(), Refused> {
    let msg = match message::decode::<M>(&routed.payload) {
        Ok(msg) => msg,
        Err(failure) => return Err((reply, failure)),
    };
    let deadline_ns = reply.deadline().map_or(u64::MAX, clock::from_instant);
    let until = clock::to_instant(deadline_ns.min(lease_until_ns));
    let ask = actor.ask(msg).deadline(until);
    if !reply.is_wanted() {
        return ask.tell().map_err(|error| (reply, failure(&error)));
    }
    let into_outcome = move |outcome: Result<M::Reply, AskError<M>>| {
        let outcome = match outcome {
            Ok(value) => message::encode(&value),
            Err(AskError::Expired) => Err(Failure::Expired),
            Err(AskError::Full(_)) => Err(Failure::Full),
            Err(AskError::Shed) => Err(Failure::Shed),
            Err(AskError::Closed(_)) => Err(Failure::Stale("the activation has ended".to_owned())),
            Err(_) => Err(Failure::NoReply),
        };
        Outcome { reply, outcome }
    };
    cx.ask_with(ask, into_outcome).map_err(|refused| {
        let failure = failure(&refused.error);
        // The closure has the reply port.
        (refused.into_message().reply, failure)
    })
}

fn failure<M>(error: &TellError<M>) -> Failure {
    match error {
        TellError::Closed(_) => Failure::Stale("the activation has ended".to_owned()),
        _ => Failure::Full,
    }
}

/// A partition that this node keeps.
pub(crate) struct Owned<K: RemoteKey, A: Actor> {
    pub(crate) directory: Part<K, A>,
    pub(crate) fence: Fence,
}

/// What other threads read of a node's part of a directory.
pub(crate) struct Shared<K: RemoteKey, A: Actor> {
    pub(crate) name: String,
    pub(crate) partitions: u32,
    pub(crate) mailbox: LaneConfig,
    owned: RwLock<BTreeMap<u32, Arc<Owned<K, A>>>>,
    trouble: Mutex<Option<String>>,
    pub(crate) claims: Counter,
    pub(crate) takeovers: Counter,
    pub(crate) releases: Counter,
    pub(crate) losses: Counter,
    pub(crate) delivered: Counter,
    pub(crate) forwarded: Counter,
    pub(crate) refused: Counter,
    pub(crate) waiting: AtomicU64,
}

impl<K: RemoteKey, A: Actor> Shared<K, A> {
    pub(crate) fn new(options: &RemoteDirectoryOptions<K, A>) -> Self {
        Self {
            name: options.name.clone(),
            partitions: options.partitions,
            mailbox: options.mailbox,
            owned: RwLock::default(),
            trouble: Mutex::new(Some("this node has no lease yet".to_owned())),
            claims: Counter::default(),
            takeovers: Counter::default(),
            releases: Counter::default(),
            losses: Counter::default(),
            delivered: Counter::default(),
            forwarded: Counter::default(),
            refused: Counter::default(),
            waiting: AtomicU64::new(0),
        }
    }

    /// The partition of the key, if this node keeps it and its lease is valid.
    pub(crate) fn owned(&self, key: &[u8]) -> Option<Arc<Owned<K, A>>> {
        let partition = partition_of(key, self.partitions);
        let owned = self.owned.read().get(&partition).cloned();
        owned.filter(|it| it.fence.is_valid())
    }

    pub(crate) fn keep(&self, partition: u32, owned: Arc<Owned<K, A>>) {
        self.owned.write().insert(partition, owned);
    }

    /// Nobody of this process finds it any more. Dropped by the caller, without the lock.
    pub(crate) fn remove(&self, partition: u32) -> Option<Arc<Owned<K, A>>> {
        self.owned.write().remove(&partition)
    }

    pub(crate) fn kept(&self) -> Vec<(u32, Epoch)> {
        let owned = self.owned.read();
        let kept = owned.iter().filter(|(_, it)| it.fence.is_valid());
        kept.map(|(partition, it)| (*partition, it.fence.epoch))
            .collect()
    }

    pub(crate) fn activations(&self) -> usize {
        let owned = self.owned.read();
        owned.values().map(|it| it.directory.activations()).sum()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    pub(crate) fn counters(&self) -> RemoteDirectoryCounters {
        RemoteDirectoryCounters {
            claims: self.claims.get(),
            takeovers: self.takeovers.get(),
            releases: self.releases.get(),
            losses: self.losses.get(),
            delivered: self.delivered.get(),
            forwarded: self.forwarded.get(),
            refused: self.refused.get(),
            // Ordering: Relaxed, a gauge.
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

impl<K: RemoteKey, A: Actor> Owned<K, A> {
    pub(crate) fn fence_of(
        partition: u32,
        lease: &Arc<LeaseShared>,
        number: u64,
        revision: u64,
    ) -> Fence {
        Fence {
            partition,
            epoch: lease.epoch(revision),
            number,
            lease: lease.clone(),
        }
    }
}
