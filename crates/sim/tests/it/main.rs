//! Worlds of this crate's own.

mod bank;
mod nodes;
mod policies;
