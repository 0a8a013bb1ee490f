//! Writing: many producers, one stream.
//!
//! ```text
//!   producer ─┐ append: copy, checksum            ┌─ ticket ◀─────────────────┐
//!   producer ─┼──▶ shard ──▶ page ──full──▶ state ┴▶ seal ─▶ pwrite ─▶ done in order
//!   producer ─┘   (a lock each)       waited for     (one of two threads at a time)
//!                                     or aged
//! ```
//!
//! Each handle is a producer and fills one of the stream's shards, at memory speed. A shard's page has the layout of the
//! chunk that it becomes, so it is sealed and written without a copy. Sequences are assigned when a chunk is sealed. Two
//! threads take turns (`writer_state`), a third prepares the next segment (`segment_pool`).

mod batch;
mod buffer_size;
mod committer;
mod consumers;
mod demand;
mod ending;
mod error;
mod metrics;
mod options;
mod pool;
mod segment_pool;
mod shard;
mod shared;
mod start;
mod stream_writer;
mod sync_mode;
mod ticket;
mod write;
mod writer_state;

pub use buffer_size::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, BufferSize};
pub use consumers::ConsumerError;
#[cfg(all(test, loom))]
pub(crate) use demand::Demand;
pub use error::{AppendError, AppendManyError, CloseError, TicketError};
pub use metrics::StreamSnapshot;
pub use options::{
    BATCH_BYTES_LIMIT, RECORD_BYTES_LIMIT, Retention, SEGMENT_BYTES_MIN, SHARDS_MAX, StreamOptions,
    Written,
};
pub use shared::Sequences;
pub use stream_writer::StreamWriter;
pub use sync_mode::SyncMode;
pub use ticket::Ticket;
