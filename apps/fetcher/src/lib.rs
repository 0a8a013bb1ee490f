//! The push-notification fetcher of the scene `fetch`: as it is ([`service`]), and as it was in 2014
//! ([`original`]).
//!
//! ```text
//!   load ──▶ broker ──▶ service | original ──▶ broker ──▶ load: an account of every id
//!                          │ cache on Redis   │ store: slow store, directory
//! ```
//!
//! What it stands on is embedded or real: [`broker::MemoryBroker`] or [`broker::RabbitBroker`],
//! [`embedded::EmbeddedRedis`] or a Redis, [`store::SqliteDirectory`] or [`store::MariaDbDirectory`]. Each two keep
//! to one contract, which the tests check against both.

#![forbid(unsafe_code)]

pub mod broker;
pub mod embedded;
pub mod load;
pub mod message;
pub mod names;
pub mod original;
mod report;
pub mod route;
pub mod service;
pub mod store;
pub mod wait;
