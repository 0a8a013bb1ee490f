//! Calls a sink: opens it again after it has broken, catches its panics, counts what it takes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{PANICS_MAX, Sink, SinkConfig, SinkError, SinkGauge};
use crate::{batch::Batch, source::Shed};

/// What a call has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The batch was taken; without a batch: there is nothing else to do.
    Done,
    /// The batch was refused. It counts as shed once its last reference is dropped.
    Refused,
    /// The sink has the waker.
    Pending,
    /// It is to be called again after this time.
    Retry(Duration),
}

/// A sink, and what is to be known of the calls before.
pub(super) struct Driver {
    config: SinkConfig,
    /// `None`: to be opened.
    sink: Option<Box<dyn Sink>>,
    /// Failed attempts since the last that succeeded.
    attempt: u32,
    /// Panics with the current batch.
    panics: u32,
    /// Requests to rotate that it has seen.
    rotations: u64,
    gauge: Arc<SinkGauge>,
}

impl Driver {
    pub(super) fn new(config: SinkConfig, sink: Box<dyn Sink>, gauge: Arc<SinkGauge>) -> Self {
        Self {
            config,
            sink: Some(sink),
            attempt: 0,
            panics: 0,
            rotations: 0,
            gauge,
        }
    }

    pub(super) fn gauge(&self) -> &Arc<SinkGauge> {
        &self.gauge
    }

    /// Gives the sink this batch, or lets it do its other work. After [`Called::Pending`] and [`Called::Retry`] it is called
    /// with the same batch again.
    pub(super) fn call(&mut self, batch: Option<&Arc<Batch>>, waker: &Waker) -> Called {
        if self.gauge.is_dead() {
            return batch.map_or(Called::Done, |batch| self.refuse(batch));
        }
        match self.poll(batch, waker) {
            Poll::Pending => Called::Pending,
            Poll::Ready(Ok(())) => {
                self.attempt = 0;
                match batch {
                    Some(batch) => {
                        self.panics = 0;
                        batch.note_taken();
                        self.gauge.take(batch.len() as u64, batch.bytes());
                    }
                    None => self.gauge.recover(),
                }
                Called::Done
            }
            Poll::Ready(Err(error)) => self.fail(&error, batch),
        }
    }

    fn poll(&mut self, batch: Option<&Arc<Batch>>, waker: &Waker) -> Poll<Result<(), SinkError>> {
        let Self {
            sink,
            config,
            rotations,
            gauge,
            ..
        } = self;
        let call = || {
            let sink = match sink {
                Some(sink) => sink,
                None => sink.insert((config.open)(gauge)?),
            };
            let wanted = gauge.rotations();
            if wanted != *rotations {
                *rotations = wanted;
                sink.rotate();
            }
            let mut task = Context::from_waker(waker);
            match batch {
                Some(batch) => sink.poll_write(batch, &mut task),
                None => sink.poll_idle(&mut task),
            }
        };
        gauge.begin_call();
        // Unwind safety: a sink that has panicked is dropped, and the batch has no state that a sink changes.
        let result = catch_unwind(AssertUnwindSafe(call));
        self.gauge.end_call();
        result.unwrap_or_else(|_| Poll::Ready(Err(self.panicked(batch.is_some()))))
    }

    fn panicked(&mut self, has_batch: bool) -> SinkError {
        self.gauge.panicked();
        self.panics += 1;
        self.drop_sink();
        if self.panics < PANICS_MAX || !has_batch {
            SinkError::Broken("it panicked".to_owned())
        } else {
            SinkError::Refused("it panicked with this batch again".to_owned())
        }
    }

    fn drop_sink(&mut self) {
        let sink = self.sink.take();
        // Its drop may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
    }

    fn refuse(&mut self, batch: &Arc<Batch>) -> Called {
        self.panics = 0;
        self.gauge.refuse(batch.len() as u64);
        batch.set_reason(Shed::SinkFailed);
        Called::Refused
    }

    fn fail(&mut self, error: &SinkError, batch: Option<&Arc<Batch>>) -> Called {
        self.gauge.fail(error);
        match (error, batch) {
            (SinkError::Refused(_), Some(batch)) => return self.refuse(batch),
            (SinkError::Closed(_), _) => {
                tracing::error!("the sink {}: {error}", self.gauge.name());
                self.gauge.die();
                return batch.map_or(Called::Done, |batch| self.refuse(batch));
            }
            (SinkError::Broken(_), _) => self.drop_sink(),
            (SinkError::Refused(_) | SinkError::Busy(_), _) => {}
        }
        let delay = Duration::from_nanos(self.config.backoff.delay_ns(self.attempt));
        self.attempt = self.attempt.saturating_add(1);
        Called::Retry(delay)
    }

    /// Makes all durable that was taken, and closes the sink.
    pub(super) fn close(&mut self) -> Result<(), SinkError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.gauge.begin_call();
        let closed = catch_unwind(AssertUnwindSafe(|| sink.close()));
        self.gauge.end_call();
        let closed = closed.unwrap_or_else(|_| Err(SinkError::Broken("it panicked".to_owned())));
        match &closed {
            Ok(()) => self.gauge.close(),
            Err(error) => self.gauge.fail(error),
        }
        closed
    }
}
