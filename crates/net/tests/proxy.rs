//! A proxy between plain sockets.

mod net;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use freeboard_io::Policy;
use freeboard_net::{
    proxy::{Proxy, ProxyOptions},
    tcp::ListenerOptions,
};
use net::{LONG, any, connect, read_to_end, system};

/// Gives back what it gets, to the end of it.
fn echo(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                // The proxy may cut it off.
                let _ = std::io::copy(&mut stream, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn what_goes_in_comes_out_and_ends_are_passed_on() {
    for policy in [Policy::EAGER, Policy::DRAIN, Policy::Dedicated] {
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
        assert!(system.shutdown(LONG).is_clean());
    }
}

#[test]
fn a_backend_that_is_down_closes_the_client_and_is_counted() {
    let (system, poller) = system(Policy::EAGER);
    let nobody = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    let options = ProxyOptions::default();
    let proxy = Proxy::bind(&system, &poller, any(), nobody, options).unwrap();
    let mut peer = connect(proxy.address());
    assert_eq!(read_to_end(&mut peer), "");
    assert_eq!(proxy.drain(LONG), 0);
    assert_eq!(proxy.snapshot().backend_failures, 1);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn what_carries_nothing_is_closed() {
    let (system, poller) = system(Policy::EAGER);
    let options = ProxyOptions {
        idle_time: Duration::from_millis(50),
        ..ProxyOptions::default()
    };
    let proxy = Proxy::bind(&system, &poller, any(), echo(1), options).unwrap();
    let mut peer = connect(proxy.address());
    assert_eq!(read_to_end(&mut peer), "");
    assert_eq!(proxy.snapshot().idle_timeouts, 1);
    assert!(system.shutdown(LONG).is_clean());
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
    assert!(system.shutdown(LONG).is_clean());
}
