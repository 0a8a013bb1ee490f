//! A stream as a sink: a record for each line.
//!
//! A batch that somebody waits for is kept with the tickets of its first and its last line until they resolve. Tickets are
//! polled with each further batch, and awaited when there is none. The sink is the only producer. So if both are durable, and
//! as far apart as the batch has lines, all between them are: a failure in the middle of the batch would have let the
//! sequences fall back.
//!
//! Of a batch that receivers have to acknowledge too, the sequences are kept until they have: see [`Receipts`]. Batches that
//! wait for them do not keep the sink from taking more; the bounds of their sources limit them.
//!
//! A failed write costs the lines that were accepted and not durable: the stream reads itself again, and its sequences fall
//! back to the last record that it found. The difference between what the sink has appended and how far the sequences have
//! come is what was lost.

use std::{
    collections::VecDeque,
    future::Future,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use freeboard::{
    meter::{clock, now_ns},
    platform::{planted, sync::Mutex, thread},
    stream::{
        AppendError, CloseError, OpenError, StreamOptions, StreamWriter, Ticket, storage::Storage,
    },
};

use crate::{batch::Batch, disk::small_segments, record::LogRecord};

use super::{
    Sink, SinkConfig, SinkError, SinkGauge, Undurable,
    consumer::reached,
    forward::{Forwarder, Receiver},
    lock,
    receipts::Receipts,
    spool::SpoolConfig,
};

/// Batches that wait until they are durable; while there are so many, no further one is taken.
const PENDING_MAX: usize = 4_096;

/// How long closing waits for receivers whose answer somebody waits for.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// A stream that lines are appended to.
#[derive(Clone, Debug)]
pub struct StreamSinkConfig {
    /// Its directory.
    pub path: PathBuf,
    /// How it is sealed, when a record is durable, its memory, its retention.
    pub options: StreamOptions,
}

impl StreamSinkConfig {
    /// The sink of this name.
    #[must_use]
    pub fn sink(self, name: impl Into<String>) -> SinkConfig {
        stream_sink(name.into(), self, false, Vec::new(), None)
    }

    /// As [`sink`](Self::sink), with the stream on this storage instead of in its directory: for a simulated disk.
    #[must_use]
    pub fn sink_on(self, name: impl Into<String>, storage: Arc<dyn Storage>) -> SinkConfig {
        SinkConfig::with_gauge(name, move |gauge| {
            let opened = self.options.open_on(storage.clone());
            Ok(Box::new(StreamSink::over(opened, gauge)?) as Box<dyn Sink>)
        })
    }

    /// The sink of this name. What is in the stream is sent to receivers, relays or NATS, to each from its own position on.
    /// The stream's retention keeps what they have not got, up to its limit of bytes.
    #[must_use]
    pub fn sink_with_receivers(
        self,
        name: impl Into<String>,
        receivers: impl IntoIterator<Item: Into<Receiver>>,
    ) -> SinkConfig {
        let receivers = receivers.into_iter().map(Into::into).collect();
        stream_sink(name.into(), self, false, receivers, None)
    }

    /// As [`StreamSinkConfig::sink_with_receivers`]. Its segments are small if the disk is when the sink is first opened.
    pub(crate) fn fitting_sink_with_receivers(
        self,
        name: impl Into<String>,
        receivers: Vec<Receiver>,
    ) -> SinkConfig {
        stream_sink(name.into(), self, true, receivers, None)
    }
}

/// A sink that appends lines to a spool of its receiver, which has this name.
pub(super) fn spooled_sink(receiver_name: &str, spool: SpoolConfig, to: Receiver) -> SinkConfig {
    let (config, bytes_wait) = spool.stream();
    let name = format!("{receiver_name}.spool");
    stream_sink(name, config, false, vec![to], bytes_wait)
}

/// The sink of this name. Without `bytes_wait` no batch waits for the receivers.
fn stream_sink(
    name: String,
    config: StreamSinkConfig,
    is_fitting: bool,
    receivers: Vec<Receiver>,
    bytes_wait: Option<u64>,
) -> SinkConfig {
    let gauges = receivers.iter().map(|it| it.0.gauge().clone()).collect();
    // The last record, and the lines that the sink had kept, when it was opened before.
    let before = Mutex::new((0, 0));
    let fitted = OnceLock::new();
    let open = move |gauge: &Arc<SinkGauge>| {
        let fit = || match small_segments(&config.path).filter(|_| is_fitting) {
            None => config.options.clone(),
            Some((bytes, free)) => {
                let (name, mib) = (gauge.name(), bytes >> 20);
                tracing::warn!(
                    "the stream {name}: {free} bytes are free, so its segments take {mib} MiB each"
                );
                config.options.clone().segment_bytes(bytes)
            }
        };
        let options: &StreamOptions = fitted.get_or_init(fit);
        let mut sink = StreamSink::over(options.open(&config.path), gauge)?;
        let kept = gauge.lines().saturating_sub(gauge.lost());
        let now = (sink.losses.base, kept);
        let (base_before, kept_before) = std::mem::replace(&mut *lock(&before), now);
        // If no write has succeeded, it is as empty as before.
        if sink.losses.base == 0 && (base_before > 0 || kept > kept_before) {
            warn_of_new_stream(&config.path);
        }
        sink.bytes_wait = bytes_wait;
        let receipts = || Arc::new(Receipts::new(gauge));
        let started = receivers
            .iter()
            .map(|it| it.0.start(&sink.stream, &receipts));
        sink.forwarders = started.collect::<Result<_, _>>()?;
        let receipts = sink.forwarders.iter().filter_map(Forwarder::receipts);
        sink.receipts = receipts.cloned().collect();
        Ok(Box::new(sink) as Box<dyn Sink>)
    };
    SinkConfig {
        gauges,
        ..SinkConfig::with_gauge(name, open)
    }
}

pub(super) fn warn_of_new_stream(path: &Path) {
    let path = path.display();
    tracing::warn!("{path}: the stream that was here is gone, and a new one begins");
}

/// A stream that is open.
pub(super) struct StreamSink {
    forwarders: Vec<Forwarder>,
    /// The answers of those whose answers count.
    receipts: Vec<Arc<Receipts>>,
    stream: StreamWriter,
    /// The line of the current batch to be appended next.
    next: usize,
    /// The ticket of the first line of the current batch.
    first: Option<Ticket>,
    record: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Durable here, and not acknowledged by the receivers whose answers count.
    unacknowledged: VecDeque<Unacknowledged>,
    /// While the finished segments have so many bytes, no batch is taken.
    bytes_wait: Option<u64>,
    /// Bytes appended since the stream's state was checked.
    unchecked: u64,
    /// Lines appended when a write was last requested, and when that was.
    requested: u64,
    requested_at_ns: u64,
    losses: Losses,
}

/// A batch that is to become durable, and the tickets of its first and its last line.
struct Pending {
    first: Ticket,
    /// `None`: it has one line.
    last: Option<Ticket>,
    lines: u64,
    batch: Undurable,
}

impl Pending {
    /// Whether all lines are durable; `None` if it is not known yet.
    fn is_durable(&self) -> Option<bool> {
        if planted!("answered-before-durable") {
            return Some(true);
        }
        let Ok(last) = self.last.as_ref().unwrap_or(&self.first).try_get()? else {
            return Some(false);
        };
        // Tickets resolve in order.
        let first = self.first.try_get();
        Some(matches!(first, Some(Ok(first)) if last + 1 == first + self.lines))
    }

    /// The sequence of its first line, which is durable.
    fn first(&self) -> Option<u64> {
        self.first.try_get()?.ok()
    }
}

/// A durable batch that receivers have to acknowledge, and the sequences of its first and its last line.
struct Unacknowledged {
    first: u64,
    last: u64,
    batch: Undurable,
}

/// The least time between two writes that are requested. A line that comes alone is written at once. A write takes about
/// 90 us of processor time, so lines that follow each other share one.
const REQUEST_PAUSE_NS: u64 = 2_000_000;

/// Bytes that are appended between two checks of the stream's state.
const CHECK_BYTES: u64 = 1 << 20;

/// Counts the lines that the stream has lost.
struct Losses {
    gauge: Arc<SinkGauge>,
    /// The last record when the sink was opened.
    base: u64,
    /// Lines appended since then.
    appended: u64,
    /// The part of them that was counted as lost.
    lost: u64,
    /// How often the stream has read itself again.
    reopenings: u64,
}

impl Losses {
    /// Counts what is behind `accepted`, the last record that the stream has now.
    fn count(&mut self, accepted: u64) {
        let kept = accepted.saturating_sub(self.base);
        let lost = self.appended.saturating_sub(kept + self.lost);
        self.lost += lost;
        self.gauge.lose(lost);
    }
}

impl StreamSink {
    pub(super) fn open(
        config: &StreamSinkConfig,
        gauge: &Arc<SinkGauge>,
    ) -> Result<Self, SinkError> {
        Self::over(config.options.open(&config.path), gauge)
    }

    pub(super) fn over(
        opened: Result<StreamWriter, OpenError>,
        gauge: &Arc<SinkGauge>,
    ) -> Result<Self, SinkError> {
        let stream = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
        Ok(Self {
            forwarders: Vec::new(),
            receipts: Vec::new(),
            losses: Losses {
                gauge: gauge.clone(),
                base: stream.sequences().accepted,
                appended: 0,
                lost: 0,
                reopenings: 0,
            },
            stream,
            next: 0,
            first: None,
            record: Vec::new(),
            pending: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            bytes_wait: None,
            unchecked: 0,
            requested: 0,
            requested_at_ns: 0,
        })
    }

    pub(super) fn stream(&self) -> &StreamWriter {
        &self.stream
    }

    /// Whether the stream had no record when it was opened.
    pub(super) fn began_empty(&self) -> bool {
        self.losses.base == 0
    }

    /// Counts what the stream has lost when it ends with `accepted`. What it has of the current batch is not lost: the
    /// batch comes again, or is shed as a whole.
    fn count_losses(&mut self, accepted: u64) {
        self.losses.appended -= self.next as u64;
        self.give_up_batch();
        self.losses.count(accepted);
    }

    /// Forgets how much of the current batch was taken: another one comes next.
    pub(super) fn give_up_batch(&mut self) {
        self.next = 0;
        self.first = None;
    }

    /// From so many bytes of finished segments on, no batch is taken.
    pub(super) fn wait_at(&mut self, bytes: Option<u64>) {
        self.bytes_wait = bytes;
    }

    /// Counts what was lost, and checks whether so much is in the stream that the sink waits for its readers.
    fn check(&mut self) -> Result<(), SinkError> {
        let snapshot = self.stream.snapshot();
        // The sequences are consistent only between two failures.
        if snapshot.reopenings > self.losses.reopenings {
            self.losses.reopenings = snapshot.reopenings;
            self.losses.count(snapshot.accepted);
        }
        match self.bytes_wait {
            Some(bytes_wait) if snapshot.segment_bytes >= bytes_wait => {
                let text = "what its readers have not taken has reached its bound on the disk";
                Err(SinkError::Busy(text.to_owned()))
            }
            _ => {
                self.unchecked = 0;
                Ok(())
            }
        }
    }

    /// Lets go of batches that are durable, or lost.
    fn settle(&mut self) {
        while let Some(is_durable) = self.pending.front().and_then(Pending::is_durable)
            && let Some(pending) = self.pending.pop_front()
        {
            match pending.first() {
                Some(first) if is_durable && !self.receipts.is_empty() => {
                    self.unacknowledged.push_back(Unacknowledged {
                        first,
                        last: first + pending.lines - 1,
                        batch: pending.batch,
                    });
                    self.forwarders.iter().for_each(Forwarder::note_durable);
                }
                _ if is_durable => pending.batch.settle(),
                _ => {}
            }
        }
        self.settle_acknowledged();
    }

    /// Lets go of batches that all receivers have acknowledged, or one has refused.
    fn settle_acknowledged(&mut self) {
        if !self.unacknowledged.is_empty() {
            self.receipts.iter().for_each(|it| it.await_changes());
        }
        while let Some(Unacknowledged { first, last, .. }) = self.unacknowledged.front() {
            let outcomes = self.receipts.iter().map(|it| it.outcome(*first, *last));
            let Some(outcomes) = outcomes.collect::<Option<Vec<bool>>>() else {
                return;
            };
            if let Some(waiting) = self.unacknowledged.pop_front()
                && !outcomes.contains(&false)
            {
                waiting.batch.settle();
            }
        }
        if self.pending.is_empty() && self.next == 0 {
            let reached = reached(&self.stream);
            self.receipts.iter().for_each(|it| it.forget(reached));
        }
    }

    /// Waits until the receivers have acknowledged what somebody waits for, unless they fail.
    fn wait_acknowledged(&mut self) {
        let deadline = clock::now() + CLOSE_TIME;
        self.settle();
        while !self.unacknowledged.is_empty()
            && clock::now() < deadline
            && !self.forwarders.iter().any(Forwarder::is_failing)
        {
            thread::sleep(Duration::from_millis(1));
            self.settle();
        }
    }

    /// As [`settle`](Self::settle), and waits until there are none left.
    fn poll_settled(&mut self, task: &mut Context<'_>) -> Poll<()> {
        while let Some(pending) = self.pending.front_mut() {
            if Pin::new(pending.last.as_mut().unwrap_or(&mut pending.first))
                .poll(task)
                .is_pending()
            {
                return Poll::Pending;
            }
            self.settle();
        }
        Poll::Ready(())
    }
}

impl Sink for StreamSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        self.settle();
        if self.pending.len() >= PENDING_MAX && self.poll_settled(task).is_pending() {
            return Poll::Pending;
        }
        if self.next == 0
            && self.unchecked >= CHECK_BYTES.min(self.bytes_wait.unwrap_or(u64::MAX) / 4)
        {
            self.check()?;
        }
        let source = batch.source().name();
        let mut last = None;
        for (line, text) in batch.lines_from(self.next) {
            self.record.clear();
            LogRecord::of(source, batch.received_ns(), line, text).encode(&mut self.record);
            let appended = pin!(self.stream.append_async(&self.record)).poll(task);
            match appended {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(ticket)) if self.next == 0 => {
                    self.first = Some(ticket);
                    last = None;
                }
                Poll::Ready(Ok(ticket)) => last = Some(ticket),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.failed(error))),
            }
            self.next += 1;
            self.losses.appended += 1;
        }
        self.next = 0;
        self.unchecked += batch.bytes();
        if let Some(first) = self.first.take()
            && batch.wants_durable()
        {
            self.pending.push_back(Pending {
                first,
                last,
                lines: batch.len() as u64,
                batch: Undurable::new(batch),
            });
        }
        Poll::Ready(Ok(()))
    }

    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        if let Err(error) = self.stream.check() {
            self.count_losses(reached(&self.stream));
            return Poll::Ready(Err(SinkError::Broken(error.to_string())));
        }
        if self.unchecked > 0 {
            // What it says of readers concerns the next batch.
            let _ = self.check();
        }
        let now = now_ns();
        if self.losses.appended > self.requested
            && now.saturating_sub(self.requested_at_ns) >= REQUEST_PAUSE_NS
        {
            self.requested = self.losses.appended;
            self.requested_at_ns = now;
            self.stream.request_write();
        }
        self.settle_acknowledged();
        if self.poll_settled(task).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if self.stream.is_disk_full() {
            return Poll::Ready(Err(self.failed(AppendError::DiskFull)));
        }
        Poll::Pending
    }

    fn close(mut self: Box<Self>) -> Result<(), SinkError> {
        if !self.receipts.is_empty() && self.stream.flush().is_ok() {
            self.wait_acknowledged();
        }
        self.unacknowledged.clear();
        for forwarder in self.forwarders.drain(..) {
            forwarder.stop();
        }
        let closed = self.stream.clone().close();
        self.settle();
        let sequences = self.stream.sequences();
        self.count_losses(match &closed {
            Err(CloseError::DiskFull { records }) => sequences.accepted.saturating_sub(*records),
            Err(_) => reached(&self.stream),
            Ok(_) => sequences.accepted,
        });
        closed
            .map(drop)
            .map_err(|error| SinkError::Broken(error.to_string()))
    }
}

impl Drop for StreamSink {
    fn drop(&mut self) {
        self.forwarders.clear();
        // A sender that hangs in a request has a handle too, and the next sink could not open the stream.
        let _ = self.stream.clone().close();
    }
}

impl StreamSink {
    fn failed(&mut self, error: AppendError) -> SinkError {
        let text = error.to_string();
        match error {
            AppendError::Down | AppendError::Closed => {
                self.count_losses(reached(&self.stream));
                SinkError::Broken(match self.stream.fault() {
                    Some(fault) => format!("{text}: {fault}"),
                    None => text,
                })
            }
            AppendError::TooLarge { .. } => {
                self.give_up_batch();
                SinkError::Refused(text)
            }
            _ => SinkError::Busy(text),
        }
    }
}
