//! NATS JetStream: publishes what is in a stream, a message for each line. See [`forward`](super::forward).
//!
//! ```text
//!   Chunk ─▶ a message each, with its id ─▶ nats-server ─▶ JetStream
//!            (at most so many on their way)                   │
//!   Acks  ◀──── all of the chunk acknowledged ◀── an answer each
//! ```
//!
//! A message has the line as it came, and header fields. `Nats-Msg-Id` names the stream, the sink and the sequence of the
//! record. JetStream takes an id once within the stream's window for duplicates. So a message that is sent again, because
//! its answer was lost or either side was killed, is there once if it comes again within the window, 2 minutes by default.
//! A stream in mode none may use a sequence again after a power failure. Its ids name the process instead of the stream.
//!
//! One sender publishes in the order of the stream. Messages that follow one that failed may be stored before it.
//!
//! Each attempt uses the connection of the last one, unless that has failed. The client's own reconnection is off, because
//! the client would keep messages without a bound on their time, and does not say why it cannot connect.

use std::{
    collections::VecDeque,
    error::Error as _,
    fmt::{self, Write as _},
    hash::{BuildHasher, Hasher, RandomState},
    num::NonZeroUsize,
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use async_nats::{
    ConnectErrorKind, ConnectOptions, Event, HeaderMap, HeaderValue, ServerAddr, ServerError,
    jetstream::{
        self, Context, ErrorCode,
        context::{
            ContextBuilder, PublishAckFuture, PublishError, PublishErrorKind, RequestErrorKind,
        },
        message::PublishMessage,
        response::Response,
    },
};
use bytes::Bytes;
use freeboard::{flow::Backoff, platform::sync::Mutex, stream::StreamWriter};
use tokio::{
    runtime::{self, Runtime},
    sync::watch,
};

use super::{
    SinkConfig, SinkError, SinkGauge,
    consumer::Chunk,
    forward::{ForwardConfig, Forwarder, Forwarding, Left, Receiver, Sent, Transport},
    lock,
    receipts::Receipts,
    spool::SpoolConfig,
    stream::spooled_sink,
};
use crate::record::{LogRecord, decode_batch};

/// How long an attempt to find the reason of a failure takes.
const REASON_TIME: Duration = Duration::from_secs(2);

/// A subject has at most so many bytes.
const SUBJECT_BYTES_MAX: usize = 512;

/// An address of NATS cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is no address of a NATS subject: {why}")]
pub struct NatsUrlError {
    url: String,
    why: &'static str,
}

/// Who the log server is for NATS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NatsLogin {
    /// The server asks nobody.
    #[default]
    None,
    /// A file with a JWT and a seed, as `nsc` writes it.
    Credentials(PathBuf),
    /// A user and the file with the password.
    Password(String, PathBuf),
    /// The file with a token.
    Token(PathBuf),
}

/// The settings of a sink that publishes lines.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// The address as it was written, without the subject.
    server: String,
    address: ServerAddr,
    subject: SubjectTemplate,
    /// The name of its position in the stream.
    name: String,
    /// Messages that are published and not acknowledged; 4,096.
    pub in_flight_lines: NonZeroUsize,
    /// The bytes of their lines, about; 1 MiB, and at least one line.
    pub in_flight_bytes: usize,
    /// How long the server may take to accept a connection, or to acknowledge a message; 10 s.
    pub timeout: Duration,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// Who it is.
    pub login: NatsLogin,
    /// The file with the certificates that sign that of the server, in PEM; by default those of the system.
    pub roots: Option<PathBuf>,
    /// The files with its own certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    gauge: Arc<SinkGauge>,
    left: Arc<Mutex<Left>>,
}

impl NatsConfig {
    /// A sink with this name of its position, of up to 55 bytes, which publishes to `nats://HOST:PORT/SUBJECT`, or
    /// `tls://`. In the subject, `{severity}` stands for the line's severity, as `err`, and `{host}` for the name of its
    /// host.
    ///
    /// # Errors
    /// [`NatsUrlError`].
    pub fn new(name: impl Into<String>, url: &str) -> Result<Self, NatsUrlError> {
        let name = name.into();
        let error = |why| NatsUrlError {
            url: url.to_owned(),
            why,
        };
        let usage = "write nats://HOST:PORT/SUBJECT or tls://HOST:PORT/SUBJECT";
        let (scheme, rest) = url.split_once("://").ok_or(error(usage))?;
        let (host, subject) = rest.split_once('/').ok_or(error(usage))?;
        if !matches!(scheme, "nats" | "tls") || host.is_empty() {
            return Err(error(usage));
        }
        if host.contains('@') {
            let why = "a login does not belong into the address: there are settings for it";
            return Err(NatsUrlError {
                url: format!(
                    "{scheme}://…@{}",
                    host.rsplit('@').next().unwrap_or_default()
                ),
                why,
            });
        }
        let server = format!("{scheme}://{host}");
        Ok(Self {
            address: ServerAddr::from_str(&server).map_err(|_| error(usage))?,
            subject: SubjectTemplate::parse(subject).map_err(error)?,
            server,
            in_flight_lines: const { NonZeroUsize::new(4_096).unwrap() },
            in_flight_bytes: 1 << 20,
            timeout: Duration::from_secs(10),
            backoff: Backoff::default(),
            login: NatsLogin::None,
            roots: None,
            certificate: None,
            gauge: SinkGauge::awaited(name.clone()),
            left: Arc::default(),
            name,
        })
    }

    /// Its state: lines that JetStream has acknowledged, and failures.
    #[must_use]
    pub fn gauge(&self) -> &Arc<SinkGauge> {
        &self.gauge
    }

    /// A sink that appends lines to a spool of its own, and publishes them from there. A line counts as durable when
    /// JetStream has acknowledged it.
    #[must_use]
    pub fn sink(self, spool: SpoolConfig) -> SinkConfig {
        let name = self.name.clone();
        spooled_sink(&name, spool, self.into())
    }

    async fn options(&self) -> Result<ConnectOptions, String> {
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(text.trim_end_matches(['\r', '\n']).to_owned())
        };
        let options = ConnectOptions::new()
            .name(format!("freeboard logd {}", self.name))
            .connection_timeout(self.timeout)
            .ignore_discovered_servers()
            // 0 would mean that there is no limit.
            .max_reconnects(1);
        let options = match &self.login {
            NatsLogin::None => options,
            NatsLogin::Credentials(path) => {
                let loaded = options.credentials(&read(path)?);
                loaded.map_err(|error| format!("{}: {error}", path.display()))?
            }
            NatsLogin::Password(user, path) => options.user_and_password(user.clone(), read(path)?),
            NatsLogin::Token(path) => options.token(read(path)?),
        };
        let options = match &self.roots {
            Some(path) => options.add_root_certificates(path.clone()),
            None => options,
        };
        Ok(match &self.certificate {
            Some((certificate, key)) => {
                options.add_client_certificate(certificate.clone(), key.clone())
            }
            None => options,
        })
    }
}

impl From<NatsConfig> for Receiver {
    fn from(config: NatsConfig) -> Self {
        Self(Arc::new(config))
    }
}

impl Forwarding for NatsConfig {
    fn gauge(&self) -> &Arc<SinkGauge> {
        &self.gauge
    }

    fn start(
        &self,
        stream: &StreamWriter,
        receipts: &dyn Fn() -> Arc<Receipts>,
    ) -> Result<Forwarder, SinkError> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("logd nats")
            .enable_all()
            .build()
            .map_err(|error| SinkError::Busy(format!("no thread: {error}")))?;
        let transport = Publisher {
            config: self.clone(),
            process: format!("{:016x}", RandomState::new().build_hasher().finish()),
            connection: Mutex::new(None),
            is_stopping: watch::Sender::new(false),
            runtime: Some(runtime),
        };
        let config = ForwardConfig {
            name: self.name.clone(),
            senders: NonZeroUsize::MIN,
            chunk_bytes: self.in_flight_bytes,
            backoff: self.backoff,
            gauge: self.gauge.clone(),
            left: self.left.clone(),
        };
        config.start(stream, Box::new(transport), Some(receipts()))
    }
}

/// A part of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Severity,
    Host,
}

/// A subject with places for what differs between lines.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SubjectTemplate(Vec<Part>);

impl SubjectTemplate {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a `{` has no `}`")?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(match name {
                "severity" => Part::Severity,
                "host" => Part::Host,
                _ => return Err("of names in braces it knows {severity} and {host}"),
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        let template = Self(parts);
        let example = template.of("x", "x");
        if example.len() > SUBJECT_BYTES_MAX {
            return Err("the subject is longer than 512 bytes");
        }
        let is_word = |word: &str| {
            let is_wrong = |it: char| it.is_whitespace() || it.is_control() || "*>{}".contains(it);
            !word.is_empty() && !word.contains(is_wrong)
        };
        if !example.split('.').all(is_word) {
            return Err("a subject has words with dots between, without blanks, `*` and `>`");
        }
        match example.split('.').next() {
            Some(first) if first.starts_with('$') => Err("subjects with `$` are the server's"),
            _ => Ok(template),
        }
    }

    fn of(&self, severity: &str, host: &str) -> String {
        let mut subject = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => subject += text,
                Part::Severity => subject += severity,
                Part::Host => subject += host,
            }
        }
        subject
    }

    fn of_record(&self, record: &LogRecord<'_>) -> String {
        let host = record.host().unwrap_or("_");
        // A name is one word of the subject, whatever is in it.
        let is_plain = |it: char| it.is_alphanumeric() || "-_:".contains(it);
        let host: String = host
            .chars()
            .map(|it| if is_plain(it) { it } else { '_' })
            .collect();
        self.of(record.priority.severity().keyword(), &host)
    }
}

impl fmt::Display for SubjectTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.of("{severity}", "{host}"))
    }
}

/// A connection, and why it cannot be used any more.
#[derive(Clone)]
struct Connection {
    jetstream: Context,
    failure: watch::Sender<Option<String>>,
}

impl Connection {
    /// Waits until it fails. A failure stays.
    async fn failed(&self) -> String {
        let mut failures = self.failure.subscribe();
        let failure = failures.wait_for(Option::is_some).await;
        failure.map_or_else(|_| String::new(), |it| it.clone().unwrap_or_default())
    }

    /// It is not used any more. The first reason counts.
    fn fail(&self, why: String) {
        note_failure(&self.failure, why);
    }
}

fn note_failure(failure: &watch::Sender<Option<String>>, why: String) {
    failure.send_if_modified(|failure| {
        let is_first = failure.is_none();
        failure.get_or_insert(why);
        is_first
    });
}

/// Publishes chunks.
struct Publisher {
    config: NatsConfig,
    /// In the ids of messages from a stream that may use sequences again.
    process: String,
    connection: Mutex<Option<Connection>>,
    is_stopping: watch::Sender<bool>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Transport for Publisher {
    fn send(&self, chunk: &Chunk, stream_id: &str, sent: &mut Sent) -> Result<(), String> {
        let runtime = self.runtime.as_ref().expect("it runs");
        let mut stopping = self.is_stopping.subscribe();
        let result = runtime.block_on(async {
            tokio::select! {
                result = self.attempt(chunk, stream_id, sent) => result,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => Err("it stops".to_owned()),
            }
        });
        result.map_err(|error| format!("{}: {error}", self.config.server))
    }

    fn stop(&self) {
        self.is_stopping.send_replace(true);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        *lock(&self.connection) = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A message that was published.
struct Published {
    index: usize,
    sequence: u64,
    subject: String,
    answer: PublishAckFuture,
}

impl Publisher {
    async fn attempt(&self, chunk: &Chunk, stream_id: &str, sent: &mut Sent) -> Result<(), String> {
        let connection = lock(&self.connection).clone();
        let connection = match connection.filter(|it| it.failure.borrow().is_none()) {
            Some(connection) => connection,
            None => {
                // The one before is closed first.
                *lock(&self.connection) = None;
                let connection = self.connect().await?;
                lock(&self.connection).insert(connection).clone()
            }
        };
        self.publish(&connection, chunk, stream_id, sent).await
    }

    async fn connect(&self) -> Result<Connection, String> {
        let failure = watch::Sender::new(None);
        let events = failure.clone();
        let options = self.config.options().await?.event_callback(move |event| {
            match event {
                Event::Disconnected | Event::Closed => {
                    note_failure(&events, "the connection was lost".to_owned());
                }
                Event::ServerError(ServerError::Other(text)) => note_failure(&events, text),
                Event::ServerError(error) => note_failure(&events, error.to_string()),
                _ => {}
            }
            async {}
        });
        let connected = options.connect(self.config.address.clone()).await;
        let client = connected.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation => "the server refuses the login".to_owned(),
            _ => with_sources(&error),
        })?;
        let jetstream = ContextBuilder::new()
            .timeout(self.config.timeout)
            .max_ack_inflight(self.config.in_flight_lines.get())
            .backpressure_on_inflight(true)
            .build(client);
        Ok(Connection { jetstream, failure })
    }

    /// Publishes what is not done of a chunk, and waits for the answers.
    async fn publish(
        &self,
        connection: &Connection,
        chunk: &Chunk,
        stream_id: &str,
        sent: &mut Sent,
    ) -> Result<(), String> {
        let records = usize::try_from(chunk.records()).expect("a chunk fits into memory");
        sent.done.resize(records, false);
        let mut window = VecDeque::new();
        let mut result = Ok(());
        for (index, decoded) in decode_batch(&chunk.body).enumerate() {
            if sent.done[index] {
                continue;
            }
            if window.len() >= self.config.in_flight_lines.get()
                && let Some(published) = window.pop_front()
            {
                result = self.settle(connection, published, sent).await;
                if result.is_err() {
                    break;
                }
            }
            let (_, record) = decoded.expect("a chunk has whole lines");
            let sequence = chunk.first + index as u64;
            let subject = self.config.subject.of_record(&record);
            let message = self.message(&record, stream_id, sequence);
            let publishing = connection.jetstream.send_publish(subject.clone(), message);
            let published = tokio::select! {
                published = publishing => published,
                why = connection.failed() => {
                    result = Err(why);
                    break;
                }
            };
            match published {
                Ok(answer) => window.push_back(Published {
                    index,
                    sequence,
                    subject,
                    answer,
                }),
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    self.refuse(index, sequence, &with_sources(&error), sent);
                }
                Err(error) => {
                    result = Err(with_sources(&error));
                    connection.fail(with_sources(&error));
                    break;
                }
            }
        }
        // Also after an error, so that what is acknowledged is not sent again.
        for published in window {
            let settled = self.settle(connection, published, sent).await;
            result = result.and(settled);
        }
        result
    }

    /// Waits for the answer to a message.
    async fn settle(
        &self,
        connection: &Connection,
        published: Published,
        sent: &mut Sent,
    ) -> Result<(), String> {
        let Published {
            index,
            sequence,
            subject,
            answer,
        } = published;
        let answer = tokio::select! {
            biased;
            answer = answer.into_future() => answer,
            why = connection.failed() => return Err(why),
        };
        let error = match answer {
            Ok(_) => {
                sent.done[index] = true;
                return Ok(());
            }
            Err(error) => error,
        };
        match (error.kind(), api_error(&error)) {
            (_, Some(code)) if is_too_large(code) => {
                self.refuse(index, sequence, &with_sources(&error), sent);
                Ok(())
            }
            (PublishErrorKind::StreamNotFound, _) => {
                Err(self.why_no_stream(connection, &subject).await)
            }
            (PublishErrorKind::TimedOut, _) => {
                let seconds = self.config.timeout.as_secs_f32();
                let why = format!("no answer for {seconds} s");
                // The others would wait as long, one after the other.
                connection.fail(why.clone());
                Err(why)
            }
            (PublishErrorKind::BrokenPipe, _) => {
                connection.fail("the connection was lost".to_owned());
                Err(connection.failed().await)
            }
            _ => Err(format!("{subject}: {}", with_sources(&error))),
        }
    }

    /// The line will never be there.
    fn refuse(&self, index: usize, sequence: u64, why: &str, sent: &mut Sent) {
        if sent.refused.is_empty() {
            let name = &self.config.name;
            tracing::warn!("{name}: record {sequence} is passed over: {why}");
        }
        sent.done[index] = true;
        sent.refused.push(sequence);
    }

    /// The server has given no answer for this subject.
    async fn why_no_stream(&self, connection: &Connection, subject: &str) -> String {
        let no_stream = format!("no stream takes the subject {subject}");
        let off = "JetStream is off on this server, or for this account";
        // Not `query_account`: it does not understand the answer of 2.9.
        let asked = connection.jetstream.request("INFO", &());
        match tokio::time::timeout(REASON_TIME, asked).await {
            Ok(Ok(Response::Ok(Account {}))) => no_stream,
            Ok(Ok(Response::Err { .. })) => off.to_owned(),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => off.to_owned(),
            // It may not ask.
            _ => format!("{no_stream}, or {off}"),
        }
    }

    fn message(&self, record: &LogRecord<'_>, stream_id: &str, sequence: u64) -> PublishMessage {
        let name = &self.config.name;
        let stream_id = match stream_id {
            "" => &self.process,
            id => id,
        };
        let mut headers = HeaderMap::new();
        let mut add = |field: &'static str, value: &str| {
            let value = HeaderValue::from_str(value);
            // Only a name with a line end is none.
            if let Ok(value) = value {
                headers.insert(field, value);
            }
        };
        add("Nats-Msg-Id", &format!("{stream_id}-{sequence}-{name}"));
        add("Freeboard-Source", record.source);
        add("Freeboard-Received", &record.received_ns.to_string());
        let facility = record.priority.facility().number();
        add("Freeboard-Facility", &facility.to_string());
        add("Freeboard-Severity", record.priority.severity().keyword());
        if let Some(host) = record.host() {
            add("Freeboard-Host", host);
        }
        let mut marks = String::new();
        for name in record.marks.names() {
            let comma = if marks.is_empty() { "" } else { "," };
            let _ = write!(marks, "{comma}{name}");
        }
        if !marks.is_empty() {
            add("Freeboard-Marks", &marks);
        }
        PublishMessage::build()
            .payload(Bytes::copy_from_slice(record.text))
            .headers(headers)
    }
}

/// JetStream describes the account, if there is JetStream.
#[derive(serde::Deserialize)]
struct Account {}

/// What JetStream has answered.
fn api_error(error: &PublishError) -> Option<ErrorCode> {
    let error = error.source()?.downcast_ref::<jetstream::Error>()?;
    Some(error.error_code())
}

/// Whether the message would be refused again.
fn is_too_large(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
        ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
    ]
    .contains(&code)
}

/// An error with what has caused it, as far as the text does not have it.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        batch::{Format, Marks},
        priority::{Facility, Priority, Severity},
    };

    fn subject(template: &str, text: &str, host_bytes: u8) -> String {
        let template = SubjectTemplate::parse(template).expect("a subject");
        template.of_record(&LogRecord {
            received_ns: 1,
            priority: Priority::new(Facility::USER, Severity::Error),
            format: Format::Plain,
            marks: Marks::none(),
            source: "test",
            host_at: 0,
            host_bytes,
            text: text.as_bytes(),
        })
    }

    #[test]
    fn a_host_is_one_word_of_the_subject() {
        let of = |text| subject("logs.{severity}.{host}", text, text.len() as u8);
        assert_eq!(of("web-1"), "logs.err.web-1");
        assert_eq!(of("web-1.example.org"), "logs.err.web-1_example_org");
        assert_eq!(of("a>*\r\n b"), "logs.err.a_____b");
        assert_eq!(of(""), "logs.err._");
        assert_eq!(subject("logs", "host", 4), "logs");
    }

    #[test]
    fn an_address_without_a_usable_subject_is_refused_with_the_reason() {
        for (url, why) in [
            ("nats://host:4222", "write nats://"),
            ("nats:///logs", "write nats://"),
            ("http://host/logs", "write nats://"),
            ("nats://host:port/logs", "write nats://"),
            ("nats://host/", "words with dots"),
            ("nats://host/logs..a", "words with dots"),
            ("nats://host/logs.>", "words with dots"),
            ("nats://host/a b", "words with dots"),
            ("nats://host/logs.{program}", "{severity} and {host}"),
            ("nats://host/logs.{host", "has no `}`"),
            ("nats://host/$JS.API", "the server's"),
            ("nats://me:secret@host/logs", "does not belong"),
        ] {
            let error = NatsConfig::new("nats", url).expect_err(url).to_string();
            assert!(error.contains(why), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let config = NatsConfig::new("nats", "tls://host/logs.{severity}").expect("an address");
        assert_eq!(config.subject.to_string(), "logs.{severity}");
        assert_eq!(config.address.port(), 4222);
    }
}
