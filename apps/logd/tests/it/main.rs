//! Tests through the public interface.

mod accounting;
mod common;
mod durable;
mod framing;
mod inputs;
mod kills;
mod parsing;
mod policies;
mod querying;
mod sinks;
mod stream;
