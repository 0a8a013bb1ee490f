//! A pipelined Redis client. Every queue is bounded, and every command has exactly one outcome.
//!
//! ```text
//!   callers (any thread, any runtime, actors)
//!      │  Redis::cmd(..) → Request                typed, encoded, not sent yet
//!      ▼
//!   routing (hash slot of the key | random | power of two choices) over n connections
//!      ▼
//!   submit queue of a connection                  credit in commands and bytes, held until the reply
//!      │   full: QueueFull at once; down: Down at once; else appended under a mutex
//!      ▼
//!   connection (an actor)                         writes up to 256 commands or 64 KiB at once, and
//!      │                                          reads between writes
//!      ▼
//!   parser (RESP3) → outcome                      one for each command, at its deadline at the latest
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use freeboard_actor::System;
//! use freeboard_net::poller::{Policy, Poller};
//! use freeboard_redis::{Command, Redis, RedisOptions};
//!
//! let poller = Poller::new(2, Policy::default())?;
//! let system = System::builder().workers(2).driver(poller.driver()).build()?;
//! let redis = Redis::connect(&system, &poller, RedisOptions::from_url("redis://localhost")?)?;
//! redis.wait_up(Duration::from_secs(5))?;
//! redis.set("greeting", "hello").wait()?;
//! assert_eq!(redis.get("greeting").wait()?.as_deref(), Some(&b"hello"[..]));
//! let visits: i64 = redis.cmd(Command::new("INCR").key("visits")).wait()?;
//! # let _ = visits; Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `GET`, `SET`, `PUBLISH` and `TIME` have methods. All other commands are built with [`Command`] and sent with
//! [`Redis::cmd`], whose reply is decoded to any [`FromValue`] type. If you need a method for every command,
//! use the crate `fred` or `redis` (redis-rs): this client serves the cache and services that need bounds.
//!
//! Commands are pipelined: those that are sent before the first reply arrives share writes. To send several at
//! once, call `into_future` of each before you await the first. Use a [`Script`] where several commands must be atomic.
//!
//! A [`Cluster`] is used like a [`Redis`]: it sends each command to the node that owns its keys.
//!
//! Not supported: TLS (use a proxy such as stunnel), Unix sockets, reads from replicas.

#![forbid(unsafe_code)]

mod cluster;
mod command;
mod connection;
mod error;
mod from_value;
mod in_flight;
#[cfg(test)]
mod in_flight_tests;
mod metrics;
mod options;
mod pieces;
mod pool;
pub mod protocol;
mod redis;
mod reply;
mod request;
mod routing;
mod script;
mod submit_queue;
mod subscribers;
mod sync;
mod target;
mod wire;

pub use cluster::Cluster;
pub use command::Command;
pub use error::{ConnectError, DownReason, RedisError};
pub use from_value::FromValue;
pub use metrics::{ClusterSnapshot, ConnectionSnapshot, NodeSnapshot, RedisSnapshot, ShedSnapshot};
pub use options::{CONNECTIONS_MAX, ClusterOptions, NODES_MAX, RedisOptions, RedisOptionsError};
pub use protocol::{ServerError, Value};
pub use redis::Redis;
pub use request::{ReplyFuture, Request};
pub use routing::{Routing, hash_slot};
pub use script::{Script, ScriptCall};
pub use subscribers::{PubSub, SUBSCRIPTIONS_ENDING_MAX};
pub use target::Subscription;
