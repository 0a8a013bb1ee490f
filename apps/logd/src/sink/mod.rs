//! Sinks: where lines go.
//!
//! ```text
//!              ┌─▶ lanes (short) ─▶ SinkActor ─▶ Sink: the stream
//!   writer ────┤
//!              └─▶ lanes (short) ─▶ SinkActor ─▶ Sink: another
//! ```
//!
//! Each sink has an actor of its own, whose mailbox has a short lane for each severity group. The actor gives its sink one
//! batch at a time. While the sink is busy, or has failed and waits for its next attempt, the lanes are paused; when they
//! are full, the writer waits, and what waits longer, waits in the dams. A sink that must not hold back the others has a
//! queue in front of it ([`SinkConfig::spill`]), which spills to the disk.
//!
//! A failure is retried with growing pauses, for ever, with the same batch. A panic counts as a failure; the sink is opened
//! again. A batch with which a sink has panicked [`PANICS_MAX`] times is shed.
//!
//! A sink may take a batch before it is durable. It then keeps the batch as an [`Undurable`]: whatever happens to the sink,
//! the batch counts as lost unless the sink has said that it is durable.

mod actor;
mod consumer;
mod driver;
#[cfg(test)]
mod faults;
mod file;
mod forward;
mod gauge;
#[cfg(feature = "nats")]
mod nats;
mod receipts;
mod relay;
mod rotated;
mod spill;
mod spool;
mod stdout;
mod stream;

use std::{
    fmt,
    sync::{Arc, PoisonError},
    task::{Context, Poll},
};

use freeboard::{
    flow::Backoff,
    platform::sync::{Mutex, MutexGuard},
};

use crate::batch::Batch;

pub(crate) use actor::{OpenedSink, RunningSink, SinkActor};
pub use file::{FileSinkConfig, Keep, Period, Rotation};
pub use forward::Receiver;
pub use gauge::SinkGauge;
#[cfg(feature = "nats")]
pub use nats::{NatsConfig, NatsLogin, NatsUrlError};
pub use relay::{RelayConfig, RelayUrlError};
pub use spill::SpillConfig;
pub use spool::{SpoolConfig, SpoolFull};
pub use stdout::{StdoutForm, StdoutSinkConfig};
pub use stream::StreamSinkConfig;

/// Attempts at one batch that may end in a panic.
pub const PANICS_MAX: u32 = 3;

/// Locks it. No thread leaves what is in it half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a sink did not take a batch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// It may take the batch later: a full disk, a peer that is away.
    #[error("{0}")]
    Busy(String),
    /// It is to be opened again before the next attempt.
    #[error("{0}")]
    Broken(String),
    /// It will never take this batch, but others. Its lines that it has not taken are shed.
    #[error("{0}")]
    Refused(String),
    /// It takes nothing any more. All further lines are shed for it, and it counts as failing until the server is started
    /// again.
    #[error("{0}")]
    Closed(String),
}

/// A place where lines go. One thread at a time calls it. A call may block: the runtime replaces the worker, and only the
/// lines of this sink wait.
pub trait Sink: Send + 'static {
    /// Takes a batch.
    ///
    /// `Pending`: it is called again with the same batch after `task`'s waker was called. An error: it is called again
    /// with the same batch after a pause. It keeps its position in the batch meanwhile, so that no line is taken twice.
    ///
    /// If the batch [wants to be durable](Batch::wants_durable), the sink keeps a clone of it until it is, or has called
    /// [`Batch::note_lost`]. A sink that cannot say when a line is durable drops it at once: it does not count for that.
    ///
    /// # Errors
    /// [`SinkError`].
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>>;

    /// Work besides batches: to flush, to wait until batches are durable, to drain a spool. It is called when there is no
    /// further batch, and after each wake-up. `Pending`: there is more to do, and `task`'s waker will be called.
    ///
    /// # Errors
    /// [`SinkError`]; it is called again after a pause.
    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let _ = task;
        Poll::Ready(Ok(()))
    }

    /// Begins a new file, if it writes files. It is called between two other calls.
    fn rotate(&mut self) {}

    /// Makes everything durable and closes it. It may block.
    ///
    /// # Errors
    /// [`SinkError`]: something that was taken may be lost.
    fn close(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A batch that a sink has taken, that somebody waits for, and that is not durable yet. It counts as lost when it is dropped
/// before it is durable: by an error, by a panic, or with the sink.
#[derive(Debug)]
struct Undurable(Option<Arc<Batch>>);

impl Undurable {
    fn new(batch: &Arc<Batch>) -> Self {
        Self(Some(batch.clone()))
    }

    /// It is durable.
    fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for Undurable {
    fn drop(&mut self) {
        if let Some(batch) = self.0.take() {
            batch.note_lost();
        }
    }
}

/// Opens a sink, at the start and after it has broken. Its gauge is where it counts what it loses.
pub type OpenSink = Arc<dyn Fn(&Arc<SinkGauge>) -> Result<Box<dyn Sink>, SinkError> + Send + Sync>;

/// A sink and its name.
#[derive(Clone)]
pub struct SinkConfig {
    /// Its name in metrics and messages.
    pub name: String,
    /// Opens it.
    pub open: OpenSink,
    /// The pauses between attempts after a failure.
    pub backoff: Backoff,
    /// The queue in front of it; `None`: the writer waits for it, and so do the other sinks.
    pub spill: Option<SpillConfig>,
    /// States of its parts that work on threads of their own.
    pub gauges: Vec<Arc<SinkGauge>>,
}

impl SinkConfig {
    /// A sink with the default pauses, from 10 ms to 10 s.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn() -> Result<Box<dyn Sink>, SinkError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_gauge(name, move |_| open())
    }

    fn with_gauge(
        name: impl Into<String>,
        open: impl Fn(&Arc<SinkGauge>) -> Result<Box<dyn Sink>, SinkError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Arc::new(open),
            backoff: Backoff::default(),
            spill: None,
            gauges: Vec::new(),
        }
    }

    /// Puts a queue in front of it, which spills to the disk: however slow it is, the other sinks do not wait.
    #[must_use]
    pub fn spill(mut self, spill: SpillConfig) -> Self {
        self.spill = Some(spill);
        self
    }
}

impl fmt::Debug for SinkConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SinkConfig({})", self.name)
    }
}
