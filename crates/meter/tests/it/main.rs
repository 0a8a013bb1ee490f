//! Tests of meter through its public interface.

mod by_type;
mod checker;
mod counters;
mod families;
mod histogram;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod prometheus;
mod snapshot;
