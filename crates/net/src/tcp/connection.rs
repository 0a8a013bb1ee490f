//! A connection as an actor, of TCP or of a Unix stream socket: bytes arrive as messages, under credit, and are written under back-pressure.
//!
//! ```text
//!   peer ──▶ socket ──▶ Received(bytes) ──▶ owner             one credit each; none left: nothing is read
//!   peer ◀── socket ◀── outgoing ◀── lane 0 ◀── Write(bytes)  write_bytes wait: the lane is paused
//!                         CONTROL_LANE ◀── ReadCredit             never paused
//! ```
//!
//! Reading works like Erlang's `{active, N}`: the owner grants a number of messages, and more once it has handled
//! them. A slow owner stops the reading, and the peer's window closes.
//!
//! Writing works like Pony's `apply_pressure`: while [`ConnectionOptions::write_bytes`] are queued for a slow peer,
//! the connection pauses lane 0. Senders then see a full lane: `send` waits, `tell` blocks a thread, actors are
//! muted, and a lane with a shedding policy sheds. The lane resumes once at most a quarter of the bytes is queued.
//! An owner that must not be muted stops writing at [`Event::Pressure`].
//!
//! Messages of lane 0 keep their order: a [`ReadCredit`] told there is granted once the earlier writes are
//! accepted, so an echo reads no faster than its peer. A [`ReadCredit`] on [`Connection::CONTROL_LANE`] does not
//! wait for writes; protocols that read while they cannot write need it.
//!
//! [`Close`], a listener's drain, a graceful stop and the system's shutdown first write everything that was
//! accepted. An immediate stop, or a shutdown that reaches its deadline, does not.

#[cfg(unix)]
use std::path::Path;
use std::{io, net::SocketAddr, time::Duration};

use crate::poller::Poller;
#[cfg(unix)]
use crate::poller::mio::net::UnixStream;
use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Context, Handler, Recipient, SpawnError, SpawnOptions, System,
    without_deadline,
};
use freeboard_flow::LaneConfig;
use freeboard_platform::planted;

#[cfg(unix)]
use super::stream::credentials;
use super::{
    listener::{Accepted, ConnectionGuard},
    outgoing::Outgoing,
    socket::{Arrived, Socket},
    stream::{Peer, Stream},
};
use crate::alarm::Deadline;

/// The most steps of one turn, so that other actors run too.
const STEPS_MAX: u32 = 64;

/// The lane of writes, which pressure pauses: the lane of `tell`, `send` and `ask`.
const WRITE_LANE: usize = 0;

/// The bound of the control lane, which is never paused.
const CONTROL_BOUND: usize = 64;

/// So long after its listener began to drain, a connection reads only the bytes that have arrived by then, and closes: a
/// peer that never stops sending would keep it open for ever.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);

/// While its listener drains, a connection that still reads closes after so long without a byte: what a peer has sent
/// arrives as the window opens.
pub const DRAIN_QUIET: Duration = Duration::from_millis(250);

/// Limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Read messages granted at the beginning; default 16.
    pub credit: u32,
    /// The most bytes in one [`Event::Received`], 1 to 64 KiB; default 16 KiB.
    pub read_bytes: usize,
    /// The queued bytes at which lane 0 is paused; default 1 MiB, at least 1. The write that reaches the bound is
    /// the last accepted, and a longer write is refused, so less than twice the bound is queued. Pressure is
    /// reported at half of it.
    pub write_bytes: usize,
    /// The connection is closed after so long without a byte in either direction, also with queued writes; default
    /// never. While nothing is queued and the owner grants no credit, the peer is not idle: nobody reads it.
    pub idle_time: Option<Duration>,
    /// When its listener drains, the connection first reads what the peer has sent, under credit: until the peer ends,
    /// nothing comes for [`DRAIN_QUIET`], or everything is read that has arrived within [`DRAIN_TIME`]; default no. For
    /// protocols whose peers learn of nothing that was not read.
    pub reads_on_drain: bool,
    /// The lane of writes; default 64 messages, whose senders wait when it is full.
    pub lane: LaneConfig,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            credit: 16,
            read_bytes: 16 << 10,
            write_bytes: 1 << 20,
            idle_time: None,
            reads_on_drain: false,
            lane: LaneConfig::bounded(64),
        }
    }
}

/// An event of a connection, sent to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established. Always the first event.
    Opened(Peer),
    /// Bytes from the peer. Uses one credit.
    Received(Bytes),
    /// The peer has shut down its sending side; it may still read.
    Ended,
    /// `true`: half of [`ConnectionOptions::write_bytes`] is queued, so an owner that must not be muted should stop
    /// writing. `false`: at most a quarter is queued again.
    Pressure(bool),
    /// Bytes that will not be written: they arrived after [`End`] or [`Close`], are longer than
    /// [`ConnectionOptions::write_bytes`], or arrived on [`Connection::CONTROL_LANE`] while lane 0 was paused.
    Refused(Bytes),
    /// The last event. The error, unless [`Close`] or the end of both sides closed the connection.
    Closed(Option<io::ErrorKind>),
}

/// The message that carries an [`Event`] to the owner.
#[derive(Clone, Debug)]
pub struct ConnectionEvent {
    /// The connection, to grant credit to and to write to.
    pub connection: ActorRef<Connection>,
    /// The event.
    pub event: Event,
}

/// Writes bytes. The reply says whether they were accepted; if not, the owner gets [`Event::Refused`].
#[derive(Clone, Debug)]
pub struct Write(pub Bytes);

/// Grants so many further [`Event::Received`]: on lane 0 after the earlier writes are accepted, on
/// [`Connection::CONTROL_LANE`] at once.
#[derive(Clone, Copy, Debug)]
pub struct ReadCredit(pub u32);

/// Shuts down the sending side once all earlier writes are written, on whichever lane it arrives. The peer may go
/// on sending.
#[derive(Clone, Copy, Debug)]
pub struct End;

/// Closes the connection once all earlier writes are written, on whichever lane it arrives. To close at once, stop
/// the actor.
#[derive(Clone, Copy, Debug)]
pub struct Close;

/// The actor of one connection.
pub struct Connection {
    stream: Option<Stream>,
    socket: Option<Socket>,
    peer: Peer,
    poller: Poller,
    options: ConnectionOptions,
    owner: Recipient<ConnectionEvent>,
    credit: u32,
    outgoing: Outgoing,
    is_opened: bool,
    is_pressed: bool,
    /// Set by [`End`] and [`Close`]: messages queued before it that may still be writes.
    queued_before_end: Option<u64>,
    has_ended: bool,
    is_closing: bool,
    has_told_end: bool,
    /// Whether bytes moved since the deadline was set.
    has_moved: bool,
    /// Bytes that may still be read before the connection closes: unlimited until [`DRAIN_TIME`] is over. `None`: its
    /// listener does not drain.
    drain_bytes: Option<usize>,
    /// What was left of them when the timer of [`DRAIN_QUIET`] was set.
    quiet_since: Option<usize>,
    deadline: Deadline,
    /// Dropped when the connection closes.
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
    /// The lane that writes never pause, for [`ReadCredit`].
    pub const CONTROL_LANE: usize = 1;

    /// Spawns the actor of an accepted connection, as a child of the listener's actor.
    ///
    /// # Errors
    /// If the actor cannot be spawned.
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

    /// Connects to `address`. [`Event::Opened`] or [`Event::Closed`] reports the result.
    ///
    /// # Errors
    /// An immediate error of the operating system.
    pub fn connect(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
    ) -> io::Result<ActorRef<Self>> {
        let stream = poller.connect(address)?;
        Self::spawn_connecting(system, poller, stream, Peer::Ip(address), options, owner)
    }

    /// Connects to the Unix stream socket at `path`, as [`Connection::connect`].
    ///
    /// # Errors
    /// An immediate error of the operating system, for example because nobody listens.
    #[cfg(unix)]
    pub fn connect_unix(
        system: &System,
        poller: &Poller,
        path: &Path,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
    ) -> io::Result<ActorRef<Self>> {
        let stream = UnixStream::connect(path)?;
        let peer = Peer::Unix(credentials(&stream));
        Self::spawn_connecting(system, poller, stream.into(), peer, options, owner)
    }

    fn spawn_connecting(
        system: &System,
        poller: &Poller,
        stream: Stream,
        peer: Peer,
        options: ConnectionOptions,
        owner: Recipient<ConnectionEvent>,
    ) -> io::Result<ActorRef<Self>> {
        let connection = Self::new(stream, peer, poller, options, owner, None);
        system
            .spawn_once(Self::spawn_options(options), connection)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn spawn_options(options: ConnectionOptions) -> SpawnOptions {
        SpawnOptions::new().lanes([options.lane, LaneConfig::bounded(CONTROL_BOUND)])
    }

    fn new(
        stream: Stream,
        peer: Peer,
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
            drain_bytes: None,
            quiet_since: None,
            deadline: Deadline::default(),
            guard,
        }
    }

    fn notify_owner(&self, event: Event, cx: &Context<Self>) {
        let connection = cx.actor_ref();
        let event = ConnectionEvent { connection, event };
        // A terminated owner needs no events. The others come even if a write's deadline has passed.
        let _ = without_deadline(|| self.owner.tell(event));
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
        if planted!("end-told-twice") && why.is_some() {
            self.notify_owner(Event::Closed(why), cx);
        }
        self.notify_owner(Event::Closed(why), cx);
        cx.stop();
    }

    /// Makes all progress possible without waiting. Whether the connection is finished.
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
        // Without credit no read would report the failure. With credit a read does, after the bytes before it; it is
        // reported once, so to take it here would make the read find an end.
        if self.credit == 0
            && let Some(failure) = self.socket.as_ref().and_then(Socket::failure)
        {
            return Err(failure);
        }
        for _ in 0..STEPS_MAX {
            if self.drain_bytes == Some(0) || !self.read(cx)? {
                self.end_drain(cx);
                let is_ended = self.socket.as_ref().is_some_and(Socket::is_ended);
                return Ok(is_ended && self.has_ended);
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(false)
    }

    /// While the listener drains: closes once everything that the peer has sent is read.
    fn end_drain(&mut self, cx: &Context<Self>) {
        let Some(left) = self.drain_bytes else {
            return;
        };
        let is_ended = self.socket.as_ref().is_none_or(Socket::is_ended);
        if left > 0 && !is_ended {
            if self.quiet_since.is_some() {
                return;
            }
            if cx.wake_after(DRAIN_QUIET, Self::quiet).is_ok() {
                self.quiet_since = Some(left);
                return;
            }
        }
        self.drain_bytes = None;
        self.is_closing = true;
        cx.waker_fn(Self::end)();
    }

    /// [`DRAIN_TIME`] is over.
    fn limit_drain(&mut self, cx: &mut Context<Self>) {
        if let (Some(socket), Some(left)) = (&self.socket, &mut self.drain_bytes) {
            *left = socket.unread_bytes();
            self.run(cx);
        }
    }

    /// [`DRAIN_QUIET`] has passed since the timer was set.
    fn quiet(&mut self, cx: &mut Context<Self>) {
        // Without credit nobody has listened.
        let is_quiet = self.credit > 0 && self.quiet_since == self.drain_bytes;
        self.quiet_since = None;
        if is_quiet && self.drain_bytes.is_some() {
            self.drain_bytes = Some(0);
        }
        self.end_drain(cx);
    }

    /// Reads once. Whether there may be more.
    fn read(&mut self, cx: &Context<Self>) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        if self.credit == 0 && !planted!("read-credit-ignored") {
            return Ok(false);
        }
        let mut piece = Bytes::new();
        let limit = self.options.read_bytes.max(1);
        let arrived = socket.read(limit, |bytes| piece = Bytes::copy_from_slice(bytes))?;
        match arrived {
            Arrived::Bytes(bytes) => {
                self.drain_bytes = self.drain_bytes.map(|left| left.saturating_sub(bytes));
                self.has_moved = true;
                self.credit = self.credit.saturating_sub(1);
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

    /// Ends this side after the messages queued now, so that neither another lane nor a drain overtakes them.
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
        if self.credit == 0 && self.outgoing.is_empty() {
            self.has_moved = true;
            self.extend_deadline(cx);
        }
        if self.deadline.has_passed(cx, Self::expired) {
            self.close(Some(io::ErrorKind::TimedOut), cx);
        }
    }
}

impl Actor for Connection {
    // A write that is left out would be a gap in the bytes.
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        let Some(stream) = self.stream.take() else {
            return cx.stop();
        };
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
                if connection.options.reads_on_drain {
                    if connection.is_closing || connection.drain_bytes.is_some() {
                        return;
                    }
                    connection.drain_bytes = Some(usize::MAX);
                    if let Some(socket) = &mut connection.socket {
                        // Bytes whose event has not come yet count too.
                        socket.assume_readable();
                    }
                    if cx.wake_after(DRAIN_TIME, Self::limit_drain).is_err() {
                        return connection.limit_drain(cx);
                    }
                    connection.run(cx);
                } else {
                    connection.is_closing = true;
                    connection.end(cx);
                }
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
            // It may have been the last write before a close.
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
