//! Actors in several processes, over NATS.
//!
//! A [`Node`] joins the others. [`Node::publish`] lets other nodes send to an actor, and [`Node::remote`] gives a reference
//! to one. The receiver grants credit to each sender, so the bound of its mailbox holds over the network, and NATS never
//! has a slow consumer. Without credit, messages wait at the sender, in a lane with a bound and a policy.
//!
//! Delivery is at most once. A [`RemoteRef`] is a type of its own because of that: see [`RemoteAskError::Lost`].

#![forbid(unsafe_code)]

mod directory;
pub mod engine;
mod error;
mod find;
mod group;
mod lease;
mod members;
mod memory;
mod message;
mod metrics;
mod names;
mod nats;
mod node;
mod port;
mod proxy;
mod remote_ref;
#[cfg(feature = "simulated")]
pub mod simulated;
mod topic;
mod trace;
mod wire;

pub use directory::{
    PARTITIONS_DEFAULT, RemoteDirectory, RemoteDirectoryAsk, RemoteDirectoryCounters,
    RemoteDirectoryOptions, RemoteKey, RemoteStore,
};
pub use error::{NodeError, RemoteAskError, RemoteTellError};
pub use freeboard_flow::Epoch;
pub use group::{RemoteGroup, RemoteGroupAsk};
pub use lease::Fence;
pub use members::{DownReason, NodeChange, NodeInfo, NodeSummary, PeerCounters};
pub use message::RemoteMessage;
pub use metrics::{NodeSnapshot, PeerSnapshot, PublishedSnapshot, ReferenceSnapshot};
pub use nats::{NatsCounters, NatsEngine, NatsError, NatsOptions};
pub use node::{Node, NodeOptions};
pub use port::PublishOptions;
pub use proxy::{RemoteExit, RemoteTerminated};
pub use remote_ref::{
    Published, PublishedCounters, RemoteAsk, RemoteAskFuture, RemoteCounters, RemoteOptions,
    RemoteRef,
};
pub use topic::{RemotePublish, RemoteSubscribeError, RemoteTopic, SubscribingNode};
#[cfg(feature = "spans")]
pub use trace::{TraceContext, TraceLayer};
pub use wire::NodeId;
