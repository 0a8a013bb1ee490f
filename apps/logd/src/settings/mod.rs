//! The settings of a log server as its file and its flags have them.
//!
//! ```text
//!   logd.toml ─┐
//!              ├─▶ Settings ─▶ Config ─▶ Server
//!   flags ─────┘
//! ```
//!
//! A key that is unknown is an error with its line. Settings are plain values, so a reload can compare them.

mod check;
mod error;
mod values;

use std::{
    collections::HashSet,
    fs,
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use freeboard::{
    flow::LaneConfig,
    stream::{MasterKey, Retention, StreamOptions, SyncMode},
};
use jiff::tz::TimeZone;
use serde::Deserialize;

pub use error::{Origin, SettingsError};
pub use values::{Size, Time, Zone, duration, resolve, value};

#[cfg(feature = "tls")]
use crate::input::TlsConfig;
#[cfg(feature = "nats")]
use crate::sink::{NatsConfig, NatsLogin};
use crate::{
    config::{Config, LINE_BYTES_LIMIT, Policy},
    input::{HttpConfig, InputConfig, TcpConfig, UdpConfig, UnixConfig, UnixStreamConfig},
    sink::{
        FileSinkConfig, Keep, Period, Receiver, RelayConfig, RelayUrlError, Rotation, SinkConfig,
        SpillConfig, SpoolConfig, SpoolFull, StdoutForm, StdoutSinkConfig, StreamSinkConfig,
    },
    source::SourceBound,
};
use error::{Table, numbered};
#[cfg(feature = "tls")]
pub(crate) use values::time;
pub(crate) use values::{address, size, some_size};
use values::{some_address, some_line_size, some_text, text};

/// Lines that nobody waits for, and for which the sink has not requested a write, are written after at most twice this time.
const FLUSH_AFTER: Duration = Duration::from_millis(2);

/// The memory of a stream, in bytes: two writes, each of up to 8 MiB, and the longest line twice. More would only let the lines
/// of all clients wait longer for a slow disk.
const STREAM_MEMORY_BYTES: usize = 20 << 20;

// A record takes at most half of the memory.
const _: () = assert!(STREAM_MEMORY_BYTES / 2 > LINE_BYTES_LIMIT + (1 << 20));

/// All settings. What is left out has the value of [`Config::new`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where they come from.
    #[serde(skip)]
    pub origin: Origin,
    /// Where `/metrics` and `/healthz` are served.
    #[serde(deserialize_with = "some_address")]
    pub status: Option<SocketAddr>,
    /// `/healthz` fails, and HTTP requests are answered with 503, once a sink has failed, or has not returned from a call, for longer than this; 10 s.
    pub unhealthy_after: Option<Time>,
    /// The most connections of each input.
    pub connections_max: Option<NonZeroUsize>,
    /// A connection is closed after so long without a byte.
    pub idle_time: Option<Time>,
    /// Longer lines are cut.
    #[serde(deserialize_with = "some_line_size")]
    pub line_max: Option<Size>,
    /// Time between two lines about lines that were shed.
    pub summary_interval: Option<Time>,
    /// How long a repeated line may be counted.
    pub repeat_time: Option<Time>,
    /// The bound of each source.
    pub source: SourceSettings,
    /// The severity groups.
    pub group: GroupsSettings,
    /// Inputs.
    pub tcp: Vec<TcpConfig>,
    /// Inputs.
    pub udp: Vec<UdpConfig>,
    /// Inputs: Unix datagram sockets.
    pub unix: Vec<UnixConfig>,
    /// Inputs.
    pub unix_stream: Vec<UnixStreamConfig>,
    /// Inputs.
    #[cfg(feature = "tls")]
    pub tls: Vec<TlsConfig>,
    /// Inputs.
    pub http: Vec<HttpConfig>,
    /// Sinks.
    pub stream: Vec<StreamSettings>,
    /// Sinks.
    pub file: Vec<FileSettings>,
    /// Sinks.
    pub stdout: Vec<StdoutSettings>,
    /// Sinks: other log servers.
    pub relay: Vec<RelaySettings>,
    /// Sinks: subjects of NATS JetStream.
    pub nats: Vec<NatsSettings>,
}

/// What a source may have in memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceSettings {
    /// Lines.
    pub lines: Option<NonZeroU64>,
    /// Bytes.
    pub bytes: Option<Size>,
}

/// The severity groups, the most urgent one first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupsSettings {
    /// Errors, and more urgent lines.
    pub urgent: GroupSettings,
    /// Warnings.
    pub warning: GroupSettings,
    /// Notices and informational lines.
    pub normal: GroupSettings,
    /// Debug lines.
    pub debug: GroupSettings,
}

/// A severity group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct GroupSettings {
    /// What happens to lines that the sinks cannot take yet.
    #[serde(deserialize_with = "some_text")]
    pub policy: Option<Policy>,
    /// The bound of its reservoir, in batches.
    pub reservoir_batches: Option<NonZeroU64>,
    /// The bound of its reservoir, in bytes.
    pub reservoir: Option<Size>,
}

/// A sealed stream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StreamSettings {
    /// Its name in metrics and messages.
    #[serde(default = "stream_name")]
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// When a line is durable.
    #[serde(default, deserialize_with = "text")]
    pub sync: SyncMode,
    /// The file with the key that it is sealed with.
    pub key_file: Option<PathBuf>,
    /// The environment variable with that key.
    pub key_env: Option<String>,
    /// The size of a segment.
    pub segment: Option<Size>,
    /// The oldest segments are removed beyond this.
    pub keep: Option<Size>,
    /// Segments whose last line is older are removed.
    pub keep_time: Option<Time>,
    /// The queue in front of it.
    pub spill: Option<SpillSettings>,
}

fn stream_name() -> String {
    "stream".to_owned()
}

impl StreamSettings {
    /// A stream in this directory, not sealed.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            name: stream_name(),
            path,
            sync: SyncMode::default(),
            key_file: None,
            key_env: None,
            segment: None,
            keep: None,
            keep_time: None,
            spill: None,
        }
    }

    fn config(&self) -> Result<StreamSinkConfig, String> {
        let key = match (&self.key_file, &self.key_env) {
            (None, None) => None,
            (Some(file), None) => Some(MasterKey::from_file(file, &self.path)),
            (None, Some(variable)) => Some(MasterKey::from_env(variable)),
            (Some(_), Some(_)) => {
                return Err("it has one of key-file and key-env".to_owned());
            }
        };
        let retention = Retention {
            bytes: self.keep.map(|keep| keep.0),
            age: self.keep_time.map(|time| time.0),
            ..Retention::default()
        };
        let mut options = StreamOptions::new()
            .sync(self.sync)
            .flush_after(FLUSH_AFTER)
            .memory(LaneConfig::bounded(STREAM_MEMORY_BYTES))
            .retention(retention);
        if let Some(key) = key {
            options = options.key(key.map_err(|error| error.to_string())?);
        }
        if let Some(segment) = self.segment {
            options = options.segment_bytes(segment.0);
        }
        Ok(StreamSinkConfig {
            path: self.path.clone(),
            options,
        })
    }
}

/// A plain file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSettings {
    /// Its name in metrics and messages.
    #[serde(default = "file_name")]
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The form of the lines.
    #[serde(default)]
    pub form: StdoutForm,
    /// A new file is begun in each such period.
    pub rotate: Option<Period>,
    /// A new file is begun at this size.
    pub rotate_size: Option<Size>,
    /// Whether rotated files are packed.
    #[serde(default)]
    pub gzip: bool,
    /// The most rotated files.
    pub keep_files: Option<usize>,
    /// The most bytes of all rotated files.
    pub keep: Option<Size>,
    /// Whether lines are synced to the disk.
    #[serde(default)]
    pub sync: bool,
    /// The zone of the times and of the periods; UTC.
    pub time_zone: Option<Zone>,
    /// The queue in front of it.
    pub spill: Option<SpillSettings>,
}

fn file_name() -> String {
    "file".to_owned()
}

impl FileSettings {
    /// A file that is never rotated.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            name: file_name(),
            path,
            form: StdoutForm::default(),
            rotate: None,
            rotate_size: None,
            gzip: false,
            keep_files: None,
            keep: None,
            sync: false,
            time_zone: None,
            spill: None,
        }
    }

    fn sink(&self) -> SinkConfig {
        let config = FileSinkConfig {
            form: self.form,
            rotation: Rotation {
                bytes: self.rotate_size.map(|size| size.0),
                period: self.rotate,
            },
            compress: self.gzip,
            keep: Keep {
                files: self.keep_files,
                bytes: self.keep.map(|size| size.0),
            },
            sync: self.sync,
            zone: zone(&self.time_zone),
            ..FileSinkConfig::new(&self.path)
        };
        config.sink(&self.name)
    }
}

fn zone(zone: &Option<Zone>) -> TimeZone {
    zone.as_ref().map_or(TimeZone::UTC, |zone| zone.0.clone())
}

/// Standard output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StdoutSettings {
    /// Its name in metrics and messages.
    pub name: String,
    /// The form of the lines.
    pub form: StdoutForm,
    /// The zone of the times; UTC.
    pub time_zone: Option<Zone>,
    /// The queue in front of it.
    pub spill: Option<SpillSettings>,
}

impl Default for StdoutSettings {
    fn default() -> Self {
        Self {
            name: "stdout".to_owned(),
            form: StdoutForm::default(),
            time_zone: None,
            spill: None,
        }
    }
}

/// Another log server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RelaySettings {
    /// Its name in metrics and messages, and that of its position in the stream.
    #[serde(default = "relay_name")]
    pub name: String,
    /// `http://HOST:PORT/`.
    pub url: String,
    /// A stream of its own that it sends from; by default it sends from the first stream.
    pub spool: Option<SpoolSettings>,
    /// Requests on their way at once.
    pub requests_max: Option<NonZeroUsize>,
    /// The bytes of a request.
    pub request: Option<Size>,
    /// The timeout of a request.
    pub timeout: Option<Time>,
}

fn relay_name() -> String {
    "relay".to_owned()
}

impl RelaySettings {
    /// A relay that sends from the first stream.
    #[must_use]
    pub fn new(url: String) -> Self {
        Self {
            name: relay_name(),
            url,
            spool: None,
            requests_max: None,
            request: None,
            timeout: None,
        }
    }

    fn config(&self) -> Result<RelayConfig, RelayUrlError> {
        let mut config = RelayConfig::new(&self.name, &self.url)?;
        if let Some(requests_max) = self.requests_max {
            config.requests_max = requests_max;
        }
        if let Some(size) = self.request {
            config.request_bytes = size.0 as usize;
        }
        if let Some(time) = self.timeout {
            config.timeout = time.0;
        }
        Ok(config)
    }
}

/// A subject of NATS JetStream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NatsSettings {
    /// Its name in metrics and messages, and that of its position in the stream.
    #[serde(default = "nats_name")]
    pub name: String,
    /// `nats://HOST:PORT/SUBJECT`, or `tls://`.
    pub url: String,
    /// A stream of its own that it publishes from; by default it publishes from the first stream.
    pub spool: Option<SpoolSettings>,
    /// Messages that are not acknowledged.
    pub in_flight_lines: Option<NonZeroUsize>,
    /// Their bytes.
    pub in_flight: Option<Size>,
    /// The time in which the server has to answer.
    pub timeout: Option<Time>,
    /// The file with a JWT and its seed.
    pub credentials: Option<PathBuf>,
    /// The user.
    pub user: Option<String>,
    /// The file with the user's password.
    pub password_file: Option<PathBuf>,
    /// The file with a token.
    pub token_file: Option<PathBuf>,
    /// The file with certificates that sign that of the server.
    pub roots: Option<PathBuf>,
    /// The file with the own certificate.
    pub certificate: Option<PathBuf>,
    /// The file with its key.
    pub key: Option<PathBuf>,
}

fn nats_name() -> String {
    "nats".to_owned()
}

impl NatsSettings {
    /// A sink that publishes from the first stream.
    #[must_use]
    pub fn new(url: String) -> Self {
        Self {
            name: nats_name(),
            url,
            spool: None,
            in_flight_lines: None,
            in_flight: None,
            timeout: None,
            credentials: None,
            user: None,
            password_file: None,
            token_file: None,
            roots: None,
            certificate: None,
            key: None,
        }
    }

    /// The files that it reads, with their keys.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("credentials", &self.credentials),
            ("password-file", &self.password_file),
            ("token-file", &self.token_file),
            ("roots", &self.roots),
            ("certificate", &self.certificate),
            ("key", &self.key),
        ];
        files
            .into_iter()
            .filter_map(|(key, path)| Some((key, path.as_deref()?)))
    }

    #[cfg(feature = "nats")]
    fn config(&self) -> Result<NatsConfig, String> {
        let mut config =
            NatsConfig::new(&self.name, &self.url).map_err(|error| error.to_string())?;
        if let Some(lines) = self.in_flight_lines {
            config.in_flight_lines = lines;
        }
        if let Some(size) = self.in_flight {
            config.in_flight_bytes = size.0 as usize;
        }
        if let Some(time) = self.timeout {
            config.timeout = time.0;
        }
        let login = (
            &self.credentials,
            &self.user,
            &self.password_file,
            &self.token_file,
        );
        config.login = match login {
            (None, None, None, None) => NatsLogin::None,
            (Some(file), None, None, None) => NatsLogin::Credentials(file.clone()),
            (None, Some(user), Some(file), None) => NatsLogin::Password(user.clone(), file.clone()),
            (None, None, None, Some(file)) => NatsLogin::Token(file.clone()),
            _ => {
                let text =
                    "it has one of credentials, token-file, and user together with password-file";
                return Err(text.to_owned());
            }
        };
        config.roots.clone_from(&self.roots);
        config.certificate = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            _ => return Err("it has certificate and key, or none of them".to_owned()),
        };
        Ok(config)
    }

    #[cfg(not(feature = "nats"))]
    fn config(&self) -> Result<Never, String> {
        let text = "this program was built without NATS: build it with --features nats";
        Err(text.to_owned())
    }
}

/// What a build without a kind of sink has of it.
#[cfg(not(feature = "nats"))]
enum Never {}

#[cfg(not(feature = "nats"))]
impl Never {
    fn sink(self, _: SpoolConfig) -> SinkConfig {
        match self {}
    }
}

#[cfg(not(feature = "nats"))]
impl From<Never> for Receiver {
    fn from(never: Never) -> Self {
        match never {}
    }
}

/// A stream that holds what a relay or NATS has not got.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SpoolSettings {
    /// Its directory.
    pub path: PathBuf,
    /// Its bound.
    pub size: Option<Size>,
    /// What happens then.
    #[serde(default)]
    pub full: SpoolFull,
}

impl SpoolSettings {
    /// A spool of 1 GiB that drops the oldest lines.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            size: None,
            full: SpoolFull::default(),
        }
    }

    fn config(&self) -> SpoolConfig {
        let config = SpoolConfig::new(&self.path);
        SpoolConfig {
            bytes_max: self.size.map_or(config.bytes_max, |size| size.0),
            full: self.full,
            options: config
                .options
                .memory(LaneConfig::bounded(STREAM_MEMORY_BYTES)),
            ..config
        }
    }
}

/// The queue in front of a sink, so that the other sinks do not wait for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SpillSettings {
    /// The bound of what is in memory.
    pub memory: Option<Size>,
    /// Whether what must be durable is durable in the spool first.
    #[serde(default)]
    pub durable: bool,
    /// Where lines go when memory is full.
    pub spool: SpoolSettings,
}

impl SpillSettings {
    fn config(&self) -> SpillConfig {
        let config = SpillConfig::new(&self.spool.path);
        SpillConfig {
            memory_bytes: self.memory.map_or(config.memory_bytes, |size| size.0),
            is_durable: self.durable,
            spool: self.spool.config(),
        }
    }
}

/// The sink with the queue in front of it, if it has one.
fn spilled(sink: SinkConfig, spill: &Option<SpillSettings>) -> SinkConfig {
    match spill {
        Some(spill) => sink.spill(spill.config()),
        None => sink,
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = fs::read_to_string(path).map_err(|error| SettingsError::Read {
            path: path.to_owned(),
            error,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file. The path is for messages.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let parsed = toml::from_str::<Self>(text);
        let parsed = parsed.map_err(|error| SettingsError::syntax(path, text, &error))?;
        let (path, text) = (path.to_owned(), text.to_owned());
        let origin = Origin::File { path, text };
        Ok(Self { origin, ..parsed })
    }

    /// The settings that a server is started with, or reloaded.
    ///
    /// # Errors
    /// [`SettingsError`]: an input or a sink is missing, a name, a port or a path comes twice, a key cannot be read.
    pub fn config(&self) -> Result<Config, SettingsError> {
        self.check_conflicts()?;
        let mut config = Config::new(self.sinks()?);
        let urgent_first = [
            &self.group.urgent,
            &self.group.warning,
            &self.group.normal,
            &self.group.debug,
        ];
        for (group, settings) in config.groups.iter_mut().zip(urgent_first) {
            group.policy = settings.policy.unwrap_or(group.policy);
            let reservoir = &mut group.reservoir;
            let batches = settings.reservoir_batches.map(NonZeroU64::get);
            reservoir.messages = batches.unwrap_or(reservoir.messages);
            reservoir.bytes = settings.reservoir.map_or(reservoir.bytes, |size| size.0);
        }
        let time = |time: Option<Time>, default| time.map_or(default, |time| time.0);
        let default = SourceBound::default();
        let config = Config {
            inputs: self.inputs().into_iter().map(|(_, it)| it).collect(),
            source: SourceBound {
                lines: (self.source.lines).map_or(default.lines, NonZeroU64::get),
                bytes: self.source.bytes.map_or(default.bytes, |size| size.0),
            },
            line_bytes_max: self
                .line_max
                .map_or(config.line_bytes_max, |size| size.0 as usize),
            connections_max: (self.connections_max)
                .map_or(config.connections_max, NonZeroUsize::get),
            idle_time: self.idle_time.map(|time| time.0),
            summary_interval: time(self.summary_interval, config.summary_interval),
            repeat_time: time(self.repeat_time, config.repeat_time),
            unhealthy_after: time(self.unhealthy_after, config.unhealthy_after),
            ..config
        };
        if config.sinks.is_empty() {
            let text = "there is no sink: name one, as [[stream]] in the file or the directory of a stream";
            return Err(SettingsError::Invalid(text.to_owned()));
        }
        if config.inputs.is_empty() {
            let text =
                "there is no input: name one, as [[tcp]] in the file or --tcp 127.0.0.1:1514";
            return Err(SettingsError::Invalid(text.to_owned()));
        }
        config.validate().map_err(SettingsError::Invalid)?;
        Ok(config)
    }

    /// The keys whose change takes effect at a restart.
    pub(crate) fn restarts(&self, changed: &Self) -> Vec<String> {
        let differ = [
            ("status", self.status != changed.status),
            (
                "connections-max",
                self.connections_max != changed.connections_max,
            ),
            ("idle-time", self.idle_time != changed.idle_time),
        ];
        let differ = differ.into_iter().filter(|(_, differs)| *differs);
        let mut names: Vec<_> = differ.map(|(key, _)| key.to_owned()).collect();
        let path = |path: &Path| path.display().to_string();
        names.extend(self.changes("stream", &self.stream, &changed.stream, |it| path(&it.path)));
        names.extend(self.changes("file", &self.file, &changed.file, |it| path(&it.path)));
        names.extend(self.changes("stdout", &self.stdout, &changed.stdout, |it| {
            it.name.clone()
        }));
        names.extend(self.changes("relay", &self.relay, &changed.relay, |it| it.url.clone()));
        names.extend(self.changes("nats", &self.nats, &changed.nats, |it| it.name.clone()));
        names
    }

    /// The tables that are new, changed or gone.
    fn changes<T: PartialEq>(
        &self,
        table: &'static str,
        before: &[T],
        after: &[T],
        value: impl Fn(&T) -> String,
    ) -> Vec<String> {
        let gone = numbered(table, before).filter(|(_, it)| !after.contains(it));
        let new = numbered(table, after).filter(|(_, it)| !before.contains(it));
        let mut names: Vec<_> = gone
            .chain(new)
            .map(|(table, it)| self.origin.name(table, "", value(it)))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The names of the sinks, and the queues in front of them.
    fn named_sinks(&self) -> impl Iterator<Item = (Table, &str, Option<&SpillSettings>)> {
        (numbered("stream", &self.stream).map(|(at, it)| (at, &*it.name, it.spill.as_ref())))
            .chain(numbered("file", &self.file).map(|(at, it)| (at, &*it.name, it.spill.as_ref())))
            .chain(
                numbered("stdout", &self.stdout).map(|(at, it)| (at, &*it.name, it.spill.as_ref())),
            )
            .chain(numbered("relay", &self.relay).map(|(at, it)| (at, &*it.name, None)))
            .chain(numbered("nats", &self.nats).map(|(at, it)| (at, &*it.name, None)))
    }

    fn sinks(&self) -> Result<Vec<SinkConfig>, SettingsError> {
        let mut names = HashSet::new();
        for (table, name, _) in self.named_sinks() {
            if !names.insert(name) {
                let text = format!("two sinks have the name `{name}`: give one another `name`");
                return Err(self.origin.invalid(table, text));
            }
        }
        let (mut direct, mut spooled) = (Vec::new(), Vec::new());
        for (table, relay) in numbered("relay", &self.relay) {
            let config = relay.config();
            let config = config.map_err(|error| self.origin.invalid(table, error))?;
            match &relay.spool {
                Some(spool) => spooled.push(config.sink(spool.config())),
                None if self.stream.is_empty() => {
                    let text = "the relay needs a `spool`: there is no stream to send from";
                    return Err(self.origin.invalid(table, text));
                }
                None => direct.push(Receiver::from(config)),
            }
        }
        for (table, nats) in numbered("nats", &self.nats) {
            let config = nats.config();
            let config = config.map_err(|error| self.origin.invalid(table, error))?;
            match &nats.spool {
                Some(spool) => spooled.push(config.sink(spool.config())),
                None if self.stream.is_empty() => {
                    let text = "NATS needs a `spool`: there is no stream to publish from";
                    return Err(self.origin.invalid(table, text));
                }
                None => direct.push(config.into()),
            }
        }
        let mut sinks = Vec::new();
        for (table, stream) in numbered("stream", &self.stream) {
            let config = stream.config();
            let config = config.map_err(|error| self.origin.invalid(table, error))?;
            let receivers = std::mem::take(&mut direct);
            let sink = match stream.segment {
                Some(_) => config.sink_with_receivers(&stream.name, receivers),
                None => config.fitting_sink_with_receivers(&stream.name, receivers),
            };
            sinks.push(spilled(sink, &stream.spill));
        }
        sinks.extend(
            self.file
                .iter()
                .map(|file| spilled(file.sink(), &file.spill)),
        );
        sinks.extend(self.stdout.iter().map(|stdout| {
            let config = StdoutSinkConfig {
                form: stdout.form,
                zone: zone(&stdout.time_zone),
            };
            spilled(config.sink(&stdout.name), &stdout.spill)
        }));
        sinks.extend(spooled);
        Ok(sinks)
    }

    fn inputs(&self) -> Vec<(Table, InputConfig)> {
        use InputConfig::{Http, Tcp, Udp, UnixDatagram, UnixStream};
        let mut inputs: Vec<_> = (numbered("tcp", &self.tcp).map(|(at, it)| (at, Tcp(*it))))
            .chain(numbered("udp", &self.udp).map(|(at, it)| (at, Udp(*it))))
            .chain(numbered("unix", &self.unix).map(|(at, it)| (at, UnixDatagram(it.clone()))))
            .collect();
        let unix_stream = numbered("unix-stream", &self.unix_stream);
        inputs.extend(unix_stream.map(|(at, it)| (at, UnixStream(it.clone()))));
        #[cfg(feature = "tls")]
        inputs
            .extend(numbered("tls", &self.tls).map(|(at, it)| (at, InputConfig::Tls(it.clone()))));
        inputs.extend(numbered("http", &self.http).map(|(at, it)| (at, Http(*it))));
        inputs
    }
}
