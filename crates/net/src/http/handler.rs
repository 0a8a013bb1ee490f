//! Who answers requests: a function or an actor.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use freeboard_actor::{ActorRef, Recipient};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};

use super::{
    body::Body,
    connection::{Answer, HttpConnection},
};

/// Who answers requests.
#[derive(Clone)]
pub enum Handler {
    /// Called on the connection's actor; it should be quick, as any handler. If it panics, the client
    /// gets 500.
    Function(Arc<dyn Fn(Request<Bytes>) -> Response<Body> + Send + Sync>),
    /// Told each request, and answers it whenever it likes. A connection has one request with it at a
    /// time.
    Actor(Recipient<Call>),
}

impl Handler {
    /// A function.
    pub fn function(
        function: impl Fn(Request<Bytes>) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        Self::Function(Arc::new(function))
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Function(_) => "Function",
            Self::Actor(_) => "Actor",
        })
    }
}

/// A request, and the way back for its answer.
#[derive(Debug)]
pub struct Call {
    /// What is asked for.
    pub request: Request<Bytes>,
    /// Takes the answer.
    pub reply: Reply,
}

/// Takes the answer to one request. Dropped without one, the client gets 500.
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

    /// Sends the answer; to nobody, if the client is gone.
    pub fn send(mut self, answer: Response<Body>) {
        self.give(answer);
    }

    /// Gives the way back up without an answer.
    pub(super) fn forget(mut self) {
        self.connection = None;
    }

    fn give(&mut self, answer: Response<Body>) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // At most one is on its way to a connection, so there is room unless it is gone.
        let _ = connection.try_tell(Answer {
            number: self.number,
            answer,
        });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.give(plain(StatusCode::INTERNAL_SERVER_ERROR));
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Reply").field(&self.number).finish()
    }
}

/// A status and its name as the body.
pub(super) fn plain(status: StatusCode) -> Response<Body> {
    let name = status.canonical_reason().unwrap_or("unknown");
    text(status, format!("{name}\n"))
}

/// A status and what it says.
pub(super) fn text(status: StatusCode, said: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(said));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
