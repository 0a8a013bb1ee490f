//! A client that sends one request after the other to a server, over a TCP connection that it makes again.

use std::{net::SocketAddr, time::Duration};

use freeboard::{
    net::{
        poller::Poller,
        tcp::{Connection, ConnectionEvent, ConnectionOptions, Event, ReadCredit, Write},
    },
    prelude::*,
    sim::Random,
};

/// A connection attempt or an answer is given up after this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before a new connection, and the longest one before the next request.
const PAUSE: Duration = Duration::from_millis(100);

/// What a client sends, and what it makes of the answers.
pub(crate) trait Requests: Send + 'static {
    /// Whether there are more.
    fn has_more(&self) -> bool;

    /// A new connection begins. An answer that has not come does not come any more.
    fn begin(&mut self);

    /// The bytes of the next request, and whether there is an answer to wait for; `None` if there is no request.
    fn next(&mut self, random: &mut Random) -> Option<(String, bool)>;

    /// Bytes came. Whether the answer is complete.
    fn received(&mut self, bytes: &[u8]) -> bool;
}

/// A client's action.
type Action<R> = fn(&mut Client<R>, &mut Context<Client<R>>);

pub(crate) struct Client<R> {
    requests: R,
    poller: Poller,
    server: SocketAddr,
    random: Random,
    connection: Option<ActorRef<Connection>>,
    /// Counts the actions that were planned. Only the last one happens.
    turn: u64,
}

/// It is time for an action, and the turn in which it was planned.
struct Due<R: Requests>(u64, Action<R>);

impl<R: Requests> Client<R> {
    pub(crate) fn new(poller: &Poller, server: SocketAddr, random: Random, requests: R) -> Self {
        Self {
            requests,
            poller: poller.clone(),
            server,
            random,
            connection: None,
            turn: 0,
        }
    }

    /// Plans the next action, in place of the one that was planned before.
    fn plan(&mut self, time: Duration, action: Action<R>, cx: &Context<Self>) {
        self.turn += 1;
        let due = Due(self.turn, action);
        cx.send_after(time, due).expect("a timer");
    }

    fn connect(&mut self, cx: &mut Context<Self>) {
        if !self.requests.has_more() {
            return;
        }
        self.requests.begin();
        let (options, owner) = (ConnectionOptions::default(), cx.actor_ref().recipient());
        let (system, server) = (cx.system(), self.server);
        self.connection = Connection::connect(&system, &self.poller, server, options, owner).ok();
        self.plan(PATIENCE, Self::disconnect, cx);
    }

    fn disconnect(&mut self, cx: &mut Context<Self>) {
        if let Some(connection) = self.connection.take() {
            connection.stop();
        }
        self.plan(PAUSE, Self::connect, cx);
    }

    fn send(&mut self, cx: &mut Context<Self>) {
        let Some(connection) = self.connection.clone() else {
            return;
        };
        let Some((request, is_answered)) = self.requests.next(&mut self.random) else {
            return;
        };
        if connection.try_tell(Write(request.into())).is_err() {
            self.disconnect(cx);
        } else if is_answered {
            self.plan(PATIENCE, Self::disconnect, cx);
        } else {
            self.pause(cx);
        }
    }

    /// Sends the next request after a while.
    fn pause(&mut self, cx: &Context<Self>) {
        let pause = self.random.time(PAUSE);
        self.plan(pause, Self::send, cx);
    }
}

impl<R: Requests> Actor for Client<R> {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.plan(PAUSE, Self::connect, cx);
    }
}

impl<R: Requests> Handler<Due<R>> for Client<R> {
    type Reply = ();

    fn handle(&mut self, Due(turn, action): Due<R>, cx: &mut Context<Self>) {
        if turn == self.turn {
            action(self, cx);
        }
    }
}

impl<R: Requests> Handler<ConnectionEvent> for Client<R> {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        let ConnectionEvent { connection, event } = event;
        if self.connection.as_ref().map(ActorRef::id) != Some(connection.id()) {
            return;
        }
        match event {
            Event::Opened(_) => self.send(cx),
            Event::Received(bytes) => {
                _ = connection.try_tell_lane(Connection::CONTROL_LANE, ReadCredit(1));
                if self.requests.received(&bytes) {
                    self.pause(cx);
                }
            }
            Event::Ended | Event::Closed(_) => self.disconnect(cx),
            _ => {}
        }
    }
}
