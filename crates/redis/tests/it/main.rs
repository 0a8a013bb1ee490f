//! Tests of the client through its public interface, against a scripted server and real ones.

#![allow(clippy::print_stdout, reason = "random tests print their seed")]

mod cluster;
mod cluster_faults;
mod common;
mod faults;
mod fuzz_replies;
mod protocol;
mod real_server;
mod replies;
mod storm;
mod subscriptions;
mod ways;
