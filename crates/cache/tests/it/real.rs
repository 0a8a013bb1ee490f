//! The tests that run against a real Redis.

#[path = "races.rs"]
mod races;
#[path = "ways.rs"]
mod ways;

use crate::common::{Bench, server::Server};

pub(crate) fn start() -> Option<Bench> {
    Some(Bench::start(Server::real()?))
}
