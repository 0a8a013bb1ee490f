//! The tests that run against the embedded Redis.

#[path = "races.rs"]
mod races;
#[path = "ways.rs"]
mod ways;

use crate::common::{Bench, server::Server};

pub(crate) fn start() -> Option<Bench> {
    Some(Bench::start(Server::embedded()))
}
