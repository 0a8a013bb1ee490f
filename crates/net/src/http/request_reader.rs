//! An incremental parser of requests, independent of how the bytes are split. It uses no socket.

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, Version};

use super::{
    head::{BodyLength, Head},
    limits::{Limits, Refusal},
};

/// The most empty lines before a request. Some clients send one after a body.
const EMPTY_LINES_MAX: usize = 16;

/// A request and the framing of its response.
#[derive(Debug)]
pub struct Incoming {
    /// The request with its complete body.
    pub request: Request<Bytes>,
    /// How its response must be framed.
    pub framing: Framing,
}

/// How a response must be framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The client's version.
    pub version: Version,
    /// Whether the response has only a head.
    pub is_head: bool,
    /// Whether the client keeps the connection open.
    pub keeps_alive: bool,
}

/// The result of [`RequestReader::next`].
#[derive(Debug)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// The client waits for `100 Continue` before it sends the body.
    Continue,
    /// A request.
    Request(Box<Incoming>),
}

#[derive(Debug)]
enum State {
    Head,
    /// The head is parsed. `is_awaited`: the client waits for `100 Continue`.
    Body {
        head: Box<Head>,
        is_awaited: bool,
    },
}

/// Parses requests.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    state: State,
    body: BytesMut,
    /// Empty lines before the current request.
    empty_lines: usize,
}

impl RequestReader {
    /// A reader at the beginning of a request.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Head,
            body: BytesMut::new(),
            empty_lines: 0,
        }
    }

    /// Whether the body of a parsed head is incomplete.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body { .. })
    }

    /// Whether a request has begun, given the unread `inbox`. Empty lines are no beginning, so they extend no
    /// deadline.
    #[must_use]
    pub fn has_begun(&self, inbox: &[u8]) -> bool {
        self.is_in_body() || !matches!(inbox, [] | [b'\r'])
    }

    /// Whether the current request is a HEAD request, as far as is known.
    pub(super) fn is_head(&self, inbox: &[u8]) -> bool {
        match &self.state {
            State::Body { head, .. } => head.request.method() == Method::HEAD,
            State::Head => inbox.starts_with(b"HEAD "),
        }
    }

    /// The most bytes that `inbox` should hold.
    #[must_use]
    pub fn inbox_bytes_max(&self) -> usize {
        self.limits.head_bytes
    }

    /// Parses the next step from the front of `inbox`.
    ///
    /// # Errors
    /// [`Refusal`]; the connection can carry no further request.
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

    /// Skips empty lines before a request (RFC 9112, 2.2).
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
