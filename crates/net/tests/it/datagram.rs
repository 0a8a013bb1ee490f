//! Datagram sockets as actors: batches, credit, drops of the kernel, Unix senders.

use std::{
    net::UdpSocket,
    os::unix::net::UnixDatagram,
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::{Actor, Context, Handler, Recipient};
use freeboard_net::{
    UnixOptions,
    datagram::{DatagramOptions, DatagramSocket, Received, SendTo},
    poller::{Policy, Poller},
    tcp::{Drain, Peer, ReadCredit},
};

use crate::common::{LONG, TestSystem, any, eventually, system};

/// Forwards what was received to the test, and grants `credit` for each.
struct Owner {
    received: mpsc::Sender<Received>,
    credit: u32,
}

impl Actor for Owner {}

impl Handler<Received> for Owner {
    type Reply = ();

    fn handle(&mut self, received: Received, _: &mut Context<Self>) {
        if self.credit > 0 {
            let _ = received.socket.tell(ReadCredit(self.credit));
        }
        // The test may have ended.
        let _ = self.received.send(received);
    }
}

/// An owner that grants `credit` for each message.
fn owner(system: &TestSystem, credit: u32) -> (Recipient<Received>, Receiver<Received>) {
    let (sender, received) = mpsc::channel();
    let owner = Owner {
        received: sender,
        credit,
    };
    (
        system
            .spawn_once(Default::default(), owner)
            .unwrap()
            .recipient(),
        received,
    )
}

fn udp(
    options: DatagramOptions,
    credit: u32,
) -> (TestSystem, Poller, DatagramSocket, Receiver<Received>) {
    let (system, poller) = system(Policy::EAGER);
    let (owner, received) = owner(&system, credit);
    let socket = DatagramSocket::bind_udp(&system, &poller, any(), options, owner).unwrap();
    (system, poller, socket, received)
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind(any()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client
}

#[test]
fn datagrams_arrive_in_order_with_their_sender_also_empty_and_cut_ones() {
    let options = DatagramOptions {
        datagram_bytes: 100,
        datagrams_max: 7,
        ..DatagramOptions::default()
    };
    let (_system, _poller, socket, received) = udp(options, 1);
    let client = client();
    let from = Peer::Ip(client.local_addr().unwrap());
    let (mut all, mut sent) = (Vec::new(), 0);
    for length in (0..=101).cycle().take(1_000) {
        client
            .send_to(&vec![length; length.into()], socket.address())
            .unwrap();
        sent += 1;
        // The kernel's buffer must not overflow.
        while all.len() + 50 < sent {
            all.extend(received.recv_timeout(LONG).unwrap().datagrams);
        }
    }
    while all.len() < 1_000 {
        all.extend(received.recv_timeout(LONG).unwrap().datagrams);
    }
    for (datagram, length) in all.iter().zip((0..=101).cycle()) {
        assert_eq!(datagram.from, from);
        assert_eq!(datagram.bytes, vec![length; usize::from(length).min(100)]);
        assert_eq!(datagram.is_cut, length == 101);
    }
    let snapshot = socket.snapshot();
    assert_eq!((snapshot.received, snapshot.cut), (1_000, 9));
    assert_eq!(snapshot.kernel_dropped, 0);
    assert!(snapshot.receive_calls <= 1_000);
}

#[test]
fn one_call_reads_what_is_there_and_no_credit_reads_nothing() {
    let options = DatagramOptions {
        credit: 0,
        datagrams_max: 8,
        ..DatagramOptions::default()
    };
    let (_system, _poller, socket, received) = udp(options, 0);
    let client = client();
    for number in 0..20_u8 {
        client.send_to(&[number], socket.address()).unwrap();
    }
    let grant = |credit| socket.actor().ask(ReadCredit(credit)).wait().unwrap();
    grant(0);
    assert!(received.try_recv().is_err(), "it has no credit");
    // The reply comes after the datagrams were read.
    grant(1);
    let lengths = |credit| {
        grant(credit);
        let received = received.try_iter();
        received.map(|it| it.datagrams.len()).collect::<Vec<_>>()
    };
    eventually("the first batch", || socket.snapshot().received == 8);
    let first = received.recv_timeout(LONG).unwrap();
    assert_eq!(first.datagrams.len(), 8);
    let _ = lengths(5);
    eventually("the others", || socket.snapshot().received == 20);
    assert_eq!(socket.snapshot().receive_calls, 3);
}

#[test]
fn drops_of_the_kernel_are_counted() {
    let options = DatagramOptions {
        credit: 0,
        receive_buffer_bytes: Some(4_096),
        ..DatagramOptions::default()
    };
    let (_system, _poller, socket, received) = udp(options, 1);
    let bytes = socket.snapshot().receive_buffer_bytes;
    assert!((4_096..100_000).contains(&bytes), "{bytes}");
    let client = client();
    let mut sent = 0;
    let mut send = |text: &[u8]| {
        client.send_to(text, socket.address()).unwrap();
        sent += 1;
        sent
    };
    for _ in 0..1_000 {
        send(&[1; 500]);
    }
    socket.actor().tell(ReadCredit(1)).unwrap();
    // The kernel tells its count with the next datagram that it accepts, and may drop any: another is sent when no more come.
    let mut told = 0;
    let mut sent_until = send(b"last");
    eventually("all are counted", || {
        let snapshot = socket.snapshot();
        let is_counted = snapshot.received + snapshot.kernel_dropped == sent_until;
        if !is_counted {
            match received.recv_timeout(Duration::from_millis(1)) {
                Ok(it) => told += it.kernel_dropped,
                Err(_) => sent_until = send(b"last"),
            }
        }
        is_counted
    });
    assert!(socket.snapshot().kernel_dropped > 0);
    // The socket counts before it tells.
    eventually("the owner is told", || {
        told += received.try_iter().map(|it| it.kernel_dropped).sum::<u64>();
        told == socket.snapshot().kernel_dropped
    });
}

#[test]
fn replies_are_sent_from_the_socket() {
    let (_system, _poller, socket, received) = udp(DatagramOptions::default(), 1);
    let client = client();
    client.send_to(b"ping", socket.address()).unwrap();
    let Peer::Ip(to) = received.recv_timeout(LONG).unwrap().datagrams[0].from else {
        panic!("an IP address");
    };
    for number in 0..100_u8 {
        let bytes = Bytes::from(vec![number; 1_000]);
        assert!(socket.actor().ask(SendTo { to, bytes }).wait().unwrap());
        let (length, from) = client.recv_from(&mut [0; 2_000]).unwrap();
        assert_eq!((length, from), (1_000, socket.address()));
    }
    // Longer than any datagram.
    let bytes = Bytes::from(vec![0; 70_000]);
    assert!(socket.actor().ask(SendTo { to, bytes }).wait().unwrap());
    assert_eq!((socket.snapshot().sent, socket.snapshot().failed), (100, 1));
}

#[test]
fn unix_datagrams_name_their_process_and_their_senders_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let (system, poller) = system(Policy::EAGER);
    let (owner, received) = owner(&system, 1);
    let (unix, options) = (UnixOptions::default(), DatagramOptions::default());
    let socket = DatagramSocket::bind_unix(&system, &poller, &path, unix, options, owner).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(&path).unwrap();
    // Many more than the kernel's queue holds: the sender waits, nothing is lost.
    let sending = std::thread::spawn(move || {
        for number in 0..5_000_u32 {
            sender.send(&number.to_le_bytes()).unwrap();
        }
    });
    let mut number = 0_u32;
    while number < 5_000 {
        for datagram in received.recv_timeout(LONG).unwrap().datagrams {
            assert_eq!(datagram.bytes[..], number.to_le_bytes());
            let Peer::Unix(Some(process)) = datagram.from else {
                panic!("Linux names the sender");
            };
            assert_eq!(process.pid, std::process::id());
            assert_eq!(process.uid, rustix::process::geteuid().as_raw());
            number += 1;
        }
    }
    sending.join().unwrap();
    socket.actor().stop();
    eventually("the file is removed", || !path.exists());
}

#[test]
fn a_drain_receives_what_the_kernel_has() {
    let options = DatagramOptions {
        credit: 0,
        datagrams_max: 3,
        ..DatagramOptions::default()
    };
    let (_system, _poller, socket, received) = udp(options, 0);
    let client = client();
    for number in 0..100_u8 {
        client.send_to(&[number], socket.address()).unwrap();
    }
    socket.actor().tell(Drain).unwrap();
    let mut all = Vec::new();
    while all.len() < 100 {
        all.extend(received.recv_timeout(LONG).unwrap().datagrams);
    }
    assert!(all.iter().map(|it| it.bytes[0]).eq(0..100));
    eventually("it terminates", || {
        socket.actor().tell(ReadCredit(0)).is_err()
    });
}

#[test]
fn a_socket_without_an_owner_closes() {
    let (system, poller) = system(Policy::EAGER);
    let (sender, received) = mpsc::channel();
    let owner = system.spawn_once(
        Default::default(),
        Owner {
            received: sender,
            credit: 1,
        },
    );
    let owner = owner.unwrap();
    let options = DatagramOptions::default();
    let socket =
        DatagramSocket::bind_udp(&system, &poller, any(), options, owner.recipient()).unwrap();
    owner.stop();
    eventually("the owner has terminated", || {
        owner
            .tell(Received {
                socket: socket.actor().clone(),
                datagrams: Vec::new(),
                kernel_dropped: 0,
            })
            .is_err()
    });
    drop(received);
    let client = client();
    eventually("the socket has closed", || {
        let _ = client.send_to(b"x", socket.address());
        socket.actor().tell(ReadCredit(0)).is_err()
    });
}

#[cfg(target_os = "linux")]
#[test]
fn file_descriptors_that_a_sender_passes_are_not_opened() {
    use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    const DATAGRAMS: usize = 1_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let (system, poller) = system(Policy::EAGER);
    let (owner, received) = owner(&system, 1);
    let (unix, options) = (UnixOptions::default(), DatagramOptions::default());
    let _socket = DatagramSocket::bind_unix(&system, &poller, &path, unix, options, owner).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(&path).unwrap();
    let passed = directory.path().join("passed");
    let file = std::fs::File::create(&passed).unwrap();
    let mut count = 0;
    for _ in 0..DATAGRAMS {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [file.as_fd(), file.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let text = [IoSlice::new(b"<14>text")];
        sendmsg(&sender, &text, &mut control, SendFlags::empty()).unwrap();
    }
    while count < DATAGRAMS {
        for datagram in received.recv_timeout(LONG).unwrap().datagrams {
            assert_eq!(datagram.bytes, "<14>text");
            assert_eq!(datagram.from, Peer::Unix(None));
            count += 1;
        }
    }
    // Only those of this file: other tests open files too.
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
    assert_eq!(links.filter(|link| *link == passed).count(), 1);
}
