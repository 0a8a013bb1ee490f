//! Tests of the cache through its public interface. `races` and `ways` run against a real Redis and against the
//! embedded one.

#![allow(clippy::print_stdout, reason = "random tests print their seed")]
#![allow(clippy::duplicate_mod, reason = "two servers, the same tests")]

mod cluster;
mod common;
mod embedded;
mod limits;
mod losses;
mod real;
