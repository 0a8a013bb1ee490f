//! The server: a listener, and the sweep of expired keys.

use std::{
    fmt,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use freeboard_actor::{ActorRef, SpawnOptions, System};
use freeboard_flow::LaneConfig;
use freeboard_net::poller::Poller;
use freeboard_net::tcp::{Listener, ListenerOptions};
use freeboard_redis::RedisOptions;

use crate::{
    connection::Connection,
    metrics::EmbeddedSnapshot,
    options::{EmbeddedOptions, StartError},
    session::Session,
    store::{Common, Sweeper},
};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// A server on localhost. Dropping it closes its sockets and discards its keys.
pub struct RedisEmbedded {
    listener: Listener,
    sweeper: ActorRef<Sweeper>,
    common: Arc<Common>,
}

impl RedisEmbedded {
    /// Starts a server on 127.0.0.1. Its connections are actors of `system`; `poller` must be its driver.
    ///
    /// # Errors
    /// [`StartError`], for example because the port is in use.
    pub fn start(
        system: &System,
        poller: &Poller,
        options: EmbeddedOptions,
    ) -> Result<Self, StartError> {
        options.check()?;
        let password = options.password.resolve()?;
        let address = (Ipv4Addr::LOCALHOST, options.port).into();
        let listener_options = ListenerOptions {
            // One more, which gets the refusal.
            connections_max: options.connections_max + 1,
        };
        let common = Arc::new(Common::new(options, password));
        // The listener's actor outlives its socket, and must not keep the keys alive.
        let (of_server, to_poller) = (Arc::downgrade(&common), poller.clone());
        let mut last_id = 0;
        // Connections receive no messages.
        let spawn_options = SpawnOptions::new().lane(LaneConfig::bounded(1));
        let listener = Listener::bind(
            system,
            poller,
            address,
            listener_options,
            move |mut accepted, cx| {
                let Some(common) = of_server.upgrade() else {
                    return Ok(());
                };
                last_id += 1;
                let Some(session) = Session::join(last_id, &common) else {
                    common.gauges.refused.add(1);
                    // The buffer of a new socket is empty, so one write is enough.
                    let _ = accepted.stream.write(TOO_MANY);
                    return Ok(());
                };
                let connection = Connection::new(accepted, &to_poller, session);
                cx.spawn_once(spawn_options.clone(), connection).map(drop)
            },
        )?;
        let spawn_options = SpawnOptions::new().lane(LaneConfig::bounded(1));
        let sweeper = Sweeper::new(common.clone());
        let sweeper = match system.spawn_once(spawn_options, sweeper) {
            Ok(sweeper) => sweeper,
            Err(error) => {
                listener.drain(Duration::ZERO);
                return Err(error.into());
            }
        };
        Ok(Self {
            listener,
            sweeper,
            common,
        })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Default client options, with the port and the password of this server.
    #[must_use]
    pub fn client_options(&self) -> RedisOptions {
        RedisOptions {
            port: self.address().port(),
            password: self.common.password.clone(),
            ..RedisOptions::default()
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn snapshot(&self) -> EmbeddedSnapshot {
        let (store, gauges) = (self.common.store.lock(), &self.common.gauges);
        let counts = store.keyspace.counts;
        EmbeddedSnapshot {
            connections: store.connections,
            connections_refused: gauges.refused.get(),
            connections_overflowed: gauges.overflowed.get(),
            connections_malformed: gauges.malformed.get(),
            connections_unfinished: gauges.unfinished.get(),
            // Ordering: Relaxed, a statistic.
            unfinished_bytes: self.common.unfinished_bytes.load(Ordering::Relaxed),
            commands: store.commands,
            keys: store.keyspace.len(),
            bytes: store.keyspace.bytes(),
            hits: counts.hits,
            misses: counts.misses,
            expired: counts.expired,
            evicted: counts.evicted,
        }
    }

    /// Closes its sockets, and blocks the calling thread until they are closed; do not call it from a handler.
    /// Returns the number of connections that are still open.
    pub fn stop(&self, timeout: Duration) -> usize {
        self.sweeper.stop();
        self.listener.drain(timeout)
    }
}

impl Drop for RedisEmbedded {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl fmt::Debug for RedisEmbedded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RedisEmbedded")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
