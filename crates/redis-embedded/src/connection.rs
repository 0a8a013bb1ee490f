//! The actor of one connection.
//!
//! ```text
//!   ready ──▶ read ──▶ Dialogue ──▶ Outgoing ──▶ write
//!               ▲          ▲            │
//!               │          └── published messages
//!               └── stops at write_bytes of unread replies
//! ```

use std::io;

use bytes::{Buf, BytesMut};
use freeboard_actor::{Actor, Context};
use freeboard_net::poller::Poller;
use freeboard_net::tcp::{
    Accepted, ConnectionGuard, LINGER_TIME, Linger, Lingered, Socket, Stream,
};

use crate::{dialogue::Dialogue, session::Session};

/// Bytes of one read at most.
const READ_BYTES: usize = 64 << 10;
/// Steps of one run, so that other actors get their turn.
const STEPS_MAX: usize = 64;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Everything is written; input is discarded, so that a refused peer can read the refusal.
    Lingering(Linger),
}

/// The connection must be closed.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// One connection of a server.
pub(crate) struct Connection {
    /// Until it has started.
    stream: Option<Stream>,
    socket: Option<Socket>,
    poller: Poller,
    dialogue: Dialogue,
    /// Input that was not consumed.
    inbox: BytesMut,
    /// Whether the inbox has no complete request.
    is_hungry: bool,
    phase: Phase,
    guard: ConnectionGuard,
}

impl Connection {
    pub(crate) fn new(accepted: Accepted, poller: &Poller, session: Session) -> Self {
        Self {
            stream: Some(accepted.stream),
            socket: None,
            poller: poller.clone(),
            dialogue: Dialogue::new(session),
            inbox: BytesMut::new(),
            is_hungry: true,
            phase: Phase::Open,
            guard: accepted.guard,
        }
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        if let Some(socket) = &mut self.socket {
            socket.refresh();
            self.run(cx);
        }
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        if self.steps(cx).is_err() {
            self.over(cx);
        }
    }

    fn over(&mut self, cx: &mut Context<Self>) {
        // Close now, not when the actor is dropped.
        self.socket = None;
        cx.stop();
    }

    /// Runs until it must wait.
    fn steps(&mut self, cx: &mut Context<Self>) -> Result<(), Over> {
        for _ in 0..STEPS_MAX {
            let may_continue = match &mut self.phase {
                Phase::Open => self.step_open(cx)?,
                Phase::Lingering(linger) => match linger.step(self.socket.as_mut().ok_or(Over)?) {
                    Lingered::More => true,
                    Lingered::Nothing => false,
                    Lingered::Over => return Err(Over),
                },
            };
            if !may_continue {
                self.socket.as_mut().ok_or(Over)?.wait()?;
                return Ok(());
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(())
    }

    fn step_open(&mut self, cx: &mut Context<Self>) -> Result<bool, Over> {
        self.dialogue.deliver();
        if self.dialogue.is_over() {
            self.dialogue.session.common().gauges.overflowed.add(1);
            return Err(Over);
        }
        if self.dialogue.session.is_dropped {
            return Err(Over);
        }
        if self.dialogue.session.is_closing {
            return self.close(cx);
        }
        if !self.dialogue.output.has_capacity() {
            self.flush()?;
            // Nothing is read here, so a vanished peer shows only as a failed socket.
            let has_failed = self.socket.as_ref().is_none_or(Socket::has_failed);
            if has_failed {
                return Err(Over);
            }
            return Ok(self.dialogue.output.has_capacity());
        }
        if !self.is_hungry {
            let fed = self.dialogue.feed(&self.inbox);
            self.inbox.advance(fed.bytes);
            self.is_hungry = fed.is_hungry;
            return Ok(true);
        }
        self.fetch()
    }

    /// Reads, or writes the replies if there is nothing to read. Returns whether to continue.
    fn fetch(&mut self) -> Result<bool, Over> {
        let socket = self.socket.as_mut().ok_or(Over)?;
        if !socket.is_readable() {
            let is_ended = socket.is_ended();
            let is_written = self.flush()?;
            if is_ended && is_written {
                return Err(Over);
            }
            if self.inbox.is_empty() {
                // An idle connection holds no buffer.
                self.inbox = BytesMut::new();
            }
            return Ok(false);
        }
        let Self {
            dialogue,
            inbox,
            is_hungry,
            ..
        } = self;
        socket.read(READ_BYTES, |bytes| {
            if inbox.is_empty() {
                // Input is mostly complete requests, which need no copy.
                let fed = dialogue.feed(bytes);
                inbox.extend_from_slice(&bytes[fed.bytes..]);
                *is_hungry = fed.is_hungry;
            } else {
                inbox.extend_from_slice(bytes);
                *is_hungry = false;
            }
        })?;
        // Also after a read that found nothing: the replies so far are not written yet.
        Ok(true)
    }

    /// Shuts down the write side once everything is written.
    fn close(&mut self, cx: &mut Context<Self>) -> Result<bool, Over> {
        self.inbox = BytesMut::new();
        if !self.flush()? {
            return Ok(false);
        }
        let socket = self.socket.as_ref().ok_or(Over)?;
        // Closing a socket with unread input resets it, and loses replies that the peer has not read.
        if socket.is_ended() || socket.end().is_err() {
            return Err(Over);
        }
        self.phase = Phase::Lingering(Linger::default());
        cx.wake_after(LINGER_TIME, Self::over)?;
        Ok(true)
    }

    /// Writes. Returns whether everything is written.
    fn flush(&mut self) -> Result<bool, Over> {
        let socket = self.socket.as_mut().ok_or(Over)?;
        Ok(socket.write(&mut self.dialogue.output.outgoing)?)
    }
}

impl Actor for Connection {
    fn started(&mut self, cx: &mut Context<Self>) {
        let Some(stream) = self.stream.take() else {
            return self.over(cx);
        };
        let call = cx.waker_fn(|connection: &mut Self, cx| connection.ready(cx));
        self.socket = Some(Socket::accepted(stream, &self.poller, call));
        let message_came = cx.waker_fn(|connection: &mut Self, cx| connection.run(cx));
        self.dialogue.session.listen_with(message_came);
        self.guard
            .on_drain(cx.waker_fn(|connection: &mut Self, cx| connection.over(cx)));
        self.run(cx);
    }
}
