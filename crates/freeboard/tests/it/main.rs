//! The facade: its examples run, each feature works, and the metrics of all crates agree with their documents.

mod examples;
mod features;
#[cfg(all(feature = "tokio", feature = "tower"))]
mod grpc;
#[cfg(all(feature = "redis-embedded", feature = "stream"))]
mod metrics;
#[cfg(feature = "sim")]
mod simulation;
#[cfg(feature = "testing")]
mod testing;
