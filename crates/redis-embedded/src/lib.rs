//! A small Redis inside of the process, on loopback: so that a service that needs one runs with nothing
//! installed, through the same client as otherwise.
//!
//! ```text
//!   client ──▶ socket ──▶ Connection ──▶ RequestReader ──▶ command ──▶ Keyspace, Subscribers
//!          ◀── socket ◀── Outgoing   ◀── Output        ◀──┘              one lock for a read's requests
//! ```
//!
//! It speaks RESP2, and RESP3 after `HELLO 3`, and has strings with their times, subscriptions, transactions
//! without `WATCH`, and the scripts of [`freeboard_cache`], which it carries out without Lua. Its words are those of
//! Redis 7.0; a test compares both byte by byte. There is one database, nothing is written to the disk, and there
//! are no other types, patterns, scans or blocking commands.
//!
//! All is bounded ([`EmbeddedOptions`]): connections, requests, the unfinished requests of all clients, what a
//! client leaves unread, and what the keys hold, where what was not used for long makes way.
//!
//! A web page in a browser of this machine can send requests to loopback. It cannot use the server: clients need a
//! random password by default ([`Password`]), and a connection is closed without a reply at a command that is
//! called `POST` or `Host:`, as at Redis.
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
mod clock;
mod command;
mod commands;
mod connection;
mod dialogue;
#[cfg(test)]
mod dialogue_tests;
mod error;
mod inbox;
mod inline;
mod integer;
mod keyspace;
mod malformed;
mod member;
mod options;
mod output;
mod prometheus;
mod random;
mod refusal;
mod request_reader;
mod server;
mod session;
mod snapshot;
mod store;
mod subscribers;
mod sweeper;

pub use error::StartError;
pub use options::{EmbeddedOptions, EmbeddedOptionsError, Password};
pub use server::RedisEmbedded;
pub use snapshot::EmbeddedSnapshot;
