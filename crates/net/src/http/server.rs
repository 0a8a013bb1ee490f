//! An HTTP server: a listener whose connections speak HTTP/1.1.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use freeboard_actor::{SpawnOptions, System};
use freeboard_flow::LaneConfig;
use freeboard_meter::{Counter, Exposition, metrics};

use super::{connection::HttpConnection, handler::HttpHandler, limits::Limits};
use crate::{
    poller::Poller,
    tcp::{BindError, Listener, ListenerOptions, ListenerSnapshot},
};

metrics! {
    /// The counters of an HTTP server at one time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HttpSnapshot: HTTP {}
    #[derive(Debug, Default)]
    counted by pub(super) struct HttpCounters {
        counter requests: Counter = "freeboard_http_requests_total", "Requests received completely.";
        counter answers: Counter = "freeboard_http_answers_total", "Responses begun.";
        counter refused: Counter = "freeboard_http_refused_total",
            "Requests refused: malformed, too large, too late.";
        counter timed_out: Counter = "freeboard_http_timed_out_total",
            "Connections closed because the peer took too long.";
        counter broken: Counter = "freeboard_http_broken_total",
            "Connections that broke, or that the peer closed in the middle of a request.";
        counter panics: Counter = "freeboard_http_panics_total",
            "Handlers that panicked; the client got 500.";
        counter bytes_read: Counter = "freeboard_http_read_bytes_total", "Bytes received.";
        counter bytes_queued: Counter = "freeboard_http_queued_bytes_total",
            "Bytes queued on connections to be written.";
    }
}

impl HttpSnapshot {
    /// Adds the metrics to `text`, labelled with `server`.
    pub fn render(&self, name: &str, text: &mut Exposition) {
        text.metrics(HTTP, &[("server", name)], self);
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

/// The mailbox bound of a connection, which gets one response at a time.
const LANE_BOUND: usize = 4;

/// A handle of an HTTP/1.1 server. Dropping it does not stop the server; see [`HttpServer::drain`].
#[derive(Clone, Debug)]
pub struct HttpServer {
    listener: Listener,
    shared: Arc<ServerShared>,
}

impl HttpServer {
    /// Serves on `address`; port 0 takes any free port.
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
            let connection = HttpConnection::new(accepted, of_connection.clone());
            cx.spawn_once(spawn_options.clone(), connection).map(drop)
        })?;
        Ok(Self { listener, shared })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> HttpSnapshot {
        self.shared.counters.snapshot()
    }

    /// The counters of its listener now.
    #[must_use]
    pub fn connections(&self) -> ListenerSnapshot {
        self.listener.snapshot()
    }

    /// Stops accepting, closes each connection after its current response, and waits for that. It blocks the
    /// thread, so it must not be called in a handler. Returns the number of connections still open; an endless
    /// streamed response keeps one open.
    pub fn drain(&self, timeout: Duration) -> usize {
        self.listener.drain(timeout)
    }
}
