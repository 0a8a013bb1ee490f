//! The atomics of this crate, in one place.
//!
//! The standard library's even under loom: they are figures for readers; what orders threads here is
//! the queue's mutex.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
