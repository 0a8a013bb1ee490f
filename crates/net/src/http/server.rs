//! An HTTP server: a listener whose connections speak HTTP/1.1.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use freeboard_actor::{SpawnOptions, System};
use freeboard_flow::LaneConfig;

use super::{connection::HttpConnection, handler::HttpHandler};
use crate::{
    metrics::declare_counters,
    poller::Poller,
    tcp::{BindError, Listener, ListenerOptions, ListenerSnapshot},
};

declare_counters! {
    counters: HttpCounters;
    /// The counters of an HTTP server at one time.
    snapshot: HttpSnapshot labelled "server";
    /// Requests received completely.
    requests: "freeboard_http_requests_total",
    /// Responses begun.
    answers: "freeboard_http_answers_total",
    /// Requests refused: malformed, too large, too late.
    refused: "freeboard_http_refused_total",
    /// Connections closed because the peer took too long.
    timed_out: "freeboard_http_timed_out_total",
    /// Connections that broke, or that the peer closed in the middle of a request.
    broken: "freeboard_http_broken_total",
    /// Handlers that panicked; the client got 500.
    panics: "freeboard_http_panics_total",
    /// Bytes received.
    bytes_read: "freeboard_http_read_bytes_total",
    /// Bytes queued on connections to be written.
    bytes_queued: "freeboard_http_queued_bytes_total",
}

/// What a connection of a server may cost. All are bounds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest head of a request, in bytes; default 64 KiB. Longer ones are answered with 431.
    pub head_bytes: usize,
    /// The longest body of a request, in bytes; default 1 MiB. Longer ones are answered with 413.
    pub body_bytes: usize,
    /// While so many bytes wait for the peer to read them, no further request is taken; default 64 KiB.
    pub write_bytes: usize,
    /// How long a head may take to come, from its first byte; default 10 s. Then 408.
    pub head_time: Duration,
    /// How long a body may take, and how long the peer may leave what is written unread; default 30 s.
    pub body_time: Duration,
    /// How long a connection may wait for its next request; default 60 s. Empty lines, of which at most 16 come before
    /// a request, are none.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 << 10,
            body_bytes: 1 << 20,
            write_bytes: 64 << 10,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
        }
    }
}

/// The state that all connections of a server share.
#[derive(Debug)]
pub(super) struct ServerShared {
    pub(super) handler: HttpHandler,
    pub(super) limits: Limits,
    pub(super) poller: Poller,
    pub(super) counters: HttpCounters,
}

/// Messages of one connection that wait: answers, of which there is one at a time.
const LANE_BOUND: usize = 4;

/// A server of HTTP/1.1. Dropping the handle leaves it at work; see [`HttpServer::drain`].
#[derive(Clone, Debug)]
pub struct HttpServer {
    listener: Listener,
    shared: Arc<ServerShared>,
}

impl HttpServer {
    /// Serves on `address`; port 0 takes any that is free.
    ///
    /// # Errors
    /// [`BindError`], for example because the port is in use.
    pub fn bind(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        options: ListenerOptions,
        limits: Limits,
        handler: HttpHandler,
    ) -> Result<Self, BindError> {
        let shared = Arc::new(ServerShared {
            handler,
            limits,
            poller: poller.clone(),
            counters: HttpCounters::default(),
        });
        let of_connection = shared.clone();
        let spawn_options = SpawnOptions::new().lane(LaneConfig::bounded(LANE_BOUND));
        let listener = Listener::bind(system, poller, address, options, move |accepted, cx| {
            let connection =
                HttpConnection::new(accepted.stream, accepted.guard, of_connection.clone());
            cx.spawn_once(spawn_options.clone(), connection).map(drop)
        })?;
        Ok(Self { listener, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> HttpSnapshot {
        self.shared.counters.snapshot()
    }

    /// What its listener has counted so far.
    #[must_use]
    pub fn connections(&self) -> ListenerSnapshot {
        self.listener.snapshot()
    }

    /// Stops accepting, has each connection end with its present answer, and waits for that: it blocks
    /// the thread, so not from a handler. Returns how many are open still; an answer in pieces that has
    /// no end is one of them.
    pub fn drain(&self, timeout: Duration) -> usize {
        self.listener.drain(timeout)
    }
}
