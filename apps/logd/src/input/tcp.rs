//! TCP: a source for each connection.
//!
//! ```text
//!   Connection ──Received(bytes)──▶ TcpSource ── Intake ──▶ dams
//!              ◀──ReadCredit(1)────           unless the source pauses: then the peer's window closes
//! ```

use freeboard::{
    Actor, ActorRef, Context, Handler, SpawnOptions, System,
    flow::LaneConfig,
    net::{
        poller::Poller,
        tcp::{
            BindError, Close, Connection, ConnectionEvent, ConnectionOptions, Event, Listener,
            ListenerOptions, ReadCredit,
        },
    },
};

use crate::{config::TcpConfig, server::ServerHandle};

use super::{Intake, received_now_ns};

/// Reads that may be under way between a connection and its source.
const READS: u32 = 2;

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Listens on an address.
pub(crate) fn listen(
    system: &System,
    poller: &Poller,
    server: &ServerHandle,
    config: TcpConfig,
) -> Result<Listener, BindError> {
    let server = server.clone();
    let connection_options = ConnectionOptions {
        credit: READS,
        read_bytes: READ_BYTES,
        idle_time: server.config().idle_time,
        // Clients of syslog do not learn what was not read.
        reads_on_drain: true,
        ..ConnectionOptions::default()
    };
    let listener_options = ListenerOptions {
        connections_max: server.config().connections_max,
    };
    let poller_of_connections = poller.clone();
    Listener::bind(
        system,
        poller,
        config.address,
        listener_options,
        move |accepted, cx| {
            let name = format!("tcp:{}", accepted.peer);
            let source = TcpSource {
                intake: Intake::new(&server, &name, config.framing),
                connection: None,
                owed: 0,
            };
            // The reads and `Opened`, `Ended`, `Closed`.
            let lane = LaneConfig::bounded(READS as usize + 4);
            let source = cx.spawn_once(SpawnOptions::new().lane(lane), source)?;
            let poller = &poller_of_connections;
            let spawned =
                Connection::spawn(accepted, poller, connection_options, source.recipient(), cx);
            if let Err(error) = spawned {
                source.stop();
                return Err(error);
            }
            Ok(())
        },
    )
}

/// The owner of a connection.
struct TcpSource {
    intake: Intake,
    connection: Option<ActorRef<Connection>>,
    /// Credit that is granted when the source has room again.
    owed: u32,
}

impl TcpSource {
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
}

impl Actor for TcpSource {
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        self.intake.on_room(cx.waker_fn(Self::resume));
    }
}

impl Handler<ConnectionEvent> for TcpSource {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        let ConnectionEvent { connection, event } = event;
        match event {
            Event::Opened(_) => self.connection = Some(connection),
            Event::Received(bytes) => {
                let fed = self.intake.feed(bytes, received_now_ns(), None);
                if fed.is_paused {
                    self.owed += 1;
                } else {
                    self.grant(1);
                }
            }
            Event::Ended => {
                let _ = connection.tell(Close);
            }
            Event::Closed(_) => {
                self.intake.end(received_now_ns());
                cx.stop();
            }
            // Nothing is written.
            Event::Pressure(_) | Event::Refused(_) => {}
        }
    }
}
