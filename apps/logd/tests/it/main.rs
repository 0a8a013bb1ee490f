//! Tests through the public interface.

mod accounting;
mod common;
mod durable;
mod framing;
mod kills;
mod parsing;
mod policies;
mod sinks;
mod stream;
