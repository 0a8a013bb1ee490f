//! Sends what is in a stream to a receiver, in order of the records, and moves a durable position behind them.
//!
//! ```text
//!   writer ─▶ StreamSink ─▶ stream ─▶ Consumer ─▶ sender ─▶ Transport::send ─▶ a log server, NATS
//!             (the log itself, or          └────▶ sender ─▶ Transport::send     Ok: durable there
//!              a spool)               position ◀─ Acks ◀────┘
//! ```
//!
//! Each sender is a thread with one chunk on its way: their number is the credit of the receiver. A chunk that the receiver
//! has not taken is sent again, with growing pauses, for ever: also after an error that an operator has to look into. The
//! position moves, durably, only behind chunks that the receiver has. So nothing is lost when either side is killed at any
//! moment. With more than one sender, chunks may overtake each other; the time of receipt travels with each line.
//!
//! A receiver that is away for long is a matter of the stream's bound: see [`SpoolConfig`](super::SpoolConfig). Of a stream
//! whose directory was removed or renamed, what was not sent is counted as lost.

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

use super::{
    SinkError, SinkGauge,
    consumer::{Acks, Chunk, Consumer, Part, reached},
    lock,
    receipts::Receipts,
};

/// How long a sender without records waits until it reads again.
const IDLE: Duration = Duration::from_millis(20);

/// The most chunks behind the position, finished or not, for each sender.
pub(super) const AHEAD_MAX: usize = 4;

/// How long [`Forwarder::stop`] waits for chunks that are on their way.
const STOP: Duration = Duration::from_secs(1);

/// What the attempts at one chunk have achieved.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Which of its records need not be sent again; empty if it goes as a whole.
    #[cfg(feature = "nats")]
    pub(super) done: Vec<bool>,
    /// The sequences of records that the receiver will never take.
    pub(super) refused: Vec<u64>,
}

/// The way to a receiver.
pub(super) trait Transport: Send + Sync + 'static {
    /// Sends a chunk of the stream with this id, which is empty if sequences may be used again. `Ok`: the receiver has all
    /// records that it did not refuse. It may block.
    fn send(&self, chunk: &Chunk, stream_id: &str, sent: &mut Sent) -> Result<(), String>;

    /// Lets calls return soon. Further ones may fail at once.
    fn stop(&self) {}
}

/// A receiver of what is in a stream.
pub(super) trait Forwarding: Send + Sync + 'static {
    /// The state that its metrics show.
    fn gauge(&self) -> &Arc<SinkGauge>;

    /// Starts the senders. If the receiver's answers count for those who wait for a line, it keeps `receipts`.
    fn start(
        &self,
        stream: &StreamWriter,
        receipts: &dyn Fn() -> Arc<Receipts>,
    ) -> Result<Forwarder, SinkError>;
}

/// A receiver of what is in a stream: another log server, or NATS.
#[derive(Clone)]
pub struct Receiver(pub(super) Arc<dyn Forwarding>);

impl std::fmt::Debug for Receiver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Receiver({})", self.0.gauge().name())
    }
}

/// What a forwarder that was stopped has not sent of its stream.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The last record that it could have sent.
    reached: u64,
    lines: u64,
}

/// The settings of a forwarder.
#[derive(Clone, Debug)]
pub(super) struct ForwardConfig {
    /// The name of its position in the stream. Two forwarders of one stream have different names.
    pub(super) name: String,
    pub(super) senders: NonZeroUsize,
    /// A chunk has about so many bytes at most, and at least one record.
    pub(super) chunk_bytes: usize,
    /// The pauses between attempts, shortened by up to half at random.
    pub(super) backoff: Backoff,
    pub(super) gauge: Arc<SinkGauge>,
    pub(super) left: Arc<Mutex<Left>>,
}

impl ForwardConfig {
    /// Starts the senders.
    pub(super) fn start(
        self,
        stream: &StreamWriter,
        transport: Box<dyn Transport>,
        receipts: Option<Arc<Receipts>>,
    ) -> Result<Forwarder, SinkError> {
        let opened = Consumer::open(stream, &self.name, &self.gauge);
        let (consumer, acks) = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
        let left = std::mem::take(&mut *lock(&self.left));
        if stream.sequences().accepted < left.reached && left.lines > 0 {
            // The stream that was here is gone, and another one is in its place.
            self.gauge.lose(left.lines);
            tracing::warn!("{}: {} lines were not sent", self.name, left.lines);
        }
        if let Some(receipts) = &receipts {
            receipts.advance(acks.position());
        }
        let (first, counted_before) = (consumer.expected(), self.gauge.lines() + self.gauge.lost());
        let senders = self.senders.get();
        let shared = Arc::new(Shared {
            config: self,
            transport,
            receipts,
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
        let mut forwarder = Forwarder {
            first,
            counted_before,
            shared,
            senders: Vec::new(),
        };
        for number in 0..senders {
            let shared = forwarder.shared.clone();
            let thread = thread::Builder::new().name("logd forward".to_owned());
            lock(&forwarder.shared.stopping).running += 1;
            let spawned = thread.spawn(move || {
                let ending = SenderGuard(&shared);
                ending.0.send(number as u32);
            });
            match spawned {
                Ok(sender) => forwarder.senders.push(sender),
                Err(error) => {
                    lock(&forwarder.shared.stopping).running -= 1;
                    return Err(SinkError::Busy(format!("no thread: {error}")));
                }
            }
        }
        Ok(forwarder)
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
    /// Chunks that the receiver has taken: it is there again.
    answered: u64,
    /// How often somebody began to wait for the receiver.
    awaited: u64,
}

/// What the next chunk is made of.
struct Source {
    consumer: Consumer,
    /// Empty, if sequences may be used again.
    stream_id: Option<String>,
    /// Read, and not sent since the stream's id could not be read.
    unsent: Option<Chunk>,
    /// Attempts to read that have failed since the last that succeeded.
    failures: u32,
}

struct Shared {
    config: ForwardConfig,
    transport: Box<dyn Transport>,
    receipts: Option<Arc<Receipts>>,
    stream: StreamWriter,
    /// Locked before `acks`. A sender that waits for records holds it, and the others wait for the lock.
    source: Mutex<Source>,
    acks: Mutex<Acks>,
    stopping: Mutex<Stopping>,
    stopped: Condvar,
}

impl Shared {
    /// Waits for this time, or until `is_over`; `true` if the forwarder is to stop.
    fn pause(&self, time: Duration, is_over: impl Fn(&Stopping) -> bool) -> bool {
        let stopping = lock(&self.stopping);
        let wait = self.stopped.wait_timeout_while(stopping, time, |stopping| {
            !stopping.is_wanted && !is_over(stopping)
        });
        wait.unwrap_or_else(PoisonError::into_inner).0.is_wanted
    }

    /// The work of one sender.
    fn send(&self, number: u32) {
        while let Some((chunk, part, stream_id)) = self.next() {
            let (mut attempt, mut sent) = (0, Sent::default());
            loop {
                // Before the attempt: another success meanwhile is newer than its failure.
                let answered = lock(&self.stopping).answered;
                let Err(error) = self.transport.send(&chunk, &stream_id, &mut sent) else {
                    break;
                };
                self.config.gauge.fail(&SinkError::Busy(error));
                lock(&self.acks).show();
                // The senders spread over the pause.
                let senders = self.config.senders.get() as u32;
                let jitter_ppm = 1_000_000 / senders * number;
                let delay_ns = self.config.backoff.delay_jittered_ns(attempt, jitter_ppm);
                attempt = attempt.saturating_add(1);
                // One that still paused after the success of another would hold the position while the others send all that
                // is behind it.
                let delay = Duration::from_nanos(delay_ns);
                if self.pause(delay, |it| it.answered != answered) {
                    return;
                }
            }
            lock(&self.stopping).answered += 1;
            self.stopped.notify_all();
            if let Some(receipts) = &self.receipts {
                sent.refused.iter().for_each(|&it| receipts.refuse(it, it));
            }
            let mut acks = lock(&self.acks);
            if acks.finish(part) {
                let refused = sent.refused.len() as u64;
                let (lines, bytes) = (chunk.records() - refused, chunk.body.len() as u64);
                self.config.gauge.lose(refused);
                self.config.gauge.take(lines, bytes);
                if let Some(receipts) = &self.receipts {
                    receipts.advance(acks.position());
                }
            }
        }
    }

    /// Waits for the next records; `None` if the forwarder is to stop.
    fn next(&self) -> Option<(Chunk, Part, String)> {
        let mut source = lock(&self.source);
        let (mut pause, mut awaited) = (Duration::ZERO, None);
        while !self.pause(pause, |it| awaited.is_some_and(|seen| seen != it.awaited)) {
            awaited = None;
            if lock(&self.acks).at_work() >= AHEAD_MAX * self.config.senders.get() {
                pause = IDLE;
                continue;
            }
            let seen = lock(&self.stopping).awaited;
            match self.read(&mut source) {
                Ok(Some((chunk, stream_id))) => {
                    source.failures = 0;
                    let part = lock(&self.acks).begin(chunk.last);
                    return Some((chunk, part, stream_id));
                }
                Ok(None) => {
                    (pause, awaited) = (IDLE, Some(seen));
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
                let expected = source.consumer.expected();
                let chunk = source.consumer.next(self.config.chunk_bytes);
                let chunk = chunk.map_err(|error| busy(&error))?;
                if let (Some(chunk), Some(receipts)) = (&chunk, &self.receipts)
                    && chunk.first > expected
                {
                    // Those between were lost.
                    receipts.refuse(expected, chunk.first - 1);
                }
                chunk
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
}

/// A forwarder that runs.
pub(super) struct Forwarder {
    shared: Arc<Shared>,
    /// The first record that it was to send, and the lines that its gauge had counted before.
    first: u64,
    counted_before: u64,
    senders: Vec<JoinHandle<()>>,
}

impl Forwarder {
    /// The answers of its receiver, if they count for those who wait for a line.
    pub(super) fn receipts(&self) -> Option<&Arc<Receipts>> {
        self.shared.receipts.as_ref()
    }

    /// Somebody waits until the receiver has what is durable now.
    pub(super) fn note_durable(&self) {
        lock(&self.shared.stopping).awaited += 1;
        self.shared.stopped.notify_all();
    }

    /// Whether its last attempt has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.shared.config.gauge.failing_for().is_some()
    }

    /// Stops it. What is on its way is sent again by the next forwarder of this name. A sender whose call takes longer than
    /// a second ends later, without moving the position.
    pub(super) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let shared = &self.shared;
        lock(&shared.stopping).is_wanted = true;
        shared.stopped.notify_all();
        shared.transport.stop();
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

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.end();
    }
}
