//! A durable stream behind the sink: each line is a record, and batches of them are synced together.

use std::io;

use freeboard::stream::StreamWriter;

/// The stream, and what was there before.
#[derive(Debug)]
pub(crate) struct StreamSink {
    stream: StreamWriter,
    recovered: u64,
}

impl StreamSink {
    pub(crate) fn new(stream: StreamWriter) -> Self {
        let recovered = stream.sequences().durable;
        Self { stream, recovered }
    }

    /// Appends a line. It is durable when the stream was flushed, or a moment later by itself.
    #[inline]
    pub(super) fn append(&self, line: &[u8]) -> io::Result<()> {
        self.stream
            .append(line)
            .map(|_ticket| ())
            .map_err(io::Error::other)
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        self.stream.flush().map(|_| ()).map_err(io::Error::other)
    }

    pub(super) fn lines_durable(&self) -> u64 {
        self.stream.sequences().durable - self.recovered
    }
}
