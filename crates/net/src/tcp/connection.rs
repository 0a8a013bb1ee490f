//! A TCP connection as an actor: bytes arrive as messages, under credit, and are written under back-pressure.
//!
//! ```text
//!   peer ──▶ socket ──▶ Received(bytes) ──▶ owner             one credit each; none left: nothing is read
//!   peer ◀── socket ◀── outgoing ◀── lane 0 ◀── Write(bytes)  write_bytes wait: the lane is paused
//!                         CONTROL_LANE ◀── ReadCredit             never paused
//! ```
//!
//! Reading is as Erlang's `{active, N}`: the owner grants so many messages, and more when it has handled them. An
//! owner that is slow stops the reading, and the peer's window closes.
//!
//! Writing is as Pony's `apply_pressure`: while [`ConnectionOptions::write_bytes`] wait for a slow peer, the
//! connection pauses lane 0. Senders see a full lane: they wait in `send`, threads block in `tell`, actors are
//! muted, and another policy than to wait sheds. The lane goes on once a quarter of the bytes is left. An owner that
//! must not be muted stops writing at [`Event::Pressure`].
//!
//! Messages of lane 0 keep their order: a [`ReadCredit`] told there is granted when what was written before it has been
//! taken, so an echo reads no faster than its peer does. A [`ReadCredit`] on [`Connection::CONTROL_LANE`] does not wait
//! for writes: it is for protocols that read while they cannot write.
//!
//! [`Close`], a listener's drain, a graceful stop and the system's shutdown write everything that was accepted before. A
//! connection that is stopped at once, or at a shutdown's deadline, does not.

use std::{io, net::SocketAddr, time::Duration};

use crate::poller::{Poller, mio::net::TcpStream};
use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Context, Handler, Recipient, SpawnError, SpawnOptions, System,
};
use freeboard_flow::LaneConfig;

use super::{
    listener::{Accepted, ConnectionGuard},
    outgoing::Outgoing,
    socket::{Arrived, Socket},
};
use crate::deadline::Deadline;

/// Steps of one run, so that others have their turn.
const STEPS_MAX: u32 = 64;

/// The lane of writes, which is paused: that of `tell`, `send` and `ask`.
const WRITE_LANE: usize = 0;

/// Messages that wait on the lane that is not paused.
const CONTROL_BOUND: usize = 64;

/// Limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Messages that the owner is ready for at the beginning; default 16.
    pub credit: u32,
    /// The longest piece that one message brings, in bytes, 1 to 64 KiB; default 16 KiB.
    pub read_bytes: usize,
    /// When so many bytes wait to be written, writes have to wait; default 1 MiB, at least 1. The write that comes
    /// to it is the last to be taken, and a longer one is refused: fewer than twice as many bytes wait. At half of
    /// it pressure is reported.
    pub write_bytes: usize,
    /// How long nothing may come or go before it is closed, also with writes that wait; default never.
    pub idle_time: Option<Duration>,
    /// The lane of the writes; default 64 messages, whose senders wait when there are more.
    pub lane: LaneConfig,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            credit: 16,
            read_bytes: 16 << 10,
            write_bytes: 1 << 20,
            idle_time: None,
            lane: LaneConfig::bounded(64),
        }
    }
}

/// What happens on a connection, told to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is there. Comes first.
    Opened(SocketAddr),
    /// Bytes came. Costs one credit.
    Received(Bytes),
    /// The peer has ended its side; it still reads.
    Ended,
    /// Half of [`ConnectionOptions::write_bytes`] wait, so an owner that must not be muted should stop writing
    /// (`true`); or no more than a quarter again (`false`).
    Pressure(bool),
    /// These bytes will not be written: they came after [`End`] or [`Close`], are longer than
    /// [`ConnectionOptions::write_bytes`], or came on [`Connection::CONTROL_LANE`] while writes had to wait.
    Refused(Bytes),
    /// It is over; nothing follows. Why, if not by [`Close`] or after both sides have ended.
    Closed(Option<io::ErrorKind>),
}

/// An event of a connection, as its owner is told it.
#[derive(Clone, Debug)]
pub struct ConnectionEvent {
    /// The connection, to be given credit and written to.
    pub connection: ActorRef<Connection>,
    /// What happened.
    pub event: Event,
}

/// Bytes to be written. The reply says whether they were taken; if not, the owner gets [`Event::Refused`].
#[derive(Clone, Debug)]
pub struct Write(pub Bytes);

/// So many further messages may come: on lane 0 once the writes before it have been taken, on
/// [`Connection::CONTROL_LANE`] at once.
#[derive(Clone, Copy, Debug)]
pub struct ReadCredit(pub u32);

/// Ends this side once all writes are written that were accepted before, on whichever lane it comes; the peer's goes
/// on.
#[derive(Clone, Copy, Debug)]
pub struct End;

/// Closes the connection once all writes are written that were accepted before, on whichever lane it comes. To close
/// at once, stop the actor.
#[derive(Clone, Copy, Debug)]
pub struct Close;

/// A connection.
pub struct Connection {
    stream: Option<TcpStream>,
    socket: Option<Socket>,
    peer: SocketAddr,
    poller: Poller,
    options: ConnectionOptions,
    owner: Recipient<ConnectionEvent>,
    credit: u32,
    outgoing: Outgoing,
    is_opened: bool,
    is_pressed: bool,
    /// Once this side ends: queued messages that may still be writes from before.
    queued_before_end: Option<u64>,
    has_ended: bool,
    is_closing: bool,
    has_told_end: bool,
    /// Whether anything came or went since the deadline was set.
    has_moved: bool,
    deadline: Deadline,
    /// Given up when the connection is over.
    guard: Option<ConnectionGuard>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A lane that writes never block, for [`ReadCredit`].
    pub const CONTROL_LANE: usize = 1;

    /// Spawns the actor of a connection that was accepted, as a child of the listener's.
    ///
    /// # Errors
    /// If it cannot be spawned.
    pub fn spawn<A: Actor>(
        accepted: Accepted,
        poller: &Poller,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
        cx: &Context<A>,
    ) -> Result<ActorRef<Self>, SpawnError> {
        let Accepted {
            stream,
            peer,
            guard,
        } = accepted;
        let connection = Self::new(stream, peer, poller, options, owner, Some(guard));
        cx.spawn_once(Self::spawn_options(options), connection)
    }

    /// Connects to `address`. [`Event::Opened`] or [`Event::Closed`] says what came of it.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn connect(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
    ) -> io::Result<ActorRef<Self>> {
        let stream = TcpStream::connect(address)?;
        let connection = Self::new(stream, address, poller, options, owner, None);
        system
            .spawn_once(Self::spawn_options(options), connection)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn spawn_options(options: ConnectionOptions) -> SpawnOptions {
        SpawnOptions::new().lanes([options.lane, LaneConfig::bounded(CONTROL_BOUND)])
    }

    fn new(
        stream: TcpStream,
        peer: SocketAddr,
        poller: &Poller,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
        guard: Option<ConnectionGuard>,
    ) -> Self {
        let options = ConnectionOptions {
            write_bytes: options.write_bytes.max(1),
            ..options
        };
        Self {
            stream: Some(stream),
            socket: None,
            peer,
            poller: poller.clone(),
            options,
            owner,
            credit: options.credit,
            outgoing: Outgoing::new(),
            is_opened: false,
            is_pressed: false,
            queued_before_end: None,
            has_ended: false,
            is_closing: false,
            has_told_end: false,
            has_moved: true,
            deadline: Deadline::default(),
            guard,
        }
    }

    fn notify_owner(&self, event: Event, cx: &Context<Self>) {
        let connection = cx.actor_ref();
        // An owner that is gone wants to know nothing.
        let _ = self.owner.tell(ConnectionEvent { connection, event });
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        socket.refresh();
        self.run(cx);
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        match self.steps(cx) {
            Ok(true) => self.close(None, cx),
            Ok(false) => self.extend_deadline(cx),
            Err(error) => self.close(Some(error.kind()), cx),
        }
        cx.set_unfinished(self.socket.is_some() && !self.outgoing.is_empty());
    }

    fn close(&mut self, why: Option<io::ErrorKind>, cx: &mut Context<Self>) {
        if self.socket.take().is_none() {
            return;
        }
        self.guard = None;
        self.notify_owner(Event::Closed(why), cx);
        cx.stop();
    }

    /// Goes on as far as it can without waiting. Whether the connection is over.
    fn steps(&mut self, cx: &mut Context<Self>) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        if !self.is_opened {
            if !socket.is_connected()? {
                return Ok(false);
            }
            self.is_opened = true;
            self.has_moved = true;
            self.notify_owner(Event::Opened(self.peer), cx);
        }
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        let before = self.outgoing.len();
        let is_written = socket.write(&mut self.outgoing)?;
        self.has_moved |= self.outgoing.len() < before;
        let is_last = |queued| queued == 0 || cx.depth() == 0;
        if is_written && self.queued_before_end.is_some_and(is_last) {
            if self.is_closing {
                return Ok(true);
            }
            self.queued_before_end = Some(0);
            if !self.has_ended {
                socket.end()?;
                self.has_ended = true;
            }
        }
        if self.is_pressed && self.outgoing.len() <= self.options.write_bytes / 4 {
            self.is_pressed = false;
            cx.resume_lane(WRITE_LANE);
            self.notify_owner(Event::Pressure(false), cx);
        }
        // Without credit nothing is read that would say so.
        let failure = self.socket.as_ref().and_then(Socket::failure);
        if let (0, Some(failure)) = (self.credit, failure) {
            return Err(failure);
        }
        for _ in 0..STEPS_MAX {
            if !self.read(cx)? {
                let is_ended = self.socket.as_ref().is_some_and(Socket::is_ended);
                return Ok(is_ended && self.has_ended);
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(false)
    }

    /// Reads a piece. Whether there may be more.
    fn read(&mut self, cx: &Context<Self>) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        if self.credit == 0 {
            return Ok(false);
        }
        let mut piece = Bytes::new();
        let limit = self.options.read_bytes.max(1);
        let arrived = socket.read(limit, |bytes| piece = Bytes::copy_from_slice(bytes))?;
        match arrived {
            Arrived::Bytes(_) => {
                self.has_moved = true;
                self.credit -= 1;
                self.notify_owner(Event::Received(piece), cx);
                Ok(true)
            }
            Arrived::End if !self.has_told_end => {
                self.has_told_end = true;
                self.has_moved = true;
                self.notify_owner(Event::Ended, cx);
                Ok(false)
            }
            Arrived::End | Arrived::Nothing => Ok(false),
        }
    }

    /// Ends this side behind what is queued now: neither another lane nor a drain overtakes it.
    fn end(&mut self, cx: &mut Context<Self>) {
        self.queued_before_end.get_or_insert_with(|| cx.depth());
        self.run(cx);
    }

    fn extend_deadline(&mut self, cx: &Context<Self>) {
        if let Some(time) = self.options.idle_time
            && std::mem::take(&mut self.has_moved)
        {
            self.deadline.set(time, cx, Self::expired);
        }
    }

    fn expired(&mut self, cx: &mut Context<Self>) {
        if self.deadline.has_passed(cx, Self::expired) {
            self.close(Some(io::ErrorKind::TimedOut), cx);
        }
    }
}

impl Actor for Connection {
    fn started(&mut self, cx: &mut Context<Self>) {
        let Some(stream) = self.stream.take() else {
            return cx.stop();
        };
        let _ = stream.set_nodelay(true);
        let call = cx.waker_fn(|connection: &mut Self, cx| connection.ready(cx));
        match Socket::new(stream, &self.poller, call) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => {
                self.notify_owner(Event::Closed(Some(error.kind())), cx);
                return cx.stop();
            }
        }
        if let Some(guard) = &self.guard {
            guard.on_drain(cx.waker_fn(|connection: &mut Self, cx| {
                connection.is_closing = true;
                connection.end(cx);
            }));
        }
        self.run(cx);
    }
}

impl Handler<Write> for Connection {
    type Reply = bool;

    fn handle(&mut self, Write(bytes): Write, cx: &mut Context<Self>) -> bool {
        let bound = self.options.write_bytes;
        let is_before_end = self.queued_before_end != Some(0);
        if let Some(queued) = &mut self.queued_before_end {
            *queued = queued.saturating_sub(1);
        }
        let fits = bytes.len() <= bound && self.outgoing.len() < bound;
        let is_taken = self.socket.is_some() && is_before_end && fits;
        if is_taken {
            self.outgoing.push(bytes);
        } else {
            self.notify_owner(Event::Refused(bytes), cx);
        }
        self.run(cx);
        if self.socket.is_none() {
            // It may have been the last before a close.
            return is_taken && self.outgoing.is_empty();
        }
        if !self.is_pressed && self.outgoing.len() > bound / 2 {
            self.is_pressed = true;
            self.notify_owner(Event::Pressure(true), cx);
        }
        if self.outgoing.len() >= bound {
            cx.pause_lane(WRITE_LANE);
        }
        is_taken
    }
}

impl Handler<ReadCredit> for Connection {
    type Reply = ();

    fn handle(&mut self, ReadCredit(further): ReadCredit, cx: &mut Context<Self>) {
        self.credit = self.credit.saturating_add(further);
        self.run(cx);
    }
}

impl Handler<End> for Connection {
    type Reply = ();

    fn handle(&mut self, _: End, cx: &mut Context<Self>) {
        self.end(cx);
    }
}

impl Handler<Close> for Connection {
    type Reply = ();

    fn handle(&mut self, _: Close, cx: &mut Context<Self>) {
        self.is_closing = true;
        self.end(cx);
    }
}
