//! Standard output as a sink.

use std::{
    io::{self, Write},
    sync::Arc,
    task::{Context, Poll},
};

use jiff::tz::TimeZone;

use super::{Sink, SinkConfig, SinkError};
use crate::{
    batch::Batch,
    query::{Form, Printer},
    record::LogRecord,
};

/// The form of the lines, on standard output and in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StdoutForm {
    /// Time of receipt, host, text.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

impl StdoutForm {
    pub(super) fn of_sink(self) -> Form {
        match self {
            Self::Text => Form::Iso,
            Self::Json => Form::Json,
        }
    }
}

/// A sink that writes to standard output.
///
/// It does not count for durability: a line counts as taken when it was written, and a client that waits for its line waits
/// only for the other sinks.
///
/// When the reader has closed it (`EPIPE`), the sink is [closed](SinkError::Closed): further lines are shed for it, the
/// state of the sink says so, and the other sinks go on. [`Server::all_sinks_dead`](crate::Server::all_sinks_dead) tells
/// when there is no other.
#[derive(Clone, Debug)]
pub struct StdoutSinkConfig {
    /// The form of the lines.
    pub form: StdoutForm,
    /// The time zone of the times.
    pub zone: TimeZone,
}

impl StdoutSinkConfig {
    /// The sink of this name.
    #[must_use]
    pub fn sink(self, name: impl Into<String>) -> SinkConfig {
        self.sink_to(name, || Box::new(io::stdout()))
    }

    /// As [`sink`](Self::sink), to another writer. Each opening of the sink calls `open`.
    #[must_use]
    pub fn sink_to(
        self,
        name: impl Into<String>,
        open: impl Fn() -> Box<dyn Write + Send> + Send + Sync + 'static,
    ) -> SinkConfig {
        let form = self.form.of_sink();
        SinkConfig::new(name, move || {
            Ok(Box::new(WriterSink {
                out: open(),
                lines: Lines::new(form, self.zone.clone()),
            }) as Box<dyn Sink>)
        })
    }
}

/// The bytes of one batch, and how many of them were written.
pub(super) struct Lines {
    printer: Printer,
    bytes: Vec<u8>,
    written: usize,
}

/// A buffer is given back to the allocator if it was larger than this, in bytes.
const KEPT_BYTES: usize = 1 << 20;

impl Lines {
    pub(super) fn new(form: Form, zone: TimeZone) -> Self {
        Self {
            printer: Printer::new(form, zone),
            bytes: Vec::new(),
            written: 0,
        }
    }

    /// Prints a batch, unless it is the one that was printed before and is not finished.
    pub(super) fn print(&mut self, batch: &Batch) {
        if !self.bytes.is_empty() {
            return;
        }
        let source = batch.source().name();
        for (line, text) in batch.lines() {
            let record = LogRecord::of(source, batch.received_ns(), line, text);
            self.printer.line(None, &record, &mut self.bytes);
        }
    }

    /// Bytes that are not written yet.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Whether none was written yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.written == 0
    }

    /// Whether what was written ends with a whole line.
    pub(super) fn is_at_line(&self) -> bool {
        self.bytes[..self.written]
            .last()
            .is_none_or(|&byte| byte == b'\n')
    }

    /// Goes back to the begin of the line that was not written as a whole.
    pub(super) fn go_back_to_line(&mut self) {
        let whole = memchr::memrchr(b'\n', &self.bytes[..self.written]);
        self.written = whole.map_or(0, |at| at + 1);
    }

    /// Goes back to the begin of the batch.
    pub(super) fn restart(&mut self) {
        self.written = 0;
    }

    /// Writes the rest. After an error it goes on where it was.
    pub(super) fn write(&mut self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match out.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The batch is finished.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.written = 0;
    }
}

struct WriterSink {
    out: Box<dyn Write + Send>,
    lines: Lines,
}

impl Sink for WriterSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        self.lines.print(batch);
        let written = self.lines.write(&mut *self.out);
        let result = match written.and_then(|()| self.out.flush()) {
            Ok(()) => {
                self.lines.clear();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(SinkError::Closed("its reader has closed it".to_owned()))
            }
            Err(error) => Err(SinkError::Busy(error.to_string())),
        };
        Poll::Ready(result)
    }
}
