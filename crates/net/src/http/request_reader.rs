//! Requests out of bytes, however these were cut. It touches no socket.

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, StatusCode, Version};

use super::{
    Limits,
    head::{BodyLength, Head},
};

/// The most empty lines before a request. One is left behind by clients that end a body with a line end.
const EMPTY_LINES_MAX: usize = 16;

/// Why a request is refused. The connection is closed after the answer, since it is not known where the
/// next request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not HTTP.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Its head is longer than the limit.
    #[error("the head is too long")]
    HeadTooLong,
    /// Its body is longer than the limit.
    #[error("the body is too long")]
    BodyTooLong,
    /// A version other than 1.0 and 1.1.
    #[error("not HTTP/1")]
    Version,
    /// A method that is not served.
    #[error("the method is not served")]
    Method,
    /// A transfer coding other than chunked.
    #[error("an unknown transfer coding")]
    Coding,
    /// An expectation other than `100-continue`.
    #[error("an unknown expectation")]
    Expectation,
    /// It did not come in time.
    #[error("it did not come in time")]
    TimedOut,
}

impl Refusal {
    /// The status it is answered with.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::HeadTooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Method | Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// A request and what its answer must heed.
#[derive(Debug)]
pub struct Incoming {
    /// The request, its body whole.
    pub request: Request<Bytes>,
    /// How to answer it.
    pub framing: Framing,
}

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The client's version.
    pub version: Version,
    /// Whether only the head of the answer is wanted.
    pub is_head: bool,
    /// Whether the client would send another request.
    pub keeps_alive: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Step {
    /// More bytes.
    More,
    /// The client waits for a word before it sends the body: `100 Continue`.
    Continue,
    /// A request.
    Request(Box<Incoming>),
}

#[derive(Debug)]
enum State {
    Head,
    /// The head is there; whether the client still waits for a word before it sends the body.
    Body {
        head: Box<Head>,
        is_awaited: bool,
    },
}

/// Reads requests.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    state: State,
    body: BytesMut,
    /// Before the present request.
    empty_lines: usize,
}

impl RequestReader {
    /// One that is at the beginning of a request.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Head,
            body: BytesMut::new(),
            empty_lines: 0,
        }
    }

    /// Whether a head has come whose body has not.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body { .. })
    }

    /// Whether a part of a request has come, of which `inbox` was not taken. An empty line is none, nor is half of
    /// one: it gives nobody more time.
    #[must_use]
    pub fn has_begun(&self, inbox: &[u8]) -> bool {
        self.is_in_body() || !matches!(inbox, [] | [b'\r'])
    }

    /// Whether the request under way asks for a head alone, as far as `inbox` and what was taken before tell.
    pub(super) fn is_head(&self, inbox: &[u8]) -> bool {
        match &self.state {
            State::Body { head, .. } => head.request.method() == Method::HEAD,
            State::Head => inbox.starts_with(b"HEAD "),
        }
    }

    /// The most bytes that `inbox` should hold for it.
    #[must_use]
    pub fn inbox_bytes_max(&self) -> usize {
        self.limits.head_bytes
    }

    /// Takes the next step from the front of `inbox`.
    ///
    /// # Errors
    /// [`Refusal`]; nothing can be read from this connection any more.
    pub fn next(&mut self, inbox: &mut BytesMut) -> Result<Step, Refusal> {
        if matches!(self.state, State::Head) {
            self.pass_empty_lines(inbox)?;
            let Some(head) = Head::take(inbox, &self.limits)? else {
                return Ok(Step::More);
            };
            self.empty_lines = 0;
            if let BodyLength::Fixed(0) = head.body_length {
                return Ok(Self::request(head, Bytes::new()));
            }
            let is_too_long = matches!(head.body_length, BodyLength::Fixed(length) if length > self.limits.body_bytes);
            self.state = State::Body {
                is_awaited: head.expects_continue,
                head: Box::new(head),
            };
            if is_too_long {
                return Err(Refusal::BodyTooLong);
            }
        }
        let State::Body { head, is_awaited } = &mut self.state else {
            return Ok(Step::More);
        };
        if std::mem::take(is_awaited) && inbox.is_empty() {
            return Ok(Step::Continue);
        }
        let is_whole = match &mut head.body_length {
            BodyLength::Chunked(chunked) => {
                chunked.advance(inbox, &mut self.body, self.limits.body_bytes)?
            }
            &mut BodyLength::Fixed(length) => {
                let here = (length - self.body.len()).min(inbox.len());
                let piece = inbox.split_to(here);
                if self.body.is_empty() {
                    self.body = piece;
                } else {
                    self.body.extend_from_slice(&piece);
                }
                self.body.len() == length
            }
        };
        if !is_whole {
            return Ok(Step::More);
        }
        let body = std::mem::take(&mut self.body).freeze();
        match std::mem::replace(&mut self.state, State::Head) {
            State::Body { head, .. } => Ok(Self::request(*head, body)),
            State::Head => Ok(Step::More),
        }
    }

    /// Before a request, as the standard asks (RFC 9112, 2.2).
    fn pass_empty_lines(&mut self, inbox: &mut BytesMut) -> Result<(), Refusal> {
        while let [b'\r', b'\n', ..] | [b'\n', ..] = inbox[..] {
            if self.empty_lines == EMPTY_LINES_MAX {
                return Err(Refusal::Malformed("empty lines"));
            }
            self.empty_lines += 1;
            inbox.advance(if inbox[0] == b'\r' { 2 } else { 1 });
        }
        Ok(())
    }

    fn request(head: Head, body: Bytes) -> Step {
        let framing = Framing {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            keeps_alive: head.keeps_alive,
        };
        Step::Request(Box::new(Incoming {
            request: head.with_body(body),
            framing,
        }))
    }
}
