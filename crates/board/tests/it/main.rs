//! Tests of the board through its public interface.

mod access;
mod attacks;
mod common;
mod frames;
mod limits;
mod overhead;
mod server;
#[cfg(feature = "terminal")]
mod terminal;
