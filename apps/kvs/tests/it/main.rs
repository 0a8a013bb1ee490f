//! Tests of the store through its socket. The world "kvs" of `freeboard-worlds` is its simulation.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the seed of a run, and a test that lacks a program"
)]

mod client;
mod commands;
mod kills;
