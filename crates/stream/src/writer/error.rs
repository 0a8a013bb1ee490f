//! Why a record was not accepted, or is not durable.

use freeboard_flow::ShedReason;
use thiserror::Error;

/// Why a record was not accepted. The caller still has it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// The memory's bound is reached and the policy is to refuse.
    #[error("the stream's memory is full")]
    Full,
    /// The record is larger than the stream takes.
    #[error("a record of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// The batch is larger than the stream takes in one piece: half of its memory, and
    /// [`BATCH_BYTES_LIMIT`](crate::BATCH_BYTES_LIMIT) at the most.
    #[error("a batch of {bytes} bytes, with heads and tags, is larger than the limit of {limit}")]
    BatchTooLarge {
        /// Its bytes, with the heads and the tags of its records.
        bytes: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// The disk is full. Writing and appending resume when there is space.
    #[error("the disk is full")]
    DiskFull,
    /// A write or a sync failed and the stream is being read again, which takes a moment.
    #[error("the stream is reopening after a failed write")]
    Reopening,
    /// A newer [epoch](crate::StreamOptions::epoch) has opened the stream: [`StreamWriter::fault`] says which.
    ///
    /// [`StreamWriter::fault`]: crate::StreamWriter::fault
    #[error("a newer epoch has opened the stream")]
    Stale,
    /// The stream could not be reopened after a failure: [`StreamWriter::fault`] says why.
    ///
    /// [`StreamWriter::fault`]: crate::StreamWriter::fault
    #[error("the stream is down after a failed write")]
    Down,
    /// The stream was closed.
    #[error("the stream is closed")]
    Closed,
}

/// Why [`append_many`](crate::StreamWriter::append_many) stopped.
#[derive(Debug, Error)]
#[error("after {appended} records: {error}")]
pub struct AppendManyError {
    /// How many records were accepted.
    pub appended: u64,
    /// The ticket of the last one that was; `None` if none was.
    pub ticket: Option<super::Ticket>,
    /// Why the next one was not.
    pub error: AppendError,
}

/// Why an accepted record is not durable.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketError {
    /// Writing or syncing it failed: it may be there after the stream was reopened, or not.
    #[error("the write failed: the record may be on the disk or not")]
    Unknown,
    /// A newer [epoch](crate::StreamOptions::epoch) has opened the stream. The record may be in it or not.
    #[error("a newer epoch has opened the stream: the record may be in it or not")]
    Stale,
    /// It was in memory when the stream failed or was closed on a full disk, and was not written.
    #[error("the stream failed before the record was written")]
    NotWritten,
    /// It was shed by the overload policy.
    #[error("the record was shed: {0}")]
    Shed(ShedReason),
}

/// Why a stream did not close in order.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CloseError {
    /// It was down already.
    #[error("the stream was down: {reason}")]
    Down {
        /// Why.
        reason: String,
    },
    /// The last sync, or cutting the file to its length, failed.
    #[error("the stream's end could not be written: {0}")]
    End(std::io::Error),
    /// The disk is full, and accepted records that were not written are lost; their tickets say so. After a
    /// failed write the stream could not be read again either.
    #[error("the disk is full: {records} accepted records could not be written")]
    DiskFull {
        /// How many.
        records: u64,
    },
}
