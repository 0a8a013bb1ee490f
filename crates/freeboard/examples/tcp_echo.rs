//! How does a TCP server read no faster than its client reads? An echo with read credit.
//!
//! ```console
//! cargo run -p freeboard --features net --example tcp_echo
//! ```

use std::{
    error::Error,
    io::{Read, Write as _},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use freeboard::net::poller::{Policy, Poller};
use freeboard::net::tcp::{
    Close, Connection, ConnectionEvent, ConnectionOptions, Event, Listener, ListenerOptions,
    ReadCredit, Write,
};
use freeboard::prelude::*;

const WORKERS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The owner of one connection.
struct Echo;

impl Actor for Echo {}

impl Handler<ConnectionEvent> for Echo {
    type Reply = ();
    fn handle(&mut self, msg: ConnectionEvent, cx: &mut Context<Self>) {
        let connection = msg.connection;
        // If the connection has terminated, a tell fails and `Closed` follows: both results can be ignored.
        match msg.event {
            Event::Received(bytes) => {
                // Lane 0 is paused while the write buffer is full. The credit is granted on the same lane, after the
                // write: while the client does not read, the server does not read either.
                let _ = connection.tell(Write(bytes));
                let _ = connection.tell(ReadCredit(1));
            }
            Event::Ended => drop(connection.tell(Close)),
            Event::Closed(_) => cx.stop(),
            Event::Opened(_) | Event::Pressure(_) | Event::Refused(_) => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let poller = Poller::new(WORKERS, Policy::default())?;
    let builder = System::builder().workers(WORKERS);
    let system = builder.driver(poller.driver()).build()?;

    let (any_port, limits) = (([127, 0, 0, 1], 0).into(), ListenerOptions::default());
    let shared = poller.clone();
    let echo = Listener::bind(&system, &poller, any_port, limits, move |accepted, cx| {
        let owner = cx.spawn_once(SpawnOptions::new(), Echo)?.recipient();
        let options = ConnectionOptions::default(); // 16 read credits of 16 KiB each
        Connection::spawn(accepted, &shared, options, owner, cx).map(drop)
    })?;

    let mut client = TcpStream::connect(echo.address())?;
    client.write_all(b"hello")?;
    client.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    client.read_to_string(&mut text)?;
    println!("the server returned {text:?}");
    assert_eq!(text, "hello");

    assert_eq!(echo.drain(TIMEOUT), 0, "no connection was cut off");
    assert!(system.shutdown(TIMEOUT).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
