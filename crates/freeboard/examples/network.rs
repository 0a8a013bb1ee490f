//! A page by a function, a page by an actor, and an echo under credit, until Enter is pressed:
//!
//! ```text
//!   curl http://127.0.0.1:8081/    curl http://127.0.0.1:8082/    nc 127.0.0.1 8083
//! ```

use std::time::Duration;

use freeboard::{
    net::poller::{Policy, Poller},
    net::{
        http::{Body, Call, HttpHandler, HttpServer, Limits},
        tcp::{
            Close, Connection, ConnectionEvent, ConnectionOptions, Event, Listener,
            ListenerOptions, ReadCredit, Write,
        },
        types::Response,
    },
    prelude::*,
};

const WORKERS: usize = 2;
const END: Duration = Duration::from_secs(5);

/// Answers requests, and counts them.
struct Desk {
    answered: u64,
}

impl Actor for Desk {}

impl Handler<Call> for Desk {
    type Reply = ();

    fn handle(&mut self, call: Call, _: &mut Context<Self>) {
        self.answered += 1;
        let text = format!("{} is number {}\n", call.request.uri(), self.answered);
        // It may as well be kept, and sent later, or by another actor.
        call.reply.send(Response::new(Body::from(text)));
    }
}

/// Sends back what a connection brings. One for each.
struct Echo;

impl Actor for Echo {}

impl Handler<ConnectionEvent> for Echo {
    type Reply = ();

    fn handle(&mut self, events: ConnectionEvent, cx: &mut Context<Self>) {
        let connection = events.connection;
        // A closed connection needs neither: `Closed` will arrive.
        let _ = match events.event {
            Event::Received(bytes) => {
                // Both on one lane: the credit is granted once the write was taken, so a peer that does not read is
                // not read from either.
                connection.tell(Write(bytes)).is_ok() && connection.tell(ReadCredit(1)).is_ok()
            }
            Event::Ended => connection.tell(Close).is_ok(),
            Event::Closed(_) => {
                cx.stop();
                true
            }
            Event::Opened(_) | Event::Pressure(_) | Event::Refused(_) => true,
        };
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As many workers for both.
    let poller = Poller::new(WORKERS, Policy::default())?;
    let system = System::builder()
        .workers(WORKERS)
        .driver(poller.driver())
        .build()?;
    let options = ListenerOptions::default();
    let at = |port: u16| ([127, 0, 0, 1], port).into();

    let function = HttpHandler::function(|request| {
        Response::new(Body::from(format!("you want {}\n", request.uri())))
    });
    let limits = Limits::default();
    let page = HttpServer::bind(&system, &poller, at(8081), options, limits, function)?;

    let desk = system.spawn(Desk { answered: 0 });
    let actor = HttpHandler::Actor(desk.recipient());
    let counted = HttpServer::bind(&system, &poller, at(8082), options, limits, actor)?;

    let shared = poller.clone();
    let echo = Listener::bind(&system, &poller, at(8083), options, move |accepted, cx| {
        let owner = cx.spawn_once(SpawnOptions::new(), Echo)?.recipient();
        let options = ConnectionOptions::default();
        Connection::spawn(accepted, &shared, options, owner, cx).map(drop)
    })?;

    println!("8081: a function, 8082: an actor, 8083: an echo; Enter ends it");
    std::io::stdin().read_line(&mut String::new())?;
    let left = page.drain(END) + counted.drain(END) + echo.drain(END);
    println!(
        "{left} connections were cut off; {:?}",
        system.shutdown(END)
    );
    Ok(())
}
