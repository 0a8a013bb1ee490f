//! Writing: many producers, one stream.
//!
//! ```text
//!   producer ─┐ append: copy, checksum            ┌─ ticket ◀─────────────────┐
//!   producer ─┼──▶ shard ──▶ page ──full──▶ state ┴▶ seal ─▶ pwrite ─▶ done in order
//!   producer ─┘   (a lock each)       waited for     (one of two threads at a time)
//!                                     or aged
//! ```
//!
//! Each handle is a producer and fills one of the stream's shards, at memory speed; a shard's buffer
//! is laid out as the chunk it will be, so that it is sealed and written where it stands. Sequences
//! are given when a chunk is sealed. Two threads take turns ([`state`]), a third has the next segment
//! ready ([`segment_pool`]).

mod batch;
mod buffer_size;
mod committer;
mod demand;
mod ending;
mod error;
mod gauges;
mod options;
mod pool;
mod retention;
mod segment_pool;
mod shard;
mod shared;
mod start;
mod stream_writer;
mod sync_mode;
mod ticket;
mod turn_guard;
mod wake;
mod writer_state;

pub(crate) use batch::Batch;
pub use buffer_size::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, BufferSize};
#[cfg(all(test, loom))]
pub(crate) use demand::Demand;
pub use error::{AppendError, AppendManyError, CloseError, TicketError};
pub use gauges::StreamSnapshot;
pub use options::{RECORD_BYTES_LIMIT, SEGMENT_BYTES_MIN, SHARDS_MAX, StreamOptions};
pub use retention::Retention;
pub use stream_writer::{Sequences, StreamWriter};
pub use sync_mode::SyncMode;
pub use ticket::Ticket;
pub(crate) use writer_state::IN_FLIGHT_MAX;
