//! An embedded server, a real one, and clients made of plain sockets.
#![allow(dead_code, unused_imports, reason = "`memory.rs` uses only a part")]
#![allow(clippy::print_stderr, reason = "skipped tests say so")]

pub(crate) mod both;

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use freeboard_actor::System;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis_embedded::{EmbeddedOptions, Password, RedisEmbedded};
pub(crate) use freeboard_test_servers::{LONG, eventually};

/// Options without a password.
pub(crate) fn open() -> EmbeddedOptions {
    EmbeddedOptions {
        password: Password::None,
        ..EmbeddedOptions::default()
    }
}

/// Two workers, and the poller that they share.
pub(crate) fn system() -> (System, Poller) {
    let poller = Poller::new(2, Policy::default()).unwrap();
    let system = System::builder().workers(2).driver(poller.driver());
    (system.build().unwrap(), poller)
}

/// A server and its system.
pub(crate) fn embedded(options: EmbeddedOptions) -> (System, RedisEmbedded) {
    let (system, poller) = system();
    let server = RedisEmbedded::start(&system, &poller, options).unwrap();
    (system, server)
}

/// A request as clients send it.
pub(crate) fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        request.extend(format!("${}\r\n", argument.len()).bytes());
        request.extend(argument);
        request.extend(b"\r\n");
    }
    request
}

/// The words of a line as a request.
pub(crate) fn words(line: &str) -> Vec<u8> {
    request(&line.split(' ').collect::<Vec<_>>())
}

/// A connection that gives up rather than hang.
pub(crate) struct Peer(pub(crate) TcpStream);

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // Pieces are sent as they are written.
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Reads what is expected.
    #[track_caller]
    pub(crate) fn expect(&mut self, wanted: &[u8]) {
        let mut read = vec![0; wanted.len()];
        self.0.read_exact(&mut read).unwrap();
        let (read, wanted) = (read.escape_ascii(), wanted.escape_ascii());
        assert_eq!(read.to_string(), wanted.to_string());
    }

    /// Sends the words of a line, and reads what is expected.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str, wanted: &str) {
        self.send(&words(line));
        self.expect(wanted.as_bytes());
    }

    /// Reads until the server ends the connection, gracefully or not.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        match self.0.read_to_end(&mut read) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
        read
    }
}
