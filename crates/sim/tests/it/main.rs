//! Worlds of this crate's own.

mod bank;
mod failures;
mod nodes;
mod policies;
