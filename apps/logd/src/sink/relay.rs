//! A relay: sends what is in a stream to another log server. See [`forward`](super::forward).
//!
//! The requests are described in [`record.rs`](crate::encode_batch). A chunk is a request, and 200 says that it is durable
//! there. A request that is not answered with 200 is sent again, also after 4xx.
//!
//! What was on its way when a side was killed is sent again. The other server knows each record by its stream and its
//! sequence and skips those that it has: when the relay is killed, nothing is doubled. When the other server itself is killed,
//! it forgets what it has: the requests on their way, at most [`RelayConfig::requests_max`], may be there twice. If both are
//! killed, these are at most [`AHEAD_MAX`] times as many. A stream in mode none may use a sequence again after a power
//! failure, so its requests do not name their records: what is sent again may be there twice.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use freeboard::{flow::Backoff, platform::sync::Mutex, stream::StreamWriter};
use ureq::{Agent, http::Uri};

#[cfg(doc)]
use super::forward::AHEAD_MAX;
use super::{
    SinkConfig, SinkError, SinkGauge,
    consumer::Chunk,
    forward::{ForwardConfig, Forwarder, Forwarding, Left, Receiver, Sent, Transport},
    receipts::Receipts,
    spool::SpoolConfig,
    stream::spooled_sink,
};
use crate::record::{BATCH_CONTENT_TYPE, BATCH_SEQUENCE_HEADER, BATCH_STREAM_HEADER};

/// A relay's address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of a log server: write http://HOST:PORT/")]
pub struct RelayUrlError(String);

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    url: String,
    /// The name of its position in the stream. Two relays of one stream have different names.
    name: String,
    /// Requests on their way at once; 4. With 1, lines arrive in the order of the stream.
    pub requests_max: NonZeroUsize,
    /// A request has about so many bytes at most, and at least one record; 256 KiB.
    pub request_bytes: usize,
    /// The timeout of a request, with connecting; 30 s.
    pub timeout: Duration,
    /// The pauses between attempts, shortened by up to half at random.
    pub backoff: Backoff,
    gauge: Arc<SinkGauge>,
    left: Arc<Mutex<Left>>,
}

impl RelayConfig {
    /// A relay to `http://HOST:PORT/`, with this name of its position, of up to 55 bytes.
    ///
    /// # Errors
    /// [`RelayUrlError`].
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Result<Self, RelayUrlError> {
        let (name, url) = (name.into(), url.into());
        let is_valid = url.parse().is_ok_and(|uri: Uri| {
            let has_login = uri.authority().is_some_and(|it| it.as_str().contains('@'));
            uri.scheme_str() == Some("http") && uri.host().is_some() && !has_login
        });
        if !is_valid {
            return Err(RelayUrlError(url));
        }
        Ok(Self {
            requests_max: const { NonZeroUsize::new(4).unwrap() },
            request_bytes: 256 << 10,
            timeout: Duration::from_secs(30),
            backoff: Backoff::default(),
            gauge: SinkGauge::named(name.clone()),
            left: Arc::default(),
            url,
            name,
        })
    }

    /// Its state: lines and requests that were answered with 200, and failures.
    #[must_use]
    pub fn gauge(&self) -> &Arc<SinkGauge> {
        &self.gauge
    }

    /// A sink that appends lines to a spool of its own, and relays them from there. With a spool instead of the log's
    /// stream ([`sink_with_receivers`](super::StreamSinkConfig::sink_with_receivers)), a peer that is away for long does not
    /// keep the log from removing old segments.
    #[must_use]
    pub fn sink(self, spool: SpoolConfig) -> SinkConfig {
        let name = self.name.clone();
        spooled_sink(&name, spool, self.into())
    }
}

impl From<RelayConfig> for Receiver {
    fn from(config: RelayConfig) -> Self {
        Self(Arc::new(config))
    }
}

impl Forwarding for RelayConfig {
    fn gauge(&self) -> &Arc<SinkGauge> {
        &self.gauge
    }

    fn start(
        &self,
        stream: &StreamWriter,
        _: &dyn Fn() -> Arc<Receipts>,
    ) -> Result<Forwarder, SinkError> {
        let agent = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .max_idle_connections(self.requests_max.get())
            .max_idle_connections_per_host(self.requests_max.get())
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        let url = self.url.clone();
        let config = ForwardConfig {
            name: self.name.clone(),
            senders: self.requests_max,
            chunk_bytes: self.request_bytes,
            backoff: self.backoff,
            gauge: self.gauge.clone(),
            left: self.left.clone(),
        };
        config.start(stream, Box::new(Requests { url, agent }), None)
    }
}

/// Sends requests.
struct Requests {
    url: String,
    agent: Agent,
}

impl Transport for Requests {
    fn send(&self, chunk: &Chunk, stream_id: &str, _: &mut Sent) -> Result<(), String> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", BATCH_CONTENT_TYPE);
        if !stream_id.is_empty() {
            request = request
                .header(BATCH_STREAM_HEADER, stream_id)
                .header(BATCH_SEQUENCE_HEADER, chunk.first.to_string());
        }
        let url = &self.url;
        let mut answer = request
            .send(&chunk.body)
            .map_err(|error| format!("{url}: {error}"))?;
        // The connection is used again if the body was read to its end.
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body.lossy_utf8(true).read_to_string().unwrap_or_default();
        match answer.status().as_u16() {
            200 => Ok(()),
            _ => {
                let reason: String = text.trim().chars().take(REASON_CHARS_MAX).collect();
                Err(format!("{url}: {}: {reason}", answer.status()))
            }
        }
    }
}

/// What an error shows of the answer.
const REASON_CHARS_MAX: usize = 200;

/// A longer answer costs its connection.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
