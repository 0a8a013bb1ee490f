//! One client and its backend as one actor.
//!
//! ```text
//!   client ──▶ read ──▶ Outgoing ──▶ write ──▶ backend     nothing is read while
//!   client ◀── write ◀── Outgoing ◀── read ◀── backend     window_bytes wait to be written
//! ```

use std::{io, sync::Arc};

use bytes::BufMut;
use freeboard_actor::{Actor, Context};
use freeboard_meter::Counter;

use super::Shared;
use crate::{
    alarm::Deadline,
    tcp::{
        Arrived, ConnectionGuard, EXHAUSTED_PAUSE, LINGER_TIME, Linger, Lingered, Outgoing, Socket,
        Stream, is_exhausted,
    },
};

/// The most pieces forwarded in one turn, so that other actors run too.
const STEPS_MAX: u32 = 64;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    /// The backend cannot be reached; incoming bytes are discarded.
    Lingering(Linger),
}

/// The bytes buffered in one direction.
#[derive(Debug, Default)]
struct Direction {
    outgoing: Outgoing,
    /// Whether the end of stream was forwarded.
    has_ended: bool,
}

/// One client and its backend.
#[derive(Debug)]
pub(super) struct Link {
    client_stream: Option<Stream>,
    client: Option<Socket>,
    backend: Option<Socket>,
    phase: Phase,
    is_draining: bool,
    to_backend: Direction,
    to_client: Direction,
    shared: Arc<Shared>,
    deadline: Deadline,
    guard: ConnectionGuard,
}

impl Direction {
    /// Forwards what can be read. Whether any byte moved.
    fn carry(
        &mut self,
        from: &mut Socket,
        to: &mut Socket,
        window_bytes: usize,
        carried: &Counter,
    ) -> io::Result<bool> {
        let before = self.outgoing.len();
        let space = window_bytes.saturating_sub(before);
        let outgoing = &mut self.outgoing;
        let arrived = from.read(space, |bytes| outgoing.append(|tail| tail.put_slice(bytes)))?;
        if let Arrived::Bytes(count) = arrived {
            carried.add(count as u64);
        }
        let is_written = to.write(&mut self.outgoing)?;
        if is_written && from.is_ended() && !self.has_ended {
            self.has_ended = true;
            to.end()?;
            return Ok(true);
        }
        // Freed capacity counts as progress: no further edge announces that `from` is readable.
        Ok(matches!(arrived, Arrived::Bytes(_)) || self.outgoing.len() < before)
    }
}

impl Link {
    pub(super) fn new(client: Stream, guard: ConnectionGuard, shared: Arc<Shared>) -> Self {
        Self {
            client_stream: Some(client),
            client: None,
            backend: None,
            phase: Phase::Connecting,
            is_draining: false,
            to_backend: Direction::default(),
            to_client: Direction::default(),
            shared,
            deadline: Deadline::default(),
            guard,
        }
    }

    /// Registers the client and begins to connect to the backend.
    fn open(&mut self, cx: &Context<Self>) -> io::Result<()> {
        if let Some(client) = self.client_stream.take() {
            self.client = Some(self.watch(client, cx)?);
        }
        let backend = self.shared.poller.connect(self.shared.backend)?;
        self.backend = Some(self.watch(backend, cx)?);
        Ok(())
    }

    fn watch(&self, stream: Stream, cx: &Context<Self>) -> io::Result<Socket> {
        let call = cx.waker_fn(|link: &mut Self, cx| link.ready(cx));
        Socket::new(stream, &self.shared.poller, call)
    }

    /// Opens the link. While file descriptors have run out it retries until the deadline.
    fn try_open(&mut self, cx: &mut Context<Self>) {
        match self.open(cx) {
            Ok(()) => self.run(cx),
            Err(error) if is_exhausted(&error) && self.client.is_some() => {
                let retried = cx.wake_after(EXHAUSTED_PAUSE, |link: &mut Self, cx| {
                    if link.backend.is_none() && link.phase == Phase::Connecting {
                        link.try_open(cx);
                    }
                });
                if retried.is_err() {
                    self.give_up(cx);
                }
            }
            Err(_) => self.give_up(cx),
        }
    }

    /// Gives up on the backend. The client sees an end of stream and no reset: its bytes are read first.
    fn give_up(&mut self, cx: &mut Context<Self>) {
        self.shared.counters.backend_failures.add(1);
        self.backend = None;
        let Some(client) = &self.client else {
            return self.close(cx);
        };
        if client.end().is_err() {
            return self.close(cx);
        }
        self.phase = Phase::Lingering(Linger::default());
        self.deadline.set(LINGER_TIME, cx, Self::expired);
        self.run(cx);
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        for socket in [&mut self.client, &mut self.backend].into_iter().flatten() {
            socket.refresh();
        }
        self.run(cx);
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        match self.steps(cx) {
            // The client broke before the backend was connected.
            Ok(true) if self.phase == Phase::Connecting => self.reset(cx),
            Ok(true) => self.close(cx),
            Ok(false) => self.watch_time(cx),
            // A backend that accepted and then reset is not down: that error counts as broken.
            Err(error)
                if self.phase == Phase::Connecting
                    && error.kind() != io::ErrorKind::ConnectionReset =>
            {
                self.give_up(cx);
            }
            Err(_) => {
                self.shared.counters.broken.add(1);
                self.reset(cx);
            }
        }
    }

    fn watch_time(&mut self, cx: &Context<Self>) {
        let options = &self.shared.options;
        let time = match self.phase {
            Phase::Open if self.is_draining => options.drain_idle_time,
            Phase::Open => options.idle_time,
            // Set when the phase began.
            Phase::Connecting | Phase::Lingering(_) => return,
        };
        self.deadline.set(time, cx, Self::expired);
    }

    /// Forwards as far as possible without waiting. Whether the link is finished.
    fn steps(&mut self, cx: &mut Context<Self>) -> io::Result<bool> {
        let Some(client) = &mut self.client else {
            return Ok(true);
        };
        if let Phase::Lingering(linger) = &mut self.phase {
            let lingered = linger.step(client);
            if lingered == Lingered::More {
                cx.waker_fn(|link: &mut Self, cx| link.run(cx))();
            }
            return Ok(lingered == Lingered::Over);
        }
        let Some(backend) = &mut self.backend else {
            // Waiting for a file descriptor.
            return Ok(client.has_failed());
        };
        if self.phase == Phase::Connecting {
            if !backend.is_connected()? {
                return Ok(client.has_failed());
            }
            self.phase = Phase::Open;
        }
        let window = self.shared.options.window_bytes.max(1);
        let counters = &self.shared.counters;
        for _ in 0..STEPS_MAX {
            let to_backend = &counters.to_backend_bytes;
            let there = self.to_backend.carry(client, backend, window, to_backend)?;
            let to_client = &counters.to_client_bytes;
            let back = self.to_client.carry(backend, client, window, to_client)?;
            if !there && !back {
                if self.to_backend.has_ended && self.to_client.has_ended {
                    return Ok(true);
                }
                // With a full window no read would report the failure.
                let failure = client.failure().or_else(|| backend.failure());
                return failure.map_or(Ok(false), Err);
            }
        }
        cx.waker_fn(|link: &mut Self, cx| link.run(cx))();
        Ok(false)
    }

    /// One side broke: a reset tells the other that the stream is incomplete.
    fn reset(&mut self, cx: &mut Context<Self>) {
        let sockets = [self.client.take(), self.backend.take()];
        sockets.into_iter().flatten().for_each(Socket::reset);
        cx.stop();
    }

    fn close(&mut self, cx: &mut Context<Self>) {
        (self.client, self.backend) = (None, None);
        cx.stop();
    }

    /// The listener drains: the link continues until it has been idle for a while.
    fn drain(&mut self, cx: &mut Context<Self>) {
        self.is_draining = true;
        self.watch_time(cx);
    }

    fn expired(&mut self, cx: &mut Context<Self>) {
        if !self.deadline.has_passed(cx, Self::expired) {
            return;
        }
        match self.phase {
            Phase::Connecting => return self.give_up(cx),
            Phase::Open if !self.is_draining => self.shared.counters.idle_timeouts.add(1),
            Phase::Open | Phase::Lingering(_) => {}
        }
        self.close(cx);
    }
}

impl Actor for Link {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.guard
            .on_drain(cx.waker_fn(|link: &mut Self, cx| link.drain(cx)));
        self.deadline
            .set(self.shared.options.connect_time, cx, Self::expired);
        self.try_open(cx);
    }
}
