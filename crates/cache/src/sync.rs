//! The atomics of this crate, in one place.
//!
//! They are the standard library's even under loom: they count, and a mutex orders the threads.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
