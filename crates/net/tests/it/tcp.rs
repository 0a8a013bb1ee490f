//! Connections as actors: credit, pressure, ends.

use std::{
    io::{Read, Write as _},
    net::Shutdown,
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::common::{LONG, Owner, any, connect, eventually, pair, reset, system};
use bytes::Bytes;
use freeboard_actor::Context;
use freeboard_net::poller::Policy;
use freeboard_net::tcp::{
    Accepted, Close, Connection, ConnectionOptions, End, Event, Listener, ListenerOptions,
    ReadCredit, Stream, Write,
};
use freeboard_test_servers::Port;

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
    // The reply would come after any bytes read.
    pair.ours.ask(ReadCredit(0)).wait().unwrap();
    assert!(pair.events.try_recv().is_err(), "it has no credit");
    pair.ours.tell(ReadCredit(1_000)).unwrap();
    while got < 1_000 {
        let Event::Received(bytes) = pair.next() else {
            panic!("bytes come first");
        };
        got += bytes.len();
    }
    pair.ours.tell(Close).unwrap();
    assert_eq!(pair.next(), Event::Closed(None));
}

#[test]
fn pressure_begins_and_ends_with_a_slow_peer() {
    const PIECES: usize = 4_096;
    let options = ConnectionOptions {
        write_bytes: 64 << 10,
        ..ConnectionOptions::default()
    };
    let mut pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    let piece = Bytes::from(vec![1; 16 << 10]);
    let written = piece.len() * PIECES;
    let ours = pair.ours.clone();
    let writing = std::thread::spawn(move || {
        (0..PIECES).for_each(|_| ours.tell(Write(piece.clone())).unwrap());
        ours.tell(Close).unwrap();
    });
    assert_eq!(pair.next(), Event::Pressure(true));
    let mut all = Vec::new();
    pair.peer.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), written);
    writing.join().unwrap();
    let mut has_ended = false;
    loop {
        match pair.next() {
            Event::Pressure(is_high) => has_ended |= !is_high,
            event => break assert_eq!(event, Event::Closed(None)),
        }
    }
    assert!(has_ended, "pressure");
}

#[test]
fn writes_that_cannot_be_written_come_back() {
    let options = ConnectionOptions {
        write_bytes: 1_000,
        ..ConnectionOptions::default()
    };
    let mut pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    let is_taken = |bytes: &Bytes| pair.ours.ask(Write(bytes.clone())).wait().unwrap();
    let (longest, longer) = (Bytes::from(vec![1; 1_000]), Bytes::from(vec![2; 1_001]));
    assert!(is_taken(&longest));
    assert!(!is_taken(&longer));
    pair.ours.ask(End).wait().unwrap();
    assert!(!is_taken(&longest));
    let mut all = Vec::new();
    pair.peer.read_to_end(&mut all).unwrap();
    assert_eq!(all, longest);
    pair.ours.tell(Close).unwrap();
    let mut refused = Vec::new();
    loop {
        match pair.next() {
            Event::Refused(bytes) => refused.push(bytes),
            Event::Pressure(_) => {}
            event => break assert_eq!(event, Event::Closed(None)),
        }
    }
    assert_eq!(refused, [longer, longest]);
}

#[test]
fn granted_credit_does_not_keep_an_idle_connection_open() {
    let options = ConnectionOptions {
        idle_time: Some(Duration::from_millis(20)),
        ..ConnectionOptions::default()
    };
    let pair = pair(options);
    eventually("it is closed", || pair.ours.tell(ReadCredit(0)).is_err());
    assert!(matches!(pair.next(), Event::Opened(_)));
    let timed_out = Event::Closed(Some(std::io::ErrorKind::TimedOut));
    assert_eq!(pair.next(), timed_out);
}

#[test]
fn a_peer_that_nobody_reads_is_not_idle() {
    let idle_time = Duration::from_millis(2);
    let options = ConnectionOptions {
        credit: 0,
        idle_time: Some(idle_time),
        ..ConnectionOptions::default()
    };
    let pair = pair(options);
    assert!(matches!(pair.next(), Event::Opened(_)));
    let opened = Instant::now();
    while opened.elapsed() < 10 * idle_time {
        pair.ours.ask(ReadCredit(0)).wait().unwrap();
    }
    pair.ours.tell(ReadCredit(1)).unwrap();
    let timed_out = Event::Closed(Some(std::io::ErrorKind::TimedOut));
    assert_eq!(pair.next(), timed_out);
}

#[test]
fn unreachable_addresses_close_with_a_reason() {
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
}

#[test]
fn bytes_that_have_arrived_are_read_before_a_drain_closes() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let (sender, connections) = mpsc::channel();
    let options = ConnectionOptions {
        credit: 0,
        read_bytes: 100,
        reads_on_drain: true,
        ..ConnectionOptions::default()
    };
    let watch = poller.clone();
    let serve = move |accepted, cx: &mut Context<_>| {
        let connection = Connection::spawn(accepted, &watch, options, owner.clone(), cx)?;
        sender.send(connection).unwrap();
        Ok(())
    };
    let limits = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), limits, serve).unwrap();
    let mut peer = connect(listener.address());
    peer.write_all(&[7; 1_000]).unwrap();
    let connection = connections.recv_timeout(LONG).unwrap();
    let draining = std::thread::spawn(move || listener.drain(LONG));
    let mut got = 0;
    loop {
        match events.recv_timeout(LONG).unwrap() {
            Event::Received(bytes) => got += bytes.len(),
            Event::Closed(why) => break assert_eq!(why, None),
            _ => {}
        }
        // The peer has not ended; only the drain ends the connection.
        let _ = connection.tell_lane(Connection::CONTROL_LANE, ReadCredit(1));
    }
    assert_eq!(got, 1_000);
    assert_eq!(draining.join().unwrap(), 0);
}

#[test]
fn a_peer_that_never_stops_sending_does_not_hold_up_a_drain() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let options = ConnectionOptions {
        credit: u32::MAX,
        reads_on_drain: true,
        ..ConnectionOptions::default()
    };
    let watch = poller.clone();
    let serve = move |accepted, cx: &mut Context<_>| {
        Connection::spawn(accepted, &watch, options, owner.clone(), cx).map(drop)
    };
    let limits = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), limits, serve).unwrap();
    let mut peer = connect(listener.address());
    peer.write_all(b"first").unwrap();
    let sending = std::thread::spawn(move || while peer.write_all(b"more").is_ok() {});
    let received = || matches!(events.recv_timeout(LONG), Ok(Event::Received(_)));
    eventually("it is read", received);
    assert_eq!(listener.drain(LONG), 0);
    sending.join().unwrap();
    let last = events.iter().find(|it| matches!(it, Event::Closed(_)));
    assert_eq!(last, Some(Event::Closed(None)));
}

#[test]
fn every_pending_connection_is_accepted_at_once() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, accepted) = mpsc::channel();
    let serve = move |it: Accepted, _: &mut Context<_>| {
        sender.send(it).unwrap();
        Ok(())
    };
    let options = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), options, serve).unwrap();
    let mut kept = Vec::new();
    // Alone and in bursts: more than one poll finds, and some that arrive between two polls.
    for burst in [1, 1, 2, 100, 1, 200, 1] {
        let address = listener.address();
        let peers = std::thread::spawn(move || {
            let peers = (0..burst).map(|_| connect(address));
            peers.collect::<Vec<_>>()
        });
        for _ in 0..burst {
            let accepted = accepted.recv_timeout(LONG).unwrap();
            assert!(matches!(&accepted.stream, Stream::Tcp(it) if it.nodelay().unwrap()));
            kept.push(accepted);
        }
        drop(peers.join().unwrap());
    }
    assert_eq!(listener.snapshot().accepted, kept.len() as u64);
    drop(kept);
    assert_eq!(listener.drain(LONG), 0);
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
    // Unread bytes turn the close into a reset.
    pair.peer.set_nonblocking(false).unwrap();
    assert_eq!(pair.peer.peek(&mut [0; 6]).unwrap(), 6);
    drop(pair.peer);
    let closed = pair.events.recv_timeout(LONG).unwrap();
    assert_eq!(
        closed,
        Event::Closed(Some(std::io::ErrorKind::ConnectionReset))
    );
    assert!(pair.events.try_recv().is_err(), "nothing follows");
}

#[test]
fn a_reset_is_not_taken_for_an_end() {
    let pair = pair(ConnectionOptions::default());
    assert!(matches!(pair.next(), Event::Opened(_)));
    reset(pair.peer);
    let why = Some(std::io::ErrorKind::ConnectionReset);
    assert_eq!(pair.events.recv_timeout(LONG).unwrap(), Event::Closed(why));
}
