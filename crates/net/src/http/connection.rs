//! One HTTP connection as an actor.
//!
//! ```text
//!   ready ──▶ read ──▶ RequestReader ──▶ handler ──▶ Outgoing ──▶ write
//!               ▲                                      │
//!               └── not while write_bytes wait, or a request is with an actor
//! ```

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use freeboard_actor::{Actor, Context, Handler};
use http::{Response, StatusCode};

use super::{
    handler::{
        Begun, Body, BodyFlow, BodySink, Call, HandlerResponse, HttpHandler, Reply, Resume, plain,
    },
    limits::Refusal,
    request_reader::{Framing, Incoming, RequestReader, Step},
    response::{self, RemainingBody},
    server::ServerShared,
};
use crate::{
    alarm::Deadline,
    tcp::{
        Accepted, Arrived, ConnectionGuard, LINGER_TIME, Linger, Lingered, Outgoing, Peer, Socket,
        Stream,
    },
};

/// The most steps of one turn, so that other actors run too.
const STEPS_MAX: usize = 64;

/// The state of a connection.
#[derive(Debug)]
enum Phase {
    /// Reads requests.
    Open,
    /// An actor handles a request.
    Handling { number: u64, framing: Framing },
    /// Writes the rest, then closes.
    Closing,
    /// Everything is written; incoming bytes are discarded.
    Lingering(Linger),
}

/// One connection of a server.
pub(super) struct HttpConnection {
    /// Taken when the actor starts.
    stream: Option<Stream>,
    socket: Option<Socket>,
    shared: Arc<ServerShared>,
    reader: RequestReader,
    inbox: BytesMut,
    outgoing: Outgoing,
    phase: Phase,
    /// The rest of a streamed response.
    rest: Option<RemainingBody>,
    /// Whether another request may follow the current response.
    keeps_alive: bool,
    /// Whether the connection closes after its next response.
    is_draining: bool,
    is_refused: bool,
    asked: u64,
    deadline: Deadline,
    waits_for: Wait,
    /// Whether a request was handled or the peer read bytes since the deadline was set.
    has_advanced: bool,
    peer: Peer,
    /// Takes the body of the current request in pieces.
    sink: Option<(Box<dyn BodySink>, Framing)>,
    /// Whether the sink must resume first.
    is_sink_full: bool,
    /// Whether the sink was resumed, and must be told before the next piece.
    is_sink_resumed: bool,
    /// Whether the sink has got the whole body.
    is_body_complete: bool,
    /// Bytes that the sink has taken since they last extended the deadline.
    sunk: usize,
    guard: ConnectionGuard,
}

/// Bytes of a body that extend its deadline.
const BODY_BYTES_TIMED: usize = 64 << 10;

/// The purpose of the current deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Request,
    Head,
    Body,
    Handler,
    Write,
    Linger,
}

/// The connection is closed.
struct Closed;

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HttpConnection")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl HttpConnection {
    pub(super) fn new(accepted: Accepted, shared: Arc<ServerShared>) -> Self {
        let reader = match shared.handler {
            HttpHandler::Streaming(_) => RequestReader::streaming(shared.limits),
            _ => RequestReader::new(shared.limits),
        };
        Self {
            stream: Some(accepted.stream),
            socket: None,
            reader,
            shared,
            inbox: BytesMut::new(),
            outgoing: Outgoing::new(),
            phase: Phase::Open,
            rest: None,
            keeps_alive: true,
            is_draining: false,
            is_refused: false,
            asked: 0,
            deadline: Deadline::default(),
            waits_for: Wait::Request,
            has_advanced: true,
            peer: accepted.peer,
            sink: None,
            is_sink_full: false,
            is_sink_resumed: false,
            is_body_complete: false,
            sunk: 0,
            guard: accepted.guard,
        }
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        if let Some(socket) = &mut self.socket {
            socket.refresh();
            self.run(cx);
        }
    }

    /// The listener drains: an idle connection closes now, any other after its response.
    fn drain(&mut self, cx: &mut Context<Self>) {
        self.is_draining = true;
        self.assume_readable();
        self.run(cx);
    }

    fn expired(&mut self, cx: &mut Context<Self>) {
        if !self.deadline.has_passed(cx, Self::expired) {
            return;
        }
        let is_late = !matches!(self.waits_for, Wait::Request | Wait::Linger);
        self.shared.counters.timed_out.add(u64::from(is_late));
        if matches!(self.waits_for, Wait::Head | Wait::Body) && self.outgoing.is_empty() {
            self.refuse(Refusal::TimedOut);
            return self.run(cx);
        }
        self.close(cx);
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        match self.steps(cx) {
            Ok(()) => self.wait(cx),
            Err(Closed) => self.close(cx),
        }
    }

    /// No progress is possible now.
    fn wait(&mut self, cx: &mut Context<Self>) {
        if self.socket.as_mut().is_some_and(|it| it.wait().is_err()) {
            self.shared.counters.broken.add(1);
            return self.close(cx);
        }
        self.set_deadline(cx);
    }

    fn close(&mut self, cx: &mut Context<Self>) {
        // Closes the socket now, not when the actor is dropped.
        self.socket = None;
        self.sink = None;
        cx.stop();
    }

    /// Makes all progress possible without waiting.
    fn steps(&mut self, cx: &mut Context<Self>) -> Result<(), Closed> {
        for _ in 0..STEPS_MAX {
            let may_go_on = match self.phase {
                Phase::Open => self.step_open(cx)?,
                Phase::Handling { .. } => {
                    self.flush()?;
                    self.check_still_connected()?;
                    false
                }
                Phase::Closing => self.step_closing()?,
                Phase::Lingering(_) => self.step_lingering()?,
            };
            if !may_go_on {
                return Ok(());
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(())
    }

    fn step_open(&mut self, cx: &mut Context<Self>) -> Result<bool, Closed> {
        if self.rest.is_some() {
            return self.continue_response();
        }
        if !self.keeps_alive {
            self.phase = Phase::Closing;
            return Ok(true);
        }
        if self.is_sink_full {
            self.flush()?;
            self.check_still_connected()?;
            return Ok(false);
        }
        if self.outgoing.len() >= self.shared.limits.write_bytes && !self.flush()? {
            return Ok(false);
        }
        if std::mem::take(&mut self.is_sink_resumed) {
            self.resume_sink();
            return Ok(true);
        }
        if std::mem::take(&mut self.is_body_complete) {
            self.end_body(cx);
            return Ok(true);
        }
        match self.reader.next(&mut self.inbox) {
            Ok(Step::Request(incoming)) => self.handle_request(*incoming, cx),
            Ok(Step::Begin(incoming)) => self.begin_body(*incoming, cx),
            Ok(Step::Piece(piece)) => self.take_piece(piece),
            Ok(Step::End) => self.complete_body(),
            Ok(Step::Continue) => {
                self.queue(response::write_continue);
                self.flush()?;
            }
            Ok(Step::More) => return self.read_more(),
            Err(refusal) => self.refuse(refusal),
        }
        Ok(true)
    }

    fn begin_body(&mut self, incoming: Incoming, cx: &Context<Self>) {
        let HttpHandler::Streaming(begin) = &self.shared.handler else {
            return;
        };
        let mut request = incoming.request.map(drop);
        request.extensions_mut().insert(self.peer);
        let resume = cx.waker_fn(|connection: &mut Self, cx| {
            if std::mem::take(&mut connection.is_sink_full) {
                connection.is_sink_resumed = true;
                // The time until now was not the client's.
                connection.has_advanced = true;
            }
            connection.run(cx);
        });
        let resume = Resume(Arc::new(resume));
        match begin(Begun { request, resume }) {
            Ok(sink) => self.sink = Some((sink, incoming.framing)),
            Err(response) => self.respond_early(*response, incoming.framing),
        }
    }

    fn take_piece(&mut self, piece: Bytes) {
        let Some((sink, framing)) = &mut self.sink else {
            return;
        };
        let framing = *framing;
        self.sunk += piece.len();
        if self.sunk >= BODY_BYTES_TIMED {
            self.sunk = 0;
            self.has_advanced = true;
        }
        let flow = sink.piece(piece);
        self.follow(flow, framing);
    }

    fn complete_body(&mut self) {
        if let Some((sink, framing)) = &mut self.sink {
            let (flow, framing) = (sink.complete(), *framing);
            self.is_body_complete = true;
            self.follow(flow, framing);
        }
    }

    fn resume_sink(&mut self) {
        if let Some((sink, framing)) = &mut self.sink {
            let (flow, framing) = (sink.resumed(), *framing);
            self.follow(flow, framing);
        }
    }

    fn follow(&mut self, flow: BodyFlow, framing: Framing) {
        match flow {
            BodyFlow::Continue => {}
            BodyFlow::Wait => self.is_sink_full = true,
            BodyFlow::Respond(response) => self.respond_early(response, framing),
        }
    }

    /// Responds before the body is complete. The connection closes, because the rest of the body is unknown.
    fn respond_early(&mut self, response: Response<Body>, framing: Framing) {
        self.sink = None;
        self.is_refused = true;
        let framing = Framing {
            keeps_alive: false,
            ..framing
        };
        self.begin(response, framing);
    }

    fn end_body(&mut self, cx: &Context<Self>) {
        let Some((sink, framing)) = self.sink.take() else {
            return;
        };
        self.shared.counters.requests.add(1);
        self.has_advanced = true;
        self.asked += 1;
        let number = self.asked;
        self.phase = Phase::Handling { number, framing };
        sink.end(Reply::new(cx.actor_ref().recipient(), number));
    }

    /// Writes one more piece of a streamed response. `false` while the peer must read first.
    fn continue_response(&mut self) -> Result<bool, Closed> {
        if self.outgoing.len() >= self.shared.limits.write_bytes && !self.flush()? {
            return Ok(false);
        }
        if let Some(mut rest) = self.rest.take()
            && self.queue(|outgoing| rest.next(outgoing))
        {
            self.rest = Some(rest);
        }
        Ok(true)
    }

    /// Queues output and counts its bytes.
    fn queue<T>(&mut self, write: impl FnOnce(&mut Outgoing) -> T) -> T {
        let before = self.outgoing.len();
        let written = write(&mut self.outgoing);
        let queued = self.outgoing.len() - before;
        self.shared.counters.bytes_queued.add(queued as u64);
        written
    }

    /// Reads more once everything is written. Whether progress was made.
    fn read_more(&mut self) -> Result<bool, Closed> {
        let is_between = !self.reader.has_begun(&self.inbox);
        let socket = self.socket.as_mut().ok_or(Closed)?;
        // A drain closes the connection only after all received bytes are parsed: they may be a request.
        if !socket.is_readable() {
            self.flush()?;
            let is_ended = self.socket.as_ref().is_none_or(Socket::is_ended);
            if is_ended || self.is_draining && is_between {
                if !is_between {
                    self.shared.counters.broken.add(1);
                }
                self.phase = Phase::Closing;
                return Ok(true);
            }
            if self.inbox.is_empty() {
                // An idle connection holds no buffer.
                self.inbox = BytesMut::new();
            }
            return Ok(false);
        }
        let inbox = &mut self.inbox;
        let space = self.reader.inbox_bytes_max().saturating_sub(inbox.len());
        let read = socket.read(space.max(1), |bytes| inbox.extend_from_slice(bytes));
        match self.check(read)? {
            Arrived::Bytes(count) => self.shared.counters.bytes_read.add(count as u64),
            Arrived::End | Arrived::Nothing => {}
        }
        Ok(true)
    }

    fn handle_request(&mut self, incoming: Incoming, cx: &mut Context<Self>) {
        self.shared.counters.requests.add(1);
        self.has_advanced = true;
        let framing = incoming.framing;
        match &self.shared.handler {
            HttpHandler::Function(function) => {
                let response = catch_unwind(AssertUnwindSafe(|| function(incoming.request)));
                let response = response.unwrap_or_else(|_| {
                    self.shared.counters.panics.add(1);
                    plain(StatusCode::INTERNAL_SERVER_ERROR)
                });
                self.begin(response, framing);
            }
            // Its reader returns bodies in pieces.
            HttpHandler::Streaming(_) => {}
            HttpHandler::Actor(actor) => {
                self.asked += 1;
                let number = self.asked;
                let call = Call {
                    request: incoming.request,
                    reply: Reply::new(cx.actor_ref().recipient(), number),
                };
                self.phase = Phase::Handling { number, framing };
                if let Err(error) = actor.try_tell(call) {
                    // The actor's lane is full or the actor has terminated: respond now, not when the reply is
                    // dropped.
                    error.into_inner().reply.forget();
                    self.phase = Phase::Open;
                    self.begin(plain(StatusCode::SERVICE_UNAVAILABLE), framing);
                }
            }
        }
    }

    fn begin(&mut self, response: Response<Body>, framing: Framing) {
        self.shared.counters.answers.add(1);
        if self.is_draining && framing.keeps_alive {
            // The peer does not know yet that this response is the last, and may be sending a request.
            self.assume_readable();
        }
        let framing = Framing {
            keeps_alive: framing.keeps_alive && !self.is_draining,
            ..framing
        };
        let begun = self.queue(|outgoing| response::begin(response, framing, outgoing));
        self.keeps_alive = begun.keeps_alive;
        self.rest = begun.rest;
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.shared.counters.refused.add(1);
        let is_head = self.reader.is_head(&self.inbox);
        self.queue(|outgoing| response::refuse(refusal, is_head, outgoing));
        self.phase = Phase::Closing;
        self.is_refused = true;
    }

    fn step_closing(&mut self) -> Result<bool, Closed> {
        if !self.flush()? {
            return Ok(false);
        }
        let socket = self.socket.as_ref().ok_or(Closed)?;
        // If it were closed with unread bytes, the kernel would reset it, and the peer could lose the response.
        let is_unread = self.is_refused || !self.inbox.is_empty() || socket.is_readable();
        if !is_unread || socket.is_ended() || socket.end().is_err() {
            return Err(Closed);
        }
        self.inbox = BytesMut::new();
        self.phase = Phase::Lingering(Linger::default());
        Ok(true)
    }

    fn step_lingering(&mut self) -> Result<bool, Closed> {
        let (Phase::Lingering(linger), Some(socket)) = (&mut self.phase, &mut self.socket) else {
            return Err(Closed);
        };
        match linger.step(socket) {
            Lingered::More => Ok(true),
            Lingered::Nothing => Ok(false),
            Lingered::Over => Err(Closed),
        }
    }

    /// Writes queued bytes. Whether all are written.
    fn flush(&mut self) -> Result<bool, Closed> {
        let socket = self.socket.as_mut().ok_or(Closed)?;
        let before = self.outgoing.len();
        let written = socket.write(&mut self.outgoing);
        self.has_advanced |= self.outgoing.len() < before;
        self.check(written)
    }

    fn assume_readable(&mut self) {
        if let Some(socket) = &mut self.socket {
            socket.assume_readable();
        }
    }

    /// Notices a broken connection while an actor handles a request.
    fn check_still_connected(&mut self) -> Result<(), Closed> {
        let socket = self.socket.as_mut().ok_or(Closed)?;
        // Unread bytes can hide the end; they stay in the kernel, which bounds the peer.
        if socket.has_failed() {
            self.shared.counters.broken.add(1);
            return Err(Closed);
        }
        Ok(())
    }

    fn check<T>(&self, result: io::Result<T>) -> Result<T, Closed> {
        result.map_err(|_| {
            self.shared.counters.broken.add(1);
            Closed
        })
    }

    /// Sets the deadline of the current state.
    fn set_deadline(&mut self, cx: &Context<Self>) {
        let limits = &self.shared.limits;
        let (wait, time) = match self.phase {
            Phase::Lingering(_) => (Wait::Linger, LINGER_TIME),
            _ if !self.outgoing.is_empty() => (Wait::Write, limits.body_time),
            // The handler has no deadline here.
            Phase::Handling { .. } => {
                self.waits_for = Wait::Handler;
                return self.deadline.clear();
            }
            // The sink has no deadline here.
            _ if self.is_sink_full => {
                self.waits_for = Wait::Handler;
                return self.deadline.clear();
            }
            _ if self.reader.is_in_body() => (Wait::Body, limits.body_time),
            _ if self.reader.has_begun(&self.inbox) => (Wait::Head, limits.head_time),
            _ => (Wait::Request, limits.idle_time),
        };
        // A slow sender does not extend its deadline byte by byte.
        let is_new = wait != self.waits_for || self.has_advanced;
        self.has_advanced = false;
        self.waits_for = wait;
        if is_new {
            self.deadline.set(time, cx, Self::expired);
        }
    }
}

impl Actor for HttpConnection {
    // A response that is left out would leave its client waiting.
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        let Some(stream) = self.stream.take() else {
            return self.close(cx);
        };
        let call = cx.waker_fn(|connection: &mut Self, cx| connection.ready(cx));
        self.socket = Some(Socket::accepted(stream, &self.shared.poller, call));
        self.guard
            .on_drain(cx.waker_fn(|connection: &mut Self, cx| connection.drain(cx)));
        self.run(cx);
    }
}

impl Handler<HandlerResponse> for HttpConnection {
    type Reply = ();

    fn handle(&mut self, response: HandlerResponse, cx: &mut Context<Self>) {
        match self.phase {
            Phase::Handling { number, framing } if number == response.number => {
                self.phase = Phase::Open;
                self.begin(response.response, framing);
                self.run(cx);
            }
            _ => {}
        }
    }
}
