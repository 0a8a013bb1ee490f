//! A small Redis server inside the process, on localhost: a service that needs Redis runs with nothing installed,
//! through the same client.
//!
//! ```text
//!   client ──▶ socket ──▶ Connection ──▶ RequestReader ──▶ command ──▶ Keyspace, Subscribers
//!          ◀── socket ◀── Outgoing   ◀── Output        ◀──┘              one lock for a read's requests
//! ```
//!
//! It speaks RESP2, and RESP3 after `HELLO 3`. It supports what [`freeboard_cache`] and its users need: strings with
//! expiry (`GET`, `MGET`, `SET` with `EX` or `PX`, `DEL`, `EXISTS`, `TTL`, `DBSIZE`, `FLUSHALL`), channels (`PUBLISH`,
//! `SUBSCRIBE`, `UNSUBSCRIBE`, `PUBSUB NUMSUB`), the scripts of the cache (`EVAL`, `EVALSHA`, `SCRIPT FLUSH`), which
//! it executes without Lua, and connection commands (`AUTH`, `HELLO`, `PING`, `QUIT`, `TIME`). Replies are those of
//! Redis 7.0; a test compares both byte by byte. There is one database, and no persistence. For other commands, use a
//! real Redis.
//!
//! Everything is bounded ([`EmbeddedOptions`]): connections, requests, unfinished requests, unread replies, and the
//! memory of keys, which evicts what was not used recently.
//!
//! A web page in a browser can send requests to localhost. It cannot use the server: clients need a random password
//! by default ([`Password`]), and the server closes a connection silently at the first byte that does not begin an
//! array of strings, as a line of HTTP. Requests that are typed as a line are therefore not supported.
//!
//! ```no_run
//! use freeboard_actor::System;
//! use freeboard_net::poller::{Policy, Poller};
//! use freeboard_redis::Redis;
//! use freeboard_redis_embedded::{EmbeddedOptions, RedisEmbedded};
//!
//! let poller = Poller::new(2, Policy::default())?;
//! let system = System::builder().workers(2).driver(poller.driver()).build()?;
//! let server = RedisEmbedded::start(&system, &poller, EmbeddedOptions::default())?;
//! let redis = Redis::connect(&system, &poller, server.client_options())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arguments;
mod command;
mod commands;
mod connection;
mod dialogue;
#[cfg(test)]
mod dialogue_tests;
mod keyspace;
mod metrics;
mod options;
mod output;
mod request_reader;
mod server;
mod session;
mod store;
mod subscribers;

pub use metrics::EmbeddedSnapshot;
pub use options::{EmbeddedOptions, EmbeddedOptionsError, Password, StartError};
pub use server::RedisEmbedded;
