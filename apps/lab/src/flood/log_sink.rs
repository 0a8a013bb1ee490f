//! Where the log server writes its lines. It calls the sink as an Erlang process calls a port driver: a call writes a
//! line and passes the result to a closure of the caller.

use std::{io, time::Duration};

use super::{file_process::FileProcess, file_sink::FileSink, stream_sink::StreamSink};

pub(crate) use super::file_sink::DELAY;

/// A file, one behind a thread of its own, or a durable stream.
#[derive(Debug)]
pub(crate) enum LogSink {
    File(FileSink),
    Process(FileProcess),
    Stream(StreamSink),
}

impl LogSink {
    /// Writes a line and answers.
    #[inline]
    pub(crate) fn call<A>(&mut self, line: &[u8], answer: impl FnOnce(io::Result<()>) -> A) -> A {
        answer(match self {
            Self::File(sink) => sink.write(line),
            Self::Process(file) => file.write(line),
            Self::Stream(sink) => sink.append(line),
        })
    }

    /// How long the first line that waits here may still stay; `None` if none does, or somebody else
    /// sees to it.
    pub(crate) fn flush_due_in(&self) -> Option<Duration> {
        match self {
            Self::File(sink) => sink.flush_due_in(),
            Self::Process(file) => file.flush_due_in(),
            Self::Stream(_) => None,
        }
    }

    /// Whether lines wait here that nobody else sees to.
    #[inline]
    pub(crate) fn has_buffered(&self) -> bool {
        match self {
            Self::File(sink) => sink.has_buffered(),
            Self::Process(file) => file.flush_due_in().is_some(),
            Self::Stream(_) => false,
        }
    }

    /// Lines that are in the file, or durable in the stream.
    pub(crate) fn lines_written(&self) -> u64 {
        match self {
            Self::File(sink) => sink.lines_written(),
            Self::Process(file) => file.lines_written(),
            Self::Stream(sink) => sink.lines_durable(),
        }
    }

    /// Writes all that waits; a stream makes it durable.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(sink) => sink.flush(),
            Self::Process(file) => file.flush(),
            Self::Stream(sink) => sink.flush(),
        }
    }
}
