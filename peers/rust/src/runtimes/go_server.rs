//! Go as a server: the program of `peers/go` in a process of its own, which this one starts and asks.

use std::io::{BufRead, Read};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cpu_time;
use crate::http::{self, Connections};
use crate::outcome::Outcome;
use crate::readiness::{self, CONNECTIONS_COUNT, Client, WORKERS_COUNT};
use crate::server_process::ServerProcess;
use crate::yield_mode::YieldMode;

pub fn http(program: &Path, connections: Connections, count: u64) -> Result<Outcome> {
    let server = ServerProcess::start(program, &["serve_http"])?;
    http::ask(connections, count, server.address(), || {
        cpu_time::of(server.id())
    })
}

pub fn readiness(
    program: &Path,
    messages_count: u64,
    tasks_per_worker: usize,
    yield_mode: YieldMode,
) -> Result<Outcome> {
    let mut server = ServerProcess::start(
        program,
        &[
            "serve_readiness",
            &CONNECTIONS_COUNT.to_string(),
            &(WORKERS_COUNT * tasks_per_worker).to_string(),
            &(yield_mode == YieldMode::Yields).to_string(),
        ],
    )?;
    let client = Client::connect(server.address())?;
    let mut line = String::new();
    server.output().read_line(&mut line)?;
    ensure!(line.trim() == "computing", "the server says {line:?}");
    let begun = Instant::now();
    client.send(messages_count)?;
    // The server reports when its connections have ended.
    drop(client);
    let mut report = String::new();
    server.output().read_to_string(&mut report)?;
    let seconds = begun.elapsed().as_secs_f64();
    let report: Value = serde_json::from_str(&report).context("the server's report")?;
    let latencies_ns: Vec<u64> = serde_json::from_value(report["latencies_ns"].clone())?;
    let arrived_count = latencies_ns.len() as u64;
    ensure!(
        arrived_count == messages_count,
        "{arrived_count} of {messages_count} messages arrived"
    );
    let slices_per_second = report["slices_per_s"].as_f64().context("no slices")?;
    readiness::outcome(&latencies_ns, seconds, slices_per_second)
}
