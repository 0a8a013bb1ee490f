//! Who answers requests: a function or an actor.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use freeboard_actor::{ActorRef, Recipient};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};

use super::connection::{HandlerResponse, HttpConnection};

/// Who answers requests.
#[derive(Clone)]
pub enum HttpHandler {
    /// Called on the connection's actor; it should be quick, as any handler. If it panics, the client
    /// gets 500.
    Function(Arc<dyn Fn(Request<Bytes>) -> Response<Body> + Send + Sync>),
    /// Told each request, and answers it whenever it likes. A connection has one request with it at a
    /// time.
    Actor(Recipient<Call>),
}

impl HttpHandler {
    /// A function.
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

/// A request, and the way back for its response.
#[derive(Debug)]
pub struct Call {
    /// What is asked for.
    pub request: Request<Bytes>,
    /// Takes the response.
    pub reply: Reply,
}

/// Takes the response to one request. Dropped without one, the client gets 500.
pub struct Reply {
    connection: Option<ActorRef<HttpConnection>>,
    number: u64,
}

impl Reply {
    pub(super) fn new(connection: ActorRef<HttpConnection>, number: u64) -> Self {
        Self {
            connection: Some(connection),
            number,
        }
    }

    /// Sends the response; to nobody, if the client is gone.
    pub fn send(mut self, response: Response<Body>) {
        self.deliver(response);
    }

    /// Gives the way back up without an response.
    pub(super) fn forget(mut self) {
        self.connection = None;
    }

    fn deliver(&mut self, response: Response<Body>) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // At most one is on its way to a connection, so there is room unless it is gone.
        let _ = connection.try_tell(HandlerResponse {
            number: self.number,
            response,
        });
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

/// The body of an answer.
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// Pieces, asked for one after the other as the peer takes them; sent in chunks to a client of
    /// HTTP/1.1, and to the end of the connection to one of HTTP/1.0.
    Pieces(Box<dyn Iterator<Item = Bytes> + Send>),
}

impl Body {
    /// Pieces out of an iterator. Empty ones are passed over.
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

/// A status and its name as the body.
pub(super) fn plain(status: StatusCode) -> Response<Body> {
    let name = status.canonical_reason().unwrap_or("unknown");
    text(status, format!("{name}\n"))
}

/// A status and what it says.
pub(super) fn text(status: StatusCode, said: String) -> Response<Body> {
    let mut response = Response::new(Body::from(said));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
