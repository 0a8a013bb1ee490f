//! Clients in a process of their own, so that what they cost is not counted as the server's.
//!
//! ```text
//!   closed: each client sends its next request when it has the answer to the last
//!   open:   each request has a time at which it is due, whether or not answers come; its latency
//!           counts from then
//! ```

mod echo;
mod echo_server;
mod http;
#[cfg(feature = "real-backends")]
mod mysql;
mod schedule;
mod threads;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use freeboard::meter::HistogramSummary;
use serde::{Deserialize, Serialize};

use crate::console;

pub(crate) use echo_server::{EchoArgs, echo};

/// The environment variable of the login, as mysql://user:password@host:port/database; its address is not used.
/// Other users cannot see the environment.
pub(crate) const LOGIN_VARIABLE: &str = "FREEBOARD_MYSQL_LOGIN";

/// A client gives up on an answer after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// A page over HTTP/1.1
    Http,
    /// 64 bytes, and the same 64 back
    Echo,
    /// A query of MySQL's
    Mysql,
}

/// Knobs of the clients.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    /// Ask this server
    #[arg(long)]
    to: SocketAddr,

    /// What is spoken
    #[arg(long, value_enum, default_value_t = Protocol::Http)]
    protocol: Protocol,

    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,

    /// Requests of all clients together
    #[arg(long, default_value_t = 10_000)]
    requests: u64,

    /// Use a connection for many requests; only HTTP knows it otherwise
    #[arg(long)]
    keep_alive: bool,

    /// Requests a second, of all clients together, whether or not answers come
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    let is_sane = (0.001..=1e9).contains(&rate);
    is_sane
        .then_some(rate)
        .ok_or_else(|| "expected 0.001 to 1e9 a second".to_owned())
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
    /// From the time that a request was due, or sent, to the end of its answer, in nanoseconds.
    pub(crate) latency: HistogramSummary,
}

/// Runs the clients and prints what came of it.
pub(crate) fn load(args: &LoadArgs) -> Result<ExitCode> {
    let load = match args.protocol {
        Protocol::Http => threads::run(args, || http::Client::new(args.to, args.keep_alive))?,
        Protocol::Echo => threads::run(args, || echo::Client::new(args.to))?,
        #[cfg(feature = "real-backends")]
        Protocol::Mysql => mysql::run(args)?,
        #[cfg(not(feature = "real-backends"))]
        Protocol::Mysql => return crate::real_backends::check().map(|()| ExitCode::SUCCESS),
    };
    console::write_stdout(&serde_json::to_string(&load)?).context("cannot write the result")?;
    Ok(ExitCode::SUCCESS)
}
