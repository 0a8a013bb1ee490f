//! Actors in several processes, over NATS.

#![forbid(unsafe_code)]

pub mod engine;
mod names;
mod nats;
#[cfg(feature = "simulated")]
pub mod simulated;

pub use nats::{NatsCounters, NatsEngine, NatsError, NatsOptions};
