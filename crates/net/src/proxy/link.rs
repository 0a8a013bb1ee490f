//! One client and its backend, as one actor.
//!
//! ```text
//!   client ──▶ read ──▶ Outgoing ──▶ write ──▶ backend     nothing is read while
//!   client ◀── write ◀── Outgoing ◀── read ◀── backend     window_bytes wait to be written
//! ```

use std::{io, sync::Arc};

use crate::poller::mio::net::TcpStream;
use bytes::BufMut;
use freeboard_actor::{Actor, Context};
use freeboard_meter::Counter;

use super::Shared;
use crate::{
    deadline::Deadline,
    tcp::{
        Arrived, ConnectionGuard, EXHAUSTED_PAUSE, LINGER_TIME, Linger, Lingered, Outgoing, Socket,
        is_exhausted,
    },
};

/// Pieces carried in one run, so that others have their turn.
const STEPS_MAX: u32 = 64;

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    /// There is no backend; what still comes is thrown away.
    Lingering(Linger),
}

/// What is on its way in one direction.
#[derive(Debug, Default)]
struct Direction {
    outgoing: Outgoing,
    /// Whether the end was passed on.
    has_ended: bool,
}

/// One client and its backend.
#[derive(Debug)]
pub(super) struct Link {
    client_stream: Option<TcpStream>,
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
    /// Carries what there is. Whether anything moved.
    fn carry(
        &mut self,
        from: &mut Socket,
        to: &mut Socket,
        window_bytes: usize,
        carried: &Counter,
    ) -> io::Result<bool> {
        let before = self.outgoing.len();
        let room = window_bytes.saturating_sub(before);
        let outgoing = &mut self.outgoing;
        let arrived = from.read(room, |bytes| outgoing.append(|tail| tail.put_slice(bytes)))?;
        if let Arrived::Bytes(count) = arrived {
            carried.add(count as u64);
        }
        let is_written = to.write(&mut self.outgoing)?;
        if is_written && from.is_ended() && !self.has_ended {
            self.has_ended = true;
            to.end()?;
            return Ok(true);
        }
        // Room that was made is movement too: no edge will say again that `from` is readable.
        Ok(matches!(arrived, Arrived::Bytes(_)) || self.outgoing.len() < before)
    }
}

impl Link {
    pub(super) fn new(client: TcpStream, guard: ConnectionGuard, shared: Arc<Shared>) -> Self {
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

    /// Watches the client, and begins to connect to the backend.
    fn open(&mut self, cx: &Context<Self>) -> io::Result<()> {
        if let Some(client) = self.client_stream.take() {
            self.client = Some(self.watch(client, cx)?);
        }
        let backend = TcpStream::connect(self.shared.backend)?;
        let _ = backend.set_nodelay(true);
        self.backend = Some(self.watch(backend, cx)?);
        Ok(())
    }

    fn watch(&self, stream: TcpStream, cx: &Context<Self>) -> io::Result<Socket> {
        let call = cx.waker_fn(|link: &mut Self, cx| link.ready(cx));
        Socket::new(stream, &self.shared.poller, call)
    }

    /// Tries to open; while the system has no file descriptors left, again and again until it is too
    /// late.
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

    /// There is no backend. The client is told by an end, not by a reset: what it sent is read first.
    fn give_up(&mut self, cx: &mut Context<Self>) {
        self.shared.counters.backend_failures.add(1);
        self.backend = None;
        let Some(client) = &self.client else {
            return self.close(cx);
        };
        if client.end().is_err() {
            return self.close(cx);
        }
        self.phase = Phase::Lingering(Linger::new());
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
            // The client broke before there was a backend.
            Ok(true) if self.phase == Phase::Connecting => self.reset(cx),
            Ok(true) => self.close(cx),
            Ok(false) => self.watch_time(cx),
            // One that was accepted and reset since is no backend that is down: that is another error.
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
            // Set when it began.
            Phase::Connecting | Phase::Lingering(_) => return,
        };
        self.deadline.set(time, cx, Self::expired);
    }

    /// Carries as far as it can without waiting. Whether it is over.
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
            // Waits for a file descriptor.
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
                // With a full window nothing is read that would say so.
                let failure = client.failure().or_else(|| backend.failure());
                return failure.map_or(Ok(false), Err);
            }
        }
        cx.waker_fn(|link: &mut Self, cx| link.run(cx))();
        Ok(false)
    }

    /// One side broke: the other must not take that for the end of what was sent.
    fn reset(&mut self, cx: &mut Context<Self>) {
        let sockets = [self.client.take(), self.backend.take()];
        sockets.into_iter().flatten().for_each(Socket::reset);
        cx.stop();
    }

    fn close(&mut self, cx: &mut Context<Self>) {
        (self.client, self.backend) = (None, None);
        cx.stop();
    }

    /// The listener drains: what is under way goes on, until nothing has moved for a while.
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
