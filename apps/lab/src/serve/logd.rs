//! `freeboard logd`: a log server, until Ctrl-C.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use freeboard::stream::StreamOptions;
use freeboard_logd::{Config, Framing, Server, StreamSinkConfig, TcpConfig};

use super::{HostArgs, announce};
use crate::{console::say, interrupt::Interrupt, stream::KeyArgs, usage::Usage};

/// Knobs of `freeboard logd`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogdArgs {
    /// The directory of the stream that lines are appended to; it is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Take lines here: RFC 5424, RFC 3164, JSON or plain text; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    tcp: Vec<SocketAddr>,

    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    host: HostArgs,
}

impl LogdArgs {
    fn config(&self) -> Result<Config> {
        if self.tcp.is_empty() {
            return Err(Usage::new("name an input, as --tcp 127.0.0.1:1514").into());
        }
        let mut options = StreamOptions::new();
        if let Some(key) = self.key.key(&self.directory)? {
            options = options.key(key);
        }
        let path = self.directory.clone();
        let tcp = |&address| TcpConfig {
            address,
            framing: Framing::Detect,
        };
        Ok(Config {
            tcp: self.tcp.iter().map(tcp).collect(),
            connections_max: self.host.connections_max as usize,
            ..Config::new(vec![StreamSinkConfig { path, options }.sink("stream")])
        })
    }
}

/// Serves until Ctrl-C.
pub(crate) fn logd(args: &LogdArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let end = interrupt.expect();
    let config = args.config()?;
    let host = args.host.start()?;
    let started = Server::start(&host.system, &host.poller, config);
    let server = started.map_err(|error| Usage::new(error.to_string()))?;
    for address in server.tcp_addresses() {
        announce(&format!("tcp://{address} takes lines; Ctrl-C ends it"))?;
    }
    Ok(host.serve(end, "part", |time| {
        let report = server.stop(time);
        for (sink, error) in &report.sinks_failed {
            say(&format!("the sink {sink} was not closed in order: {error}"));
        }
        report.sources_cut + usize::from(!report.is_drained) + report.sinks_failed.len()
    }))
}
