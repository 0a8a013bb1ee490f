//! The connection and its recovery.

use std::{sync::Arc, time::Duration};

use freeboard::flow::Backoff;
use futures_util::StreamExt;
use lapin::{Connection, ConnectionProperties, uri::AMQPUri};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{options::explain, topology::Topology};
use crate::{ConnectError, server::Server};

/// The current connection, if any.
pub(super) type Sessions = watch::Receiver<Option<Arc<Connection>>>;

/// Connects to one server.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) server: Server,
    pub(super) uri: AMQPUri,
    pub(super) topology: Arc<Topology>,
    pub(super) backoff: Backoff,
}

impl Connector {
    /// Connects and declares all queues.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let attempt = async {
            let properties =
                ConnectionProperties::default().with_connection_name("freeboard-fetcher".into());
            let connection = Connection::connect_uri(self.uri.clone(), properties).await?;
            self.topology.declare(&connection).await?;
            Ok(connection)
        };
        self.server.connect(attempt, explain).await
    }

    /// Provides the connection to all tasks, and reconnects whenever it is lost. Ends when no task uses it any
    /// more.
    pub(super) async fn keep(
        self,
        first: Arc<Connection>,
        sessions: watch::Sender<Option<Arc<Connection>>>,
    ) {
        let mut next = Some(first);
        let mut attempt = 0;
        loop {
            if let Some(connection) = next.take() {
                attempt = 0;
                let mut events = Box::pin(connection.events_listener());
                sessions.send_replace(Some(connection.clone()));
                // It may have been lost before the listener started. An error event may also concern a channel.
                while connection.status().connected() {
                    tokio::select! {
                        event = events.next() => if event.is_none() { break },
                        () = sessions.closed() => return,
                    }
                }
                sessions.send_replace(None);
            }
            pause(&self.backoff, attempt).await;
            attempt = attempt.saturating_add(1);
            next = self.connect().await.ok().map(Arc::new);
        }
    }
}

/// AMQP's reply code of a requested close.
pub(super) const REPLY_SUCCESS: u16 = 200;

/// Waits before an attempt, with jitter.
pub(super) async fn pause(backoff: &Backoff, attempt: u32) {
    let jitter_ppm = fastrand::u32(0..=1_000_000);
    let delay_ns = backoff.delay_jittered_ns(attempt, jitter_ppm);
    sleep(Duration::from_nanos(delay_ns)).await;
}

/// Waits and declares the topology again before a task opens its next channel on the same connection.
#[derive(Clone)]
pub(super) struct ChannelRecovery {
    topology: Arc<Topology>,
    backoff: Backoff,
    attempt: u32,
    declared: Option<Instant>,
}

impl ChannelRecovery {
    pub(super) fn new(topology: Arc<Topology>, backoff: Backoff) -> Self {
        Self {
            topology,
            backoff,
            attempt: 0,
            declared: None,
        }
    }

    /// After a channel was closed: waits, longer while channels do not last, then declares queues and exchanges
    /// that may be missing.
    pub(super) async fn recover(&mut self, connection: &Connection) {
        let lasting = Duration::from_nanos(self.backoff.max_ns);
        if self
            .declared
            .is_some_and(|declared| declared.elapsed() > lasting)
        {
            self.attempt = 0;
        }
        pause(&self.backoff, self.attempt).await;
        self.attempt = self.attempt.saturating_add(1);
        // If this fails, the next channel may be closed too.
        let _ = self.topology.declare(connection).await;
        self.declared = Some(Instant::now());
    }
}

/// The connection, once there is one. `None` when the broker is closed.
pub(super) async fn next(sessions: &mut Sessions) -> Option<Arc<Connection>> {
    sessions.wait_for(Option::is_some).await.ok()?.clone()
}

/// Waits until `connection` is no longer current.
///
/// Callers then abandon their work on it: a request made at the moment of the loss may never be answered by the
/// library.
pub(super) async fn until_lost(sessions: &mut Sessions, connection: &Arc<Connection>) {
    let is_this = |session: &Arc<Connection>| Arc::ptr_eq(session, connection);
    // If the broker is closed, there is no other connection.
    let _ = sessions
        .wait_for(|session| !session.as_ref().is_some_and(is_this))
        .await;
}
