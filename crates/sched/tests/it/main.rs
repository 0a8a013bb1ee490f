//! The scheduler through its public interface. `tests/refused_threads.rs` and `tests/stacks_with_a_handler.rs` need a process
//! of their own.
#![cfg(not(loom))]

mod common;
mod foreign_panics;
mod stacks;
mod threads;
mod timers;
