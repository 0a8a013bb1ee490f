//! How does an actor answer HTTP requests, on Freeboard's own sockets?
//!
//! ```console
//! cargo run -p freeboard --features net --example http_server
//! ```

use std::{
    error::Error,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use freeboard::net::{
    http::{Body, Call, HttpHandler, HttpServer, Limits},
    poller::{Policy, Poller},
    tcp::ListenerOptions,
    types::Response,
};
use freeboard::prelude::*;

const WORKERS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(5);

struct Pages {
    answered: u64,
}

impl Actor for Pages {}

impl Handler<Call> for Pages {
    type Reply = ();
    fn handle(&mut self, call: Call, _cx: &mut Context<Self>) {
        self.answered += 1;
        let text = format!("{} is request {}\n", call.request.uri(), self.answered);
        // `call.reply` may also be kept and used later, or sent to another actor.
        call.reply.send(Response::new(Body::from(text)));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The poller needs the same number of workers as the system.
    let poller = Poller::new(WORKERS, Policy::default())?;
    let builder = System::builder().workers(WORKERS);
    let system = builder.driver(poller.driver()).build()?;

    let pages = system.spawn(Pages { answered: 0 });
    // A handler without state needs no actor: `HttpHandler::function(|request| ..)`.
    let handler = HttpHandler::Actor(pages.recipient());
    let (options, limits) = (ListenerOptions::default(), Limits::default());
    let any_port = ([127, 0, 0, 1], 0).into();
    let server = HttpServer::bind(&system, &poller, any_port, options, limits, handler)?;

    for number in 1..=3 {
        let mut client = TcpStream::connect(server.address())?;
        client.write_all(b"GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        println!("{}", answer.lines().last().unwrap_or_default());
        assert!(answer.ends_with(&format!("/a is request {number}\n")));
    }

    let cut_off = server.drain(TIMEOUT); // finishes the requests that have begun
    assert_eq!(cut_off, 0, "no connection was cut off");
    assert!(system.shutdown(TIMEOUT).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
