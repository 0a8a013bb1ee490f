//! The proxy suite's load: 60 kept connections through a TCP proxy to a backend.
//!
//! ```text
//!   freeboard load ── 60 connections ──► proxy ── 60 connections ──► backend
//!    one request at a time on each       2 threads
//!
//!   proxy_echo     64 bytes and the same 64 back; `freeboard echo`, a thread for each connection
//!   proxy_mysql    SELECT 1; a MariaDB of its own
//! ```
//!
//! Clients, proxy and backend are three processes on the same two cores, and the clients wait for their
//! answers: so the throughput tells what all three cost together, and most of that is not the proxy. What
//! the proxy itself needs for a request, its processor time, is the fairer figure. Connecting is part of
//! both. The peer `direct` has no proxy: it shows what clients and backend leave for one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use freeboard_test_servers::mariadb;
use serde_json::Value;

use crate::outcome::Outcome;
use crate::server_process::ServerProcess;

/// Of every proxy, as many as the machine of the goals has cores.
pub const THREADS_COUNT: usize = 2;
const CLIENTS: &str = "60";

/// What a proxy stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Echo,
    Mysql,
}

enum Server {
    Echo(ServerProcess),
    MariaDb(freeboard_test_servers::Server),
}

/// A backend that runs, and the clients for it.
pub struct Bed {
    program: PathBuf,
    server: Server,
    requests_count: u64,
}

impl Bed {
    /// Starts the backend; `program` is `freeboard`.
    pub fn start(program: &Path, backend: Backend, requests_count: u64) -> Result<Self> {
        let server = match backend {
            Backend::Echo => Server::Echo(ServerProcess::start(program, &["echo"])?),
            Backend::Mysql => Server::MariaDb(mariadb()?),
        };
        Ok(Self {
            program: program.to_owned(),
            server,
            requests_count,
        })
    }

    /// Where the backend listens.
    pub fn backend(&self) -> SocketAddr {
        match &self.server {
            Server::Echo(server) => server.address(),
            Server::MariaDb(server) => server.address(),
        }
    }

    /// Asks the backend itself.
    pub fn ask_directly(&self) -> Result<Outcome> {
        self.ask(self.backend())
    }

    /// Asks through the proxy at `proxy`, whose processor time so far is `cpu_seconds`.
    pub fn ask_through(
        &self,
        proxy: SocketAddr,
        cpu_seconds: impl Fn() -> Result<f64>,
    ) -> Result<Outcome> {
        let before = cpu_seconds()?;
        let outcome = self.ask(proxy)?;
        let cpu_s = cpu_seconds()? - before;
        Ok(outcome.with_field("cpu_us", cpu_s * 1e6 / self.requests_count as f64))
    }

    fn ask(&self, to: SocketAddr) -> Result<Outcome> {
        let protocol = match self.server {
            Server::Echo(_) => "echo",
            Server::MariaDb(_) => "mysql",
        };
        let output = Command::new(&self.program)
            .args(["load", "--protocol", protocol, "--clients", CLIENTS])
            .args(["--requests", &self.requests_count.to_string()])
            .args(["--to", &to.to_string()])
            // A login that somebody has set is for a server of theirs.
            .env_remove("FREEBOARD_MYSQL_LOGIN")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{} cannot be started", self.program.display()))?;
        ensure!(
            output.status.success(),
            "the clients ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let load: Value = serde_json::from_slice(&output.stdout).context("the clients' report")?;
        ensure!(
            load["answered"].as_u64() == Some(self.requests_count) && load["errors"] == 0,
            "some requests failed: {load}"
        );
        let seconds = load["seconds"].as_f64().context("no time")?;
        let p99_ns = load["latency"]["p99"].as_f64().context("no p99")?;
        Ok(Outcome::measured(self.requests_count, seconds)
            .with_field("qps", self.requests_count as f64 / seconds)
            .with_field("p99_us", p99_ns / 1e3))
    }
}
