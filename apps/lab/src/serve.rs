//! Services until Ctrl-C: `freeboard serve-http` and `freeboard proxy`, those of scene eager, and
//! `freeboard fetcher`, that of scene fetch, and `freeboard logd`.

mod fetcher;
mod http;
mod logd;
mod metrics;
mod notify;
mod proxy;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::{System, net::poller::Policy, net::tcp::BindError};

use crate::{
    console::{self, say},
    figures::counted,
    host::Host,
    interrupt::Expected,
    processor,
    usage::Usage,
};

pub(crate) use fetcher::{FetcherArgs, fetcher};
pub(crate) use http::{ServeHttpArgs, serve_http};
pub(crate) use logd::{LogdArgs, logd};
pub(crate) use proxy::{ProxyArgs, proxy};

/// How long connections may take to end after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(10);

/// The knobs of a system that serves.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostArgs {
    /// When busy workers look at the network: eager, drain or dedicated; the first two may be followed
    /// by microseconds and runs between polls, as eager:200:64
    #[arg(long, value_name = "POLICY", default_value = "eager")]
    pub(crate) poll: Policy,

    /// Workers [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) workers: Option<u16>,

    /// The most connections open at once; further ones wait
    #[arg(long, value_name = "N", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections_max: u32,
}

/// How long what has nothing more to do may take to end on a busy machine.
const END: Duration = Duration::from_secs(5);

impl HostArgs {
    /// Starts it.
    fn start(&self) -> Result<Host> {
        let workers = self.workers.map_or_else(processor::cores, usize::from);
        Host::start(System::builder(), workers, self.poll)
    }
}

impl Host {
    /// Waits for Ctrl-C, and ends: `drain` returns how many of what is served are left.
    pub(crate) fn serve(
        self,
        end: Expected,
        noun: &str,
        drain: impl FnOnce(Duration) -> usize,
    ) -> ExitCode {
        end.wait();
        self.end(noun, drain)
    }

    /// Drains and ends now.
    pub(crate) fn end(self, noun: &str, drain: impl FnOnce(Duration) -> usize) -> ExitCode {
        let seconds = DRAIN.as_secs();
        say(&format!(
            "draining for up to {seconds} s; Ctrl-C again ends at once"
        ));
        let left = drain(DRAIN);
        let report = self.system.shutdown(END);
        if left == 0 && report.is_clean() {
            say("drained");
            return ExitCode::SUCCESS;
        }
        if left > 0 {
            say(&format!("{} cut off", counted(left as u64, noun)));
        } else {
            say("some actors did not end in time");
        }
        ExitCode::FAILURE
    }
}

/// Says where it listens, on standard output: a script reads the port from it.
pub(crate) fn announce(line: &str) -> Result<()> {
    console::write_stdout(&format!("{line}\n")).context("cannot write to standard output")
}

/// An address that a port is to be listened on.
pub(crate) fn bound<T>(result: Result<T, BindError>) -> Result<T> {
    result.map_err(|error| Usage::new(error.to_string()).into())
}

/// HOST:PORT as an address.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr> {
    let usage = |reason: String| Usage::new(format!("`{text}` is no HOST:PORT: {reason}"));
    if !text.contains(':') || text.contains("//") {
        let reason = "write a name or an address, a colon and a port, as 127.0.0.1:3306";
        return Err(usage(reason.to_owned()).into());
    }
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| usage(error.to_string()))?;
    found
        .next()
        .context("it has no address")
        .map_err(|error| usage(error.to_string()).into())
}
