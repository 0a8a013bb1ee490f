//! Connections as actors: credit, pressure, ends.

mod net;

use std::{
    io::{Read, Write as _},
    net::{Shutdown, TcpListener},
    sync::mpsc,
};

use bytes::Bytes;
use freeboard_actor::{Actor, ActorRef, Context, Handler};
use freeboard_io::Policy;
use freeboard_net::tcp::{
    Accepted, Close, Connection, ConnectionOptions, Credit, End, Event, Events, Listener,
    ListenerOptions, Write,
};
use freeboard_servers::Port;
use net::{LONG, any, connect, system};

/// Hands on what happens.
struct Owner(mpsc::Sender<Event>);

impl Actor for Owner {}

impl Handler<Events> for Owner {
    type Reply = ();

    fn handle(&mut self, events: Events, _: &mut Context<Self>) {
        // The test may have seen enough.
        let _ = self.0.send(events.event);
    }
}

/// A connection of ours to a peer of the test's.
struct Pair {
    ours: ActorRef<Connection>,
    peer: std::net::TcpStream,
    events: mpsc::Receiver<Event>,
    system: freeboard_actor::System,
}

fn pair(options: ConnectionOptions) -> Pair {
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
    fn next(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }
}

#[test]
fn bytes_go_both_ways_and_each_side_ends_by_itself() {
    let mut pair = pair(ConnectionOptions::default());
    assert!(matches!(pair.next(), Event::Opened(_)));
    pair.ours.tell(Write(Bytes::from_static(b"hello"))).unwrap();
    pair.ours.tell(End).unwrap();
    let mut got = String::new();
    pair.peer.read_to_string(&mut got).unwrap();
    assert_eq!(got, "hello");
    pair.peer.write_all(b"world").unwrap();
    pair.peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(pair.next(), Event::Received(Bytes::from_static(b"world")));
    assert_eq!(pair.next(), Event::Ended);
    assert_eq!(pair.next(), Event::Closed(None));
    assert!(pair.system.shutdown(LONG).is_clean());
}

#[test]
fn without_credit_nothing_is_read() {
    let options = ConnectionOptions {
        credit: 2,
        read_bytes: 100,
        ..ConnectionOptions::default()
    };
    let mut pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    pair.peer.write_all(&[7; 1_000]).unwrap();
    let mut got = 0;
    for _ in 0..2 {
        let Event::Received(bytes) = pair.next() else {
            panic!("bytes come first");
        };
        got += bytes.len();
    }
    assert!(got <= 200);
    // A question that is answered behind what would have been read.
    pair.ours.ask(Credit(0)).wait().unwrap();
    assert!(pair.events.try_recv().is_err(), "it has no credit");
    pair.ours.tell(Credit(1_000)).unwrap();
    while got < 1_000 {
        let Event::Received(bytes) = pair.next() else {
            panic!("bytes come first");
        };
        got += bytes.len();
    }
    pair.ours.tell(Close).unwrap();
    assert_eq!(pair.next(), Event::Closed(None));
    assert!(pair.system.shutdown(LONG).is_clean());
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_number_of_bytes() {
    let options = ConnectionOptions {
        write_bytes: 64 << 10,
        ..ConnectionOptions::default()
    };
    let pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    let piece = Bytes::from(vec![1; 16 << 10]);
    let mut written = 0;
    while pair.ours.ask(Write(piece.clone())).wait().unwrap() {
        written += piece.len();
    }
    // What the kernel takes, and what may wait here.
    assert!(written < 64 << 20, "{written} bytes");
    let mut was_pressed = false;
    let refused = loop {
        match pair.next() {
            Event::Pressure(is_high) => was_pressed = is_high,
            Event::Refused(bytes) => break bytes,
            other => panic!("{other:?}"),
        }
    };
    assert!(was_pressed && refused == piece);
    let mut peer = pair.peer;
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all.len()
    });
    pair.ours.tell(Close).unwrap();
    assert_eq!(reading.join().unwrap(), written);
    assert!(pair.system.shutdown(LONG).is_clean());
}

#[test]
fn what_cannot_be_reached_is_closed_with_a_reason() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let nobody = Port::reserve().unwrap();
    let options = ConnectionOptions::default();
    let _ours = Connection::connect(&system, &poller, nobody.address(), options, owner).unwrap();
    let refused = std::io::ErrorKind::ConnectionRefused;
    loop {
        match events.recv_timeout(LONG).unwrap() {
            Event::Closed(why) => break assert_eq!(why, Some(refused)),
            Event::Opened(_) => panic!("nobody is there"),
            _ => {}
        }
    }
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn connections_that_are_accepted_drain_with_their_listener() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let watch = poller.clone();
    let serve = move |accepted, cx: &mut Context<_>| {
        let options = ConnectionOptions::default();
        Connection::spawn(accepted, &watch, options, owner.clone(), cx).map(drop)
    };
    let options = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), options, serve).unwrap();
    let mut peer = connect(listener.address());
    assert!(matches!(
        events.recv_timeout(LONG).unwrap(),
        Event::Opened(_)
    ));
    assert_eq!(listener.drain(LONG), 0);
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    assert_eq!(listener.snapshot().accepted, 1);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn who_is_accepted_waits_for_nothing_and_nobody_is_forgotten() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, accepted) = mpsc::channel();
    let serve = move |it: Accepted, _: &mut Context<_>| {
        sender.send(it).unwrap();
        Ok(())
    };
    let options = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), options, serve).unwrap();
    let mut kept = Vec::new();
    // Alone and in bursts: more than one look finds, and some that come between a look and the next.
    for burst in [1, 1, 2, 100, 1, 200, 1] {
        let address = listener.address();
        let peers = std::thread::spawn(move || {
            let peers = (0..burst).map(|_| connect(address));
            peers.collect::<Vec<_>>()
        });
        for _ in 0..burst {
            let accepted = accepted.recv_timeout(LONG).unwrap();
            assert!(accepted.stream.nodelay().unwrap());
            kept.push(accepted);
        }
        drop(peers.join().unwrap());
    }
    assert_eq!(listener.snapshot().accepted, kept.len() as u64);
    drop(kept);
    assert_eq!(listener.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn a_reset_is_noticed_without_credit_and_is_the_last_event() {
    let options = ConnectionOptions {
        credit: 0,
        ..ConnectionOptions::default()
    };
    let pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    pair.ours
        .tell(Write(Bytes::from_static(b"unread")))
        .unwrap();
    // What arrived and was not read makes a reset of the close.
    pair.peer.set_nonblocking(false).unwrap();
    assert_eq!(pair.peer.peek(&mut [0; 6]).unwrap(), 6);
    drop(pair.peer);
    let closed = pair.events.recv_timeout(LONG).unwrap();
    assert_eq!(
        closed,
        Event::Closed(Some(std::io::ErrorKind::ConnectionReset))
    );
    assert!(pair.system.shutdown(LONG).is_clean());
    assert!(pair.events.try_recv().is_err(), "nothing follows");
}
