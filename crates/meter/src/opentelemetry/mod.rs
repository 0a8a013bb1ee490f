//! What Freeboard counts, as observable instruments of OpenTelemetry.
//!
//! The user brings the SDK and an exporter; this crate knows the API alone. [`observe`] registers an
//! instrument for each family that a source names, and from then on whoever collects has the source read.
//!
//! ```text
//!   system.snapshot() ──families──▶ Reading ──▶ counter, gauge, ... ──▶ SDK ──▶ OTLP, stdout, ...
//!   redis.snapshot()  ──render────┘ (one for all instruments of a collection)
//! ```
//!
//! | family | instruments |
//! |---|---|
//! | counter `a_total` | observable counter `a` |
//! | gauge `a` | observable gauge `a` |
//! | summary `a` | observable gauge `a` with the attribute `quantile`, observable counters `a_sum` and `a_count` |
//!
//! Labels become attributes; units are UCUM's, help texts descriptions. Names stay as they are, so that who
//! passes them on to Prometheus has the same there.

mod instrument;
mod observe;
mod reading;

/// The API that the meter comes from.
pub use ::opentelemetry;
pub use observe::{Gone, observe};
