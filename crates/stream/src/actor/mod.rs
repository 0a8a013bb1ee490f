//! Streams for actors: a writer as an actor, and a reader that sends records to an actor.
//!
//! ```text
//!   actors ──Append──▶ StreamActor ──▶ stream ──▶ ReaderFeed ──Recorded, credit──▶ actor
//!      ▲                   │
//!      └── Ticket ◀── reply (resolved when durable)
//! ```
//!
//! The reply to an [`Append`] is its ticket, at once: the mailbox never waits for the disk, only for memory. The caller
//! awaits the ticket.
//!
//! ```
//! use freeboard_actor::System;
//! use freeboard_stream::StreamOptions;
//! use freeboard_stream::actor::{Append, StreamActor};
//! use std::time::Duration;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().to_owned();
//! let system = System::builder().build()?;
//! let log = system.spawn_once(Default::default(), StreamActor::open(StreamOptions::new(), path)?)?;
//! let ticket = log.ask(Append(b"an order".to_vec())).wait()??;
//! assert_eq!(ticket.wait()?, 1);
//! assert!(system.shutdown(Duration::from_secs(5)).is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reader_feed;
mod stream_actor;

pub use reader_feed::{FeedEnd, ReaderFeed, Recorded};
pub use stream_actor::{Acknowledge, Append, Flush, Snapshot, StreamActor};
