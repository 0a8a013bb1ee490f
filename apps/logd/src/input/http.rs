//! HTTP: `POST /` with lines; the answer comes when they are durable.
//!
//! ```text
//!   piece of a body ──▶ Intake ──▶ dams ──▶ sinks ──▶ durable ──┐
//!   end of the body ────────────────────────────────────────────┴─▶ 200, or 503 if a line was shed
//! ```
//!
//! | answer | when | lines |
//! |---|---|---|
//! | 200 | all lines are durable in the sinks that can say so | all |
//! | 503, `Retry-After` | a line was shed | all but the shed ones |
//! | 503, `Retry-After` | a sink fails for longer than `unhealthy_after` | none; of requests that wait then, all |
//! | 413 | the body, also unpacked, is longer than the limit, or a record is | those before the limit, unless the length was announced |
//! | 400, 408 | the body was not valid, or not complete in time | those before |
//! | 404, 405, 415 | another path, method or coding | none |
//!
//! A line that is not complete when the body breaks off is not taken: the client has no answer, and repeats it.
//! `Content-Encoding` is `gzip` or none (`gunzip.rs`).
//!
//! A body of the type [`BATCH_CONTENT_TYPE`] has encoded records instead of lines (`records.rs`).
//!
//! Whoever repeats a request that was not answered with 200 can write lines twice: at least once. Requests of a relay name
//! their records, so that those are recognised (`relayed.rs`).

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use freeboard::{
    System,
    net::{
        http::{Begun, Body, BodyFlow, BodySink, HttpHandler, HttpServer, Limits, Reply, Resume},
        poller::Poller,
        tcp::{BindError, Peer},
        types::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header},
    },
};
use serde::Deserialize;

use crate::{
    batch::Done,
    frame::Framing,
    record::{BATCH_CONTENT_TYPE, BATCH_SEQUENCE_HEADER, BATCH_STREAM_HEADER},
    server::ServerHandle,
    settings::{address, size},
    source::{Shed, Source},
};

use super::{
    Intake,
    gunzip::Gunzip,
    received_now_ns,
    records::Records,
    relayed::{Admission, RelayedRequest},
    tcp,
};

/// The settings of an HTTP input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// The address; port 0 takes any free port.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// The longest body in bytes, packed and unpacked. Bodies are taken in pieces, so it is no bound of memory.
    #[serde(
        default = "body_bytes_max",
        rename = "body-max",
        deserialize_with = "size"
    )]
    pub body_bytes_max: usize,
}

impl HttpConfig {
    /// On this address, with bodies of at most 64 MiB.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            body_bytes_max: body_bytes_max(),
        }
    }
}

const fn body_bytes_max() -> usize {
    64 << 20
}

pub(super) fn listen(
    system: &System,
    poller: &Poller,
    server: &ServerHandle,
    config: &HttpConfig,
) -> Result<HttpServer, BindError> {
    let limits = Limits {
        body_bytes: config.body_bytes_max,
        ..Limits::default()
    };
    let options = tcp::listener(server);
    let (server, body_bytes_max) = (server.clone(), config.body_bytes_max);
    let handler = HttpHandler::streaming(move |begun| begin(&server, begun, body_bytes_max));
    HttpServer::bind(system, poller, config.address, options, limits, handler)
}

fn begin(
    server: &ServerHandle,
    begun: Begun,
    body_bytes_max: usize,
) -> Result<Box<dyn BodySink>, Box<Response<Body>>> {
    let Begun { request, resume } = begun;
    if request.uri().path() != "/" {
        return Err(Box::new(refusal(StatusCode::NOT_FOUND, "lines go to /")));
    }
    if request.method() != Method::POST {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "lines are posted");
        let allow = HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, allow);
        return Err(Box::new(response));
    }
    let is_packed = match coding(request.headers()) {
        Ok(is_packed) => is_packed,
        Err(UnknownCoding) => {
            let text = "a body is plain or packed with gzip";
            let mut response = refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::ACCEPT_ENCODING, gzip);
            return Err(Box::new(response));
        }
    };
    if let Some(why) = server.blocked() {
        return Err(Box::new(unavailable(why)));
    }
    let plain = plain(server, &request, &resume)?;
    Ok(if is_packed {
        Box::new(Gunzip::new(plain, resume, body_bytes_max))
    } else {
        plain
    })
}

/// A coding other than gzip.
struct UnknownCoding;

/// Whether the body is packed with gzip.
fn coding(headers: &HeaderMap) -> Result<bool, UnknownCoding> {
    let mut is_packed = false;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let name = value.as_bytes().trim_ascii();
        let is = |coding: &[u8]| name.eq_ignore_ascii_case(coding);
        if !is_packed && (is(b"gzip") || is(b"x-gzip")) {
            is_packed = true;
        } else if !is(b"identity") {
            return Err(UnknownCoding);
        }
    }
    Ok(is_packed)
}

/// Takes a body that is not packed.
fn plain(
    server: &ServerHandle,
    request: &Request<()>,
    resume: &Resume,
) -> Result<Box<dyn BodySink>, Box<Response<Body>>> {
    let resume = resume.clone();
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind == BATCH_CONTENT_TYPE) {
        let field = |name| request.headers().get(name)?.to_str().ok();
        let relayed = field(BATCH_STREAM_HEADER).zip(field(BATCH_SEQUENCE_HEADER));
        let relayed =
            relayed.and_then(|(stream, first)| RelayedRequest::begin(server, stream, first));
        if relayed.is_none() && request.headers().contains_key(BATCH_STREAM_HEADER) {
            let text = "the stream's id or the sequence is not valid";
            return Err(Box::new(refusal(StatusCode::BAD_REQUEST, text)));
        }
        let outcome = Outcome::new(None, relayed);
        return Ok(Box::new(Records::new(server, resume, outcome)));
    }
    let name = match request.extensions().get::<Peer>() {
        Some(peer) => format!("http:{peer}"),
        None => "http".to_owned(),
    };
    let intake = Intake::new(server, &name, Framing::Newline);
    intake.allow_cut();
    intake.on_room(move || resume.resume());
    Ok(Box::new(Lines {
        outcome: Outcome::new(Some(intake.source().clone()), None),
        intake,
        is_line_begun: false,
    }))
}

pub(super) fn refusal(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

/// A body of lines. A source of its own: the lines of a request are counted apart.
struct Lines {
    intake: Intake,
    outcome: Arc<Outcome>,
    is_line_begun: bool,
}

impl Lines {
    fn feed(&mut self, bytes: Bytes) -> BodyFlow {
        self.is_line_begun = bytes.last() != Some(&b'\n');
        let done = Outcome::done(&self.outcome);
        if self
            .intake
            .feed(bytes, received_now_ns(), Some(done))
            .is_paused
        {
            BodyFlow::Wait
        } else {
            BodyFlow::Continue
        }
    }
}

impl BodySink for Lines {
    fn piece(&mut self, piece: Bytes) -> BodyFlow {
        self.feed(piece)
    }

    fn end(mut self: Box<Self>, reply: Reply) {
        if self.is_line_begun {
            // The last line needs no newline.
            let _ = self.feed(Bytes::from_static(b"\n"));
        }
        let server = self.intake.source.server();
        server.unanswered().wait(&self.outcome, reply);
    }
}

/// The answer to a request. It is sent when the last of its batches has dropped its reference.
pub(super) struct Outcome {
    /// The source of the request, which counts its lines. Records have sources of their own.
    source: Option<Arc<Source>>,
    /// The request, if it is a relay's.
    relayed: Option<RelayedRequest>,
    records: AtomicU64,
    is_lost: AtomicBool,
    /// Set at the end of the body: a body that is not complete has no answer of ours. Taken by the answer.
    reply: Mutex<Option<Reply>>,
}

// Ordering: Relaxed: the drop of the last reference, which synchronises with all others, reads what was written.
impl Outcome {
    fn new(source: Option<Arc<Source>>, relayed: Option<RelayedRequest>) -> Arc<Self> {
        Arc::new(Self {
            source,
            relayed,
            records: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            reply: Mutex::new(None),
        })
    }

    /// For the lines of one piece.
    pub(super) fn done(outcome: &Arc<Self>) -> Done {
        let outcome = outcome.clone();
        Box::new(move |is_durable| {
            if !is_durable {
                outcome.is_lost.store(true, Ordering::Relaxed);
            }
        })
    }

    /// Counts a record, and says what to do with it.
    pub(super) fn admit_record(&self) -> Admission {
        let index = self.records.fetch_add(1, Ordering::Relaxed);
        let relayed = self.relayed.as_ref();
        relayed.map_or(Admission::New, |relayed| relayed.admit(index))
    }

    fn lock_reply(&self) -> MutexGuard<'_, Option<Reply>> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines accepted, and those of them that were shed.
    fn counts(&self) -> (u64, u64) {
        let Some(source) = &self.source else {
            return (self.records.load(Ordering::Relaxed), 0);
        };
        let reasons = Shed::ALL.into_iter();
        let shed = reasons.filter(|reason| *reason != Shed::Repeated);
        let shed: u64 = shed.map(|reason| source.shed(reason)).sum();
        (source.accepted() - shed, shed)
    }
}

/// The requests that wait until their lines are durable.
#[derive(Default)]
pub(crate) struct Unanswered(Mutex<Vec<Weak<Outcome>>>);

impl Unanswered {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait(&self, outcome: &Arc<Outcome>, reply: Reply) {
        *outcome.lock_reply() = Some(reply);
        let mut all = self.lock();
        if all.len() == all.capacity() {
            all.retain(|it| it.strong_count() > 0);
            // At least as many come before the next search.
            let live = all.len();
            all.reserve(live.max(64));
        }
        all.push(Arc::downgrade(outcome));
    }

    /// Answers all with 503. Their lines stay where they are, and may be written later: the clients repeat them.
    pub(crate) fn refuse_all(&self, why: &str) {
        let all = std::mem::take(&mut *self.lock());
        for outcome in all.iter().filter_map(Weak::upgrade) {
            let reply = outcome.lock_reply().take();
            if let Some(reply) = reply {
                reply.send(unavailable(why.to_owned()));
            }
        }
    }
}

/// To be repeated after a second.
fn unavailable(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    let seconds = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if let Some(relayed) = &self.relayed {
            relayed.finish(!*self.is_lost.get_mut());
        }
        let reply = self
            .reply
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(reply) = reply else { return };
        let (accepted, shed) = self.counts();
        let mut text = Vec::new();
        // Writing to a vector does not fail.
        let _ = writeln!(text, r#"{{"accepted":{accepted},"shed":{shed}}}"#);
        let mut response = if *self.is_lost.get_mut() || shed > 0 {
            unavailable(text)
        } else {
            Response::new(Body::from(Bytes::from(text)))
        };
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        reply.send(response);
    }
}
