//! A server: a listener whose connections speak HTTP.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::poller::Poller;
use freeboard_actor::{SpawnOptions, System};
use freeboard_flow::LaneConfig;

use super::{
    connection::{Common, HttpConnection},
    gauges::{Gauges, HttpSnapshot},
    handler::Handler,
    limits::Limits,
};
use crate::tcp::{BindError, Listener, ListenerOptions, ListenerSnapshot};

/// Messages of one connection that wait: answers, of which there is one at a time.
const LANE_BOUND: usize = 4;

/// A server of HTTP/1.1. Dropping the handle leaves it at work; see [`HttpServer::drain`].
#[derive(Clone, Debug)]
pub struct HttpServer {
    listener: Listener,
    common: Arc<Common>,
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
        handler: Handler,
    ) -> Result<Self, BindError> {
        let common = Arc::new(Common {
            handler,
            limits,
            poller: poller.clone(),
            gauges: Gauges::default(),
        });
        let shared = common.clone();
        let spawn_options = SpawnOptions::new().lane(LaneConfig::bounded(LANE_BOUND));
        let listener = Listener::bind(system, poller, address, options, move |accepted, cx| {
            let connection = HttpConnection::new(accepted.stream, accepted.place, shared.clone());
            cx.spawn_once(spawn_options.clone(), connection).map(drop)
        })?;
        Ok(Self { listener, common })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> HttpSnapshot {
        self.common.gauges.snapshot()
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
