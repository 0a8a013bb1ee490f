//! A scripted server: plain sockets and threads on localhost.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use freeboard_redis::protocol::{Limits, Parser, Value};

/// Blocks threads until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<OnceLock<()>>);

impl Gate {
    pub(crate) fn wait(&self) {
        self.0.wait();
    }

    pub(crate) fn open(&self) {
        let _ = self.0.set(());
    }
}

pub(crate) struct Fake {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    is_over: AtomicBool,
    /// The last argument of each command, without greetings.
    seen: Mutex<Vec<Bytes>>,
}

/// The server's side of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
    parser: Parser,
    input: Vec<u8>,
    shared: Arc<Shared>,
}

impl Fake {
    /// Runs `serve` with each connection and its number, on its own thread.
    pub(crate) fn start(serve: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        Self::start_on(0, serve)
    }

    /// Answers each command with its last argument.
    pub(crate) fn echoing() -> Self {
        Self::start(|_, peer| {
            peer.hello();
            peer.echo_all();
        })
    }

    /// Answers like `echoing`, in its first connection after `serve`.
    pub(crate) fn first(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::start(move |connection, peer| {
            peer.hello();
            if connection == 0 {
                serve(peer);
            }
            peer.echo_all();
        })
    }

    /// Answers like `echoing`, once the gate is open.
    pub(crate) fn gated() -> (Self, Gate) {
        let gate = Gate::default();
        let at_server = gate.clone();
        let fake = Self::start(move |_, peer| {
            peer.hello();
            at_server.wait();
            peer.echo_all();
        });
        (fake, gate)
    }

    pub(crate) fn start_on(
        port: u16,
        serve: impl Fn(usize, &mut Peer) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let (serve, to_connections) = (Arc::new(serve), shared.clone());
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (serve, shared) = (serve.clone(), to_connections.clone());
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let mut peer = Peer {
                    stream,
                    parser: Parser::new(Limits::default()),
                    input: Vec::new(),
                    shared,
                };
                thread::spawn(move || serve(number, &mut peer));
            }
        });
        Self { port, shared }
    }

    /// Number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The last argument of each command so far.
    pub(crate) fn seen(&self) -> Vec<Bytes> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Peer {
    /// The next command; `None` once the client has disconnected.
    pub(crate) fn command(&mut self) -> Option<Vec<Bytes>> {
        loop {
            let mut rest = &self.input[..];
            let value = self.parser.next(&mut rest).unwrap();
            self.input = rest.to_vec();
            if let Some(Value::Array(parts)) = value {
                let bytes = |part| match part {
                    Value::Bulk(bytes) => bytes,
                    other => panic!("a command has {}", other.kind()),
                };
                let parts: Vec<Bytes> = parts.into_iter().map(bytes).collect();
                if parts[0] != "HELLO" {
                    let last = parts.last().unwrap().clone();
                    self.shared.seen.lock().unwrap().push(last);
                }
                return Some(parts);
            }
            let mut piece = vec![0; 64 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Answers the greeting.
    pub(crate) fn hello(&mut self) {
        if let Some(command) = self.command() {
            assert_eq!(command[0], "HELLO");
            self.write(b"%1\r\n$6\r\nserver\r\n$4\r\nfake\r\n");
        }
    }

    /// Answers each command with its last argument, until the client disconnects.
    pub(crate) fn echo_all(&mut self) {
        while let Some(command) = self.command() {
            self.write(&bulk(command.last().unwrap()));
        }
    }

    /// Reads commands without answering.
    pub(crate) fn swallow(&mut self, commands: usize) {
        for _ in 0..commands {
            self.command();
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // Some tests disconnect the client meanwhile.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        let _ = self.stream.shutdown(how);
    }
}

pub(crate) fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", bytes.len()).into_bytes();
    reply.extend_from_slice(bytes);
    reply.extend_from_slice(b"\r\n");
    reply
}
