//! Sealed, durable, append-only logs at the disk's speed.

#![forbid(unsafe_code)]

pub mod format;
mod head;
mod index;
mod log;
mod scan;
pub mod seal;
pub mod storage;
mod sync;
mod writer;

pub use head::Head;
pub use log::{OpenError, TailDamage};
pub use seal::{KeyError, MasterKey};
pub use writer::{
    AppendError, AppendManyError, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, BufferSize, CloseError,
    RECORD_BYTES_LIMIT, Retention, SEGMENT_BYTES_MIN, SHARDS_MAX, Sequences, StreamOptions,
    StreamSnapshot, StreamWriter, SyncMode, Ticket, TicketError,
};
