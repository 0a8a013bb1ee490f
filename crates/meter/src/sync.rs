//! The atomics of this crate, in one place.
//!
//! The standard library's even under loom: counters carry no protocol that loom could find broken,
//! and loom's atomics cannot be made in a `const fn`.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
