//! Sealed, durable, append-only logs at the disk's speed.

#![forbid(unsafe_code)]

pub mod format;
pub mod seal;
pub mod storage;

#[allow(dead_code)] // Until readers and recovery stand on it.
mod scan;
