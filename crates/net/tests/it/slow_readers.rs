//! Peers that read slowly or never: senders wait, are muted or are shed, as the lane's policy says.

use std::{
    io::{ErrorKind, Read, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::common::{LONG, Owner, Pair, any, connect, eventually, pair, reset, system};
use bytes::Bytes;
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnOptions, System};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_net::poller::Policy;
use freeboard_net::tcp::{
    Accepted, Close, Connection, ConnectionOptions, End, Event, Listener, ListenerOptions,
    ReadCredit, Write,
};

const LINES: usize = 20_000;

/// So long that all lines are about 80 MB: far more than the kernel buffers for two sockets.
const LINE_BYTES: usize = 4 << 10;

/// More than the kernel's buffers, the connection's and its lane hold.
const WAITING_BYTES_MAX: usize = 40 << 20;

const OPTIONS: fn() -> ConnectionOptions = || ConnectionOptions {
    write_bytes: 64 << 10,
    ..ConnectionOptions::default()
};

/// A line: its number and bytes derived from it.
fn line(number: usize) -> Bytes {
    let mut line = format!("{number:08}").into_bytes();
    line.resize(LINE_BYTES, number as u8);
    line.into()
}

fn read_line(from: &mut impl Read) -> Bytes {
    let mut line = vec![0; LINE_BYTES];
    from.read_exact(&mut line).unwrap();
    line.into()
}

/// Whether the write lane is paused: the connection answers, but takes nothing from a full lane.
fn is_full(ours: &ActorRef<Connection>) -> bool {
    let handled = || {
        let run = ours.ask(ReadCredit(0)).lane(Connection::CONTROL_LANE);
        run.wait().unwrap();
        ours.snapshot().lanes[0].handled
    };
    let before = handled();
    let is_refused = ours.try_tell(Write(Bytes::new())).is_err();
    is_refused && handled() == before
}

/// Waits until writers must wait; no write was refused.
fn until_full(pair: &Pair) {
    eventually("the lane is full", || {
        expect_none_refused(pair);
        is_full(&pair.ours)
    });
}

/// Checks the events so far.
fn expect_none_refused(pair: &Pair) {
    for event in pair.events.try_iter() {
        let is_usual = matches!(event, Event::Opened(_) | Event::Pressure(_));
        assert!(is_usual, "a line was refused");
    }
}

/// Lets `write` write all lines in order from a thread of its own, to a peer that starts reading late and pauses in
/// between, and then closes.
fn check_all_arrive(
    write: impl FnOnce(&System, &ActorRef<Connection>, &AtomicUsize) + Send + 'static,
) {
    let mut pair = pair(OPTIONS());
    let sent = Arc::new(AtomicUsize::new(0));
    let writing = {
        let (system, ours, sent) = (pair.system.clone(), pair.ours.clone(), sent.clone());
        thread::spawn(move || write(&system, &ours, &sent))
    };
    for number in 0..LINES {
        if number == 0 || number == LINES / 4 {
            until_full(&pair);
        }
        let waiting = sent.load(Ordering::SeqCst).saturating_sub(number) * LINE_BYTES;
        assert!(waiting < WAITING_BYTES_MAX, "{waiting} bytes wait");
        assert!(read_line(&mut pair.peer) == line(number), "line {number}");
    }
    writing.join().unwrap();
    assert_eq!(pair.peer.read(&mut [0]).unwrap(), 0);
    expect_none_refused(&pair);
    pair.ours.tell(Close).unwrap();
}

#[test]
fn senders_wait() {
    check_all_arrive(|_, ours, sent| {
        pollster::block_on(async {
            for number in 0..LINES {
                ours.send(Write(line(number))).await.unwrap();
                sent.fetch_add(1, Ordering::SeqCst);
            }
            ours.send(End).await.unwrap();
        });
    });
}

#[test]
fn a_thread_that_tells_blocks() {
    check_all_arrive(|_, ours, sent| {
        for number in 0..LINES {
            ours.tell(Write(line(number))).unwrap();
            sent.fetch_add(1, Ordering::SeqCst);
        }
        ours.tell(End).unwrap();
    });
}

/// Forwards writes. The reply says whether they were accepted.
struct Teller(ActorRef<Connection>);

impl Actor for Teller {}

impl Handler<Write> for Teller {
    type Reply = bool;

    fn handle(&mut self, write: Write, _: &mut Context<Self>) -> bool {
        self.0.tell(write).is_ok()
    }
}

impl Handler<End> for Teller {
    type Reply = ();

    fn handle(&mut self, end: End, _: &mut Context<Self>) {
        self.0.tell(end).unwrap();
    }
}

#[test]
fn an_actor_that_tells_is_muted() {
    check_all_arrive(|system, ours, sent| {
        let options = SpawnOptions::new().lane(LaneConfig::bounded(16));
        let teller = system.spawn_once(options, Teller(ours.clone())).unwrap();
        for number in 0..LINES {
            teller.tell(Write(line(number))).unwrap();
            sent.fetch_add(1, Ordering::SeqCst);
        }
        teller.tell(End).unwrap();
    });
}

#[test]
fn a_lane_that_drops_the_newest_counts_them_and_the_rest_is_whole() {
    let options = ConnectionOptions {
        lane: LaneConfig::bounded(64).overload(Overload::DropNewest),
        ..OPTIONS()
    };
    let mut pair = pair(options);
    for number in 0..LINES {
        pair.ours.tell(Write(line(number))).unwrap();
    }
    let lane = pair.ours.snapshot().lanes.swap_remove(0);
    let shed = lane.shed.iter().map(|shed| shed.count).sum::<u64>();
    // On the lane of writes it would be dropped too.
    pair.ours
        .tell_lane(Connection::CONTROL_LANE, Close)
        .unwrap();
    let mut all = Vec::new();
    pair.peer.read_to_end(&mut all).unwrap();
    let (lines, rest) = all.as_chunks::<LINE_BYTES>();
    assert!(rest.is_empty());
    let number = |line: &[u8; LINE_BYTES]| str::from_utf8(&line[..8]).unwrap().parse().unwrap();
    let numbers: Vec<usize> = lines.iter().map(number).collect();
    assert!(numbers.is_sorted_by(|before, after| before < after));
    assert!(
        lines
            .iter()
            .zip(&numbers)
            .all(|(it, &number)| it[..] == line(number))
    );
    assert!(shed > 0);
    assert_eq!(numbers.len() as u64 + shed, LINES as u64);
}

/// Writes until a line would wait; returns how many were accepted.
fn fill(ours: &ActorRef<Connection>) -> usize {
    let mut accepted = 0;
    eventually("the lane is full", || {
        while ours.try_tell(Write(line(accepted))).is_ok() {
            accepted += 1;
        }
        is_full(ours)
    });
    accepted
}

/// Reads so many lines, and the end.
fn expect_lines(peer: &mut TcpStream, count: usize) {
    for number in 0..count {
        assert!(read_line(peer) == line(number), "line {number}");
    }
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_end_overtakes_nothing_on_whichever_lane_it_comes() {
    for lane in [0, Connection::CONTROL_LANE] {
        let mut pair = pair(OPTIONS());
        let accepted = fill(&pair.ours);
        // Credit on lane 0 waits until the peer reads.
        let ours = pair.ours.clone();
        let ending = thread::spawn(move || ours.tell_lane(lane, End).unwrap());
        expect_lines(&mut pair.peer, accepted);
        ending.join().unwrap();
        expect_none_refused(&pair);
        pair.ours.tell_lane(lane, Close).unwrap();
        assert_eq!(pair.next(), Event::Closed(None));
    }
}

#[test]
fn a_drain_writes_accepted_bytes_first() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let (opened, connections) = mpsc::channel();
    let watch = poller.clone();
    let serve = move |accepted: Accepted, cx: &mut Context<_>| {
        let ours = Connection::spawn(accepted, &watch, OPTIONS(), owner.clone(), cx)?;
        opened.send(ours).unwrap();
        Ok(())
    };
    let options = ListenerOptions::default();
    let listener = Listener::bind(&system, &poller, any(), options, serve).unwrap();
    let mut peer = connect(listener.address());
    let ours = connections.recv_timeout(LONG).unwrap();
    let accepted = fill(&ours);
    assert_eq!(listener.drain(Duration::ZERO), 1);
    expect_lines(&mut peer, accepted);
    assert_eq!(listener.drain(LONG), 0);
    let is_refused = |event| matches!(event, Event::Refused(_));
    assert!(!events.try_iter().any(is_refused));
}

#[test]
fn credit_comes_past_writes_that_wait() {
    let options = ConnectionOptions {
        credit: 0,
        ..OPTIONS()
    };
    let mut pair = pair(options);
    pair.peer.write_all(b"hello").unwrap();
    let accepted = fill(&pair.ours);
    let credit = pair.ours.tell_lane(Connection::CONTROL_LANE, ReadCredit(1));
    credit.unwrap();
    // The owner may have handled none of the earlier events yet.
    let event = loop {
        match pair.next() {
            Event::Opened(_) | Event::Pressure(_) => {}
            event => break event,
        }
    };
    assert_eq!(event, Event::Received(Bytes::from_static(b"hello")));
    pair.ours
        .tell_lane(Connection::CONTROL_LANE, Close)
        .unwrap();
    expect_lines(&mut pair.peer, accepted);
}

/// Checks that writers to a peer that never reads get an error once `end` has closed the connection. Returns the
/// events of its owner.
fn check_released(
    options: ConnectionOptions,
    end: impl FnOnce(&ActorRef<Connection>, &System, TcpStream) -> Option<TcpStream>,
) -> Vec<Event> {
    const EACH: usize = 3;
    let pair = pair(options);
    fill(&pair.ours);
    let begun = Arc::new(AtomicUsize::new(0));
    let wait = |write: fn(&System, &ActorRef<Connection>)| {
        let (system, ours, begun) = (pair.system.clone(), pair.ours.clone(), begun.clone());
        thread::spawn(move || {
            begun.fetch_add(1, Ordering::SeqCst);
            write(&system, &ours);
        })
    };
    let waiting: Vec<_> = (0..EACH)
        .flat_map(|_| {
            let tells = wait(|_, ours| while ours.tell(Write(line(0))).is_ok() {});
            let sends =
                wait(|_, ours| while pollster::block_on(ours.send(Write(line(0)))).is_ok() {});
            let asks = wait(|_, ours| while ours.ask(Write(line(0))).wait().is_ok() {});
            let is_muted = wait(|system, ours| {
                let teller = system.spawn(Teller(ours.clone()));
                while teller.ask(Write(line(0))).wait().is_ok_and(|it| it) {}
            });
            [tells, sends, asks, is_muted]
        })
        .collect();
    eventually("all write, and wait", || {
        begun.load(Ordering::SeqCst) == waiting.len() && is_full(&pair.ours)
    });
    let peer = end(&pair.ours, &pair.system, pair.peer);
    waiting.into_iter().for_each(|it| it.join().unwrap());
    pair.ours.join();
    pair.system.end(LONG);
    drop(peer);
    pair.events.try_iter().collect()
}

#[test]
fn a_reset_releases_waiting_senders() {
    let events = check_released(OPTIONS(), |_, _, peer| {
        reset(peer);
        None
    });
    assert!(matches!(events.last(), Some(Event::Closed(Some(_)))));
}

#[test]
fn a_stop_releases_waiting_senders() {
    check_released(OPTIONS(), |ours, _, peer| {
        ours.stop();
        Some(peer)
    });
}

#[test]
fn a_peer_that_never_reads_is_given_its_idle_time() {
    let options = ConnectionOptions {
        idle_time: Some(Duration::from_secs(1)),
        ..OPTIONS()
    };
    let events = check_released(options, |ours, _, peer| {
        ours.tell_lane(Connection::CONTROL_LANE, Close).unwrap();
        Some(peer)
    });
    let timed_out = Event::Closed(Some(ErrorKind::TimedOut));
    assert_eq!(events.last(), Some(&timed_out));
}

#[test]
fn a_shutdown_releases_waiting_senders() {
    check_released(OPTIONS(), |_, system, peer| {
        // The peer never reads, so the shutdown may reach its deadline.
        let report = system.shutdown(Duration::from_millis(200));
        assert!(report.unfinished.is_empty(), "{report:?}");
        Some(peer)
    });
}

#[test]
fn a_shutdown_writes_accepted_bytes() {
    let mut pair = pair(OPTIONS());
    let mut accepted = 0;
    while accepted < LINES && !is_full(&pair.ours) {
        pair.ours.tell(Write(line(accepted))).unwrap();
        accepted += 1;
    }
    let system = pair.system.clone();
    let shutting = thread::spawn(move || system.shutdown(LONG));
    for number in 0..accepted {
        assert!(read_line(&mut pair.peer) == line(number), "line {number}");
    }
    let report = shutting.join().unwrap();
    assert!(report.is_clean(), "{report:?}");
}
