//! `freeboard logd`: a log server, until Ctrl-C. SIGHUP reloads its settings.

use std::{
    io,
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::{
    net::{
        http::{Body, HttpHandler, HttpServer, Limits},
        tcp::ListenerOptions,
        types::{Response, StatusCode},
    },
    stream::SyncMode,
};
use freeboard_logd::{
    HttpConfig, Operations, Period, Policy, Server, SourceBound, StdoutForm, TcpConfig, TlsConfig,
    UdpConfig, UnixConfig, UnixStreamConfig,
    settings::{
        FileSettings, GroupSettings, GroupsSettings, NatsSettings, RelaySettings, Settings,
        SettingsError, Size, SourceSettings, SpoolSettings, StdoutSettings, StreamSettings, Time,
        resolve, value,
    },
};

use signal_hook::{consts::SIGHUP, iterator::Signals};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{
    HostArgs, announce, bound,
    metrics::{self, answer},
    notify::Notifier,
};
use crate::{
    board, console::say, figures::counted, host::Host, interrupt::Interrupt, stream::KeyArgs,
    usage::Usage,
};

/// Knobs of `freeboard logd`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogdArgs {
    /// Read the settings from this TOML file. Of the other flags, only --check, --poll and --workers go with it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["FlagArgs", "KeyArgs", "connections_max"])]
    config: Option<PathBuf>,

    /// Check the settings, with certificates and directories, and end: exit code 0 or 2
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    flags: FlagArgs,

    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    host: HostArgs,
}

/// The settings that have flags.
#[derive(Debug, Clone, Args)]
struct FlagArgs {
    /// The directory of the stream that lines are appended to; it is created
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Take lines here: RFC 5424, RFC 3164, JSON or plain text; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = resolve)]
    tcp: Vec<SocketAddr>,

    /// Take datagrams here (RFC 5426); may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = resolve)]
    udp: Vec<SocketAddr>,

    /// Take datagrams on this Unix socket, as on /dev/log; every user may write; may be repeated
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,

    /// The same on a Unix stream socket
    #[arg(long, value_name = "PATH")]
    unix_stream: Vec<PathBuf>,

    /// The kernel's buffer of each datagram socket, as 4MiB
    #[arg(long, value_name = "SIZE", value_parser = value::<Size>)]
    receive_buffer: Option<Size>,

    /// Take lines through TLS here (RFC 5425); needs --tls-certificate and --tls-key; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", requires_all = ["tls_certificate", "tls_key"],
          value_parser = resolve)]
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
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = resolve)]
    http: Vec<SocketAddr>,

    /// Serve /metrics and /healthz here; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = resolve)]
    status: Option<SocketAddr>,

    /// Append lines to this file
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Begin a new file in each such period: daily or hourly (UTC)
    #[arg(long, value_name = "PERIOD", requires = "file", value_parser = value::<Period>)]
    file_rotate: Option<Period>,

    /// Begin a new file before this one exceeds this size, as 64MiB; the lines of one read stay together
    #[arg(long, value_name = "SIZE", requires = "file", value_parser = value::<Size>)]
    file_rotate_size: Option<Size>,

    /// Keep at most this number of rotated files [default: all]
    #[arg(long, value_name = "N", requires = "file")]
    file_keep: Option<usize>,

    /// Pack rotated files
    #[arg(long, requires = "file")]
    file_gzip: bool,

    /// Print lines on standard output: text, or --stdout=json
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text",
          value_parser = value::<StdoutForm>)]
    stdout: Option<StdoutForm>,

    /// Send lines to the --http input of another log server
    #[arg(long, value_name = "http://HOST:PORT")]
    relay: Option<String>,

    /// The directory of the relay's own spool, of up to 1 GiB [default: it sends from the stream in DIR]
    #[arg(long, value_name = "DIR", requires = "relay")]
    relay_spool: Option<PathBuf>,

    /// Publish lines to this subject of NATS JetStream, which may have {severity} and {host} in it; tls:// for TLS
    #[arg(long, value_name = "nats://HOST:PORT/SUBJECT")]
    nats: Option<String>,

    /// The directory of a spool for NATS, of up to 1 GiB [default: lines are published from the stream in DIR]
    #[arg(long, value_name = "DIR", requires = "nats")]
    nats_spool: Option<PathBuf>,

    /// The file with the credentials for NATS, as `nsc` writes it
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_credentials: Option<PathBuf>,

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

    /// Bytes of one client in memory, as 4MiB [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::<Size>)]
    client_bytes: Option<Size>,

    /// Close a connection after so many seconds without a byte [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_seconds: Option<u64>,

    /// When a line is durable: batch (each write is), interval:MS (at most so long after), none (when the operating
    /// system has it)
    #[arg(long, value_name = "MODE", default_value_t)]
    sync: SyncMode,
}

impl LogdArgs {
    /// Whether it only checks the settings: then it binds nothing, and the board neither.
    pub(crate) fn is_check(&self) -> bool {
        self.check
    }

    /// The settings of the file, or of the flags.
    fn settings(&self) -> Result<Settings, SettingsError> {
        match &self.config {
            Some(path) => Settings::read(path),
            None => Ok(self.of_flags()),
        }
    }

    fn of_flags(&self) -> Settings {
        let flags = &self.flags;
        let group = |policy| GroupSettings {
            policy: Some(policy),
            ..GroupSettings::default()
        };
        let receive_buffer_bytes = flags.receive_buffer.map(|size| size.0 as usize);
        let udp = |&address| UdpConfig {
            receive_buffer_bytes,
            ..UdpConfig::new(address)
        };
        let unix = |path: &PathBuf| UnixConfig {
            receive_buffer_bytes,
            ..UnixConfig::new(path.clone())
        };
        let tls = |&address| {
            let (certificate, key) = (flags.tls_certificate.clone()?, flags.tls_key.clone()?);
            Some(TlsConfig {
                client_roots: flags.tls_clients.clone(),
                ..TlsConfig::new(address, certificate, key)
            })
        };
        let stream = |path: &PathBuf| StreamSettings {
            sync: flags.sync,
            key_file: self.key.key_file.clone(),
            key_env: self.key.key_env.clone(),
            ..StreamSettings::new(path.clone())
        };
        let file = |path: &PathBuf| FileSettings {
            rotate: flags.file_rotate,
            rotate_size: flags.file_rotate_size,
            gzip: flags.file_gzip,
            keep_files: flags.file_keep,
            ..FileSettings::new(path.clone())
        };
        let stdout = |form| StdoutSettings {
            form,
            ..StdoutSettings::default()
        };
        let relay = |url: &String| RelaySettings {
            spool: flags.relay_spool.clone().map(SpoolSettings::new),
            ..RelaySettings::new(url.clone())
        };
        let nats = |url: &String| NatsSettings {
            spool: flags.nats_spool.clone().map(SpoolSettings::new),
            credentials: flags.nats_credentials.clone(),
            ..NatsSettings::new(url.clone())
        };
        let unix_stream = flags.unix_stream.iter().cloned();
        Settings {
            status: flags.status,
            connections_max: NonZeroUsize::new(self.host.connections_max as usize),
            idle_time: flags.idle_seconds.map(|s| Time(Duration::from_secs(s))),
            source: SourceSettings {
                lines: NonZeroU64::new(flags.client_lines),
                bytes: flags.client_bytes,
            },
            group: GroupsSettings {
                urgent: group(flags.urgent),
                warning: group(flags.warning),
                normal: group(flags.normal),
                debug: group(flags.debug),
            },
            tcp: flags.tcp.iter().copied().map(TcpConfig::new).collect(),
            udp: flags.udp.iter().map(udp).collect(),
            unix: flags.unix.iter().map(unix).collect(),
            unix_stream: unix_stream.map(UnixStreamConfig::new).collect(),
            tls: flags.tls.iter().filter_map(tls).collect(),
            http: flags.http.iter().copied().map(HttpConfig::new).collect(),
            stream: flags.directory.iter().map(stream).collect(),
            file: flags.file.iter().map(file).collect(),
            stdout: flags.stdout.into_iter().map(stdout).collect(),
            relay: flags.relay.iter().map(relay).collect(),
            nats: flags.nats.iter().map(nats).collect(),
            ..Settings::default()
        }
    }
}

fn usage(error: impl std::fmt::Display) -> Usage {
    Usage::new(error.to_string())
}

/// Serves `/metrics` and `/healthz` of what is set later.
fn serve_status(
    host: &Host,
    address: SocketAddr,
    shown: Arc<OnceLock<Arc<Operations>>>,
) -> Result<HttpServer> {
    let system = host.system.clone();
    let handler = HttpHandler::function(move |request| match (request.uri().path(), shown.get()) {
        ("/metrics", Some(shown)) => metrics::page(&system, |text| shown.render(text)),
        ("/healthz", Some(shown)) => health(shown),
        ("/metrics" | "/healthz", None) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, "it begins\n".to_owned())
        }
        _ => {
            let text = "/metrics and /healthz are here\n".to_owned();
            answer(StatusCode::NOT_FOUND, text)
        }
    });
    bound(HttpServer::bind(
        &host.system,
        &host.poller,
        address,
        ListenerOptions::default(),
        Limits::default(),
        handler,
    ))
}

/// 200 or 503, with the reasons.
fn health(operations: &Operations) -> Response<Body> {
    let health = operations.health();
    let status = match health.problems.as_slice() {
        [] => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut text = health.problems.join("\n");
    if text.is_empty() {
        text.push_str("ok");
    }
    for warning in health.warnings {
        text += &format!("\nwarning: {warning}");
    }
    answer(status, text + "\n")
}

/// Reloads at each SIGHUP, until `hangups` are closed.
fn reload_on_hangup(
    mut hangups: Signals,
    args: LogdArgs,
    operations: Arc<Operations>,
    notifier: Notifier,
) -> Result<JoinHandle<()>> {
    let reload = move || {
        for _ in hangups.forever() {
            notifier.say("RELOADING=1");
            let (Ok(line) | Err(line)) = operations.reload(args.settings());
            say(&line);
            notifier.say("READY=1");
        }
    };
    let thread = thread::Builder::new().name("reload".to_owned());
    thread.spawn(reload).context("cannot start a thread")
}

/// Serves until Ctrl-C.
pub(crate) fn logd(args: &LogdArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let settings = args.settings().map_err(usage)?;
    if args.check {
        let checked = settings.check().map_err(usage)?;
        announce(&format!("configuration ok: {checked}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The sink of NATS says itself when a connection fails.
    let shown = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("async_nats", LevelFilter::OFF);
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .finish()
        .with(shown)
        .init();
    let end = interrupt.expect();
    let hangups = Signals::new([SIGHUP]).context("cannot listen for SIGHUP")?;
    let notifier = Notifier::connect().context("cannot reach $NOTIFY_SOCKET")?;
    let config = settings.config().map_err(usage)?;
    let host = args.host.start()?;
    // Before lines are taken: the port may be in use.
    let shown: Arc<OnceLock<Arc<Operations>>> = Arc::default();
    let status = settings
        .status
        .map(|address| serve_status(&host, address, shown.clone()));
    let status = status.transpose()?;
    let server = Server::start(&host.system, &host.poller, config).map_err(usage)?;
    let server = Arc::new(server);
    let (system, poller) = (&host.system, &host.poller);
    let operations = Operations::new(system, poller, server.clone(), settings.clone());
    let operations = Arc::new(operations);
    // Set once, here.
    let _ = shown.set(operations.clone());
    let seen = operations.clone();
    let _shown = board::show("logd", "logd", move |text| seen.render(text));
    let hangups_end = hangups.handle();
    let reloads = reload_on_hangup(hangups, args.clone(), operations, notifier.clone())?;
    // Lines have standard output for themselves.
    let is_stdout_taken = !settings.stdout.is_empty();
    let tell = |line: String| match is_stdout_taken {
        true => {
            say(&line);
            Ok(())
        }
        false => announce(&line),
    };
    if let Some(status) = &status {
        tell(format!(
            "http://{0}/metrics and http://{0}/healthz say how it is",
            status.address()
        ))?;
    }
    for input in server.inputs() {
        tell(format!("{input} takes lines; Ctrl-C ends it"))?;
    }
    notifier.watch(&host.system)?;
    notifier.say("READY=1");
    if let Some(reason) = end.wait_unless(|| server.all_sinks_dead()) {
        say(&format!("no sink takes lines any more: {reason}"));
    }
    let code = host.end("part", |time| {
        notifier.say("STOPPING=1");
        hangups_end.close();
        // A reload that panicked has said so.
        let _ = reloads.join();
        let report = server.stop(time);
        if let Some(status) = status {
            status.drain(Duration::from_secs(1));
        }
        for (sink, error) in &report.sinks_failed {
            say(&format!("the sink {sink} was not closed in order: {error}"));
        }
        report.sources_cut + usize::from(!report.is_drained) + report.sinks_failed.len()
    });
    // After the end of the actors: until then, lines may be in memory.
    say(&summary(&server));
    Ok(code)
}

/// What became of all lines.
fn summary(server: &Server) -> String {
    let totals = server.totals();
    let shed: u64 = totals.shed.iter().sum();
    let (lines, taken) = (counted(totals.accepted, "line"), totals.taken);
    let mut text = format!("{lines}: {taken} in all sinks, {shed} shed");
    if totals.held > 0 {
        text += &format!(", {} in a sink that has not ended", totals.held);
    }
    for sink in server.sinks().iter().filter(|sink| sink.lost() > 0) {
        text += &format!(
            "; the sink {} has lost {} that it had",
            sink.name(),
            sink.lost()
        );
    }
    text
}
