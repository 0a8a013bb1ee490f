//! Freeboard's server of HTTP.

use std::time::Duration;

use anyhow::Result;
use freeboard::{
    System,
    net::poller::{Policy, Poller},
    net::{
        http::{Body, HttpHandler, HttpServer, Limits},
        tcp::ListenerOptions,
    },
};

use crate::{
    cpu_time,
    http::{self, Connections, PAGE},
    outcome::Outcome,
};

const WORKERS_COUNT: usize = 2;

pub fn run(connections: Connections, count: u64) -> Result<Outcome> {
    let poller = Poller::new(WORKERS_COUNT, Policy::EAGER)?;
    let system = System::builder()
        .workers(WORKERS_COUNT)
        .driver(poller.driver())
        .build()?;
    let handler = HttpHandler::function(|_| ::http::Response::new(Body::from(PAGE)));
    let address = ([127, 0, 0, 1], 0).into();
    let options = ListenerOptions::default();
    let limits = Limits::default();
    let server = HttpServer::bind(&system, &poller, address, options, limits, handler)?;
    let outcome = http::ask(connections, count, server.address(), || {
        Ok(cpu_time::used().as_secs_f64())
    })?;
    server.drain(Duration::from_secs(10));
    system.shutdown(Duration::from_secs(10));
    Ok(outcome)
}
