//! `freeboard logd`: a log server, until Ctrl-C.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use freeboard::stream::{StreamOptions, SyncMode};
use freeboard_logd::{
    Config, DatagramConfig, Framing, HttpConfig, InputConfig, Policy, Server, SourceBound,
    StreamSinkConfig, TcpConfig, TlsConfig,
};

use super::{HostArgs, announce};
use crate::{console::say, interrupt::Interrupt, stream::KeyArgs, usage::Usage};

/// Lines that nobody waits for are written after at most twice this time: a quiet client's lines are seen soon, and a few
/// hundred writes a second cost little.
const FLUSH_AFTER: Duration = Duration::from_millis(2);

/// Knobs of `freeboard logd`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogdArgs {
    /// The directory of the stream that lines are appended to; it is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Take lines here: RFC 5424, RFC 3164, JSON or plain text; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    tcp: Vec<SocketAddr>,

    /// Take datagrams here (RFC 5426); may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    udp: Vec<SocketAddr>,

    /// Take datagrams on this Unix socket, as on /dev/log; every user may write; may be repeated
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,

    /// The same on a Unix stream socket
    #[arg(long, value_name = "PATH")]
    unix_stream: Vec<PathBuf>,

    /// The kernel's buffer of each datagram socket, in bytes
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<usize>,

    /// Take lines through TLS here (RFC 5425); needs --tls-certificate and --tls-key; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", requires_all = ["tls_certificate", "tls_key"])]
    tls: Vec<SocketAddr>,

    /// The server's certificate and those that sign it, in PEM
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Clients of --tls need a certificate that one of these signs, in PEM
    #[arg(long, value_name = "FILE")]
    tls_clients: Option<PathBuf>,

    /// Take `POST /` with lines here; the answer comes when they are durable; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Vec<SocketAddr>,

    /// What happens to errors and more urgent lines that the disk cannot take yet: wait (the client is not read),
    /// drop-oldest, sample:N (one of N), or coalesce (repeated lines are counted)
    #[arg(long, value_name = "POLICY", default_value_t = Policy::Wait)]
    urgent: Policy,

    /// The same for warnings
    #[arg(long, value_name = "POLICY", default_value_t = Policy::Wait)]
    warning: Policy,

    /// The same for notices and informational lines
    #[arg(long, value_name = "POLICY", default_value_t = Policy::Wait)]
    normal: Policy,

    /// The same for debug lines
    #[arg(long, value_name = "POLICY", default_value_t = Policy::DropOldest)]
    debug: Policy,

    /// Lines of one client in memory
    #[arg(long, value_name = "N", default_value_t = SourceBound::default().lines,
          value_parser = clap::value_parser!(u64).range(1..))]
    client_lines: u64,

    /// Bytes of one client in memory
    #[arg(long, value_name = "BYTES", default_value_t = SourceBound::default().bytes,
          value_parser = clap::value_parser!(u64).range(1..))]
    client_bytes: u64,

    /// Close a connection after so many seconds without a byte [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_seconds: Option<u64>,

    /// When a line is durable: batch (each write is), interval:MS (at most so long after), none (when the operating
    /// system has it)
    #[arg(long, value_name = "MODE", default_value_t)]
    sync: SyncMode,

    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    host: HostArgs,
}

impl LogdArgs {
    fn config(&self) -> Result<Config> {
        let inputs = self.inputs();
        if self.tcp.is_empty() && inputs.is_empty() {
            return Err(Usage::new("name an input, as --tcp 127.0.0.1:1514").into());
        }
        let options = StreamOptions::new().sync(self.sync);
        let mut options = options.flush_after(FLUSH_AFTER);
        if let Some(key) = self.key.key(&self.directory)? {
            options = options.key(key);
        }
        let path = self.directory.clone();
        let tcp = |&address| TcpConfig {
            address,
            framing: Framing::Detect,
        };
        let mut config = Config::new(vec![StreamSinkConfig { path, options }.sink("stream")]);
        let policies = [self.urgent, self.warning, self.normal, self.debug];
        for (group, policy) in config.groups.iter_mut().zip(policies) {
            group.policy = policy;
        }
        Ok(Config {
            tcp: self.tcp.iter().map(tcp).collect(),
            inputs,
            source: SourceBound {
                lines: self.client_lines,
                bytes: self.client_bytes,
            },
            connections_max: self.host.connections_max as usize,
            idle_time: self.idle_seconds.map(Duration::from_secs),
            ..config
        })
    }
}

impl LogdArgs {
    /// All but TCP.
    fn inputs(&self) -> Vec<InputConfig> {
        let options = DatagramConfig {
            receive_buffer_bytes: self.receive_buffer,
            ..DatagramConfig::default()
        };
        let udp = |&address| InputConfig::Udp { address, options };
        let datagrams = |path: &PathBuf| InputConfig::UnixDatagram {
            path: path.clone(),
            mode: Some(0o666),
            options,
        };
        let streams = |path: &PathBuf| InputConfig::UnixStream {
            path: path.clone(),
            mode: Some(0o666),
            framing: Framing::Detect,
        };
        let http = |&address| InputConfig::Http(HttpConfig::new(address));
        let mut inputs: Vec<_> = self.udp.iter().map(udp).collect();
        inputs.extend(self.unix.iter().map(datagrams));
        inputs.extend(self.unix_stream.iter().map(streams));
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            inputs.extend(self.tls.iter().map(|&address| {
                InputConfig::Tls(TlsConfig {
                    client_roots: self.tls_clients.clone(),
                    ..TlsConfig::new(address, certificate.clone(), key.clone())
                })
            }));
        }
        inputs.extend(self.http.iter().map(http));
        inputs
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
    for input in server.inputs() {
        announce(&format!("{input} takes lines; Ctrl-C ends it"))?;
    }
    Ok(host.serve(end, "part", |time| {
        let report = server.stop(time);
        for (sink, error) in &report.sinks_failed {
            say(&format!("the sink {sink} was not closed in order: {error}"));
        }
        report.sources_cut + usize::from(!report.is_drained) + report.sinks_failed.len()
    }))
}
