//! Tests through the public interface.

mod accounting;
mod common;
mod durable;
mod files;
mod framing;
mod inputs;
mod kills;
mod metrics;
#[cfg(feature = "nats")]
mod nats;
mod parsing;
mod policies;
mod querying;
mod queues;
mod relays;
mod reload;
mod settings;
mod simulated;
mod sinks;
mod stream;
