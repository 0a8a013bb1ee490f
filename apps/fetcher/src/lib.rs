//! The push-notification fetcher of the scene `fetch`: its messages, and the brokers that they come from.
//!
//! ```text
//!   Priority0 ──prefetch──▶ Consumer ──▶ Inbox (an actor's mailbox) ──▶ Delivery ─┬─ ack
//!   Priority1 ──prefetch──▶ Consumer ──▶ Inbox                                    ├─ retry(delay)
//!                                                                                 └─ dead_letter(reason)
//!   Replies   ◀──publish──  Broker   ──▶ Confirm
//! ```
//!
//! [`broker::MemoryBroker`] needs nothing installed, [`broker::RabbitBroker`] speaks to RabbitMQ. Both keep
//! the same contract, which `tests/contract` checks against each.

#![forbid(unsafe_code)]

pub mod broker;
pub mod embedded;
pub mod load;
pub mod message;
pub mod names;
pub mod original;
pub mod route;
pub mod service;
pub mod store;
pub mod wait;
