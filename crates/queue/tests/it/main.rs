//! The queues through their public interface. The loom tests are in `tests/loom.rs`.
#![cfg(not(loom))]

mod barriers;
mod common;
mod locked;
mod model;
mod take_first;
mod threads;
