//! The port: what is behind the server, called as an Erlang port driver is.
//!
//! A call writes a line and answers through whatever the caller gave it.

use std::{fs::File, io, time::Duration};

use super::{file_port::FilePort, stream_port::StreamPort};

pub(crate) use super::file_port::DELAY;

/// A file, or a durable stream.
#[derive(Debug)]
pub(crate) enum Port {
    File(FilePort),
    Stream(StreamPort),
}

impl Port {
    /// Writes each line to a file by itself.
    pub(crate) fn raw(file: File) -> Self {
        Self::File(FilePort::raw(file))
    }

    /// Gathers lines for a file.
    pub(crate) fn buffered(file: File) -> Self {
        Self::File(FilePort::buffered(file))
    }

    /// Writes a line and answers.
    #[inline]
    pub(crate) fn call<A>(&mut self, line: &[u8], answer: impl FnOnce(io::Result<()>) -> A) -> A {
        answer(match self {
            Self::File(port) => port.write(line),
            Self::Stream(port) => port.append(line),
        })
    }

    /// How long the first line that waits here may still stay; `None` if none does, or somebody else
    /// sees to it.
    pub(crate) fn flush_due_in(&self) -> Option<Duration> {
        match self {
            Self::File(port) => port.flush_due_in(),
            Self::Stream(_) => None,
        }
    }

    /// Whether lines wait here that nobody else sees to.
    #[inline]
    pub(crate) fn has_buffered(&self) -> bool {
        match self {
            Self::File(port) => port.has_buffered(),
            Self::Stream(_) => false,
        }
    }

    /// Lines that are in the file, or durable in the stream.
    pub(crate) fn lines_written(&self) -> u64 {
        match self {
            Self::File(port) => port.lines_written(),
            Self::Stream(port) => port.lines_durable(),
        }
    }

    /// Writes all that waits; a stream makes it durable.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(port) => port.flush(),
            Self::Stream(port) => port.flush(),
        }
    }
}
