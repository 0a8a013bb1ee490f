//! Clients that request too much or read nothing, and the memory limit of keys.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use freeboard_redis::Redis;
use freeboard_redis_embedded::{EmbeddedOptions, Password, RedisEmbedded, StartError};

use crate::common::{LONG, Peer, embedded, eventually, open, request, system, words};

/// Sends until the server takes no more, for a moment. How many bytes it took.
fn send_until_full(peer: &mut Peer, request: &[u8], bytes_max: usize) -> usize {
    let moment = Duration::from_millis(300);
    peer.0.set_write_timeout(Some(moment)).unwrap();
    let mut sent = 0;
    while sent < bytes_max {
        match peer.0.write(&request[sent % request.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

#[test]
fn a_client_that_never_reads_is_served_no_further() {
    let (_system, server) = embedded(open());
    let mut peer = Peer::connect(server.address());
    let value = vec![7; 64 << 10];
    peer.send(&request(&[&b"SET"[..], b"k", &value]));
    peer.expect(b"+OK\r\n");
    let get = words("GET k");
    let sent = send_until_full(&mut peer, &get, 64 << 20);
    assert!(sent < 64 << 20, "it took all");
    // Replies of 64 MiB would be a thousand commands; the kernel's buffers hold some.
    let commands = server.snapshot().commands;
    assert!(commands < 1_000, "{commands} commands");
    Peer::connect(server.address()).ask("PING", "+PONG\r\n");

    // Once it reads, all that it sent is answered, in order.
    let whole = sent / get.len();
    let reply = [b"$65536\r\n", &value[..], b"\r\n"].concat();
    let mut read = vec![0; reply.len()];
    for _ in 0..whole.min(5_000) {
        peer.0.read_exact(&mut read).unwrap();
        assert!(read == reply);
    }
    assert_eq!(server.snapshot().connections_overflowed, 0);
}

/// The server reads 64 KiB at once. A read of that size does not say that the socket is empty.
#[test]
fn requests_that_fill_reads_exactly_are_answered() {
    const READ_BYTES: usize = 64 << 10;
    let (_system, server) = embedded(open());
    let mut peer = Peer::connect(server.address());
    let set = request(&[&b"SET"[..], b"key", &[7; 99]]);
    assert_eq!(READ_BYTES % set.len(), 0, "{}", set.len());
    let all = set.repeat(READ_BYTES / set.len());
    let mut replies = vec![0; 5 * (READ_BYTES / set.len())];
    for _ in 0..200 {
        peer.send(&all);
        peer.0.read_exact(&mut replies).expect("all are answered");
    }
}

#[test]
fn a_request_for_more_than_anyone_is_kept_for_ends_the_connection() {
    let options = EmbeddedOptions {
        output_bytes_max: 1 << 20,
        ..open()
    };
    let (_system, server) = embedded(options);
    let value = vec![7; 2 << 20];
    let mut peer = Peer::connect(server.address());
    peer.send(&request(&[&b"SET"[..], b"k", &value]));
    peer.expect(b"+OK\r\n");
    peer.send(&words("GET k"));
    assert!(peer.read_to_end().len() < value.len());
    assert_eq!(server.snapshot().connections_overflowed, 1);
}

#[test]
fn unfinished_requests_of_all_connections_have_one_bound() {
    let unfinished_bytes_max = 900 << 10;
    let options = EmbeddedOptions {
        unfinished_bytes_max,
        ..open()
    };
    let (_system, server) = embedded(options);
    let value = vec![7; 400 << 10];
    let set = request(&[&b"SET"[..], b"k", &value]);
    let (sent, end) = set.split_at(set.len() - 1);
    // Two of them are within the limit.
    let mut holders: Vec<Peer> = (0..2).map(|_| Peer::connect(server.address())).collect();
    for (number, holder) in (1..).zip(&mut holders) {
        holder.send(sent);
        let held = number * (value.len() - (64 << 10));
        eventually("it is held", || server.snapshot().unfinished_bytes >= held);
    }
    for _ in 0..3 {
        let mut further = Peer::connect(server.address());
        // It may be refused before all is sent.
        let _ = further.0.write_all(sent);
        let read = further.read_to_end();
        let error = b"-ERR unfinished requests of all clients take too many bytes\r\n";
        assert!(read.ends_with(error), "{}", read.escape_ascii());
    }
    let figures = server.snapshot();
    assert_eq!(figures.connections_unfinished, 3);
    assert!(figures.unfinished_bytes <= unfinished_bytes_max);
    // A short request gets through, however it is cut.
    let mut short = Peer::connect(server.address());
    words("PING").chunks(1).for_each(|piece| short.send(piece));
    short.expect(b"+PONG\r\n");
    for holder in &mut holders {
        holder.send(end);
        holder.expect(b"+OK\r\n");
    }
    eventually("nothing is held", || {
        server.snapshot().unfinished_bytes == 0
    });
}

#[test]
fn by_default_each_server_has_a_password_of_its_own() {
    let (system, poller) = system();
    let passwords = [(); 2].map(|()| {
        let options = EmbeddedOptions::default();
        let server = RedisEmbedded::start(&system, &poller, options).unwrap();
        let mut peer = Peer::connect(server.address());
        peer.ask("SET k v", "-NOAUTH Authentication required.\r\n");
        let redis = Redis::connect(&system, &poller, server.client_options()).unwrap();
        redis.wait_up(LONG).unwrap();
        server.client_options().password.unwrap()
    });
    assert_ne!(passwords[0], passwords[1]);
    assert_eq!(passwords[0].len(), 32);
}

#[test]
fn a_subscriber_that_never_reads_is_closed() {
    let options = EmbeddedOptions {
        output_bytes_max: 1 << 20,
        ..open()
    };
    let (_system, server) = embedded(options);
    let mut subscriber = Peer::connect(server.address());
    subscriber.ask("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let mut publisher = Peer::connect(server.address());
    let text = vec![7; 16 << 10];
    let publish = request(&[&b"PUBLISH"[..], b"c", &text]);
    eventually("it is closed", || {
        publisher.send(&publish);
        let mut reply = [0; 4];
        publisher.0.read_exact(&mut reply).unwrap();
        reply == *b":0\r\n"
    });
    assert_eq!(server.snapshot().connections_overflowed, 1);
    assert!(!subscriber.read_to_end().is_empty(), "what was sent before");
}

#[test]
fn further_connections_are_refused() {
    let options = EmbeddedOptions {
        connections_max: 3,
        ..open()
    };
    let (_system, server) = embedded(options);
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(server.address())).collect();
    for peer in &mut peers {
        peer.ask("PING", "+PONG\r\n");
    }
    for refused in 1..=10 {
        let mut peer = Peer::connect(server.address());
        assert_eq!(
            peer.read_to_end(),
            b"-ERR max number of clients reached\r\n"
        );
        let figures = server.snapshot();
        assert_eq!(
            (figures.connections, figures.connections_refused),
            (3, refused)
        );
    }
    peers.pop();
    eventually("one is closed", || server.snapshot().connections == 2);
    Peer::connect(server.address()).ask("PING", "+PONG\r\n");
}

#[test]
fn malformed_requests_get_an_error_that_arrives() {
    let (_system, server) = embedded(open());
    let mut peer = Peer::connect(server.address());
    // The bytes after it are ignored, and do not reset the connection.
    let bytes = [&words("PING")[..], b"*1\r\n!\r\n", &vec![b'x'; 500_000]].concat();
    peer.send(&bytes);
    let replies = peer.read_to_end();
    assert_eq!(
        replies,
        b"+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n"
    );
    assert_eq!(server.snapshot().connections_malformed, 1);
    drop(peer);
    eventually("nothing is left", || server.snapshot().connections == 0);
}

#[test]
fn a_peer_that_ends_its_side_gets_its_replies() {
    let (_system, server) = embedded(open());
    let mut peer = Peer::connect(server.address());
    peer.send(&words("PING").repeat(1_000));
    peer.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(peer.read_to_end(), b"+PONG\r\n".repeat(1_000));
}

#[test]
fn keys_never_take_more_than_their_bound() {
    let bytes_max = 1 << 20;
    let options = EmbeddedOptions {
        bytes_max,
        seed: Some(7),
        ..open()
    };
    // Twice, as chance is repeated by its seed.
    let survivors = [0, 1].map(|_| {
        let (_system, server) = embedded(options.clone());
        let mut peer = Peer::connect(server.address());
        peer.ask("SET hot v", "+OK\r\n");
        for number in 0_usize..5_000 {
            let key = format!("key:{}", number * 7 % 3_000);
            let value = vec![7; number * 31 % 2_000];
            peer.send(&request(&[&b"SET"[..], key.as_bytes(), &value]));
            peer.expect(b"+OK\r\n");
            peer.ask("GET hot", "$1\r\nv\r\n");
            let bytes = server.snapshot().bytes;
            assert!(bytes <= bytes_max, "{bytes} bytes");
        }
        let figures = server.snapshot();
        assert!(figures.evicted > 1_000 && figures.bytes > bytes_max / 2);
        peer.ask("FLUSHALL", "+OK\r\n");
        assert_eq!((server.snapshot().bytes, server.snapshot().keys), (0, 0));
        figures
    });
    assert_eq!(survivors[0].evicted, survivors[1].evicted);
    assert_eq!(survivors[0].keys, survivors[1].keys);
}

#[test]
fn a_value_without_room_is_refused() {
    let options = EmbeddedOptions {
        bytes_max: 64 << 10,
        ..open()
    };
    let (_system, server) = embedded(options);
    let mut peer = Peer::connect(server.address());
    peer.ask("SET k v", "+OK\r\n");
    let refused = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    for key in ["l", "k"] {
        let value = vec![7; 64 << 10];
        peer.send(&request(&[&b"SET"[..], key.as_bytes(), &value]));
        peer.expect(refused);
    }
    peer.ask("GET k", "$1\r\nv\r\n");
}

#[test]
fn expired_keys_are_removed_without_an_access() {
    let (_system, server) = embedded(open());
    let mut peer = Peer::connect(server.address());
    peer.ask("SET stays v", "+OK\r\n");
    for number in 0..10_000 {
        peer.send(&words(&format!("SET key:{number} v PX 1")));
    }
    peer.expect(&b"+OK\r\n".repeat(10_000));
    eventually("they are gone", || server.snapshot().keys == 1);
    assert_eq!(server.snapshot().expired, 10_000);
    peer.ask("GET stays", "$1\r\nv\r\n");
}

#[test]
fn dropping_the_server_closes_its_sockets() {
    let (system, server) = embedded(open());
    let address = server.address();
    let mut peer = Peer::connect(address);
    peer.ask("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    // Without sweeper and connection; the listener's actor stays, without a socket.
    let others = system.actors_alive() - 2;
    drop(server);
    assert_eq!(peer.read_to_end(), b"");
    eventually("nobody listens", || TcpStream::connect(address).is_err());
    eventually("its actors are gone", || system.actors_alive() == others);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn a_server_that_is_stopped_can_be_started_again_on_its_port() {
    let (system, poller) = system();
    let first = RedisEmbedded::start(&system, &poller, open()).unwrap();
    let options = EmbeddedOptions {
        port: first.address().port(),
        ..open()
    };
    let taken = RedisEmbedded::start(&system, &poller, options.clone());
    assert!(matches!(taken, Err(StartError::Bind(_))), "{taken:?}");
    Peer::connect(first.address()).ask("SET k v", "+OK\r\n");
    assert_eq!(first.stop(LONG), 0);
    let second = RedisEmbedded::start(&system, &poller, options).unwrap();
    Peer::connect(second.address()).ask("GET k", "$-1\r\n");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (system, poller) = system();
    let options = EmbeddedOptions {
        connections_max: 0,
        password: Password::Is("secret".to_owned()),
        ..open()
    };
    assert!(!format!("{options:?}").contains("secret"));
    let refused = RedisEmbedded::start(&system, &poller, options).unwrap_err();
    let wanted = "connections_max is 0, but must be between 1 and 65536";
    assert_eq!(refused.to_string(), wanted);
}
