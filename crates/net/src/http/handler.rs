//! Handlers of requests: functions and actors.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use freeboard_actor::{Recipient, without_deadline};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};

/// Handles the requests of a server.
#[derive(Clone)]
pub enum HttpHandler {
    /// Called on the connection's actor; it should be quick, as any handler. If it panics, the client gets 500.
    Function(Arc<dyn Fn(Request<Bytes>) -> Response<Body> + Send + Sync>),
    /// Gets each request as a [`Call`] and replies at any time. It has at most one request of a connection at a
    /// time.
    Actor(Recipient<Call>),
    /// Called on the connection's actor with each request before its body. The [`BodySink`] gets the body in pieces. An
    /// error is the response, and the connection closes after it.
    Streaming(Arc<BeginBody>),
}

/// The function of [`HttpHandler::Streaming`].
pub type BeginBody = dyn Fn(Begun) -> Result<Box<dyn BodySink>, Box<Response<Body>>> + Send + Sync;

/// A request whose body follows.
#[derive(Debug)]
pub struct Begun {
    /// The request. Its extensions have the [`Peer`](crate::tcp::Peer).
    pub request: Request<()>,
    /// Makes the connection read on after [`BodyFlow::Wait`].
    pub resume: Resume,
}

/// Takes the body of one request, on the connection's actor; it should be quick. If it is dropped before
/// [`BodySink::end`], the body will not be complete: the client has disconnected, was too slow, or sent no valid body.
/// If it panics, the connection closes.
pub trait BodySink: Send {
    /// Takes a part of the body, at most [`Limits::head_bytes`](super::Limits::head_bytes) long.
    fn piece(&mut self, piece: Bytes) -> BodyFlow;

    /// [`Resume::resume`] was called. Takes what it has kept of the last part, before the next one comes.
    fn resumed(&mut self) -> BodyFlow {
        BodyFlow::Continue
    }

    /// No further part comes: takes what it has kept. It may wait; [`BodySink::resumed`] follows then.
    fn complete(&mut self) -> BodyFlow {
        BodyFlow::Continue
    }

    /// The body is complete, and taken. `reply` sends the response at any time.
    fn end(self: Box<Self>, reply: Reply);
}

/// What a connection does after a part of a body.
#[derive(Debug)]
pub enum BodyFlow {
    /// Reads on.
    Continue,
    /// Reads nothing more until [`Resume::resume`] is called, so the client waits.
    Wait,
    /// Sends this response, ignores the rest of the body and closes.
    Respond(Response<Body>),
}

/// Makes a connection read on. Cheap to clone. It may be called at any time, from any thread; a connection that does not
/// wait, or has closed, ignores it.
#[derive(Clone)]
pub struct Resume(pub(super) Arc<dyn Fn() + Send + Sync>);

impl Resume {
    /// Makes the connection read on.
    pub fn resume(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Resume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resume")
    }
}

impl HttpHandler {
    /// Handles requests with a function.
    pub fn function(
        function: impl Fn(Request<Bytes>) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        Self::Function(Arc::new(function))
    }

    /// Handles requests whose bodies are taken in pieces, under back-pressure.
    pub fn streaming(
        begin: impl Fn(Begun) -> Result<Box<dyn BodySink>, Box<Response<Body>>> + Send + Sync + 'static,
    ) -> Self {
        Self::Streaming(Arc::new(begin))
    }
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Function(_) => "Function",
            Self::Actor(_) => "Actor",
            Self::Streaming(_) => "Streaming",
        })
    }
}

/// A request for an actor.
#[derive(Debug)]
pub struct Call {
    /// The request.
    pub request: Request<Bytes>,
    /// Sends the response.
    pub reply: Reply,
}

/// The response of an actor, sent to the connection.
#[derive(Debug)]
pub(super) struct HandlerResponse {
    pub(super) number: u64,
    pub(super) response: Response<Body>,
}

/// Sends the response to one request. Dropped unused, it sends 500.
pub struct Reply {
    connection: Option<Recipient<HandlerResponse>>,
    number: u64,
}

impl Reply {
    pub(super) fn new(connection: Recipient<HandlerResponse>, number: u64) -> Self {
        Self {
            connection: Some(connection),
            number,
        }
    }

    /// Sends the response. It is dropped if the client has disconnected.
    pub fn send(mut self, response: Response<Body>) {
        self.deliver(response);
    }

    /// Drops the reply without a response.
    pub(super) fn forget(mut self) {
        self.connection = None;
    }

    fn deliver(&mut self, response: Response<Body>) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // A connection awaits at most one response, so its lane has capacity unless it has terminated.
        let response = HandlerResponse {
            number: self.number,
            response,
        };
        // The connection waits for it even after the deadline of the handler that replies.
        without_deadline(|| drop(connection.try_tell(response)));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.deliver(plain(StatusCode::INTERNAL_SERVER_ERROR));
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Reply").field(&self.number).finish()
    }
}

/// The body of a response.
pub enum Body {
    /// The complete body.
    Full(Bytes),
    /// Pieces, requested one by one as the peer reads them. They are sent in chunks to an HTTP/1.1 client, and up
    /// to the end of the connection to an HTTP/1.0 client.
    Pieces(Box<dyn Iterator<Item = Bytes> + Send>),
}

impl Body {
    /// A streamed body from an iterator. Empty pieces are skipped.
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> Self {
        Self::Pieces(Box::new(pieces.into_iter()))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Full(Bytes::new())
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Self::Full(bytes.into())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(formatter, "Full({} bytes)", bytes.len()),
            Self::Pieces(_) => formatter.write_str("Pieces"),
        }
    }
}

/// A response with the name of its status as the body.
pub(super) fn plain(status: StatusCode) -> Response<Body> {
    let name = status.canonical_reason().unwrap_or("unknown");
    text(status, format!("{name}\n"))
}

/// A response with a status and a text.
pub(super) fn text(status: StatusCode, said: String) -> Response<Body> {
    let mut response = Response::new(Body::from(said));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
