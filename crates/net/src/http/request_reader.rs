//! Requests out of bytes, however these were cut. It touches no socket.

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Version};

use super::{
    head::{Framing, Head},
    limits::Limits,
    refusal::Refusal,
};

/// A request and what its answer must heed.
#[derive(Debug)]
pub struct Incoming {
    /// The request, its body whole.
    pub request: Request<Bytes>,
    /// How to answer it.
    pub manner: Manner,
}

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
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
}

impl RequestReader {
    /// One that is at the beginning of a request.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Head,
            body: BytesMut::new(),
        }
    }

    /// Whether a head has come whose body has not.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body { .. })
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
            let Some(head) = Head::take(inbox, &self.limits)? else {
                return Ok(Step::More);
            };
            if let Framing::Length(0) = head.framing {
                return Ok(Self::request(head, Bytes::new()));
            }
            if let Framing::Length(length) = head.framing
                && length > self.limits.body_bytes
            {
                return Err(Refusal::BodyTooLong);
            }
            self.state = State::Body {
                is_awaited: head.expects_continue,
                head: Box::new(head),
            };
        }
        let State::Body { head, is_awaited } = &mut self.state else {
            return Ok(Step::More);
        };
        if std::mem::take(is_awaited) && inbox.is_empty() {
            return Ok(Step::Continue);
        }
        let is_whole = match &mut head.framing {
            Framing::Chunked(chunked) => {
                chunked.advance(inbox, &mut self.body, self.limits.body_bytes)?
            }
            &mut Framing::Length(length) => {
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

    fn request(head: Head, body: Bytes) -> Step {
        let manner = Manner {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            keeps_alive: head.keeps_alive,
        };
        Step::Request(Box::new(Incoming {
            request: head.with_body(body),
            manner,
        }))
    }
}
