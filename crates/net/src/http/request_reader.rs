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
    /// A request without its body, which follows: only from a [streaming](RequestReader::streaming) reader.
    Begin(Box<Incoming>),
    /// A part of the body. Only from a streaming reader.
    Piece(Bytes),
    /// The body is complete. Only from a streaming reader.
    End,
}

#[derive(Debug)]
enum State {
    Head,
    /// The head is parsed. `is_awaited`: the client waits for `100 Continue`.
    Body {
        head: Box<Head>,
        is_awaited: bool,
        is_complete: bool,
    },
}

/// Parses requests.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    state: State,
    is_streaming: bool,
    body: BytesMut,
    /// Bytes of the body that were returned in pieces.
    taken: usize,
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
            is_streaming: false,
            body: BytesMut::new(),
            taken: 0,
            empty_lines: 0,
        }
    }

    /// A reader that returns bodies in pieces, as they arrive: [`Step::Begin`], any number of [`Step::Piece`], and
    /// [`Step::End`].
    #[must_use]
    pub fn streaming(limits: Limits) -> Self {
        Self {
            is_streaming: true,
            ..Self::new(limits)
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
            if !self.is_streaming && head.body_length == BodyLength::Fixed(0) {
                return Ok(Step::Request(Self::request(head, Bytes::new())));
            }
            let is_too_long = matches!(head.body_length, BodyLength::Fixed(length) if length > self.limits.body_bytes);
            self.taken = 0;
            let begun = self.is_streaming.then(|| head.clone());
            self.state = State::Body {
                is_awaited: head.expects_continue,
                is_complete: head.body_length == BodyLength::Fixed(0),
                head: Box::new(head),
            };
            if is_too_long {
                return Err(Refusal::BodyTooLong);
            }
            if let Some(head) = begun {
                return Ok(Step::Begin(Self::request(head, Bytes::new())));
            }
        }
        let State::Body {
            head,
            is_awaited,
            is_complete,
        } = &mut self.state
        else {
            return Ok(Step::More);
        };
        if std::mem::take(is_awaited) && inbox.is_empty() && !*is_complete {
            return Ok(Step::Continue);
        }
        *is_complete = *is_complete
            || match &mut head.body_length {
                BodyLength::Chunked(chunked) => {
                    let bytes_max = self.limits.body_bytes - self.taken;
                    chunked.advance(inbox, &mut self.body, bytes_max)?
                }
                &mut BodyLength::Fixed(length) => {
                    let here = (length - self.taken - self.body.len()).min(inbox.len());
                    let piece = inbox.split_to(here);
                    if self.body.is_empty() {
                        self.body = piece;
                    } else {
                        self.body.extend_from_slice(&piece);
                    }
                    self.taken + self.body.len() == length
                }
            };
        if self.is_streaming && !self.body.is_empty() {
            self.taken += self.body.len();
            return Ok(Step::Piece(self.body.split().freeze()));
        }
        if !*is_complete {
            return Ok(Step::More);
        }
        let body = std::mem::take(&mut self.body).freeze();
        match std::mem::replace(&mut self.state, State::Head) {
            State::Body { .. } if self.is_streaming => Ok(Step::End),
            State::Body { head, .. } => Ok(Step::Request(Self::request(*head, body))),
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

    fn request(head: Head, body: Bytes) -> Box<Incoming> {
        let framing = Framing {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            keeps_alive: head.keeps_alive,
        };
        Box::new(Incoming {
            request: head.with_body(body),
            framing,
        })
    }
}
