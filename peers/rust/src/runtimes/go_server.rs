//! Go as a server: the program of `peers/go` in a process of its own, which this one starts and asks.
//!
//! ```text
//!   go ──► first line: its address      go ◄── the end of its standard input: end
//! ```

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cpu_time;
use crate::http::{self, Connections};
use crate::manners::Manners;
use crate::outcome::Outcome;
use crate::readiness::{self, CONNECTIONS_COUNT, Client, WORKERS_COUNT};

struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().parse().context("the server says no address")?;
        Ok(Self {
            child,
            output,
            address,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its input ends, and so it does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

pub fn http(program: &Path, connections: Connections, count: u64) -> Result<Outcome> {
    let server = Server::start(program, &["serve_http"])?;
    http::ask(connections, count, server.address, || {
        cpu_time::of(server.child.id())
    })
}

pub fn readiness(
    program: &Path,
    messages_count: u64,
    tasks_per_worker: usize,
    manners: Manners,
) -> Result<Outcome> {
    let mut server = Server::start(
        program,
        &[
            "serve_readiness",
            &CONNECTIONS_COUNT.to_string(),
            &(WORKERS_COUNT * tasks_per_worker).to_string(),
            &(manners == Manners::Yields).to_string(),
        ],
    )?;
    let client = Client::connect(server.address)?;
    let mut line = String::new();
    server.output.read_line(&mut line)?;
    ensure!(line.trim() == "computing", "the server says {line:?}");
    let begun = Instant::now();
    client.send(messages_count)?;
    // The server reports when its connections have ended.
    drop(client);
    let mut report = String::new();
    server.output.read_to_string(&mut report)?;
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
