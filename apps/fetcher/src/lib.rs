//! The push-notification fetcher of the scene `fetch`, in two modes: Freeboard mode ([`service`]) and the original
//! mode of 2014 ([`original`]).
//!
//! ```text
//!   load ──▶ broker ──▶ service | original ──▶ broker ──▶ load: an account of every id
//!                          │ cache on Redis   │ store: slow store, directory
//! ```
//!
//! Back ends are embedded or real: [`broker::MemoryBroker`] or `broker::RabbitBroker`,
//! [`embedded::EmbeddedRedis`] or a Redis server, [`store::MemoryDirectory`] or `store::MariaDbDirectory`.
//! Brokers and directories each have one contract, and the tests check it against both.
//!
//! The real broker and directory need the features `rabbitmq` and `mariadb`.

#![forbid(unsafe_code)]

pub mod broker;
pub mod choices;
pub mod embedded;
pub mod load;
pub mod message;
pub mod names;
pub mod original;
mod report;
pub mod service;
pub mod store;
