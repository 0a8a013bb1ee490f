//! A stream as a sink: a record for each line.

use std::{
    collections::VecDeque,
    future::Future,
    path::PathBuf,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use freeboard::stream::{AppendError, StreamOptions, StreamWriter, Ticket};

use crate::{batch::Batch, record::LogRecord};

use super::{
    Sink, SinkConfig, SinkError,
    relay::{Relay, RelayConfig},
};

/// Batches that wait until they are durable; while there are so many, no further one is taken.
const PENDING_MAX: usize = 4_096;

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
        stream_sink(name.into(), self, Vec::new(), None)
    }

    /// The sink of this name. Relays send what is in the stream to other log servers, each from its own position on. The
    /// stream's retention keeps what they have not sent, up to its limit of bytes.
    #[must_use]
    pub fn sink_with_relays(self, name: impl Into<String>, relays: Vec<RelayConfig>) -> SinkConfig {
        stream_sink(name.into(), self, relays, None)
    }
}

/// The sink of this name. Without `bytes_wait` nothing waits for the relays.
pub(super) fn stream_sink(
    name: String,
    config: StreamSinkConfig,
    relays: Vec<RelayConfig>,
    bytes_wait: Option<u64>,
) -> SinkConfig {
    let gauges = relays.iter().map(|relay| relay.gauge().clone()).collect();
    let open = move || {
        let mut sink = StreamSink::open(&config)?;
        sink.bytes_wait = bytes_wait;
        let started = relays.iter().map(|relay| relay.start(&sink.stream));
        sink.relays = started.collect::<Result<_, _>>()?;
        Ok(Box::new(sink) as Box<dyn Sink>)
    };
    SinkConfig {
        gauges,
        ..SinkConfig::new(name, open)
    }
}

/// A stream that is open.
pub(super) struct StreamSink {
    /// Dropped before the stream.
    relays: Vec<Relay>,
    stream: StreamWriter,
    /// The line of the current batch to be appended next.
    next: usize,
    /// The ticket of the last line of the current batch.
    last: Option<Ticket>,
    record: Vec<u8>,
    /// Batches that are to become durable, with the tickets of their last lines.
    pending: VecDeque<(Ticket, Arc<Batch>)>,
    /// While the finished segments have so many bytes, no batch is taken.
    bytes_wait: Option<u64>,
    /// Bytes appended since the segments were counted.
    uncounted: u64,
    /// The ticket of the last line that nobody waits for.
    tail: Option<Ticket>,
}

/// Bytes that are appended between two counts of the segments.
const COUNT_BYTES: u64 = 1 << 20;

impl StreamSink {
    pub(super) fn open(config: &StreamSinkConfig) -> Result<Self, SinkError> {
        let opened = config.options.clone().open(&config.path);
        let stream = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
        Ok(Self::new(stream))
    }

    pub(super) fn stream(&self) -> &StreamWriter {
        &self.stream
    }

    /// Forgets how much of the current batch was taken.
    pub(super) fn give_up_batch(&mut self) {
        self.next = 0;
        self.tail = self.last.take().or(self.tail.take());
    }

    /// Waits until all lines are durable, or lost.
    pub(super) fn poll_durable(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let settled = self.settle(task);
        if let Some(tail) = &mut self.tail {
            if Pin::new(tail).poll(task).is_pending() {
                return Poll::Pending;
            }
            self.tail = None;
        }
        settled
    }

    /// From so many bytes of finished segments on, no batch is taken.
    pub(super) fn wait_at(&mut self, bytes: Option<u64>) {
        self.bytes_wait = bytes;
    }

    /// Whether so much is in the stream that the sink waits for its readers.
    fn is_full(&mut self) -> bool {
        let Some(bytes_wait) = self.bytes_wait else {
            return false;
        };
        if self.uncounted >= COUNT_BYTES.min(bytes_wait / 4) {
            if self.stream.snapshot().segment_bytes >= bytes_wait {
                return true;
            }
            self.uncounted = 0;
        }
        false
    }

    fn new(stream: StreamWriter) -> Self {
        Self {
            relays: Vec::new(),
            bytes_wait: None,
            uncounted: 0,
            tail: None,
            stream,
            next: 0,
            last: None,
            record: Vec::new(),
            pending: VecDeque::new(),
        }
    }

    /// Settles batches that are durable; tickets resolve in order.
    fn settle(&mut self, task: &mut Context<'_>) -> Poll<()> {
        while let Some((ticket, batch)) = self.pending.front_mut() {
            match Pin::new(ticket).poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => batch.note_lost(),
            }
            self.pending.pop_front();
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
        if self.pending.len() >= PENDING_MAX && self.settle(task).is_pending() {
            return Poll::Pending;
        }
        if self.next == 0 && self.is_full() {
            let text = "what is not sent has reached its bound on the disk";
            return Poll::Ready(Err(SinkError::Busy(text.to_owned())));
        }
        let source = batch.source().name();
        for (line, text) in batch.lines_from(self.next) {
            self.record.clear();
            LogRecord::of(source, batch.received_ns(), line, text).encode(&mut self.record);
            let append = pin!(self.stream.append_async(&self.record));
            match append.poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(ticket)) => self.last = Some(ticket),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(sink_error(error))),
            }
            self.next += 1;
        }
        self.next = 0;
        self.uncounted += batch.bytes();
        if let Some(ticket) = self.last.take() {
            if batch.wants_durable() {
                self.pending.push_back((ticket, batch.clone()));
            } else {
                self.tail = Some(ticket);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.settle(task).map(Ok)
    }

    fn close(self: Box<Self>) -> Result<(), SinkError> {
        for relay in self.relays {
            relay.stop();
        }
        let closed = self.stream.close();
        for (ticket, batch) in self.pending {
            if !matches!(ticket.try_get(), Some(Ok(_))) {
                batch.note_lost();
            }
        }
        closed
            .map(drop)
            .map_err(|error| SinkError::Broken(error.to_string()))
    }
}

fn sink_error(error: AppendError) -> SinkError {
    let text = error.to_string();
    match error {
        AppendError::Down | AppendError::Closed => SinkError::Broken(text),
        AppendError::TooLarge { .. } => SinkError::Refused(text),
        _ => SinkError::Busy(text),
    }
}
