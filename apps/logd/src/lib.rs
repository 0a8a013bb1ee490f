//! A log server that stays stable under overload.
//!
//! ```text
//!   TCP, TLS, Unix stream ─┐                     ┌─ dam, urgent ──┐
//!   UDP, Unix datagram ────┼─ source ── Batch ───┼─ dam, ...  ────┼─▶ writer ─▶ sinks
//!   HTTP POST ─────────────┘  (bound in lines    └─ dam, debug ───┘   (a lane each)
//!                              and bytes)
//! ```
//!
//! - A *source* is one connection, or the sender's address of datagrams. It cuts bytes into lines, finds the priority
//!   of each, and sends the lines of one read as one [`Batch`] per severity group. It holds at most so many lines and
//!   bytes that no sink has taken yet.
//! - Each severity group has a dam in front of the writer. The dam's reservoir is bounded, and has the group's policy.
//! - The writer hands batches to the sinks. The lanes of its mailbox are short: what waits, waits in a dam.
//! - A line that no sink takes is counted, by source and reason, when its batch is dropped.

#![forbid(unsafe_code)]

mod batch;
mod config;
mod disk;
pub mod frame;
mod input;
mod lanes;
#[cfg(all(loom, test))]
mod loom_tests;
mod metrics;
mod operations;
pub mod parse;
mod priority;
pub mod query;
mod record;
mod repeats;
mod room;
mod server;
pub mod settings;
mod sink;
mod source;
mod sources;
mod summary;
mod sync;
mod writer;

pub use batch::{Batch, BatchBuilder, Done, Format, Line, Marks};
pub use config::{Config, GroupConfig, LINE_BYTES_LIMIT, Policy, PolicyError};
pub use frame::Framing;
pub use input::{
    Fed, HttpConfig, Input, InputConfig, InputError, Intake, TcpConfig, UdpConfig, UnixConfig,
    UnixStreamConfig, received_now_ns,
};
#[cfg(feature = "tls")]
pub use input::{TlsConfig, TlsSnapshot};
pub use lanes::LaneError;
pub use operations::{Health, Operations};
pub use priority::{Facility, Group, Priority, Severity};
pub use record::{
    BATCH_CONTENT_TYPE, BATCH_HEAD_BYTES, BATCH_SEQUENCE_HEADER, BATCH_STREAM_HEADER, LogRecord,
    RecordError, SOURCE_NAME_BYTES_MAX, decode_batch, encode_batch,
};
pub use server::{Reloaded, Server, ServerHandle, StartError, StopReport};
pub use sink::{
    FileSinkConfig, Keep, OpenSink, PANICS_MAX, Period, Receiver, RelayConfig, RelayUrlError,
    Rotation, Sink, SinkConfig, SinkError, SinkGauge, SpillConfig, SpoolConfig, SpoolFull,
    StdoutForm, StdoutSinkConfig, StreamSinkConfig,
};
#[cfg(feature = "nats")]
pub use sink::{NatsConfig, NatsLogin, NatsUrlError};
pub use source::{Shed, Source, SourceBound};
pub use sources::Totals;
pub use summary::SUMMARY_SOURCES_MAX;
