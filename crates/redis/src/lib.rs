//! A pipelined Redis client: typed commands, one outcome each, and a bound on all that waits.
//!
//! ```text
//!   callers (any thread, any runtime, actors)
//!      │  Redis::get(..) → Request                typed, encoded, not sent yet
//!      ▼
//!   routing (hash slot of the key | random | power of two choices) over n connections
//!      ▼
//!   intake of a connection                        credit in commands and bytes, until the reply
//!      │   full: QueueFull at once; down: Down at once; else an append under a mutex
//!      ▼
//!   connection, an actor                          writes up to 256 commands or 64 KiB at once, and
//!      │                                          always reads while writing
//!      ▼
//!   parser (RESP3) → outcome                      exactly one for each command, at its deadline at the
//!                                                 latest
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use freeboard_actor::System;
//! use freeboard_net::poller::{Policy, Poller};
//! use freeboard_redis::{Redis, RedisOptions};
//!
//! let poller = Poller::new(2, Policy::default())?;
//! let system = System::builder().workers(2).driver(poller.driver()).build()?;
//! let redis = Redis::connect(&system, &poller, RedisOptions::from_url("redis://localhost")?)?;
//! redis.wait_up(Duration::from_secs(5))?;
//! redis.set("greeting", "hello").wait()?;
//! assert_eq!(redis.get("greeting").wait()?.as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A cluster is the same to its callers ([`Cluster`]): commands find the nodes that have their keys.
//!
//! TLS is left out (a proxy such as stunnel does it), and so are Unix sockets, and reading from replicas.

#![forbid(unsafe_code)]

mod alarm;
mod body;
mod cluster;
mod command;
mod commands;
mod connection;
mod error;
mod failure;
mod from_value;
mod gauges;
mod greeting;
mod intake;
mod options;
mod outstanding;
#[cfg(test)]
mod outstanding_tests;
mod pieces;
mod pipeline;
mod pool;
pub mod protocol;
mod pubsub;
mod random;
mod redis;
mod reply;
mod request;
mod routing;
mod script;
mod snapshot;
mod subscribers;
mod sync;
mod transaction;
mod unit;
mod wire;

pub use cluster::{Cluster, ClusterOptions, ClusterSnapshot, NODES_MAX, NodeSnapshot};
pub use command::Command;
pub use commands::{
    End, Expiry, Page, PendingSummary, ScoreIf, SetIf, SetOptions, StreamEntry, Ttl,
};
pub use error::{DownReason, RedisError};
pub use from_value::FromValue;
pub use options::{CONNECTIONS_MAX, RedisOptions, RedisOptionsError};
pub use pipeline::Pipeline;
pub use protocol::{ServerError, Value};
pub use pubsub::{PubSub, Subscription};
pub use redis::{ConnectError, Redis};
pub use request::{Replying, Request};
pub use routing::{Routing, hash_slot};
pub use script::{Script, ScriptCall};
pub use snapshot::{ConnectionSnapshot, RedisSnapshot, ShedSnapshot};
pub use subscribers::SUBSCRIPTIONS_ENDING_MAX;
pub use transaction::Transaction;
