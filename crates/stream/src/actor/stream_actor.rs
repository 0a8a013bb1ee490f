//! The writer of a stream as an actor.

use std::path::PathBuf;

use crate::{
    AppendError, OpenError, StreamOptions, StreamSnapshot, StreamWriter, Ticket, TicketError,
};
use freeboard_actor::{Actor, AsyncHandler, Context, Handler, without_deadline};

/// Appends a record. The reply is its [`Ticket`], or why it was not accepted. Without a reply (`tell`), it is appended
/// and nobody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append(pub Vec<u8>);

/// Makes everything appended before durable. The reply is the last sequence that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush;

/// Asks for the state and the counters of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot;

/// Tells retention that a reader has acknowledged all records up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledge(pub u64);

/// Owns a stream that is open for writing; one actor per stream.
///
/// While the stream's memory is full its mailbox waits, without a thread, and the mailbox's own bound and policy hold
/// back the senders. Stopping it closes the stream in order: accepted records are durable then. A stream that is down
/// after a failed write fails the actor, so its supervisor decides; a factory that [opens](StreamActor::open) the stream
/// again is a restart.
#[derive(Debug)]
pub struct StreamActor {
    stream: StreamWriter,
}

/// The stream is down: the actor fails, after the reply that says so.
struct Fail;

impl StreamActor {
    /// The actor of the stream in this directory.
    pub fn open(options: StreamOptions, path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        options.open(path.into()).map(Self::new)
    }

    /// The actor of a stream that is open. Other handles of it may be used beside the actor.
    #[must_use]
    pub fn new(stream: StreamWriter) -> Self {
        Self { stream }
    }
}

impl Actor for StreamActor {
    // A record belongs into the log even if nobody waits for it any more.
    const TELLS_EXPIRE: bool = false;

    fn stopped(&mut self, cx: &mut Context<Self>) {
        let stream = self.stream.clone();
        // Errors are in the tickets, and in the stream's fault.
        let _closed = cx.blocking(|| stream.close());
    }
}

impl AsyncHandler<Append> for StreamActor {
    type Reply = Result<Ticket, AppendError>;

    async fn handle(&mut self, append: Append, cx: &mut Context<Self>) -> Self::Reply {
        let appended = self.stream.append_async(&append.0).await;
        if matches!(appended, Err(AppendError::Down)) {
            // Refused only if the actor terminates anyway.
            let _ = without_deadline(|| cx.actor_ref().tell(Fail));
        }
        appended
    }
}

impl AsyncHandler<Flush> for StreamActor {
    type Reply = Result<u64, TicketError>;

    async fn handle(&mut self, _: Flush, _cx: &mut Context<Self>) -> Self::Reply {
        self.stream.flush_async().await
    }
}

impl Handler<Snapshot> for StreamActor {
    type Reply = StreamSnapshot;

    fn handle(&mut self, _: Snapshot, _cx: &mut Context<Self>) -> StreamSnapshot {
        self.stream.snapshot()
    }
}

impl Handler<Acknowledge> for StreamActor {
    type Reply = ();

    fn handle(&mut self, acknowledge: Acknowledge, _cx: &mut Context<Self>) {
        self.stream.acknowledge(acknowledge.0);
    }
}

impl Handler<Fail> for StreamActor {
    type Reply = ();

    fn handle(&mut self, _: Fail, _cx: &mut Context<Self>) {
        panic!(
            "the stream is down: {}",
            self.stream.fault().unwrap_or_default()
        );
    }
}
