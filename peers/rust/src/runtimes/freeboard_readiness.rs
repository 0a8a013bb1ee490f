//! Connections as actors of ours, beside actors that compute and tell themselves to go on.

use anyhow::Result;
use freeboard::{
    net::poller::{Policy, Poller},
    net::tcp::{
        Connection, ConnectionEvent, ConnectionOptions, Event, Listener, ListenerOptions,
        ReadCredit,
    },
    prelude::*,
};

use crate::outcome::Outcome;
use crate::readiness::{self, Computing, LoadState, Reader, WORKERS_COUNT};

pub fn run(messages_count: u64, tasks_per_worker: usize, policy: Policy) -> Result<Outcome> {
    let poller = Poller::new(WORKERS_COUNT, policy)?;
    let system = System::builder()
        .workers(WORKERS_COUNT)
        .driver(poller.driver())
        .build()?;
    let (state, load) = readiness::plan(messages_count);
    let address = ([127, 0, 0, 1], 0).into();
    let options = ListenerOptions::default();
    let shared = poller.clone();
    let listener = Listener::bind(&system, &poller, address, options, move |accepted, cx| {
        let owner = cx.spawn(Owner::new(state.clone()));
        let options = ConnectionOptions::default();
        let recipient = owner.recipient();
        let connection = Connection::spawn(accepted, &shared, options, recipient, cx)?;
        // The lane of an actor that was just spawned has room.
        let _ = owner.tell(Grant(connection));
        Ok(())
    })?;
    load.run(listener.address(), |computing| {
        for _ in 0..WORKERS_COUNT * tasks_per_worker {
            system.spawn(Computer(computing.clone())).tell(Slice)?;
        }
        Ok(())
    })
}

/// Whom a connection tells what has come.
struct Owner {
    state: LoadState,
    reader: Option<Reader>,
    connection: Option<ActorRef<Connection>>,
}

/// Whom to give credit.
struct Grant(ActorRef<Connection>);

impl Owner {
    fn new(state: LoadState) -> Self {
        Self {
            state,
            reader: None,
            connection: None,
        }
    }
}

impl Actor for Owner {}

impl Handler<Grant> for Owner {
    type Reply = ();

    fn handle(&mut self, Grant(connection): Grant, _: &mut Context<Self>) {
        self.connection = Some(connection);
        self.reader = Some(self.state.open());
    }
}

impl Handler<ConnectionEvent> for Owner {
    type Reply = ();

    fn handle(&mut self, events: ConnectionEvent, _: &mut Context<Self>) {
        let Event::Received(bytes) = events.event else {
            return;
        };
        let (Some(reader), Some(connection)) = (&mut self.reader, &self.connection) else {
            unreachable!("no message is sent before all readers are there");
        };
        reader.take(&bytes);
        // A connection that has ended needs none.
        let _ = connection.tell(ReadCredit(1));
    }
}

/// Computes, a slice for each message.
struct Computer(Computing);

struct Slice;

impl Actor for Computer {}

impl Handler<Slice> for Computer {
    type Reply = ();

    fn handle(&mut self, _: Slice, cx: &mut Context<Self>) {
        if self.0.slice() {
            let told = cx.actor_ref().tell(Slice);
            told.expect("its own lane has room");
        }
    }
}
