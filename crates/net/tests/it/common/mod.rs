//! A system with a poller, and peers made of plain sockets.

use std::{
    cell::Cell,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Deref,
    sync::mpsc,
    thread,
    time::Duration,
};

use freeboard_actor::{Actor, ActorRef, Context, Handler, ShutdownReport, System};
use freeboard_net::poller::{Policy, Poller};
use freeboard_net::{
    http::{Body, Call, HttpHandler, HttpServer, Limits, Reply},
    tcp::{Connection, ConnectionEvent, ConnectionOptions, Event, ListenerOptions},
};
pub(crate) use freeboard_test_servers::{LONG, eventually};
use http::{Response, StatusCode};

/// A system that must shut down cleanly at the end of its test.
pub(crate) struct TestSystem {
    system: System,
    /// Whether the test has shut it down by itself.
    is_over: Cell<bool>,
}

impl TestSystem {
    /// Shuts it down, cleanly or not.
    pub(crate) fn end(&self, timeout: Duration) -> ShutdownReport {
        self.is_over.set(true);
        self.system.shutdown(timeout)
    }
}

impl Deref for TestSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl Drop for TestSystem {
    fn drop(&mut self) {
        if !self.is_over.get() && !thread::panicking() {
            let report = self.system.shutdown(LONG);
            assert!(report.is_clean(), "{report:?}");
        }
    }
}

/// Two workers, and the poller that they share.
pub(crate) fn system(policy: Policy) -> (TestSystem, Poller) {
    let poller = Poller::new(2, policy).unwrap();
    let system = System::builder().workers(2).driver(poller.driver());
    let system = TestSystem {
        system: system.build().unwrap(),
        is_over: Cell::new(false),
    };
    (system, poller)
}

/// A port that the operating system chooses.
pub(crate) fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// A server whose connections must all close at the end of its test.
pub(crate) struct Served {
    server: HttpServer,
    pub(crate) system: TestSystem,
}

impl Deref for Served {
    type Target = HttpServer;

    fn deref(&self) -> &HttpServer {
        &self.server
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.system.is_over.get() && !thread::panicking() {
            assert_eq!(self.server.drain(LONG), 0);
        }
    }
}

/// Serves with `handler`.
pub(crate) fn serve(handler: HttpHandler) -> Served {
    serve_with(Policy::EAGER, Limits::default(), handler)
}

pub(crate) fn serve_with(policy: Policy, limits: Limits, handler: HttpHandler) -> Served {
    let (system, poller) = system(policy);
    let options = ListenerOptions::default();
    let server = HttpServer::bind(&system, &poller, any(), options, limits, handler);
    Served {
        server: server.unwrap(),
        system,
    }
}

/// Forwards requests to the test, which responds to them.
pub(crate) struct Desk(mpsc::Sender<Reply>);

impl Actor for Desk {}

impl Handler<Call> for Desk {
    type Reply = ();

    fn handle(&mut self, call: Call, _: &mut Context<Self>) {
        self.0.send(call.reply).unwrap();
    }
}

/// Serves with a [`Desk`]; what comes out is what is to be answered.
pub(crate) fn serve_desk() -> (Served, ActorRef<Desk>, mpsc::Receiver<Reply>) {
    let (system, poller) = system(Policy::EAGER);
    let (calls, asked) = mpsc::channel();
    let desk = system.spawn(Desk(calls));
    let handler = HttpHandler::Actor(desk.recipient());
    let (options, limits) = (ListenerOptions::default(), Limits::default());
    let server = HttpServer::bind(&system, &poller, any(), options, limits, handler).unwrap();
    (Served { server, system }, desk, asked)
}

/// Responds with method, path and body.
pub(crate) fn echo() -> HttpHandler {
    HttpHandler::function(|request| {
        let text = format!(
            "{} {} {}",
            request.method(),
            request.uri(),
            String::from_utf8_lossy(request.body())
        );
        let mut answer = Response::new(Body::from(text));
        *answer.status_mut() = StatusCode::OK;
        answer
    })
}

/// A connection with timeouts.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(address).unwrap();
    // Pieces are sent as they are written.
    peer.set_nodelay(true).unwrap();
    peer.set_read_timeout(Some(LONG)).unwrap();
    peer.set_write_timeout(Some(LONG)).unwrap();
    peer
}

/// Closes with a reset, as a killed process may.
pub(crate) fn reset(peer: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
}

/// Sends all bytes, shuts down, and reads to the end.
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut peer = connect(address);
    peer.write_all(request).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    read_to_end(&mut peer)
}

pub(crate) fn read_to_end(peer: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset ends the response.
    let _ = peer.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads one response with a length.
pub(crate) fn read_answer(peer: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        peer.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    peer.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Forwards events to the test.
pub(crate) struct Owner(pub(crate) mpsc::Sender<Event>);

impl Actor for Owner {}

impl Handler<ConnectionEvent> for Owner {
    type Reply = ();

    fn handle(&mut self, events: ConnectionEvent, _: &mut Context<Self>) {
        // The test may have ended.
        let _ = self.0.send(events.event);
    }
}

/// A connection to a peer of the test.
pub(crate) struct Pair {
    pub(crate) ours: ActorRef<Connection>,
    pub(crate) peer: TcpStream,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) system: TestSystem,
}

pub(crate) fn pair(options: ConnectionOptions) -> Pair {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender));
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let recipient = owner.recipient();
    let ours = Connection::connect(&system, &poller, address, options, recipient).unwrap();
    let (peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(LONG)).unwrap();
    peer.set_write_timeout(Some(LONG)).unwrap();
    Pair {
        ours,
        peer,
        events,
        system,
    }
}

impl Pair {
    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }
}
