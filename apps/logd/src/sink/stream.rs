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

use super::{Sink, SinkConfig, SinkError};

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
        SinkConfig::new(name, move || {
            let opened = self.options.clone().open(&self.path);
            let stream = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
            Ok(Box::new(StreamSink::new(stream)) as Box<dyn Sink>)
        })
    }
}

/// A stream that is open.
struct StreamSink {
    stream: StreamWriter,
    /// The line of the current batch to be appended next.
    next: usize,
    /// The ticket of the last line of the current batch.
    last: Option<Ticket>,
    record: Vec<u8>,
    /// Batches that are to become durable, with the tickets of their last lines.
    pending: VecDeque<(Ticket, Arc<Batch>)>,
}

impl StreamSink {
    fn new(stream: StreamWriter) -> Self {
        Self {
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
        let last = self.last.take();
        if batch.wants_durable()
            && let Some(ticket) = last
        {
            self.pending.push_back((ticket, batch.clone()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.settle(task).map(Ok)
    }

    fn close(self: Box<Self>) -> Result<(), SinkError> {
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
