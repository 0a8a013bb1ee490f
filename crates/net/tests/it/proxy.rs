//! A proxy between plain sockets.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::common::{LONG, TestSystem, any, connect, eventually, read_to_end, reset, system};
use freeboard_net::poller::Policy;
use freeboard_net::{
    proxy::{Proxy, ProxyOptions},
    tcp::ListenerOptions,
};
use freeboard_test_servers::Port;

/// Echoes all bytes.
fn echo(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                // The proxy may close it.
                let _ = std::io::copy(&mut stream, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn bytes_and_ends_are_forwarded() {
    for policy in [
        Policy::EAGER,
        Policy::DRAIN,
        Policy::Dedicated,
        Policy::Lazy,
    ] {
        let (system, poller) = system(policy);
        let options = ProxyOptions::default();
        let proxy = Proxy::bind(&system, &poller, any(), echo(1), options).unwrap();
        let mut peer = connect(proxy.address());
        let sent: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
        let (mut writer, copy) = (peer.try_clone().unwrap(), sent.clone());
        let writing = thread::spawn(move || {
            writer.write_all(&copy).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        writing.join().unwrap();
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
        let snapshot = proxy.snapshot();
        assert_eq!(snapshot.to_backend_bytes, 3_000_000);
        assert_eq!(snapshot.to_client_bytes, 3_000_000);
        assert_eq!(proxy.drain(LONG), 0);
    }
}

#[test]
fn idle_connections_are_closed() {
    let (system, poller) = system(Policy::EAGER);
    let options = ProxyOptions {
        idle_time: Duration::from_millis(50),
        ..ProxyOptions::default()
    };
    let proxy = Proxy::bind(&system, &poller, any(), echo(1), options).unwrap();
    let mut peer = connect(proxy.address());
    assert_eq!(read_to_end(&mut peer), "");
    assert_eq!(proxy.snapshot().idle_timeouts, 1);
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let (system, poller) = system(Policy::EAGER);
    let options = ProxyOptions {
        listener: ListenerOptions { connections_max: 1 },
        ..ProxyOptions::default()
    };
    let proxy = Proxy::bind(&system, &poller, any(), echo(3), options).unwrap();
    let mut first = connect(proxy.address());
    first.write_all(b"first").unwrap();
    let mut word = [0; 5];
    first.read_exact(&mut word).unwrap();
    let mut second = connect(proxy.address());
    second.write_all(b"again").unwrap();
    assert_eq!(proxy.connections().open, 1);
    drop(first);
    second.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"again");
    drop(second);
    assert_eq!(proxy.drain(LONG), 0);
}

/// Checks that a reader that starts only when the writer is blocked gets everything.
fn check_one_way(mut writer: TcpStream, mut reader: TcpStream) {
    const BYTES: usize = 32 << 20;
    let stuck = Arc::new(Mutex::new(()));
    let is_stuck = stuck.lock().unwrap();
    let began = stuck.clone();
    let reading = thread::spawn(move || {
        drop(began.lock());
        let mut got = Vec::new();
        reader.read_to_end(&mut got).map(|_| got.len())
    });
    writer.set_nonblocking(true).unwrap();
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    // Until neither the proxy nor the kernel accepts more.
    let mut refused_at = None;
    while sent < BYTES {
        match writer.write(&piece[..piece.len().min(BYTES - sent)]) {
            Ok(count) => {
                sent += count;
                refused_at = None;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let begun = refused_at.get_or_insert_with(Instant::now);
                if begun.elapsed() > Duration::from_millis(100) {
                    break;
                }
                thread::yield_now();
            }
        }
    }
    assert!(sent < BYTES, "nobody has read");
    drop(is_stuck);
    writer.set_nonblocking(false).unwrap();
    while sent < BYTES {
        sent += writer
            .write(&piece[..piece.len().min(BYTES - sent)])
            .unwrap();
    }
    writer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reading.join().unwrap().unwrap(), BYTES);
}

/// A proxy between a client and a backend of the test.
fn between() -> (TestSystem, Proxy, TcpStream, TcpStream) {
    let (system, poller) = system(Policy::EAGER);
    let listener = TcpListener::bind(any()).unwrap();
    let backend = listener.local_addr().unwrap();
    let options = ProxyOptions {
        drain_idle_time: LONG,
        ..ProxyOptions::default()
    };
    let proxy = Proxy::bind(&system, &poller, any(), backend, options).unwrap();
    let client = connect(proxy.address());
    let (backend, _) = listener.accept().unwrap();
    backend.set_read_timeout(Some(LONG)).unwrap();
    backend.set_write_timeout(Some(LONG)).unwrap();
    (system, proxy, client, backend)
}

#[test]
fn a_reader_that_begins_late_gets_all_in_either_direction() {
    for is_to_backend in [true, false] {
        let (_system, proxy, client, backend) = between();
        let (writer, reader, _other) = if is_to_backend {
            (client, backend.try_clone().unwrap(), backend)
        } else {
            (backend, client.try_clone().unwrap(), client)
        };
        check_one_way(writer, reader);
        drop(_other);
        assert_eq!(proxy.drain(LONG), 0);
    }
}

#[test]
fn a_drain_lets_connections_finish() {
    let (_system, proxy, mut client, mut backend) = between();
    client.write_all(b"ask").unwrap();
    let mut word = [0; 3];
    backend.read_exact(&mut word).unwrap();
    let drained = proxy.clone();
    let draining = thread::spawn(move || drained.drain(LONG));
    while TcpStream::connect(proxy.address()).is_ok() {
        thread::yield_now();
    }
    backend.write_all(b"answer").unwrap();
    drop(backend);
    assert_eq!(read_to_end(&mut client), "answer");
    drop(client);
    assert_eq!(draining.join().unwrap(), 0);
}

#[test]
fn a_client_of_a_backend_that_is_down_sees_an_end_and_no_reset() {
    let (system, poller) = system(Policy::EAGER);
    let nobody = Port::reserve().unwrap();
    let options = ProxyOptions::default();
    let proxy = Proxy::bind(&system, &poller, any(), nobody.address(), options).unwrap();
    for number in 0..20 {
        let mut peer = connect(proxy.address());
        if number % 2 == 0 {
            peer.write_all(b"hello").unwrap();
        }
        assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    }
    assert_eq!(proxy.drain(LONG), 0);
    assert_eq!(proxy.snapshot().backend_failures, 20);
}

#[test]
fn a_proxy_is_no_backend_of_itself() {
    let (system, poller) = system(Policy::EAGER);
    let port = Port::reserve().unwrap().address().port();
    for (listen, backend, is_itself) in [
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "0.0.0.0", true),
        ("127.0.0.1", "[::ffff:127.0.0.1]", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("127.0.0.1", "[::1]", false),
        ("0.0.0.0", "127.0.0.1", true),
        ("0.0.0.0", "127.0.0.2", true),
        ("0.0.0.0", "0.0.0.0", true),
        ("0.0.0.0", "[::ffff:127.0.0.1]", true),
        ("0.0.0.0", "192.0.2.1", false),
        ("[::1]", "[::1]", true),
        ("[::1]", "[::]", true),
        ("[::1]", "127.0.0.1", false),
        ("[::]", "127.0.0.1", true),
        ("[::]", "0.0.0.0", true),
    ] {
        let address = |host: &str| format!("{host}:{port}").parse().unwrap();
        let options = ProxyOptions::default();
        let bound = Proxy::bind(&system, &poller, address(listen), address(backend), options);
        let refused = bound
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        let is_refused = refused.ends_with("is the proxy itself");
        // A machine without IPv6 fails for another reason.
        assert_eq!(is_refused, is_itself, "{listen} to {backend}: {refused}");
        if let Ok(proxy) = bound {
            assert_eq!(proxy.drain(LONG), 0);
        }
    }
}

/// Checks that a connection that ends in this order is not counted as broken.
fn check_end(end: fn(&mut TcpStream, &mut TcpStream)) {
    let (_system, proxy, mut client, mut backend) = between();
    client.write_all(b"ask").unwrap();
    let mut word = [0; 3];
    backend.read_exact(&mut word).unwrap();
    backend.write_all(b"yes").unwrap();
    client.read_exact(&mut word).unwrap();
    end(&mut client, &mut backend);
    drop((client, backend));
    assert_eq!(proxy.drain(LONG), 0);
    assert_eq!(proxy.snapshot().broken, 0);
}

/// Fills the buffers before a peer that does not read, until neither the proxy nor the kernel accepts more.
fn fill(writer: &mut TcpStream) {
    writer
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let piece = vec![7; 1 << 20];
    while writer.write(&piece).is_ok() {}
}

/// Checks that a reset of the first side at this moment resets the second.
fn check_reset(moment: &str, prepare: fn(&mut TcpStream, &mut TcpStream)) {
    for is_of_client in [true, false] {
        let (_system, proxy, client, backend) = between();
        let (mut first, mut second) = if is_of_client {
            (client, backend)
        } else {
            (backend, client)
        };
        prepare(&mut first, &mut second);
        reset(first);
        let what = format!("{moment}, of the client: {is_of_client}");
        match second.read_to_end(&mut Vec::new()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{what}"),
            // After an end nothing is read, and the reset is an error of the socket.
            Ok(_) => eventually(&what, || second.take_error().unwrap().is_some()),
        }
        eventually("it is forgotten", || proxy.connections().open == 0);
        assert_eq!(proxy.snapshot().broken, 1, "{what}");
        assert_eq!(proxy.drain(LONG), 0);
    }
}

#[test]
fn a_reset_is_forwarded_from_either_side() {
    fn exchange(first: &mut TcpStream, second: &mut TcpStream) {
        first.write_all(b"ask").unwrap();
        second.read_exact(&mut [0; 3]).unwrap();
        second.write_all(b"yes").unwrap();
        first.read_exact(&mut [0; 3]).unwrap();
    }
    check_reset("before a byte", |_, _| {});
    check_reset("between requests", exchange);
    check_reset("with half of a message sent", |first, second| {
        exchange(first, second);
        first.write_all(b"half").unwrap();
        second.read_exact(&mut [0; 4]).unwrap();
    });
    check_reset("with something unread", |first, second| {
        exchange(first, second);
        second.write_all(b"never read").unwrap();
        first.peek(&mut [0; 1]).unwrap();
    });
    check_reset("while it does not read", |_, second| fill(second));
    check_reset("while the other does not read", |first, _| fill(first));
    check_reset("after its own end", |first, second| {
        first.shutdown(Shutdown::Write).unwrap();
        assert_eq!(second.read(&mut [0; 1]).unwrap(), 0);
    });
    check_reset("after the other's end", |first, second| {
        second.shutdown(Shutdown::Write).unwrap();
        assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn an_orderly_end_does_not_count_as_broken() {
    fn ends(first: &mut TcpStream, second: &mut TcpStream) {
        first.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(second), "");
        second.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(first), "");
    }
    fn closes(first: &mut TcpStream, second: &mut TcpStream) {
        first.shutdown(Shutdown::Both).unwrap();
        assert_eq!(read_to_end(second), "");
    }
    check_end(ends);
    check_end(|client, backend| ends(backend, client));
    check_end(closes);
    check_end(|client, backend| closes(backend, client));
}
