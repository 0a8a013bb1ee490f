//! Streams of bytes, of TCP or a Unix socket: a source for each connection.
//!
//! ```text
//!   Connection ──Received(bytes)──▶ [Layer] ─▶ StreamSource ── Intake ──▶ dams
//!              ◀──ReadCredit(1)────            unless the source pauses: then the peer's window closes
//! ```
//!
//! TLS is a layer between the connection and its source (`tls.rs`).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use bytes::Bytes;
use freeboard::{
    Actor, ActorRef, Context, Handler, SpawnError, SpawnOptions, System,
    flow::LaneConfig,
    net::{
        poller::Poller,
        tcp::{
            Accepted, BindError, Close, Connection, ConnectionEvent, ConnectionOptions, Event,
            Listener, ListenerActor, ListenerOptions, Peer, ReadCredit, Write,
        },
    },
};

use serde::Deserialize;

use crate::{frame::Framing, server::ServerHandle, settings::address};

use super::{Intake, received_now_ns};

/// The settings of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// The address; port 0 takes any free port.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// How lines are told apart.
    #[serde(default)]
    pub framing: Framing,
}

/// The settings of a Unix stream socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnixStreamConfig {
    /// The socket's path.
    pub path: PathBuf,
    /// The permissions of its file; `None`: those that the umask leaves.
    #[serde(default = "every_user")]
    pub mode: Option<u32>,
    /// How lines are told apart.
    #[serde(default)]
    pub framing: Framing,
}

/// The permissions of a socket that every user may write to.
pub(super) const fn every_user() -> Option<u32> {
    Some(0o666)
}

impl TcpConfig {
    /// On this address, with framing that is detected.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let framing = Framing::Detect;
        Self { address, framing }
    }
}

impl UnixStreamConfig {
    /// On this path, where every user may write, with framing that is detected.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            mode: every_user(),
            framing: Framing::Detect,
        }
    }
}

/// Reads that may be under way between a connection and its source.
const READS: u32 = 2;

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Turns the bytes of a connection into those that its source gets.
pub(super) trait Layer: Send {
    /// The bytes for the source, also if the layer closes behind them: then the connection closes after the answer. What
    /// the peer must get is appended to `answer`.
    fn received(&mut self, bytes: Bytes, answer: &mut Vec<u8>) -> (Bytes, Result<(), LayerClosed>);

    /// The time after which [`Layer::is_late`] is called.
    fn deadline(&self) -> Duration;

    /// Whether the connection closes because the peer is too late, which is counted.
    fn is_late(&self) -> bool;
}

/// The peer ended the layer, or broke its protocol, which is counted.
pub(super) struct LayerClosed;

/// Listens on an address.
pub(super) fn listen(
    system: &System,
    poller: &Poller,
    server: &ServerHandle,
    config: TcpConfig,
) -> Result<Listener, BindError> {
    let serve = serve(server, poller, config.framing, "tcp", |_| None);
    Listener::bind(system, poller, config.address, listener(server), serve)
}

pub(super) fn listener(server: &ServerHandle) -> ListenerOptions {
    ListenerOptions {
        connections_max: server.config().connections_max,
    }
}

/// Spawns the source of each connection.
pub(super) fn serve(
    server: &ServerHandle,
    poller: &Poller,
    framing: Framing,
    scheme: &'static str,
    layer: impl Fn(Peer) -> Option<Box<dyn Layer>> + Send + 'static,
) -> impl FnMut(Accepted, &mut Context<ListenerActor>) -> Result<(), SpawnError> + Send + 'static {
    let (server, poller) = (server.clone(), poller.clone());
    let options = ConnectionOptions {
        credit: READS,
        read_bytes: READ_BYTES,
        idle_time: server.config().idle_time,
        // Clients of syslog do not learn what was not read.
        reads_on_drain: true,
        ..ConnectionOptions::default()
    };
    move |accepted, cx| {
        let name = format!("{scheme}:{}", accepted.peer);
        let source = StreamSource {
            intake: Intake::new(&server, &name, framing),
            connection: None,
            layer: layer(accepted.peer),
            owed: 0,
        };
        // The reads and `Opened`, `Ended`, `Closed`.
        let lane = LaneConfig::bounded(READS as usize + 4);
        let source = cx.spawn_once(SpawnOptions::new().lane(lane), source)?;
        let spawned = Connection::spawn(accepted, &poller, options, source.recipient(), cx);
        if let Err(error) = spawned {
            source.stop();
            return Err(error);
        }
        Ok(())
    }
}

/// The owner of a connection.
struct StreamSource {
    intake: Intake,
    connection: Option<ActorRef<Connection>>,
    layer: Option<Box<dyn Layer>>,
    /// Credit that is granted when the source has room again.
    owed: u32,
}

impl StreamSource {
    fn resume(&mut self, _: &mut Context<Self>) {
        let owed = std::mem::take(&mut self.owed);
        self.grant(owed);
    }

    fn grant(&self, reads: u32) {
        if let Some(connection) = &self.connection
            && reads > 0
        {
            // A connection that has terminated reads nothing more.
            let _ = connection.tell_lane(Connection::CONTROL_LANE, ReadCredit(reads));
        }
    }

    fn take(&mut self, bytes: Bytes, connection: &ActorRef<Connection>, cx: &mut Context<Self>) {
        let bytes = match &mut self.layer {
            None => bytes,
            Some(layer) => {
                let mut answer = Vec::new();
                let (bytes, received) = layer.received(bytes, &mut answer);
                if !answer.is_empty() && connection.try_tell(Write(answer.into())).is_err() {
                    // A peer that does not read its answers is cut off: a source never waits for one.
                    connection.stop();
                    let _ = self.intake.feed(bytes, received_now_ns(), None);
                    return self.end(cx);
                }
                if let Err(LayerClosed) = received {
                    let _ = connection.try_tell(Close);
                }
                bytes
            }
        };
        let fed = self.intake.feed(bytes, received_now_ns(), None);
        if fed.is_paused {
            self.owed += 1;
        } else {
            self.grant(1);
        }
    }

    /// The connection is closed, or will tell nothing more.
    fn end(&mut self, cx: &mut Context<Self>) {
        self.intake.end(received_now_ns());
        // Handled when the outbox is empty: a stop of the server waits for the source, then stops the dams.
        if cx.actor_ref().try_tell(Finish).is_err() {
            cx.stop();
        }
    }

    fn check_time(&mut self, _: &mut Context<Self>) {
        let is_late = self.layer.as_ref().is_some_and(|layer| layer.is_late());
        if is_late && let Some(connection) = &self.connection {
            let _ = connection.try_tell(Close);
        }
    }
}

impl Actor for StreamSource {
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        self.intake.on_room(cx.waker_fn(Self::resume));
        if let Some(layer) = &self.layer {
            // Without a timer thread nothing is late.
            let _ = cx.wake_after(layer.deadline(), Self::check_time);
        }
    }
}

impl Handler<ConnectionEvent> for StreamSource {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        let ConnectionEvent { connection, event } = event;
        match event {
            Event::Opened(_) => self.connection = Some(connection),
            Event::Received(bytes) => self.take(bytes, &connection, cx),
            Event::Ended => {
                let _ = connection.tell(Close);
            }
            Event::Closed(_) => self.end(cx),
            // Only a layer writes, and little.
            Event::Pressure(_) | Event::Refused(_) => {}
        }
    }
}

/// The connection is closed, and the dams have all lines.
struct Finish;

impl Handler<Finish> for StreamSource {
    type Reply = ();

    fn handle(&mut self, _: Finish, cx: &mut Context<Self>) {
        cx.stop();
    }
}
