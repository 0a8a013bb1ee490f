//! A relay: sends what is in a stream to another log server.
//!
//! ```text
//!   writer ─▶ StreamSink ─▶ stream ─▶ Consumer ─▶ sender ─▶ POST / ─▶ another log server
//!             (the log itself, or          └────▶ sender ─▶ POST /     200: durable there
//!              a spool of the relay)  position ◀─ Acks ◀────┘
//! ```
//!
//! The requests are described in [`record.rs`](crate::encode_batch). Each sender is a thread with one request on its way:
//! their number is the credit of the other server. A request that is not answered with 200 is sent again, with growing
//! pauses, for ever: also after 4xx, which an operator has to look into. The position moves, durably, only behind requests
//! that were answered with 200. So nothing is lost when either side is killed at any moment. With more than one sender,
//! requests may overtake each other; the time of receipt travels with each line.
//!
//! What was on its way when a side was killed is sent again. The other server knows each record by its stream and its
//! sequence and skips those that it has: when the relay is killed, nothing is doubled. When the other server itself is killed,
//! it forgets what it has: the requests on their way, at most [`RelayConfig::requests_max`], may be there twice. If both are
//! killed, these are at most [`AHEAD_MAX`] times as many. A stream in mode none may use a sequence again after a power
//! failure, so its requests do not name their records: what is sent again may be there twice.
//!
//! A peer that is away for long is a matter of the stream's bound: see [`SpoolConfig`]. Of a stream whose directory was removed
//! or renamed, what was not sent is counted as lost.

use std::{
    num::NonZeroUsize,
    sync::{Arc, PoisonError},
    time::Duration,
};

use freeboard::{
    flow::Backoff,
    meter::clock,
    platform::{
        sync::{Condvar, Mutex},
        thread::{self, JoinHandle},
    },
    stream::{StreamWriter, SyncMode, stream_header},
};
use ureq::{Agent, http::Uri};

use super::{
    SinkConfig, SinkError, SinkGauge,
    consumer::{Acks, Chunk, Consumer, Part, reached},
    lock,
    spool::SpoolConfig,
    stream::stream_sink,
};
use crate::record::{BATCH_CONTENT_TYPE, BATCH_SEQUENCE_HEADER, BATCH_STREAM_HEADER};

/// How long a sender without records waits until it reads again.
const IDLE: Duration = Duration::from_millis(20);

/// The most requests behind the position, finished or not, for each sender.
const AHEAD_MAX: usize = 4;

/// How long [`Relay::stop`] waits for requests that are on their way.
const STOP: Duration = Duration::from_secs(1);

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

/// What a relay that was stopped has not sent of its stream.
#[derive(Debug, Default)]
struct Left {
    /// The last record that it could have sent.
    reached: u64,
    lines: u64,
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
    /// stream ([`sink_with_relays`](super::StreamSinkConfig::sink_with_relays)), a peer that is away for long does not keep the log from removing
    /// old segments.
    #[must_use]
    pub fn sink(self, spool: SpoolConfig) -> SinkConfig {
        let name = format!("{}.spool", self.name);
        let (config, bytes_wait) = spool.stream();
        stream_sink(name, config, false, vec![self], bytes_wait)
    }

    /// Starts the senders.
    pub(super) fn start(&self, stream: &StreamWriter) -> Result<Relay, SinkError> {
        let opened = Consumer::open(stream, &self.name, &self.gauge);
        let (consumer, acks) = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
        let left = std::mem::take(&mut *lock(&self.left));
        if stream.sequences().accepted < left.reached && left.lines > 0 {
            // The stream that was here is gone, and another one is in its place.
            self.gauge.lose(left.lines);
            tracing::warn!("{}: {} lines were not sent", self.name, left.lines);
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .max_idle_connections(self.requests_max.get())
            .max_idle_connections_per_host(self.requests_max.get())
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        let first = consumer.expected();
        let shared = Arc::new(Shared {
            config: self.clone(),
            agent,
            stream: stream.clone(),
            source: Mutex::new(Source {
                consumer,
                stream_id: (stream.sync_mode() == SyncMode::None).then(String::new),
                unsent: None,
                failures: 0,
            }),
            acks: Mutex::new(acks),
            stopping: Mutex::new(Stopping::default()),
            stopped: Condvar::new(),
        });
        let mut relay = Relay {
            first,
            counted_before: self.gauge.lines() + self.gauge.lost(),
            shared,
            senders: Vec::new(),
        };
        for number in 0..self.requests_max.get() {
            let shared = relay.shared.clone();
            let thread = thread::Builder::new().name("logd relay".to_owned());
            lock(&relay.shared.stopping).running += 1;
            let spawned = thread.spawn(move || {
                let ending = SenderGuard(&shared);
                ending.0.send(number as u32);
            });
            match spawned {
                Ok(sender) => relay.senders.push(sender),
                Err(error) => {
                    lock(&relay.shared.stopping).running -= 1;
                    return Err(SinkError::Busy(format!("no thread: {error}")));
                }
            }
        }
        Ok(relay)
    }
}

/// Counts a sender that has ended, also by a panic.
struct SenderGuard<'a>(&'a Shared);

impl Drop for SenderGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.stopping).running -= 1;
        self.0.stopped.notify_all();
    }
}

#[derive(Default)]
struct Stopping {
    is_wanted: bool,
    /// Senders that have not ended.
    running: usize,
    /// Requests that were answered with 200: the other server is there again.
    answered: u64,
}

/// What the next request is made of.
struct Source {
    consumer: Consumer,
    /// As it is in the header field; empty, if requests do not name their records.
    stream_id: Option<String>,
    /// Read, and not sent since the stream's id could not be read.
    unsent: Option<Chunk>,
    /// Attempts to read that have failed since the last that succeeded.
    failures: u32,
}

struct Shared {
    config: RelayConfig,
    agent: Agent,
    stream: StreamWriter,
    /// Locked before `acks`. A sender that waits for records holds it, and the others wait for the lock.
    source: Mutex<Source>,
    acks: Mutex<Acks>,
    stopping: Mutex<Stopping>,
    stopped: Condvar,
}

impl Shared {
    /// Waits; `true` if the relay is to stop. After a failure it waits only until another sender has an answer after the first
    /// `answered`: one that still paused would hold the position while the others send all that is behind it.
    fn pause(&self, time: Duration, answered: Option<u64>) -> bool {
        let stopping = lock(&self.stopping);
        let wait = self.stopped.wait_timeout_while(stopping, time, |stopping| {
            !stopping.is_wanted && answered.is_none_or(|answered| stopping.answered == answered)
        });
        wait.unwrap_or_else(PoisonError::into_inner).0.is_wanted
    }

    /// The work of one sender.
    fn send(&self, number: u32) {
        while let Some((chunk, part, stream_id)) = self.next() {
            let mut attempt = 0;
            loop {
                // Before the attempt: another success meanwhile is newer than its failure.
                let answered = lock(&self.stopping).answered;
                let Err(error) = self.post(&chunk, &stream_id) else {
                    break;
                };
                self.config.gauge.fail(&SinkError::Busy(error));
                lock(&self.acks).show();
                // The senders spread over the pause.
                let senders = self.config.requests_max.get() as u32;
                let jitter_ppm = 1_000_000 / senders * number;
                let delay_ns = self.config.backoff.delay_jittered_ns(attempt, jitter_ppm);
                attempt = attempt.saturating_add(1);
                if self.pause(Duration::from_nanos(delay_ns), Some(answered)) {
                    return;
                }
            }
            lock(&self.stopping).answered += 1;
            self.stopped.notify_all();
            let mut acks = lock(&self.acks);
            if acks.finish(part) {
                let (lines, bytes) = (chunk.records(), chunk.body.len() as u64);
                self.config.gauge.take(lines, bytes);
            }
        }
    }

    /// Waits for the next records; `None` if the relay is to stop.
    fn next(&self) -> Option<(Chunk, Part, String)> {
        let mut source = lock(&self.source);
        let mut pause = Duration::ZERO;
        while !self.pause(pause, None) {
            if lock(&self.acks).at_work() >= AHEAD_MAX * self.config.requests_max.get() {
                pause = IDLE;
                continue;
            }
            match self.read(&mut source) {
                Ok(Some((chunk, stream_id))) => {
                    source.failures = 0;
                    let part = lock(&self.acks).begin(chunk.last);
                    return Some((chunk, part, stream_id));
                }
                Ok(None) => {
                    pause = IDLE;
                    let acks = lock(&self.acks);
                    acks.show();
                    if acks.is_idle() {
                        self.config.gauge.recover();
                    }
                }
                Err(error) => {
                    self.config.gauge.fail(&error);
                    pause = Duration::from_nanos(self.config.backoff.delay_ns(source.failures));
                    source.failures = source.failures.saturating_add(1);
                }
            }
        }
        None
    }

    fn read(&self, source: &mut Source) -> Result<Option<(Chunk, String)>, SinkError> {
        let busy = |error: &dyn std::error::Error| SinkError::Busy(error.to_string());
        let chunk = match source.unsent.take() {
            Some(chunk) => Some(chunk),
            None => {
                let chunk = source.consumer.next(self.config.request_bytes);
                chunk.map_err(|error| busy(&error))?
            }
        };
        let Some(chunk) = chunk else {
            return Ok(None);
        };
        if source.stream_id.is_none() {
            // A stream has a header as soon as it has a record.
            match stream_header(self.stream.storage().as_ref(), None) {
                Ok(header) => source.stream_id = Some(header.stream.to_string()),
                Err(error) => {
                    source.unsent = Some(chunk);
                    return Err(busy(&error));
                }
            }
        }
        Ok(source.stream_id.clone().map(|id| (chunk, id)))
    }

    fn post(&self, chunk: &Chunk, stream_id: &str) -> Result<(), String> {
        let mut request = self
            .agent
            .post(&self.config.url)
            .header("content-type", BATCH_CONTENT_TYPE);
        if !stream_id.is_empty() {
            request = request
                .header(BATCH_STREAM_HEADER, stream_id)
                .header(BATCH_SEQUENCE_HEADER, chunk.first.to_string());
        }
        let url = &self.config.url;
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

/// A relay that runs.
pub(super) struct Relay {
    shared: Arc<Shared>,
    /// The first record that it was to send, and the lines that its gauge had counted before.
    first: u64,
    counted_before: u64,
    senders: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Stops it. What is on its way is sent again by the next relay of this name. A sender whose request takes longer than
    /// a second ends later, without moving the position.
    pub(super) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let shared = &self.shared;
        lock(&shared.stopping).is_wanted = true;
        shared.stopped.notify_all();
        let deadline = clock::now() + STOP;
        let mut stopping = lock(&shared.stopping);
        while stopping.running > 0 {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                break;
            }
            let wait = shared.stopped.wait_timeout(stopping, left);
            stopping = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_ended = stopping.running == 0;
        drop(stopping);
        let mut acks = lock(&shared.acks);
        acks.close();
        let (gauge, reached) = (&shared.config.gauge, reached(&shared.stream));
        let counted = gauge.lines() + gauge.lost() - self.counted_before;
        let lines = (reached + 1).saturating_sub(self.first + counted);
        *lock(&shared.config.left) = Left { reached, lines };
        drop(acks);
        if is_ended {
            for sender in self.senders.drain(..) {
                let _ = sender.join();
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}
