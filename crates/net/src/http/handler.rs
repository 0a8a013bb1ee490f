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
}

impl HttpHandler {
    /// Handles requests with a function.
    pub fn function(
        function: impl Fn(Request<Bytes>) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        Self::Function(Arc::new(function))
    }
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Function(_) => "Function",
            Self::Actor(_) => "Actor",
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
